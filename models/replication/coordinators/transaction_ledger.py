"""Records what transactions wrote and how they ended, for invariants. No part of the protocol reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..event_loop import EventLoop
from ..ports import SentValue
from ..producer_batch import ProducerBatch
from ..requests import ProducerIdAndEpoch
from ..storage.transactions import MARKER


class Contradiction(NamedTuple):
    """A transaction that was both committed and aborted."""

    transaction: int  # its number
    time: int  # of the second decision


@dataclass(slots=True)
class Transaction:
    """One transaction of a producer."""

    process: str
    producer: int
    began: int
    values: list[SentValue] = field(default_factory=list)
    decision: str = ""  # commit or abort, as a coordinator stored it first
    decided: int = -1
    outcome: str = ""  # reported by the producer: ok, fail, info


@dataclass(slots=True)
class LateWrite:
    """A leader appended a batch of a producer epoch after a newer one was granted. It may be truncated again."""

    time: int
    partition: int
    leader_epoch: int
    producer: int
    first: int  # value number
    pid: int
    epoch: int
    granted: int


@dataclass(slots=True)
class TransactionLedger:
    """The transactions of a run; models/exploration/transaction_invariants.py checks them."""

    loop: EventLoop
    transactions: list[Transaction] = field(default_factory=list)
    contradictions: list[Contradiction] = field(default_factory=list)
    late_writes: list[LateWrite] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)  # producer id -> newest epoch that was granted
    timed_out: int = 0
    fenced: int = 0  # transactions that another InitProducerId aborted
    _current: dict[ProducerIdAndEpoch, int] = field(default_factory=dict)  # -> number of its latest transaction

    def begin(self, process: str, producer: int, pid: int, epoch: int) -> Transaction:
        """A producer begins a transaction."""
        transaction = Transaction(process, producer, self.loop.now)
        self._current[ProducerIdAndEpoch(pid, epoch)] = len(self.transactions)
        self.transactions.append(transaction)
        return transaction

    def number_of(self, pid: int, epoch: int) -> int:
        """The number of the latest transaction of this producer epoch; -1 if there is none."""
        return self._current.get(ProducerIdAndEpoch(pid, epoch), -1)

    def on_decided(self, number: int, commit: bool) -> None:
        """A coordinator stores a decision, or loads one that its predecessor stored without a confirmation."""
        if number < 0:
            return
        transaction, decision = self.transactions[number], "commit" if commit else "abort"
        if transaction.decision not in ("", decision):
            self.contradictions.append(Contradiction(number, self.loop.now))
        elif not transaction.decision:
            transaction.decision, transaction.decided = decision, self.loop.now

    def on_granted(self, pid: int, epoch: int) -> None:
        """A coordinator grants a producer epoch."""
        self.epochs[pid] = max(epoch, self.epochs.get(pid, -1))

    def on_appended(self, batch: ProducerBatch) -> None:
        """A leader appended a batch of a transactional producer."""
        granted = self.epochs.get(batch.pid, -1)
        if batch.producer != MARKER and batch.producer_epoch < granted:
            written = (batch.partition, batch.epoch, batch.producer, batch.first)
            self.late_writes.append(LateWrite(self.loop.now, *written, batch.pid, batch.producer_epoch, granted))
