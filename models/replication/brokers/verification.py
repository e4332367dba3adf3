"""How a leader verifies a producer's transaction with the coordinator before it appends the transaction's first batch.

With transactions v2 the request also adds the partition to the transaction. Source: KIP-890, AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .. import errors
from ..coordinators.transaction_requests import ADD, TransactionRequest
from ..partition_state import NO_LEADER
from ..ports import Inboxes
from ..producer_batch import ProducerBatch
from ..requests import ProduceRequest, Verification
from ..storage.transactions import FIRST_TRANSACTIONAL, MARKER
from .part import BrokerPart


@dataclass(slots=True, eq=False)
class Verifier(BrokerPart):
    """Holds produce requests back until the coordinator has verified their transactions."""

    _inboxes: Inboxes
    _leader_of: Callable[[int], int]
    _append: Callable[[ProduceRequest], None]
    # By request to the coordinator: the request of the producer, and the index of the batch.
    _waiting: dict[TransactionRequest, tuple[ProduceRequest, int]] = field(default_factory=dict, init=False)

    def restart(self) -> None:
        """A new process waits for nothing."""
        self._waiting = {}

    def waiting(self) -> Iterable[ProduceRequest]:
        """The requests that are held back."""
        return [request for request, _ in self._waiting.values()]

    def hold_back(self, request: ProduceRequest) -> bool:
        """Have new transactions verified. Returns whether the request waits for that; then it is appended later."""
        if request.verified is not None:
            return False
        request.verified = {
            index: self._verify(request, index)
            for index, batch in enumerate(request.batches)
            if self._opens_transaction(batch)
        }
        return not self._is_verified(request)

    def error(self, request: ProduceRequest, index: int) -> str:
        """The error for a batch: the coordinator's, or that a marker ended the transaction meanwhile; empty: none."""
        verification = (request.verified or {}).get(index)
        if verification is None:
            return ""
        was_ended = self._last_marker(request.batches[index]) != verification.last_marker
        return verification.error or (errors.COORDINATOR_NOT_AVAILABLE if was_ended else "")

    def expire(self, now: int) -> None:
        """Give up verifications without a response within request.timeout.ms."""
        for request in [r for r in self._waiting if now - r.sent > self._config.request_timeout]:
            request.error = errors.COORDINATOR_NOT_AVAILABLE
            self._on_verified(request)

    def _opens_transaction(self, batch: ProducerBatch) -> bool:
        if batch.pid < FIRST_TRANSACTIONAL or batch.producer == MARKER:
            return False
        replica = self._manager.leader(batch.partition)
        if replica is None:
            return False
        known = replica.log.producers.get(batch.pid)
        is_open = batch.pid in replica.log.transactions.open
        return not is_open or known is None or known.epoch != batch.producer_epoch

    def _last_marker(self, batch: ProducerBatch) -> int:
        replica = self._manager.leader(batch.partition)
        return -1 if replica is None else replica.log.transactions.markers.get(batch.pid, -1)

    @staticmethod
    def _is_verified(request: ProduceRequest) -> bool:
        return all(verification.error is not None for verification in (request.verified or {}).values())

    def _verify(self, request: ProduceRequest, index: int) -> Verification:
        """Send a request to the coordinator, if there is one. The verification has no error until it responds."""
        batch = request.batches[index]
        marker = self._last_marker(batch)
        leader = self._leader_of(self._config.transaction_log)
        if leader == NO_LEADER:
            return Verification(errors.COORDINATOR_NOT_AVAILABLE, marker)
        sent = self._send(
            TransactionRequest,
            leader,
            self._inboxes[leader],
            self._on_response,
            self._on_closed,
            *(ADD, "", batch.pid, batch.producer_epoch, (batch.partition,)),
            verify_only=not self._rules.bumps_epoch_at_end(),  # transactions v2 adds the partition, too
        )
        self._waiting[sent] = (request, index)
        return Verification(None, marker)

    def _on_response(self, response: TransactionRequest) -> None:
        if not self._process.defer(self._on_response, response):
            self._on_verified(response)

    def _on_closed(self, request: TransactionRequest) -> None:
        request.error = errors.COORDINATOR_NOT_AVAILABLE
        self._on_response(request)

    def _on_verified(self, response: TransactionRequest) -> None:
        held = self._waiting.pop(response, None)
        if held is None:
            return
        request, index = held
        assert request.verified is not None
        request.verified[index] = request.verified[index]._replace(error=response.error)
        if self._is_verified(request):
            self._append(request)
