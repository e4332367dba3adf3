"""How a partition's leader writes markers for a transaction coordinator (KafkaApis.handleWriteTxnMarkersRequest)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import errors
from ..brokers.part import BrokerPart
from ..brokers.produce import ProduceHandler
from ..producer_batch import ProducerBatch
from ..requests import BatchResult
from ..storage.transactions import MARKER
from .transaction_requests import MarkerRequest


@dataclass(slots=True, eq=False)
class MarkerHandler(BrokerPart):
    """Appends control batches with acks=all, and responds once they are replicated."""

    _produces: ProduceHandler
    _next_number: Callable[[], int]
    _written: Callable[[MarkerRequest], None]

    def handle(self, request: MarkerRequest) -> None:
        """Append a marker, unless a newer coordinator, or in transactions v2 this one, already did."""
        replica = self._manager.leader(request.partition)
        if replica is None:
            self.respond(request, errors.NOT_LEADER_OR_FOLLOWER)
            return
        known = replica.log.producers.get(request.pid)
        if request.coordinator_epoch < replica.log.transactions.coordinators.get(request.pid, -1):
            self.respond(request, errors.TRANSACTION_COORDINATOR_FENCED)
        elif self._rules.bumps_epoch_at_end() and known is not None and request.epoch <= known.epoch:
            # The epoch of a transaction's end is its own, so this is a repetition. The producer's next transaction has
            # the same epoch: if it is open, a coordinator that was replaced repeats it (KIP-1228, KAFKA-19999).
            if request.epoch < known.epoch or request.pid in replica.log.transactions.open:
                self.respond(request, errors.INVALID_PRODUCER_EPOCH)
                return
            self._written(request)
            self.respond(request)
        else:
            number = 2 * self._next_number() + request.commit
            now, sequence = self._process.loop.now, -2 - request.coordinator_epoch
            batch = ProducerBatch(MARKER, request.partition, number, now, 1, request.pid, request.epoch, sequence)

            def written(result: BatchResult) -> None:
                if not result.error:
                    self._written(request)
                self.respond(request, result.error)

            self._produces.write(batch, written)
