"""How a running broker answers: produce, fetch, epochs, metadata, offsets; and who waits for what.

Requests of one connection are handled in order, one at a time: a produce request that waits for replicas
holds up the next one of the same client, as Kafka's muted channels do.
"""

from __future__ import annotations

from typing import Any

from .process import RUNNING, Connection, Process
from .replica import Replica
from .requests import (
    DUPLICATE,
    NONE,
    NOT_AVAILABLE,
    NOT_LEADER,
    OUT_OF_ORDER,
    OUT_OF_RANGE,
    TRUNCATED,
    EpochRequest,
    FetchPart,
    FetchRequest,
    FetchResult,
    MetadataRequest,
    OffsetsRequest,
    ProduceRequest,
)


class Server(Process):
    """The request handlers (KafkaApis, ReplicaManager) and their purgatories."""

    __slots__ = ()

    def receive(self, request: Any) -> None:
        """A request arrives. A dead process refuses the connection, a dead host says nothing."""
        if self.paused:
            self._backlog.append((self.receive, request))
        elif self.state != RUNNING:
            self.refuse(request)
        elif self.disk_delay:
            # A slow disk serves one request after the other.
            self._disk_free = max(self._disk_free, self.loop.now) + self.disk_delay
            self.loop.at(self._disk_free, self._serve_late, request)
        else:
            request.serve(self)

    def refuse(self, request: Any) -> None:
        """The process is gone, and so are its connections. A host without power cannot tell."""
        if not self.host_down:
            self.network.reset(request)
        elif request.channel is not None:
            self.network.swallow(request.channel.node, request)

    def _serve_late(self, request: Any) -> None:
        if not self.delayed(self._serve_late, request):
            request.serve(self)
        elif self.state != RUNNING:
            self.refuse(request)

    def receive_produce(self, request: ProduceRequest) -> None:
        client = request.owner.node
        connection = self.connections.get(client)
        if connection is None:
            connection = self.connections[client] = Connection()
        if connection.busy:
            connection.waiting.append(request)
            return
        connection.busy = True
        self._produce(request)

    def _produce(self, request: ProduceRequest) -> None:
        """Append each batch; with acks=all wait for the high watermark in the purgatory."""
        if request.acks == 0 and request.channel.closed:
            self._release(request.owner.node)  # it was on its way when this broker closed the connection
            return
        if self.disk_full:
            self.fail_disk()
            self.network.reset(request)
            return
        waits = False
        request.deadline = self.loop.now + self.config.request_timeout
        request.left = len(request.batches)
        for index, batch in enumerate(request.batches):
            replica = self.replicas.get(batch.partition)
            if replica is None or not replica.leads:
                self._note(request, index, NOT_LEADER, -1)
                continue
            error, base = replica.append(batch, request.acks, self.cluster.next_uid())
            if error == OUT_OF_ORDER:
                state = replica.log.producers[batch.pid]
                last = state.recent[-1][1] if state.recent else -1
                self.tell_fact("out-of-order", batch.partition, batch.pid, replica.log.end, batch.sequence, last)
            if error and error != DUPLICATE:
                self._note(request, index, error, base)
                continue
            if not error:
                self.cluster.ledger.appended(batch, replica.epoch)
                self.after_append(replica)
            if request.acks != -1 or replica.hw >= base + batch.count:
                self._note(request, index, NONE, base)
            else:
                replica.purgatory.append((base + batch.count, request, index, base))
                waits = True
        if not waits:
            self._answer_produce(request)

    def after_append(self, replica: Replica) -> None:
        """New records: flush if asked to, serve those who wait for them, move the high watermark."""
        log = replica.log
        if log.end - log.recovery_point >= self.config.flush_messages:
            log.flush()
        if not replica.leads:
            return
        if self._parked:
            for follower in replica.remotes:
                waiting = self._parked.pop(follower, None)
                if waiting is not None:
                    self._answer_fetch(waiting)
        self._advance(replica)

    def _advance(self, replica: Replica) -> None:
        if replica.leads and replica.advance():
            mark = replica.hw
            self.cluster.ledger.committed(replica)
            purgatory = replica.purgatory
            while purgatory and purgatory[0][0] <= mark:
                _, request, index, base = purgatory.popleft()
                self._settle(request, index, replica.outcome(), base)
            self.wake_consumers(replica)

    def _note(self, request: ProduceRequest, index: int, error: str, base: int) -> None:
        request.results[index] = (error, base)
        request.left -= 1

    def _settle(self, request: ProduceRequest, index: int, error: str, base: int) -> None:
        """One batch of a waiting request is decided; answer when all are."""
        self._note(request, index, error, base)
        if request.left == 0:
            self._answer_produce(request)

    def _answer_produce(self, request: ProduceRequest) -> None:
        owner = request.owner
        if request.acks == 0:
            if any(error for error, _ in request.results):
                # Nobody waits for an answer, so this is how the producer hears of the error: it looks who leads now
                # (KafkaApis.handleProduceRequest).
                request.channel.closed = True
                self.network.reset(request)
        elif not request.closed:
            self.network.send(self.id, owner.node, owner.on_produced, request)
        self._release(owner.node)

    def _release(self, client: int) -> None:
        """The next request of this client may be handled."""
        connection = self.connections.get(client)
        if connection is None:
            return
        connection.busy = bool(connection.waiting)  # what arrives now stays behind those that wait
        if connection.busy:
            self.loop.at(self.loop.now, self._next_produce, client)

    def _next_produce(self, client: int) -> None:
        if self.delayed(self._next_produce, client):
            return
        connection = self.connections.get(client)
        if connection is not None and connection.waiting:
            self._produce(connection.waiting.popleft())

    def receive_fetch(self, request: FetchRequest) -> None:
        """Note a follower's progress, then answer with what there is or park the request."""
        if request.closed:
            return
        follower = request.follower
        if follower < 0:
            self._consumer_fetch(request)
            return
        urgent = self._read_all(request)
        for part, result in zip(request.parts, request.results, strict=True):
            if result[1]:
                continue
            replica = self.replicas[part[0]]
            remote = replica.note_fetch(follower, part[1], part[4], self.wall())
            if remote is None:
                continue
            if follower not in replica.isr:
                self.expand(replica, follower)
            self._advance(replica)
        if urgent:
            self.network.send(self.id, follower, request.owner.on_fetched, request)
        else:
            request.deadline = self.loop.now + self.config.fetch_wait_max
            self._parked[follower] = request

    def _read_all(self, request: FetchRequest) -> bool:
        """Fill in the answer from the log as it is now; say whether there is anything to tell."""
        results: list[FetchResult] = []
        urgent = False
        for part in request.parts:
            result = self._read(part, request.follower, request.limit)
            if result[1] or result[2]:
                urgent = True
            results.append(result)
        request.results = results
        return urgent

    def _read(self, part: FetchPart, follower: int, limit: int) -> FetchResult:
        partition, offset, epoch, last_epoch, _ = part
        replica = self.replicas.get(partition)
        if replica is None or (not replica.leads and (follower >= 0 or not self.rules.reads_followers)):
            return (partition, NOT_LEADER, [], -1, -1, -1)
        error = self.rules.check_epoch(replica, epoch) if epoch >= 0 else NONE
        log = replica.log
        if error:
            return (partition, error, [], -1, -1, -1)
        if follower < 0 and last_epoch >= 0 and self.rules.consumers_validate:
            # The log first: a position beyond the leader's end is where the logs part, not out of range (KIP-320).
            # Simplification: it is validated with each fetch, not by a request of its own.
            found, end = log.end_of_epoch(last_epoch)
            if 0 <= end < offset:
                return (partition, TRUNCATED, [], end, log.start, found)
        if offset > log.end or offset < log.start:
            if not replica.leads and offset > log.end:
                return (partition, NOT_AVAILABLE, [], -1, -1, -1)
            return (partition, OUT_OF_RANGE, [], log.end, log.start, -1)
        below = log.end if follower >= 0 else replica.hw
        batches = log.read(offset, limit, below) if offset < below else []
        return (partition, NONE, batches, replica.hw, log.start, replica.epoch_start)

    def _answer_fetch(self, request: FetchRequest) -> None:
        if request.closed:
            return
        self._read_all(request)
        self.network.send(self.id, request.node, request.owner.on_fetched, request)

    def _consumer_fetch(self, request: FetchRequest) -> None:
        if self._read_all(request):
            self.network.send(self.id, request.node, request.owner.on_fetched, request)
            return
        request.deadline = self.loop.now + self.config.fetch_wait_max
        for part in request.parts:
            self._parked_consumers.setdefault(part[0], []).append(request)

    def _unpark_consumer(self, request: FetchRequest) -> None:
        for part in request.parts:
            waiting = self._parked_consumers.get(part[0])
            if waiting and request in waiting:
                waiting.remove(request)

    def wake_consumers(self, replica: Replica) -> None:
        """The high watermark moved, so consumers that wait for it may have something to read."""
        if self._parked_consumers.get(replica.partition):
            self._wake_readers(replica.partition)

    def _wake_readers(self, partition: int) -> None:
        for request in list(self._parked_consumers.get(partition, ())):
            self._unpark_consumer(request)
            self._answer_fetch(request)

    def receive_epochs(self, request: EpochRequest) -> None:
        """OffsetsForLeaderEpoch."""
        if request.closed:
            return
        for partition, current, asked in request.parts:
            replica = self.replicas.get(partition)
            if replica is None or not replica.leads:
                request.results.append((partition, NOT_LEADER, -1, -1))
                continue
            error = self.rules.check_epoch(replica, current)
            if error:
                request.results.append((partition, error, -1, -1))
                continue
            epoch, end = self.rules.answer_epoch(replica.log, asked)
            request.results.append((partition, NONE, epoch, end))
        owner = request.owner
        self.network.send(self.id, owner.broker.id, owner.on_epochs, request)

    def receive_metadata(self, request: MetadataRequest) -> None:
        request.leaders = [
            (state.leader, state.epoch, state.isr)
            for state in (self.metadata.get(p) for p in range(self.config.partitions))
            if state is not None
        ]
        owner = request.owner
        self.network.send(self.id, owner.node, owner.on_metadata, request)

    def receive_offsets(self, request: OffsetsRequest) -> None:
        hides = self.rules.hides_lagging_mark
        request.offsets = {
            partition: (replica.log.start, -1 if hides and replica.hw < replica.epoch_start else replica.hw)
            for partition, replica in self.replicas.items()
            if replica.leads
        }
        owner = request.owner
        self.network.send(self.id, owner.node, owner.on_offsets, request)

    def answers(self) -> bool:
        return self.state == RUNNING and not self.paused

    def vote(self, partition: int, epoch: int) -> tuple[int, int] | None:
        """Say how up to date a replica is, and stop following whoever led before `epoch`."""
        replica = self.replicas.get(partition)
        if replica is None or replica.epoch >= epoch:
            return None
        for fetcher in self.fetchers.values():
            fetcher.remove(partition)
        return replica.log_view, replica.log.end

    def delete_records(self, partition: int, offset: int) -> None:
        """DeleteRecords on the leader: the log start moves up, never beyond the high watermark."""
        replica = self.replicas.get(partition)
        if replica is not None and replica.leads and self.state == RUNNING:
            replica.log.advance_start(min(offset, replica.hw))
            replica.low_watermark = replica.lowest_start()
