"""A producer: sends at random intervals, batches records, retries, and reports the outcome of each record.

The outcome of a record is `ok` if a broker acknowledged it, `fail` if it was certainly never written, and `info` if an
attempt may have been. As in the Java client, a batch that is retried without idempotence goes to the front of the
queue, so it may overtake another. With idempotence, sequence numbers keep the order.
"""

from __future__ import annotations

from random import Random

from .. import errors
from ..config import MS, NEVER, SECOND
from ..network import FIRST_CLIENT
from ..partition_state import NO_LEADER
from ..producer_batch import ProducerBatch
from ..requests import ApiVersionsRequest, ProduceRequest, Request
from ..sizes import record_sizes
from .client import Client, ClientParts
from .partitioners import PARTITIONERS
from .producer_partition import ProducerPartition

TICK = 100 * MS
SETUP_TIMEOUT = 10 * SECOND  # socket.connection.setup.timeout.ms


class Producer(Client):
    """RecordAccumulator and Sender in one; the values of each partition are numbered from 0."""

    # At most 29 attributes: CPython 3.11 does not specialize method calls on objects with more.
    def __init__(self, index: int, ops: int, parts: ClientParts, rng: Random) -> None:
        super().__init__(FIRST_CLIENT + index, f"p{index}", parts)
        config = self.config
        self.index = index
        self.ops = ops
        self._rng = rng
        self._known = config.first_partitions  # partitions of the topic
        self._choose = PARTITIONERS[config.partitioner](rng, self._known, config.keys)
        self.pid = index
        self.epoch = 0  # producer epoch, raised after a gap in the sequence (KIP-360)
        self.generated = 0
        self.finished = ops == 0
        self._op = 0
        self._partitions = [ProducerPartition(number) for number in range(config.data_partitions)]
        self._in_flight: dict[int, list[ProduceRequest]] = {broker: [] for broker in self.connections}
        self._connecting: dict[int, ApiVersionsRequest] = {}
        self._outstanding = 0  # batches not yet decided
        self._sizes = record_sizes(config, self._rules.era.epochs_in_log)

    def start(self, _: None = None) -> None:
        """Request metadata and begin to send."""
        if not self.finished:
            self.refresh()
            self._generate(None)
            self.loop.after(TICK, self._tick)

    # --- the application

    def _generate(self, _: None) -> None:
        """Send one record, or a burst of them, and schedule the next."""
        config = self.config
        for _number in range(config.burst):
            if self.generated < self.ops:
                partition = self._choose(self._open_batch)
                self._add_to_batch(partition, self._begin_send(partition))
        if self.generated < self.ops:
            self.loop.after(int(self._rng.random() * 2 * config.interval), self._generate)

    def _begin_send(self, partition: int) -> int:
        """Begin the operation that sends a partition's next value, and return the number of that value."""
        number, op = self._partitions[partition].take_value(), self.generated
        self._op = op
        self.generated = op + 1
        self._history.send(self.head(op), self.index, partition, number)
        return number

    def _add_to_batch(self, partition: int, number: int) -> None:
        """Add the value that the operation sends to the partition's open batch, or to a new one."""
        now = self.loop.now
        config = self.config
        state = self._partitions[partition]
        batch = state.open_batch()
        if batch is not None and config.batch_size < NEVER and self._size(batch, 1) > config.batch_size:
            batch.is_open = False
            self._drain()
            batch = None
        if batch is None:
            batch = ProducerBatch(self.index, partition, number, now)
            state.queue.append(batch)
            self._outstanding += 1
            self.loop.after(config.linger, self._drain)
        batch.count, batch.newest = batch.count + 1, now
        batch.ops.append(self._op)
        if batch.count >= config.batch_records:
            batch.is_open = False
            self._drain()

    def _size(self, batch: ProducerBatch, more: int = 0) -> int:
        """The bytes of a batch, also with some values more."""
        return self._sizes[batch.partition].batch(self.index, batch.first, batch.count + more)

    def _open_batch(self, partition: int) -> ProducerBatch | None:
        """The batch of a partition that takes more records."""
        return self._partitions[partition].open_batch()

    # --- sending

    def _drain(self, _: None = None) -> None:
        """Send the ready batches, broker by broker, up to max.in.flight.requests.per.connection."""
        config = self.config
        blocked = list(self._connecting)
        while True:
            ready: list[ProducerBatch] = []
            broker, size = NO_LEADER, 0
            for state in self._partitions:
                if not state.queue:
                    continue
                leader = self.leaders[state.number].leader
                if leader in blocked or (broker != NO_LEADER and leader != broker):
                    continue
                batch = self._ready(state)
                if batch is None:
                    continue
                if leader == NO_LEADER:
                    self.refresh()
                    continue
                if len(self._in_flight[leader]) >= config.max_in_flight:
                    blocked.append(leader)
                    continue
                size += self._size(batch) if config.max_request_size < NEVER else 0
                if ready and size > config.max_request_size:
                    break
                broker = leader
                ready.append(batch)
            if not ready:
                return
            self._send(broker, ready)

    def _ready(self, partition: ProducerPartition) -> ProducerBatch | None:
        """The head of a partition's queue, which is not empty, if it may be sent now."""
        if self.config.max_in_flight == 1 and partition.in_flight:
            return None  # muted for all brokers: guaranteeMessageOrder, RecordAccumulator.mutePartition
        batch, now = partition.queue[0], self.loop.now
        if partition.has_gap and not self._bump_epoch(partition):
            return None
        if batch.attempts:
            is_late = batch.sequence >= 0 and partition.follows_in_flight(batch)
            return None if now < batch.retry_at or is_late else batch  # earlier sequences first
        if batch.is_open and now < batch.created + self.config.linger:
            return None
        return None if partition.needs_epoch and not self._bump_epoch(partition) else batch

    def _bump_epoch(self, partition: ProducerPartition) -> bool:
        """Number a partition's batches from 0 in a new epoch, because one before them is missing (KIP-360).

        Returns whether it did: it waits until none is in flight. Simplification: InitProducerId grants it at once.
        """
        if partition.in_flight:
            return False
        self.epoch += 1
        partition.start_epoch(self.epoch)
        return True

    def _send(self, broker: int, batches: list[ProducerBatch]) -> None:
        config = self.config
        for batch in batches:
            state = self._partitions[batch.partition]
            state.queue.popleft()
            batch.is_open = False
            batch.attempts += 1
            if config.idempotence and batch.sequence < 0:
                batch.pid, batch.producer_epoch, batch.sequence = self.pid, state.epoch, state.next_sequence
                state.next_sequence += batch.count
            if config.acks:
                state.in_flight.append(batch)
        request = self.request_from(ProduceRequest, broker, self.on_produced, self.on_closed, batches, config.acks)
        if config.acks:
            self._in_flight[broker].append(request)
        else:
            for batch in batches:
                self._complete(batch, "ok", errors.NONE, -1)

    # --- responses

    def _end_request(self, request: ProduceRequest) -> bool:
        """End a request; returns whether it was still in flight."""
        if request.is_closed or request not in self._in_flight[request.broker]:
            return False
        request.is_closed = True
        self._in_flight[request.broker].remove(request)
        for batch in request.batches:
            in_flight = self._partitions[batch.partition].in_flight
            if batch in in_flight:
                in_flight.remove(batch)
        return True

    def on_produced(self, request: ProduceRequest) -> None:
        """A broker's response."""
        if not self._end_request(request):
            return
        out_of_order = errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        for index, batch in enumerate(request.batches):
            error, base = request.results[index]
            if batch.is_done:
                continue
            state = self._partitions[batch.partition]
            if error in (errors.NONE, errors.DUPLICATE_SEQUENCE_NUMBER):
                self._on_acknowledged(batch, base)
            elif error == out_of_order and (self._retries_gaps() or state.follows_another(batch)):
                state.has_gap |= self._retries_gaps() and state.finds_gap(batch)
                self._retry(batch, error)
            elif error == errors.MESSAGE_TOO_LARGE and batch.count > 1:
                self._split(batch)
            elif error in errors.NOT_RETRIED:
                state.needs_epoch = True
                self._complete(batch, "info" if batch.ambiguous else "fail", error, -1)
            else:
                if error in (errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, errors.REQUEST_TIMED_OUT):
                    batch.ambiguous = True
                elif error == errors.NOT_LEADER_OR_FOLLOWER:
                    batch.ambiguous = True  # a leader that resigned may have appended it
                    self.refresh()
                self._retry(batch, error)
        self._drain()

    def _split(self, batch: ProducerBatch) -> None:
        """Send the halves of a batch that is too large (splitAndReenqueue since 4.0; before by size, KAFKA-8350)."""
        batch.is_done = True
        self._outstanding += 1
        for half in reversed(batch.halves()):
            self._retry(half, errors.MESSAGE_TOO_LARGE)

    def _on_acknowledged(self, batch: ProducerBatch, base: int) -> None:
        self._ledger.on_acknowledged(batch, base)
        state = self._partitions[batch.partition]
        state.acked_until = max(state.acked_until, batch.sequence + batch.count)
        self._complete(batch, "ok", errors.NONE, base)

    def _retries_gaps(self) -> bool:
        """Whether batches after a gap in the sequence are retried in a new epoch."""
        return self._rules.renumbers_after_gap()

    def on_closed(self, request: Request) -> None:
        """The connection closed: its requests get no response, and their batches may have been written.

        All requests in flight to that broker fail, oldest first (InFlightRequests.clearAll since KAFKA-5494), so
        batches without sequence numbers are queued again in reverse. With acks=0 only the metadata is refreshed."""
        if request.connection is self.connections[request.broker]:
            self._on_disconnected(request.broker)

    def _on_disconnected(self, broker: int) -> None:
        self.reconnect(broker)
        if not self.config.acks:
            self._connect(broker)
        for lost in list(self._in_flight[broker]):
            self._end_request(lost)
            for batch in lost.batches:
                if not batch.is_done:
                    batch.ambiguous = True
                    self._retry(batch, errors.NETWORK_EXCEPTION)
        self.refresh()

    def _close_connections(self) -> None:
        """Forget all batches, as the application closes the producer. What is under way may still arrive."""
        for state in self._partitions:
            for batch in (*state.queue, *state.in_flight):
                batch.is_done = True
            state.queue.clear()
            state.in_flight.clear()
        for broker, requests in self._in_flight.items():
            for request in requests:
                request.is_closed = True
            requests.clear()
            self.reconnect(broker)
        self._outstanding = 0

    def _connect(self, broker: int) -> None:
        """With acks=0, check that the broker runs (NetworkClient.ready). Simplification: not with other acks."""
        request = self._connecting[broker] = ApiVersionsRequest(
            self.node, broker, self.loop.now, self.on_connected, self.on_refused, None
        )
        self.transmit(request)
        self.refresh()

    def on_connected(self, request: ApiVersionsRequest) -> None:
        """The broker's response on the new connection."""
        if self._connecting.get(request.broker) is request:
            del self._connecting[request.broker]
            self._drain()

    def on_refused(self, request: ApiVersionsRequest) -> None:
        """The broker does not run: try again later."""
        if self._connecting.get(request.broker) is request and not self.finished:
            self.loop.after(self.config.retry_backoff, self._connect, request.broker)

    def _retry(self, batch: ProducerBatch, error: str) -> None:
        """Put a batch back for another attempt."""
        now = self.loop.now
        if batch.attempts > self.config.retries or now >= batch.created + self.config.delivery_timeout:
            self._give_up(batch, error)
            return
        batch.retry_at = now + self.config.retry_backoff
        queue = self._partitions[batch.partition].queue
        place = 0
        while place < len(queue) and 0 <= queue[place].sequence < batch.sequence:
            place += 1
        queue.insert(place, batch)
        self.loop.at(batch.retry_at, self._drain)

    def _give_up(self, batch: ProducerBatch, error: str) -> None:
        if batch.sequence >= 0:
            state = self._partitions[batch.partition]
            state.needs_epoch, state.given_up_until = True, batch.sequence + batch.count
        self._complete(batch, "info" if batch.ambiguous else "fail", error, -1)

    def _expire(self, batch: ProducerBatch) -> None:
        """Give a batch up after delivery.timeout.ms. The client's error does not show whether it was sent before."""
        batch.ambiguous = True
        self._give_up(batch, "TIMED_OUT")

    def _complete(self, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        batch.is_done = True
        self._outstanding -= 1
        self._history.sent(self.loop.now, self.name, batch, outcome, error, base)
        batch.ops = []
        if self._outstanding == 0 and self.generated >= self.ops:
            self.finished = True

    def on_leaders(self) -> None:
        """Send the batches that now have a leader; choose from the partitions that the topic has now."""
        known = self.count_partitions()
        if known > self._known:
            self._known = known
            self._choose = PARTITIONERS[self.config.partitioner](self._rng, known, self.config.keys)
        self._drain()

    def _tick(self, _: None) -> None:
        """Give up requests after request.timeout.ms, and records after delivery.timeout.ms."""
        now = self.loop.now
        if self.finished:
            return
        self.loop.after(TICK, self._tick)
        config = self.config
        if config.added_partitions and now >= self._metadata.updated_at + config.metadata_age:
            self.refresh()
        for broker, waiting in self._in_flight.items():
            # With acks=0 the socket buffer of a blocked connection is full.
            since = waiting[0].sent if waiting else now if config.acks else self.connections[broker].blocked_since
            if now - since > config.request_timeout:
                self._on_disconnected(broker)
        for broker in [b for b, request in self._connecting.items() if now - request.sent > SETUP_TIMEOUT]:
            self._connect(broker)
        for state in self._partitions:
            queue = state.queue
            while queue and now >= queue[0].created + config.delivery_timeout:
                batch = queue.popleft()
                batch.is_open = False
                self._expire(batch)
            for batch in list(state.in_flight):
                if now >= batch.created + config.delivery_timeout and not batch.is_done:
                    self._expire(batch)
            if queue and self.leaders[state.number].leader == NO_LEADER:
                self.refresh()
        self._drain()
