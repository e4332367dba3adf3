"""A record that the application cannot handle, and what it does then: crash, skip it, or send it to another topic.

Not Kafka's protocol, but its users' practice; Spring Kafka's DeadLetterPublishingRecoverer and Kafka Connect's
errors.tolerance are the last two. The record is one value of producer 0 in partition 0 (simulation.poison.value).
"""

from __future__ import annotations

from collections.abc import Iterable

from ..config import Config
from ..ports import Records
from ..storage.batches import Batch
from .group_consumer import GroupConsumer
from .processor import Processor


def poison_offset(config: Config, partition: int, batch: Batch) -> int | None:
    """The offset of the poison record, if the batch has it."""
    offset = batch.base + config.poison_value - batch.first
    return offset if (partition, batch.producer) == (0, 0) and batch.base <= offset < batch.end else None


class PoisonedConsumer(GroupConsumer):
    """Crashes at the record and comes back from the committed offset, again and again; or skips it."""

    def _on_handled(self, argument: tuple[int, Records]) -> None:
        incarnation, records = argument
        if not self._is_running(incarnation):
            return
        before: Records = []
        for number, (partition, batch) in enumerate(records):
            offset = poison_offset(self.config, partition, batch)
            if offset is None:
                before.append((partition, batch))
                continue
            before += _cut(partition, batch, batch.base, offset)
            if self.config.poison == "crash":
                self._die(before)
                return
            records = [*before, *_cut(partition, batch, offset + 1, batch.end), *records[number + 1 :]]
            break
        super()._on_handled((incarnation, records))

    def _die(self, handled: Records) -> None:
        """The exception ends the process, which had handled some records and committed none of them."""
        if handled:
            self._add_handled(handled)
            self._history.handle(self.head(self.next_op()), handled)
        self.crash("poison record")
        self._restart_later()


class DeadLetterConsumer(Processor):
    """Sends the record to the dead-letter topic, and commits once it is acknowledged."""

    def _offsets_to_copy(self, partition: int, batch: Batch) -> Iterable[int]:
        offset = poison_offset(self.config, partition, batch)
        return () if offset is None else (offset,)


def _cut(partition: int, batch: Batch, base: int, end: int) -> Records:
    return [(partition, batch.cut(base, end))] if base < end else []
