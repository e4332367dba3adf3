"""The producers of a processor (processor.py): its copies are in transactions with its offsets, or plain.

Both are the ordinary producers with another application. Each new instance of the process makes a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from .. import errors
from ..coordinators.group_requests import TXN_COMMIT, GroupRequest
from ..coordinators.transaction_ledger import TransactionLedger
from ..event_loop import Timer
from ..partition_state import NO_LEADER
from ..ports import SentValue
from ..producer_batch import ProducerBatch
from ..requests import ProducerIdAndEpoch
from .client import ClientParts
from .producer import Producer
from .transactional_producer import ENDING, IDLE, TransactionalProducer

NOT_MEMBER = (errors.UNKNOWN_MEMBER_ID, errors.ILLEGAL_GENERATION)


@dataclass(frozen=True, slots=True)
class Work:
    """What a processor writes for one poll: copies, and the offsets behind the records that it copied."""

    copies: list[SentValue]
    offsets: dict[int, int]
    epochs: dict[int, int]  # their leader epochs
    member: str
    generation: int
    op: int


@dataclass(slots=True)
class Owner:
    """What an output needs of its processor."""

    name: str
    loop: Timer
    next_op: Callable[[], int]
    on_idle: Callable[[str], None]  # called with ok, fail or info after each work, and with "" at the beginning


class TransactionalOutput(TransactionalProducer):
    """Writes each work in a transaction of its own, which commits the offsets, too (sendOffsetsToTransaction)."""

    def __init__(self, index: int, parts: ClientParts, owner: Owner, transactions: TransactionLedger) -> None:
        super().__init__(index, 1, parts, Random(0), transactions=transactions)
        self._owner = owner
        self.name, self.id, self.loop = owner.name, f"tx-{owner.name}", owner.loop
        self._work: Work | None = None
        self._are_offsets_sent = False
        self._outcome = ""  # of the last transaction

    def process(self, work: Work) -> None:
        """Write the copies, then the offsets, and commit."""
        self._work, self._are_offsets_sent = work, False
        self._open(work.copies, True, work.op)
        while self._plan and not self._failed:
            self._send_value(self._plan.pop(0))
        if not self._rules.bumps_epoch_at_end():
            self._new.add(self.config.group_log)  # AddOffsetsToTxn
        self._end()

    def close(self) -> None:
        """The process dies. What is under way may still arrive."""
        self._abandon()
        self.finished, self._phase = True, IDLE

    def _commit_at(self) -> dict[int, int]:
        return self._work.offsets if self._work is not None else {}

    def _step(self, _: None = None) -> None:
        is_added = self._rules.bumps_epoch_at_end() or self.config.group_log in self._added
        is_due = self._phase == ENDING and is_added and not self._are_offsets_sent and not self._failed
        if is_due and self._request is None and self.loop.now >= self._retry_at:
            self._send_offsets()
        else:
            super()._step()

    def _send_offsets(self) -> None:
        """TxnOffsetCommit to the group's coordinator. Before KIP-447 it does not name the member."""
        leader, work = self.leaders[self.config.group_log].leader, self._work
        assert work is not None
        if leader == NO_LEADER:
            self.refresh()
            self._step_later(self.config.retry_backoff)
            return
        member = (work.member, work.generation) if self._rules.fences_members() else ("", -1)
        self._is_started = True
        producer = ProducerIdAndEpoch(self.pid, self.epoch)
        named: dict[str, Any] = {"offsets": work.offsets, "epochs": work.epochs, "producer": producer}
        self._request = self.request_from(
            GroupRequest, leader, self._on_offsets, self.on_closed, TXN_COMMIT, self.name, *member, **named
        )

    def _on_offsets(self, response: GroupRequest) -> None:
        if not self._accept(response):
            return
        error = response.error
        if self._retry_after(error):
            return
        if error in (errors.PRODUCER_FENCED, errors.INVALID_PRODUCER_EPOCH):
            self._fail_for_good(errors.PRODUCER_FENCED)
        elif error:
            # CommitFailedException: another member may own the partitions, so the application aborts.
            self._failed = self._failed or error
            self._drop_unsent()
            self._step()
        else:
            self._are_offsets_sent = True
            self._step()

    def _record(self, outcome: str, error: str) -> None:
        self._outcome = outcome
        super()._record(outcome, self._failed if outcome == "fail" and self._failed in NOT_MEMBER else error)

    def _fail_for_good(self, error: str) -> None:
        """The application makes a new producer, as often as needed."""
        self.finished = False
        super()._fail_for_good(error)

    def _continue(self) -> None:
        outcome, self._outcome, self._work = self._outcome, "", None
        self._owner.on_idle(outcome)


class PlainOutput(Producer):
    """Writes each work without a transaction; the processor commits the offsets afterwards."""

    def __init__(self, index: int, parts: ClientParts, owner: Owner, pid: int) -> None:
        super().__init__(index, 1, parts, Random(0))
        self._owner = owner
        self.name, self.pid, self.loop = owner.name, pid, owner.loop
        self._has_failed = self._is_sending = False

    def start(self, _: None = None) -> None:
        """Be ready at once; requests wait for metadata."""
        self.refresh()
        self.loop.after(0, self._tick)
        self._owner.on_idle("")

    def process(self, work: Work) -> None:
        """Send the copies, and flush."""
        self._has_failed, self._is_sending = False, True
        for sent in work.copies:
            self._op = self._owner.next_op()
            self._history.send(self.head(self._op), self.index, *sent)
            self._add_to_batch(*sent)
        for state in self._partitions:
            state.close_batch()
        self._is_sending = False
        self._drain()
        self._end_if_done()

    def close(self) -> None:
        """The process dies. What is under way may still arrive."""
        self.finished = True
        self._close_connections()

    def _complete(self, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        super()._complete(batch, outcome, error, base)
        self._has_failed = self._has_failed or outcome != "ok"
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._outstanding == 0 and not self._is_sending and not self.finished:
            self._owner.on_idle("fail" if self._has_failed else "ok")
