"""How a broker handles produce requests: append, wait for the high watermark, respond.

A broker handles the requests of one connection in order, one at a time (Kafka's muted channels). So a produce request
that waits for replicas blocks the next one of the same client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .. import errors
from ..config import NEVER
from ..ledger import Ledger
from ..producer_batch import ProducerBatch
from ..requests import BatchResult, ProduceRequest
from ..sizes import RecordSizes, record_sizes
from .disk import Disk
from .part import BrokerPart
from .replica import DelayedProduce, Replica
from .request_threads import Handler, RequestThreads
from .verification import Verifier


@dataclass(slots=True)
class ClientQueue:
    """The produce requests of one client: while one is handled, the others wait in order."""

    busy: bool = False
    waiting: deque[ProduceRequest] = field(default_factory=deque)


@dataclass(slots=True, eq=False)
class ProduceHandler(BrokerPart):
    """Appends batches as leader, and responds once they are replicated (ReplicaManager.appendRecords)."""

    _disk: Disk
    _ledger: Ledger
    _next_uid: Callable[[], int]
    _threads: RequestThreads
    _queues: dict[int, ClientQueue] = field(default_factory=dict, init=False)
    verifier: Verifier | None = field(default=None, init=False)  # with transactions since KIP-890
    _serve: Handler = field(init=False)
    _sizes: list[RecordSizes] = field(init=False)

    def __post_init__(self) -> None:
        self._sizes = record_sizes(self._config, self._rules.era.epochs_in_log)
        self._serve = self._threads.serving(self.append)

    def restart(self) -> None:
        """A new process has no connections."""
        self._queues = {}
        if self.verifier is not None:
            self.verifier.restart()

    def handle(self, request: ProduceRequest) -> None:
        """Append now, or after the client's earlier requests."""
        client = request.node
        queue = self._queues.get(client)
        if queue is None:
            queue = self._queues[client] = ClientQueue()
        if queue.busy:
            queue.waiting.append(request)
            return
        queue.busy = True
        self._serve(request)

    def write(self, batch: ProducerBatch, done: Callable[[BatchResult], None]) -> None:
        """Append this broker's own batch with acks=all; `done` gets the result when it is replicated or failed.

        `done` is not called if the process ended meanwhile, and waits while it is paused.
        """
        process = self._process
        here, incarnation = process.id, process.incarnation

        def finished(request: ProduceRequest) -> None:
            if incarnation == process.incarnation and not process.defer(finished, request):
                done(request.results[0])

        self.append(ProduceRequest(here, here, process.loop.now, finished, finished, None, [batch], -1))

    def append(self, request: ProduceRequest) -> None:
        """Append each batch; with acks=all wait for the high watermark in the replica's purgatory."""
        if request.acks == 0 and request.connection is not None and request.connection.is_closed:
            self._release(request.node)  # it was in flight when this broker closed the connection
            return
        if self._disk.fails():
            self._network.reset(request)
            return
        verifier = self.verifier
        if verifier is not None and verifier.hold_back(request):
            return
        process, manager, acks = self._process, self._manager, request.acks
        replicas, limit = manager.replicas, self._config.max_message_bytes
        waits = False
        request.deadline = process.loop.now + self._config.request_timeout
        request.undecided = len(request.batches)
        for index, batch in enumerate(request.batches):
            replica = replicas.get(batch.partition)
            if replica is None or replica.leader != replica.broker:
                self._decide(request, index, BatchResult(errors.NOT_LEADER_OR_FOLLOWER, -1))
                continue
            if verifier is not None and (error := verifier.error(request, index)):
                self._decide(request, index, BatchResult(error, -1))
                continue
            if limit < NEVER and self._is_larger(batch, limit):
                self._decide(request, index, BatchResult(errors.MESSAGE_TOO_LARGE, -1))
                continue
            result = replica.append(batch, acks, self._next_uid())
            error, base = result
            if error == errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
                state = replica.log.producers[batch.pid]
                last = state.recent[-1].last_sequence if state.recent else -1
                process.report("out-of-order", batch.partition, batch.pid, replica.log.end, batch.sequence, last)
            if error and error != errors.DUPLICATE_SEQUENCE_NUMBER:
                self._decide(request, index, result)
                continue
            if not error:
                self._ledger.on_appended(batch, replica.epoch)
                manager.after_append(replica)
            else:
                result = BatchResult(errors.NONE, base)  # of the batch that this one repeats
            if acks != -1 or replica.hw >= base + batch.count:
                self._decide(request, index, result)
            else:
                replica.purgatory.append(DelayedProduce(base + batch.count, request, index, result))
                waits = True
        if not waits:
            self._respond(request)

    def _is_larger(self, batch: ProducerBatch, limit: int) -> bool:
        """Whether a batch of a producer has more than max.message.bytes."""
        sizes, partition = self._sizes, batch.partition
        return partition < len(sizes) and sizes[partition].batch(batch.producer, batch.first, batch.count) > limit

    def complete(self, replica: Replica) -> None:
        """The high watermark moved: respond to requests for batches below it."""
        mark, purgatory = replica.hw, replica.purgatory
        while purgatory and purgatory[0].required <= mark:
            delayed = purgatory.popleft()
            error = replica.error_of_committed()
            self._complete(delayed, BatchResult(error, delayed.appended.base) if error else delayed.appended)

    def expire(self, replica: Replica, now: int) -> None:
        """Give up on batches that were not replicated within request.timeout.ms."""
        purgatory = replica.purgatory
        while purgatory and now >= purgatory[0].request.deadline:
            self._complete(purgatory.popleft(), BatchResult(errors.REQUEST_TIMED_OUT, -1))

    def resign(self, replica: Replica) -> None:
        """The replica no longer leads: fail the batches that wait for its high watermark."""
        while replica.purgatory:
            self._complete(replica.purgatory.popleft(), BatchResult(errors.NOT_LEADER_OR_FOLLOWER, -1))

    def empty_purgatories(self) -> Iterator[ProduceRequest]:
        """Empty the purgatories; yields a request once for each of its waiting batches."""
        for replica in self._manager.replicas.values():
            for delayed in replica.purgatory:
                yield delayed.request
            replica.purgatory.clear()

    def queued(self) -> Iterator[ProduceRequest]:
        """Requests that wait for an earlier request of the same client, or for verification of their transaction."""
        for queue in self._queues.values():
            yield from queue.waiting
        if self.verifier is not None:
            yield from self.verifier.waiting()

    def _decide(self, request: ProduceRequest, index: int, result: BatchResult) -> None:
        request.results[index] = result
        request.undecided -= 1

    def _complete(self, delayed: DelayedProduce, result: BatchResult) -> None:
        """Decide one batch of a waiting request; respond when all are decided."""
        request = delayed.request
        self._decide(request, delayed.batch_index, result)
        if request.undecided == 0:
            self._respond(request)

    def _respond(self, request: ProduceRequest) -> None:
        if request.acks == 0:
            if any(result.error for result in request.results):
                # The producer expects no response. The closed connection makes it refresh its metadata
                # (KafkaApis.handleProduceRequest).
                assert request.connection is not None
                request.connection.is_closed = True
                self._network.reset(request)
        elif not request.is_closed:
            self._reply(request)
        self._release(request.node)

    def _release(self, client: int) -> None:
        """Let the next request of this client be handled."""
        queue = self._queues.get(client)
        if queue is None:
            return
        queue.busy = bool(queue.waiting)  # requests that arrive now queue behind the waiting ones
        if queue.busy:
            self._process.loop.after(0, self._next, client)

    def _next(self, client: int) -> None:
        if self._process.defer(self._next, client):
            return
        queue = self._queues.get(client)
        if queue is not None and queue.waiting:
            self._serve(queue.waiting.popleft())
