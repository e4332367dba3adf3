"""A processor: a member of a group that copies each record that it polls to another topic, and commits offsets.

It is a group consumer whose application writes by a producer (outputs.py): exactly once, with copies and offsets in one
transaction, or at least once, with offsets committed after the copies are acknowledged. If the transaction failed, it
goes back to the committed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..coordinators.group_ledger import GroupLedger
from ..coordinators.group_requests import GroupRequest
from ..copy_ledger import Copy, CopyLedger, Source
from ..ports import Records, SentValue
from ..storage.batches import Batch
from .consumer import KILLED, ConsumerParts
from .group_consumer import STABLE, GroupConsumer
from .outputs import Owner, PlainOutput, TransactionalOutput, Work

Output = TransactionalOutput | PlainOutput


class Processor(GroupConsumer):
    """Consumes, transforms and produces."""

    def __init__(
        self, parts: ConsumerParts, group: GroupLedger, copies: CopyLedger, make_output: Callable[[int, Owner], Output]
    ) -> None:
        super().__init__(parts, group)
        self._copies = copies
        self._make_output = make_output
        self._owner = Owner(self.name, self.loop, self.next_op, self._on_idle)
        self._next_values = [0] * self.config.data_partitions  # by partition; they stay unique over all outputs
        self._output: Output | None = None
        self._is_starting = False
        self._polled: Records = []  # being copied
        self._work: Work | None = None

    def _leave_group(self) -> None:
        super()._leave_group()
        self._is_rewinding = False

    def start(self, _: None = None) -> None:
        """Begin with the producer: what an earlier instance left open must end before offsets are fetched."""
        self.alive = self._is_starting = True
        self.incarnation += 1
        self._polled, self._work = [], None
        self._leave_group()
        self.assigned = ()
        self._output = self._make_output(self.config.producers + self.index, self._owner)
        self._output.start()

    def crash(self, reason: str = KILLED) -> None:
        """The process dies, with its producer."""
        if self.alive and self._output is not None:
            self._output.close()
        super().crash(reason)

    def has_caught_up(self, ranges: Any) -> bool:
        """Whether it has read these ranges as a member of its group, and copied all that it polled."""
        return super().has_caught_up(ranges) and (not self.alive or not self._polled)

    # --- processing

    def _handle_later(self, records: Records) -> None:
        self._polled = records
        self.loop.after(self.config.handle_time, self._process, self.incarnation)

    def _process(self, incarnation: int) -> None:
        if not self._is_running(incarnation):
            return
        assert self._output is not None
        copies, numbers, sources = self.config.copies, self._next_values, self._copies
        plan: list[SentValue] = []
        for source, batch in self._polled:
            for offset in self._offsets_to_copy(source, batch):
                partition = copies.start + offset % len(copies)
                plan.append(SentValue(partition, numbers[partition]))
                sources[Copy(self._output.index, partition, numbers[partition])] = Source(source, offset)
                numbers[partition] += 1
        ends = {partition: batch.end for partition, batch in self._polled}
        knows_epochs = self._rules.has_next_offsets()
        epochs = {partition: batch.epoch for partition, batch in self._polled} if knows_epochs else {}
        op = self.next_op() if self.config.processing == "exactly-once" else 0
        self._work = Work(plan, ends, epochs, self.member, self.generation, op)
        self._output.process(self._work)

    def _offsets_to_copy(self, partition: int, batch: Batch) -> Iterable[int]:  # noqa: ARG002
        """The offsets of the records to copy."""
        return range(batch.base, batch.end)

    def _on_idle(self, outcome: str) -> None:
        """The producer is ready: it started (`outcome` is empty), or its work ended as ok, fail or info."""
        if self._is_starting:
            self._is_starting = False
            super().start()
        elif outcome:
            records, self._polled = self._polled, []
            work, self._work = self._work, None
            assert work is not None
            if outcome != "ok":
                self._rewind()
                return
            if self.config.processing == "exactly-once":
                self._on_committed(work, records)
            else:
                self._on_handled((self.incarnation, records))

    def _on_committed(self, work: Work, records: Records) -> None:
        """The transaction is committed. The history has no `handle`: a member that dies before the response could not
        record it."""
        member = (work.generation, work.member) if self._rules.fences_members() else (-1, "")
        self.group.on_acknowledged(*member, work.offsets)
        self._add_handled(records)
        self._begin_poll()

    def _rewind(self) -> None:
        """Go back to the committed offsets."""
        self._buffer.clear()
        if self._is_lost or not self.assigned:
            self._begin_poll()
            return
        self._is_rewinding = True
        self._fetch_offsets()

    def _on_offsets(self, response: GroupRequest) -> None:
        if not self._is_rewinding:
            super()._on_offsets(response)
            return
        self._is_rewinding = False
        found = [(partition, self._go_to_committed(partition, response)) for partition in self.assigned]
        self._phase = STABLE
        if known := [place for place in found if place[1] is not None]:
            self._history.seek(self.head(self.next_op()), known)
        self._begin_poll()
