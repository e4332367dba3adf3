"""A producer that its application closes, or that dies with it."""

from __future__ import annotations

from .producer import Producer


class ClosableProducer(Producer):
    """Transactional producers and those of processors: another may take its place."""

    __slots__ = ()

    def _close_connections(self) -> None:
        """Forget all batches. What is under way may still arrive."""
        for partition, queue in enumerate(self._queues):
            for batch in (*queue, *self._partition_in_flight[partition]):
                batch.done = True
            queue.clear()
            self._partition_in_flight[partition] = []
        for broker, requests in self._in_flight.items():
            for request in requests:
                request.closed = True
            requests.clear()
            self.reconnect(broker)
        self._outstanding = 0
