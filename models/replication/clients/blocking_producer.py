"""A producer whose application waits: for each record (`send().get()`), or for room in the buffer (buffer.memory).

Simplifications: every batch takes the room of a full one, as BufferPool allocates it: batch.size, or 100 bytes a
record; and a record waits while there is no room, even if its batch has some. A full buffer does not end linger.ms.
"""

from __future__ import annotations

from random import Random

from .. import errors
from ..config import NEVER, RECORD_BYTES
from ..producer_batch import ProducerBatch
from .client import ClientParts
from .producer import Producer


class BlockingProducer(Producer):
    """Its application is one thread, which sends the records of a burst one after the other."""

    def __init__(self, index: int, ops: int, parts: ClientParts, rng: Random) -> None:
        super().__init__(index, ops, parts, rng)
        config = self.config
        room = config.batch_size if config.batch_size < NEVER else RECORD_BYTES * config.batch_records
        self._max_batches = max(1, config.buffer_memory // room)
        self._left = 0  # records of the burst; -1: the next burst is scheduled
        self._waiting_since = -1  # µs, when it began to wait for buffer memory; -1: not waiting

    def _generate(self, _: None) -> None:
        """Begin the next burst."""
        self._left = min(self.config.burst, self.ops - self.generated)
        self._send_burst()

    def _send_burst(self, _: None = None) -> None:
        """Send what is left of the burst, until the application has to wait."""
        now = self.loop.now
        while not (self.config.synchronous and self._outstanding):
            if not self._left:
                if self.generated < self.ops:
                    self._left = -1  # the next burst is scheduled
                    self.loop.after(int(self._rng.random() * 2 * self.config.interval), self._generate)
                return
            if self._left < 0:
                return
            if self._outstanding >= self._max_batches:
                if self._waiting_since < 0:
                    self._waiting_since = now
                    self.loop.after(self.config.max_block, self._refuse, now)
                return
            self._waiting_since = -1
            self._left -= 1
            partition = self._choose(self._open_batch)
            self._add_to_batch(partition, self._begin_send(partition))

    def _refuse(self, since: int) -> None:
        """If a wait lasts max.block.ms, send() throws, and the application goes on with the next record."""
        if self._waiting_since != since:
            return
        self._waiting_since = -1
        self._left -= 1
        partition = self._choose(self._open_batch)
        number = self._begin_send(partition)
        if (batch := self._open_batch(partition)) is not None:
            batch.is_open = False  # the numbers of its values are consecutive
        record = ProducerBatch(self.index, partition, number, self.loop.now)
        record.count, record.ops = 1, [self._op]
        self._history.sent(self.loop.now, self.name, record, "fail", errors.BUFFER_EXHAUSTED, -1)
        self.finished = self._outstanding == 0 and self.generated >= self.ops
        self._send_burst()

    def _complete(self, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        super()._complete(batch, outcome, error, base)
        self.loop.after(0, self._send_burst)
