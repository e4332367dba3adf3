"""The base of the group coordinator and of the transaction coordinator. Their state is stored in a partition.

A coordinator is active while its broker leads that partition. It first loads the state from it, and writes every change
to it before acting. The partition is replicated like any other (CoordinatorRuntime, TransactionStateManager).
Simplification: a transactional id does not expire.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from .. import errors
from ..brokers.part import BrokerPart, Parts
from ..brokers.produce import ProduceHandler
from ..config import MS
from ..producer_batch import ProducerBatch
from ..requests import BatchResult, Request
from ..storage.batches import Batch

TICK = 100 * MS
COORDINATOR = -1  # the producer of the batches in a coordinator's log
R = TypeVar("R")
Done = Callable[[str, int], None]  # error, base offset


class Term(NamedTuple):
    """The time in which a broker's process coordinates: tasks of an earlier term do not run."""

    incarnation: int  # of the process
    epoch: int  # leader epoch of the partition; -1: not the coordinator


class LogCoordinator(BrokerPart, ABC, Generic[R]):
    """A coordinator on this broker. `records` has the records of all appends; a batch's values are their indexes."""

    def __init__(self, parts: Parts, produces: ProduceHandler, partition: int, records: list[R]) -> None:
        super().__init__(*parts)
        self._produces = produces
        self.partition = partition  # in which the state is stored
        self.records = records
        self.restart()

    @abstractmethod
    def _drop_state(self) -> None:
        """Drop what was loaded."""

    @abstractmethod
    def _replay(self, batch: Batch, records: Sequence[R]) -> None:
        """Load a batch of the partition; a control batch has no records."""

    @abstractmethod
    def _on_loaded(self) -> None:
        """Begin to coordinate, after the partition was replayed."""

    @abstractmethod
    def _tick_active(self, now: int) -> None:
        """Run the periodic tasks of a loaded coordinator."""

    def delayed(self) -> Sequence[Request]:
        """The requests that wait."""
        return ()

    def restart(self) -> None:
        """Forget the term and the state, as a new process does."""
        self.leader_epoch = -1  # of the partition; -1: not the coordinator
        self._is_loading = False
        self._drop_state()

    def lead(self, epoch: int) -> None:
        """Load the partition that the broker began to lead."""
        self._resign()
        self.leader_epoch, self._is_loading = epoch, True
        self._process.loop.after(self._config.group_load_time, self._load, self._term())

    def _term(self) -> Term:
        return Term(self._process.incarnation, self.leader_epoch)

    def _is_coordinator(self) -> bool:
        """Whether the broker leads the partition in the epoch for which it was loaded."""
        replica = self._manager.leader(self.partition)
        return replica is not None and replica.epoch == self.leader_epoch

    def _enter(self, task: Callable[[Term], None], term: Term) -> bool:
        """Whether to run a task of this term now. A paused process defers it; one of an ended term is dropped."""
        if term != self._term() or self._process.defer(task, term):
            return False
        if not self._is_coordinator():
            self._resign()
            return False
        return True

    def _load(self, term: Term) -> None:
        if not self._enter(self._load, term):
            return
        for batch in self._manager.replicas[self.partition].log.batches():
            for part in batch.parts():
                is_own = batch.producer == COORDINATOR
                self._replay(part, self.records[part.first : part.values_end] if is_own else ())
        self._is_loading = False
        self._on_loaded()
        self._process.loop.after(TICK, self._tick, term)

    def _resign(self) -> None:
        """Refuse delayed requests and drop the state: the term has ended."""
        for request in self.delayed():
            self.respond(request, errors.NOT_COORDINATOR)
        self.restart()

    def _write(self, records: Sequence[R], done: Done, pid: int = -1, producer_epoch: int = -1) -> None:
        """Append records with acks=all, then call `done` with the error and the base offset.

        `done` is not called if the term ended meanwhile. With a producer id, the records belong to its transaction.
        """
        number, now = len(self.records), self._process.loop.now
        batch = ProducerBatch(COORDINATOR, self.partition, number, now, len(records), pid, producer_epoch)
        self.records += records
        term = self._term()

        def finished(result: BatchResult) -> None:
            if term == self._term():
                done(*result)

        self._produces.write(batch, finished)

    def _tick(self, term: Term) -> None:
        if not self._enter(self._tick, term):
            return
        self._process.loop.after(TICK, self._tick, term)
        self._tick_active(self._process.loop.now)
