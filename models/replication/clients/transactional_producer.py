"""A transactional producer: InitProducerId, AddPartitionsToTxn, records, EndTxn (TransactionManager, Sender).

It has one request to the coordinator at a time. The application begins a transaction, sends its records, and commits;
it aborts at random, or if anything failed. After a fatal error it closes the producer and makes a new one, unless
another producer has the same transactional id.
"""

from __future__ import annotations

from random import Random
from typing import Any

from .. import errors
from ..config import MS
from ..coordinators.group_requests import GroupRequest
from ..coordinators.transaction_ledger import Transaction, TransactionLedger
from ..coordinators.transaction_requests import ADD, END, INIT, TransactionRequest
from ..partition_state import NO_LEADER
from ..ports import SentRecord, SentValue
from ..producer_batch import ProducerBatch
from ..requests import Request
from .client import ClientParts
from .producer import Producer
from .producer_partition import ProducerPartition

IDLE, INITIALISING, OPEN, ENDING = "idle", "initialising", "open", "ending"
CONCURRENT_BACKOFF = 20 * MS  # TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS
BY_APPLICATION = "aborted by the application"
CLOSED = "the application made a new producer before it committed"


class TransactionalProducer(Producer):
    """A producer whose application writes everything in transactions."""

    def __init__(self, index: int, ops: int, parts: ClientParts, rng: Random, transactions: TransactionLedger) -> None:
        super().__init__(index, ops, parts, rng)
        self.id = "tx" if self.config.transactions == "shared" else f"tx-{self.name}"
        self.transactions = transactions
        self.pid = self.epoch = -1
        self._phase = IDLE
        self._request: TransactionRequest | GroupRequest | None = None  # to a coordinator, in flight
        self._retry_at = 0
        self._since = 0  # since when the producer waits for the coordinator
        self._action = 0  # the number of the scheduled action; earlier ones are dropped
        self._clear_transaction()

    def _clear_transaction(self) -> None:
        self._transaction: Transaction | None = None
        self._plan: list[SentValue] = []  # still to be sent
        self._sends: list[SentValue] = []  # all values of the transaction
        self._offsets: dict[SentValue, int] = {}  # of those that were acknowledged
        self._acked: list[tuple[ProducerBatch, int]] = []
        self._new: set[int] = set()  # partitions that must first be added to the transaction
        self._added: set[int] = set()
        self._commits = True
        self._failed = ""  # why it can only be aborted
        self._needs_epoch = False  # a batch that was sent is undecided
        self._is_started = self._is_in_doubt = False

    # --- the application

    def start(self, _: None = None) -> None:
        """Request a producer id, then begin."""
        if not self.finished:
            self.refresh()
            self._phase = INITIALISING
            self._step()
            self.loop.after(0, self._tick)

    def _pause(self) -> None:
        """Schedule the application's next action."""
        self._action += 1
        self.loop.after(int(self._rng.random() * 2 * self.config.interval), self._act, self._action)

    def _act(self, action: int) -> None:
        """Begin a transaction, send its next record, or end it."""
        if action != self._action or self._phase not in (IDLE, OPEN):
            return
        if self._phase == IDLE:
            self._begin()
        if not self._failed:
            self._send_value(self._plan.pop(0))
        if self._failed or not self._plan:
            self._end()
        else:
            self._pause()

    def _begin(self) -> None:
        config = self.config
        commits = self._rng.random() * 1000 >= config.transaction_aborts
        plan: list[SentValue] = []
        for _ in range(min(config.transaction_records, self.ops - self.generated)):
            self.generated += 1
            partition = int(self._rng.random() * config.partitions)
            plan.append(SentValue(partition, self._partitions[partition].take_value()))
        self._open(plan, commits, self._op + 1)

    def _open(self, plan: list[SentValue], commits: bool, op: int) -> None:
        """Begin a transaction that will send these values."""
        self._clear_transaction()
        self._phase = OPEN
        self._transaction = self.transactions.begin(self.name, self.index, self.pid, self.epoch)
        self._commits, self._plan, self._sends, self._op = commits, plan, list(plan), op
        self._history.transact(self.head(op), self.index, self._sends, self._commit_at())

    def _commit_at(self) -> dict[int, int]:
        """The offsets that the transaction commits; this application reads nothing."""
        return {}

    def _send_value(self, sent: SentValue) -> None:
        assert self._transaction is not None
        self._transaction.values.append(sent)
        if sent.partition not in self._added and not self._rules.bumps_epoch_at_end():
            self._new.add(sent.partition)
        self._add_to_batch(*sent)
        self._step()

    def _end(self) -> None:
        """Commit or abort."""
        self._phase = ENDING
        for state in self._partitions:
            state.close_batch()
        if not self._commits:
            self._drop_unsent()
        self._drain()
        self._step()

    def _drop_unsent(self) -> None:
        """Drop the batches that were not sent when an abort begins (RecordAccumulator.abortUndrainedBatches)."""
        for state in self._partitions:
            for batch in [batch for batch in state.queue if not batch.attempts]:
                state.queue.remove(batch)
                batch.is_done = True
                self._outstanding -= 1

    # --- batches

    def _retries_gaps(self) -> bool:
        return False  # the transaction fails

    def _ready(self, partition: ProducerPartition) -> ProducerBatch | None:
        queue = partition.queue
        if not queue or (self._failed and not queue[0].attempts):
            return None
        if partition.number not in self._added and not self._rules.bumps_epoch_at_end():
            return None
        return super()._ready(partition)

    def _send(self, broker: int, batches: list[ProducerBatch]) -> None:
        self._is_started = True
        super()._send(broker, batches)

    def _on_acknowledged(self, batch: ProducerBatch, base: int) -> None:
        """Keep the acknowledgement until the transaction commits."""
        self._acked.append((batch, base))
        self._offsets.update((SentValue(batch.partition, batch.first + i), base + i) for i in range(batch.count))
        self._complete(batch, "ok", "", base)

    def _complete(self, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:  # noqa: ARG002
        batch.is_done = True
        batch.ops = []
        self._outstanding -= 1
        self._partitions[batch.partition].needs_epoch = False
        if outcome != "ok":
            self._needs_epoch = self._needs_epoch or batch.attempts > 0
            self._failed = self._failed or error
            self._drop_unsent()
            if self._needs_epoch and not self._rules.bumps_epoch_after_abort():
                self._fail_for_good(error)
                return
        self._step()

    # --- the coordinator

    def _step(self, _: None = None) -> None:
        """Send the next request to the coordinator, if none is in flight."""
        if self._request is not None or self.loop.now < self._retry_at:
            return
        if self._phase == INITIALISING:
            self._send_request(INIT)
        elif self._new and not self._failed:
            self._send_request(ADD, partitions=tuple(sorted(self._new)))
        elif self._phase == ENDING and self._outstanding == 0:
            if self._is_started:
                self._send_request(END, commit=self._commits and not self._failed)
            else:
                self._finish()

    def _send_request(self, kind: str, **content: Any) -> None:
        leader = self.leaders[self.config.transaction_log].leader
        if leader == NO_LEADER:
            self.refresh()
            self._step_later(self.config.retry_backoff)
            return
        self._is_started = self._is_started or kind == ADD
        producer = (self.id, self.pid, self.epoch)
        self._request = self.request_from(
            TransactionRequest, leader, self._on_response, self.on_closed, kind, *producer, **content
        )

    def _step_later(self, backoff: int) -> None:
        self._retry_at = self.loop.now + backoff
        self.loop.at(self._retry_at, self._step)

    def _on_disconnected(self, broker: int) -> None:
        request = self._request
        if request is not None and request.broker == broker:
            self._request = None
            self._is_in_doubt = self._is_in_doubt or request.kind == END
            self._step_later(self.config.retry_backoff)
        super()._on_disconnected(broker)

    def _on_response(self, response: TransactionRequest) -> None:
        if not self._accept(response):
            return
        error = response.error
        self._is_in_doubt = self._is_in_doubt or (response.kind == END and error in errors.RETRIABLE)
        if self._retry_after(error):
            return
        if self._aborted_nothing(response):
            self._finish()
        elif error:
            self._fail_for_good(error)
        elif response.kind == END:
            self._start_epoch(*response.granted)
            self._finish()
        elif response.kind == INIT:
            self._start_epoch(*response.granted)
            self._phase = IDLE
            self._continue()
        else:
            self._new -= set(response.partitions)
            self._added |= set(response.partitions)
            self._drain()
            self._step()

    def _aborted_nothing(self, response: TransactionRequest) -> bool:
        """Whether an abort was refused because no partition had been added to the transaction.

        With KIP-890's second part such an abort is granted an epoch. There the error comes from a coordinator that has
        been replaced, and late writes are not fenced yet.
        """
        is_refused_abort = response.kind == END and not response.commit and response.error == errors.INVALID_TXN_STATE
        return is_refused_abort and not self._rules.bumps_epoch_at_end()

    def _accept(self, response: Request) -> bool:
        """Take the response to the request in flight; returns False for a response to an earlier request."""
        if response is not self._request:
            return False
        self._request = None
        self._since = self.loop.now
        return True

    def _retry_after(self, error: str) -> bool:
        """Schedule the request again if the error permits that; returns whether it does."""
        if error in errors.RETRIABLE:
            self.refresh()
            self._step_later(self.config.retry_backoff)
        elif error == errors.CONCURRENT_TRANSACTIONS:
            self._step_later(CONCURRENT_BACKOFF)
        else:
            return False
        return True

    def _start_epoch(self, pid: int, epoch: int) -> None:
        """Set the producer id and epoch; a new epoch restarts the sequence numbers."""
        if (pid, epoch) == (self.pid, self.epoch):
            return
        self.pid, self.epoch = pid, epoch
        self._needs_epoch = False
        for state in self._partitions:
            state.start_epoch(epoch)

    # --- ends

    def _finish(self) -> None:
        """End the transaction with a known outcome."""
        commits = self._commits and not self._failed
        if commits:
            for batch, base in self._acked:
                self._ledger.on_acknowledged(batch, base)
        self._record("ok" if commits else "fail", "" if commits else BY_APPLICATION)
        self._phase = INITIALISING if self._needs_epoch else IDLE
        if self._phase == INITIALISING:
            self._step()
        else:
            self._continue()

    def _fail_for_good(self, error: str) -> None:
        """After a fatal error, end this producer, and start a new one unless others have the same id."""
        if self._transaction is not None:
            is_unknown = self._is_in_doubt and self._commits and not self._failed
            # Without an EndTxn that may have arrived, the transaction cannot be committed.
            shown = error if is_unknown or error == errors.PRODUCER_FENCED else CLOSED
            self._record("info" if is_unknown else "fail", shown)
        self._abandon()
        self.pid = self.epoch = -1
        self._since = self.loop.now
        if self.finished or self.config.transactions == "shared":
            self._phase = IDLE
            self.finished = True
            return
        self._phase = INITIALISING
        self._step_later(self.config.retry_backoff)

    def _record(self, outcome: str, error: str) -> None:
        assert self._transaction is not None
        self._transaction.outcome = outcome
        records = [SentRecord(*sent, self._offsets.get(sent)) for sent in self._sends]
        self._history.transacted(self.head(self._op), self.index, records, self._commit_at(), outcome, error)
        self._transaction = None

    def _abandon(self) -> None:
        """Close all connections. Requests in flight may still arrive."""
        self._action += 1
        self._request = None
        self._close_connections()
        self._clear_transaction()

    def _continue(self) -> None:
        """Begin the next transaction after a while, or end."""
        if self.generated >= self.ops:
            self.finished = True
        else:
            self._pause()

    def _tick(self, _: None) -> None:
        request = self._request
        if request is not None and self.loop.now - request.sent > self.config.request_timeout:
            self._on_disconnected(request.broker)
        waits = self._phase == INITIALISING or self._new or (self._phase == ENDING and self._outstanding == 0)
        if not waits:
            self._since = self.loop.now
        elif self.loop.now - self._since > self.config.delivery_timeout:
            # max.block.ms. The application makes one more producer; if that gets no response either, it ends.
            self.finished = self._phase == INITIALISING
            self._fail_for_good(errors.REQUEST_TIMED_OUT)
        super()._tick(None)
        self._step()
