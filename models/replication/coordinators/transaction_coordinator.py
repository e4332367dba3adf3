"""A broker's transaction coordinator: active while the broker leads the partition of `__transaction_state`.

A transaction ends in two phases. First the coordinator stores its decision (PrepareCommit, PrepareAbort). Then it sends
markers to the leaders of all written partitions, and when all have them it stores the end (CompleteCommit,
CompleteAbort). The next leader loads the states and repeats the markers of prepared transactions. The sources are
TransactionCoordinator, TransactionStateManager and TransactionMarkerChannelManager. Simplifications: all transactional
ids are in one partition, clients find the coordinator in the metadata, and producer epochs never run out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from .. import errors
from ..brokers.part import Parts
from ..brokers.produce import ProduceHandler
from ..partition_state import NO_LEADER
from ..ports import Inboxes
from ..requests import ProducerIdAndEpoch
from ..storage.batches import Batch
from .group_requests import error_for_client
from .log_coordinator import LogCoordinator
from .transaction_ledger import TransactionLedger
from .transaction_requests import (
    ADD,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    END,
    INIT,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    MarkerRequest,
    TransactionRecord,
    TransactionRequest,
)


@dataclass(slots=True, eq=False)
class TransactionState:
    """The state of a transactional id."""

    record: TransactionRecord  # as the log has it
    is_pending: bool = False  # a change is being written
    markers: dict[int, MarkerRequest | None] = field(default_factory=dict)  # partitions without one: what was sent
    is_fenced: bool = False  # another coordinator sends the markers


class TransactionCoordinator(LogCoordinator[TransactionRecord]):
    """The transactional ids on this broker."""

    def __init__(
        self,
        parts: Parts,
        produces: ProduceHandler,
        records: list[TransactionRecord],
        ledger: TransactionLedger,
        inboxes: Inboxes,
        leader_of: Callable[[int], int],
        next_pid: Callable[[], int],
    ) -> None:
        super().__init__(parts, produces, parts.config.transaction_log, records)
        self.ledger = ledger
        self._inboxes = inboxes
        self._leader_of = leader_of
        self._next_pid = next_pid

    def _drop_state(self) -> None:
        self._states: dict[str, TransactionState] = {}
        self._due_cleanup = 0

    def _replay(self, batch: Batch, records: Sequence[TransactionRecord]) -> None:  # noqa: ARG002
        for record in records:
            self._states[record.id] = TransactionState(record)

    def _on_loaded(self) -> None:
        states = self._states.values()
        prepared = [state for state in states if state.record.state in PREPARED]
        ongoing = [state for state in states if state.record.state == ONGOING]
        self._process.report("transactions-loaded", len(self._states), len(ongoing), len(prepared))
        self._due_cleanup = self._process.loop.now + self._config.transaction_cleanup
        for state in prepared:
            self.ledger.on_decided(state.record.number, state.record.state == PREPARE_COMMIT)
            self._begin_markers(state)

    # --- requests

    def handle(self, request: TransactionRequest) -> None:
        """Respond to a producer or a partition's leader."""
        if not self._is_coordinator():
            self.respond(request, errors.NOT_COORDINATOR)
        elif self._is_loading:
            self.respond(request, errors.COORDINATOR_LOAD_IN_PROGRESS)
        elif request.kind == INIT:
            self._init(request)
        elif (state := self._state_of(request)) is None or request.pid != state.record.pid:
            self.respond(request, errors.PRODUCER_FENCED)
        else:
            {ADD: self._add, END: self._end}[request.kind](request, state)

    def _state_of(self, request: TransactionRequest) -> TransactionState | None:
        if request.id:
            return self._states.get(request.id)
        return next((state for state in self._states.values() if state.record.pid == request.pid), None)

    def _init(self, request: TransactionRequest) -> None:
        """InitProducerId: first abort the open transaction, then grant a new epoch, which fences the old one."""
        timeout = self._config.transaction_timeout
        state = self._states.get(request.id)
        if state is None:
            state = TransactionState(TransactionRecord(request.id, self._next_pid(), -1, EMPTY, timeout))
            self._states[request.id] = state
        record, is_bump = state.record, request.pid >= 0
        is_retry = is_bump and (request.pid, request.epoch) == (record.pid, record.last_epoch)
        if is_bump and not is_retry and (request.pid, request.epoch) != (record.pid, record.epoch):
            self.respond(request, errors.PRODUCER_FENCED)
        elif state.is_pending or record.state in PREPARED:
            self.respond(request, errors.CONCURRENT_TRANSACTIONS)
        elif record.state == ONGOING:
            self.ledger.fenced += 1
            self._process.report("transaction-fenced", record.id, record.epoch, record.epoch + 1)
            self._abort_and_fence(state)
            self.respond(request, errors.CONCURRENT_TRANSACTIONS)
        elif is_retry:
            self._grant(request, state, "")
        else:
            new = TransactionRecord(
                record.id,
                record.pid,
                record.epoch + 1,
                EMPTY,
                timeout,
                record.epoch if is_bump else -1,
                updated=self._process.loop.now,
            )
            self._store(state, new, partial(self._grant, request, state))

    def _grant(self, request: TransactionRequest, state: TransactionState, error: str) -> None:
        if not error:
            self.ledger.on_granted(state.record.pid, state.record.epoch)
        self._respond_with_epoch(request, state, error)

    def _respond_with_epoch(self, request: TransactionRequest, state: TransactionState, error: str) -> None:
        request.granted = ProducerIdAndEpoch(state.record.pid, state.record.epoch)
        self.respond(request, error)

    def _add(self, request: TransactionRequest, state: TransactionState) -> None:
        """AddPartitionsToTxn: begin or extend the transaction, or only verify that the partitions are in it."""
        record = state.record
        is_open = record.state == ONGOING
        has_all = is_open and set(request.partitions) <= set(record.partitions)
        if request.epoch != record.epoch:
            self.respond(request, errors.INVALID_PRODUCER_EPOCH if not request.id else errors.PRODUCER_FENCED)
        elif state.is_pending or record.state in PREPARED:
            self.respond(request, errors.CONCURRENT_TRANSACTIONS)
        elif has_all or request.verify_only:
            self.respond(request, "" if has_all else errors.INVALID_TXN_STATE)
        else:
            now = self._process.loop.now
            new = replace(
                record,
                state=ONGOING,
                partitions=tuple(sorted({*(record.partitions if is_open else ()), *request.partitions})),
                started=record.started if is_open else now,
                updated=now,
                number=record.number if is_open else self.ledger.number_of(record.pid, record.epoch),
            )
            self._store(state, new, partial(self.respond, request))

    def _end(self, request: TransactionRequest, state: TransactionState) -> None:
        """EndTxn: store the decision, respond, then send the markers."""
        record, bumps = state.record, self._rules.bumps_epoch_at_end()
        prepared, complete = _ends(request.commit)
        # The producer has not received the response with its new epoch.
        is_repeated = bumps and record.last_epoch >= 0 and request.epoch == record.last_epoch
        is_done = record.state == complete and (is_repeated or not bumps)
        aborts_nothing = bumps and not request.commit and record.state not in (*PREPARED, ONGOING)
        if request.epoch != record.epoch and not (is_repeated and record.state in (prepared, complete)):
            self.respond(request, errors.PRODUCER_FENCED)
        elif state.is_pending or record.state == prepared:
            self.respond(request, errors.CONCURRENT_TRANSACTIONS)
        elif is_done:
            self._respond_with_epoch(request, state, "")
        elif record.state == ONGOING or aborts_nothing:
            epochs = (record.epoch + 1, record.epoch) if bumps else (record.epoch, record.last_epoch)
            # A late AddPartitionsToTxn may have begun it with the number of the previous transaction.
            state.record = replace(record, number=self.ledger.number_of(record.pid, record.epoch))
            self._prepare(state, request.commit, *epochs, partial(self._respond_with_epoch, request, state))
        else:
            self.respond(request, errors.INVALID_TXN_STATE)

    # --- the two phases

    def _abort_and_fence(self, state: TransactionState) -> None:
        """Abort the open transaction in a new epoch, in which its producer cannot write."""
        self._prepare(state, False, state.record.epoch + 1, -1, lambda _: None)

    def _prepare(
        self, state: TransactionState, commit: bool, epoch: int, last_epoch: int, then: Callable[[str], None]
    ) -> None:
        """Phase 1: store the decision."""
        record = state.record
        new = replace(
            record,
            state=_ends(commit)[0],
            epoch=epoch,
            last_epoch=last_epoch,
            partitions=record.partitions if record.state == ONGOING else (),
            number=record.number if record.state == ONGOING else -1,
            updated=self._process.loop.now,
        )

        def stored(error: str) -> None:
            if not error:
                self.ledger.on_decided(new.number, commit)
                self._begin_markers(state)
            then(error)

        self._store(state, new, stored)

    def _begin_markers(self, state: TransactionState) -> None:
        """Phase 2: write a marker to each partition."""
        state.markers = dict.fromkeys(state.record.partitions)
        self._send_markers(state)

    def _send_markers(self, state: TransactionState) -> None:
        """Send markers that are not written yet; when all are, store the end of the transaction."""
        now, record = self._process.loop.now, state.record
        commit = record.state == PREPARE_COMMIT
        if not state.markers:
            if not state.is_pending:
                new = replace(record, state=_ends(commit)[1], partitions=(), updated=now, number=-1)
                self._store(state, new, partial(self._on_completed, new))
            return
        for partition, sent in state.markers.items():
            leader = self._leader_of(partition)
            if leader == NO_LEADER or (sent is not None and now - sent.sent <= self._config.request_timeout):
                continue
            reply, on_closed = partial(self._on_marker_response, state), partial(self._on_marker_closed, state)
            content = (partition, record.pid, record.epoch, commit, self.leader_epoch)
            state.markers[partition] = self._send(
                MarkerRequest, leader, self._inboxes[leader], reply, on_closed, *content
            )

    def _on_completed(self, record: TransactionRecord, error: str) -> None:
        """All markers are written, so no older epoch may write from now on."""
        if not error:
            self.ledger.on_granted(record.pid, record.epoch)

    def _on_marker_response(self, state: TransactionState, response: MarkerRequest) -> None:
        """The response of a partition's leader; after an error the marker is sent again later."""
        if self._process.defer(partial(self._on_marker_response, state), response):
            return
        if state.markers.get(response.partition) is not response or self._states.get(state.record.id) is not state:
            return
        if response.error in (errors.TRANSACTION_COORDINATOR_FENCED, errors.INVALID_PRODUCER_EPOCH):
            state.is_fenced = True
        elif response.error:
            state.markers[response.partition] = None
        else:
            del state.markers[response.partition]
            if not state.markers:
                self._send_markers(state)

    def _on_marker_closed(self, state: TransactionState, request: MarkerRequest) -> None:
        """The connection closed before the response."""
        if state.markers.get(request.partition) is request:
            state.markers[request.partition] = None

    # --- the log, and time

    def _store(self, state: TransactionState, new: TransactionRecord, then: Callable[[str], None]) -> None:
        """Write a change, then call `then` with the error for the client."""
        state.is_pending = True

        def stored(error: str, _: int) -> None:
            state.is_pending = False
            if not error:
                state.record = new
            then(error_for_client(error))

        self._write([new], stored)

    def _tick_active(self, now: int) -> None:
        """Repeat markers, and abort transactions after their timeout (abortTimedOutTransactions)."""
        for state in self._states.values():
            if state.record.state in PREPARED and not state.is_pending and not state.is_fenced:
                self._send_markers(state)
        if now < self._due_cleanup:
            return
        self._due_cleanup = now + self._config.transaction_cleanup
        for state in self._states.values():
            record = state.record
            if record.state == ONGOING and not state.is_pending and now - record.started > record.timeout:
                self.ledger.timed_out += 1
                self._process.report("transaction-timed-out", record.id, record.epoch, now - record.started)
                self._abort_and_fence(state)


def _ends(commit: bool) -> tuple[str, str]:
    """The prepared and the complete state of a commit or an abort."""
    return (PREPARE_COMMIT, COMPLETE_COMMIT) if commit else (PREPARE_ABORT, COMPLETE_ABORT)
