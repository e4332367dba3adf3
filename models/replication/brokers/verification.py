"""How a leader verifies a producer's transaction with the coordinator before it appends the transaction's first batch.

It is KIP-890 (AddPartitionsToTxnManager). With transactions v2 the request also adds the partition to the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..coordinators.transaction_requests import ADD, TransactionRequest
from ..partition_state import NO_LEADER
from ..ports import Inboxes
from ..producer_batch import ProducerBatch
from ..requests import ProduceRequest
from ..storage.transactions import FIRST_TRANSACTIONAL, MARKER
from .part import BrokerPart

UNAVAILABLE = "COORDINATOR_NOT_AVAILABLE"  # the producer tries again


@dataclass(slots=True, eq=False)
class Verifier(BrokerPart):
    """Holds produce requests back until the coordinator verified each of their batches."""

    _inboxes: Inboxes
    _leader_of: Callable[[int], int]
    _append: Callable[[ProduceRequest], None]
    _waiting: dict[TransactionRequest, tuple[ProduceRequest, int]] = field(default_factory=dict, init=False)

    def restart(self) -> None:
        """A new process waits for nothing."""
        self._waiting = {}

    def waiting(self) -> Iterable[ProduceRequest]:
        """The requests that are held back."""
        return [request for request, _ in self._waiting.values()]

    def holds(self, request: ProduceRequest) -> bool:
        """Whether this request must wait. If so, it is appended later."""
        if request.verified is not None:
            return False
        first = [index for index, batch in enumerate(request.batches) if self._opens_transaction(batch)]
        request.verified = {}
        for index in first:
            self._send_request(request, index)
        return not self._is_verified(request, first)

    def error(self, request: ProduceRequest, index: int) -> str:
        """The coordinator's error for a batch, also if a marker ended the transaction meanwhile."""
        batch = request.batches[index]
        found = (request.verified or {}).get(index)
        if found is None:
            return ""
        error, marker = found
        return error or ("" if self._last_marker(batch) == marker else UNAVAILABLE)

    def expire(self, now: int) -> None:
        """Give up verifications without a response within request.timeout.ms."""
        for request in [r for r in self._waiting if now - r.sent > self._config.request_timeout]:
            request.error = UNAVAILABLE
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
    def _is_verified(request: ProduceRequest, first: Iterable[int]) -> bool:
        assert request.verified is not None
        return all(request.verified[index][0] != "waiting" for index in first)

    def _send_request(self, request: ProduceRequest, index: int) -> None:
        batch = request.batches[index]
        assert request.verified is not None
        marker = self._last_marker(batch)
        leader = self._leader_of(self._config.transaction_log)
        if leader == NO_LEADER:
            request.verified[index] = (UNAVAILABLE, marker)
            return
        request.verified[index] = ("waiting", marker)
        callbacks, is_v2 = (self._on_response, self._on_closed), self._rules.bumps_epoch_at_end()
        content = (ADD, "", batch.pid, batch.producer_epoch, (batch.partition,))
        question = self._send(
            TransactionRequest, leader, self._inboxes[leader], *callbacks, *content, verify_only=not is_v2
        )
        self._waiting[question] = (request, index)

    def _on_response(self, response: TransactionRequest) -> None:
        if not self._process.defer(self._on_response, response):
            self._on_verified(response)

    def _on_closed(self, question: TransactionRequest) -> None:
        question.error = UNAVAILABLE
        self._on_response(question)

    def _on_verified(self, response: TransactionRequest) -> None:
        held = self._waiting.pop(response, None)
        if held is None:
            return
        request, index = held
        assert request.verified is not None
        request.verified[index] = (response.error, request.verified[index][1])
        if self._is_verified(request, request.verified):
            self._append(request)
