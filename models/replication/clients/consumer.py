"""A consumer that assigns itself its partitions: polls, prefetches, resets offsets, commits before or after handling.

As the Java client, it fetches a partition again once the application got the earlier records. Committed offsets belong
to the consumer's name (coordinators/offsets.py); members of a group are in group_consumer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from .. import errors
from ..config import MS, SECOND
from ..coordinators.offsets import OffsetCoordinator
from ..partition_state import NO_LEADER
from ..ports import OffsetRange, Records
from ..requests import FetchPart, FetchRequest, OffsetsRequest, PartitionLeader, Request
from ..storage.batches import Batch
from ..storage.transactions import readable
from .client import Client, ClientParts

TICK = 100 * MS
KILLED, CLOSED = "killed", "closed"  # why a process ended


@dataclass(frozen=True, slots=True)
class ConsumerParts:
    """What a consumer is made of. `on_goal` is called when it has read all that it waits for."""

    node: int
    index: int
    name: str
    client: ClientParts
    coordinator: OffsetCoordinator
    on_goal: Callable[[], None]


class Consumer(Client):
    """Polls repeatedly: the records of a poll are recorded, then handled, then the next poll begins."""

    def __init__(self, parts: ConsumerParts) -> None:
        super().__init__(parts.node, parts.name, parts.client)
        self.assigned: Sequence[int] = range(self.config.partitions)
        self.index = parts.index
        self.committed = self.config.isolation == "read_committed"
        self._has_gaps = self.config.transactional or self.config.compacts
        self._coordinator = parts.coordinator
        self._on_goal = parts.on_goal
        self._max_bytes = self.config.consumer_max_bytes
        self.alive = False
        self.incarnation = 0
        self.finished = False
        self.goal: dict[int, int] = {}  # the final reader stops at these offsets
        self.position: dict[int, int] = {}
        self.last_epoch: dict[int, int] = {}
        self._op = 0
        self._clear()

    def _clear(self) -> None:
        self._buffer: dict[int, list[Batch]] = {}
        self._fetching: dict[int, FetchRequest] = {}
        self._reset: list[int] = []  # partitions that need a position by ListOffsets
        self._listing: OffsetsRequest | None = None
        self._polling = False
        self._poll_op = 0
        self._poll_deadline = 0
        self._poll_acknowledged: dict[int, int] = {}
        self._retry_at = 0
        self._seek_to: int | None = None
        self.under_way: Records = []  # polled, and the application has not handled them yet

    def _is_running(self, incarnation: int | None) -> bool:
        """Whether the process that scheduled an action still runs; None: the present one."""
        return self.alive and incarnation in (None, self.incarnation)

    def next_op(self) -> int:
        """The number of this process's next operation."""
        self._op += 1
        return self._op

    def start(self, _: None = None) -> None:
        """Assign all partitions: at the committed offset, else by auto.offset.reset."""
        self.alive = True
        self.incarnation += 1
        self._clear()
        self.refresh()
        assigned = [(p, self._go_to(p, *self._coordinator.committed(self.name, p))) for p in self.assigned]
        self._history.assign(self.head(self.next_op()), assigned)
        self._begin_poll()
        self.loop.after(TICK, self._tick, self.incarnation)

    def _go_to(self, partition: int, committed: int | None, epoch: int) -> int | None:
        """Read a partition from its committed offset on; without one by auto.offset.reset, which may take a request.

        A leader of an older epoch than the offset's may lack the records before it. So the known leader is dropped
        until the metadata has that epoch (Metadata.updateLastSeenEpochIfNewer).
        """
        is_earliest = self.config.offset_reset == "earliest" or bool(self.goal)
        offset = 0 if committed is None and is_earliest else committed
        self.position[partition], self.last_epoch[partition] = offset or 0, epoch
        if offset is None:
            self._reset.append(partition)
        if epoch > self.leaders[partition].epoch:
            self.leaders[partition] = PartitionLeader(NO_LEADER, epoch, ())
            self.refresh()
        return offset

    def has_caught_up(self, ranges: Sequence[OffsetRange | None]) -> bool:
        """Whether it is at the ends of these logs (None: no leader), or dead."""
        return not self.alive or all(r is not None and self.position[p] >= r.end for p, r in enumerate(ranges))

    def crash(self, reason: str = KILLED) -> None:
        """The process dies."""
        if not self.alive:
            return
        self.alive = False
        for request in self._fetching.values():
            request.is_closed = True
        for broker in self.connections:
            self.reconnect(broker)
        self._history.crash(self.head(self.next_op()), reason)

    # --- the application

    def _begin_poll(self, incarnation: int | None = None) -> None:
        if self.finished or not self._is_running(incarnation):
            return
        if self._seek_to is not None:
            self._seek(self._seek_to)
        self._wait_for_records()
        self._fetch()
        if self._buffer:
            self._end_poll()

    def _wait_for_records(self) -> None:
        """Begin a poll. Its fetch requests are in flight, or are sent next."""
        self._polling = True
        self._poll_op = self.next_op()
        self._poll_deadline = self.loop.now + self.config.poll_timeout
        self._poll_acknowledged = dict(self._ledger.acknowledged_end)
        self._history.poll(self.head(self._poll_op))

    def seek(self, offset: int) -> None:
        """Continue at this offset of each partition, from the next poll on (KafkaConsumer.seek)."""
        self._seek_to = offset

    def _seek(self, offset: int) -> None:
        self._seek_to = None
        self._reset = []
        for partition in self.assigned:
            self.position[partition], self.last_epoch[partition] = offset, -1
            self._buffer.pop(partition, None)
        self._history.seek(self.head(self.next_op()), [(partition, offset) for partition in self.assigned])

    def _end_poll(self) -> None:
        """Return the buffered records, up to max.poll.records, and continue to fetch."""
        left = self.config.max_poll_records
        records: Records = []
        for partition in sorted(self._buffer):
            batches = self._buffer[partition]
            while batches and left > 0:
                batch = batches.pop(0)
                count = batch.end - batch.base
                if count > left:
                    batches.insert(0, batch.cut(batch.base + left, batch.end))
                    batch = batch.cut(batch.base, batch.base + left)
                    count = left
                left -= count
                records.append((partition, batch))
                self.position[partition] = batch.end
                self.last_epoch[partition] = batch.epoch
            if not batches:
                del self._buffer[partition]
        self._polling = False
        ledger = self._ledger
        for partition, batch in records:
            ledger.on_polled(self.name, partition, batch)
        if not records and not self.goal and not self._has_gaps:
            own = {partition: self.position[partition] for partition in self.assigned}
            ledger.on_empty_poll(self.name, own, self._poll_acknowledged)
        self._history.polled(self.head(self._poll_op), records)
        self.under_way = records
        if self.goal and all(self.position[p] >= end for p, end in self.goal.items()):
            self.finished = True
            self._on_goal()
            return
        self._fetch()
        self._after_poll(records)

    def _after_poll(self, records: Records) -> None:
        """Commit and handle, in the order that the application chose."""
        config = self.config
        if config.commit == "none" or self.goal or not records:
            if config.handle_time and records and not self.goal:
                self.loop.after(config.handle_time, self._begin_poll, self.incarnation)
            elif self._buffer:
                self.loop.after(0, self._begin_poll, self.incarnation)
            elif self._seek_to is not None:
                self._begin_poll()
            else:
                self._wait_for_records()
            return
        if config.commit == "before":
            self._send_commit(lambda: self._handle_later(records))
        else:
            self._handle_later(records)

    def _handle_later(self, records: Records) -> None:
        self.loop.after(self.config.handle_time, self._on_handled, (self.incarnation, records))

    def _on_handled(self, argument: tuple[int, Records]) -> None:
        incarnation, records = argument
        if not self._is_running(incarnation):
            return
        self._add_handled(records)
        self._history.handle(self.head(self.next_op()), records)
        if self.config.commit in ("after", "async"):
            self._send_commit(self._begin_poll)
        else:
            self._begin_poll()

    def _add_handled(self, records: Records) -> None:
        self.under_way = []
        self._ledger.on_handled(self.name, records)

    def _send_commit(self, then: Callable[[], None]) -> None:
        """Commit the positions, then call `then`."""
        self._coordinator.commit(self.name, self.position, self._epochs_of(self.position))
        self._history.commit(self.head(self.next_op()), sorted(self.position.items()))
        then()

    def _epochs_of(self, partitions: Iterable[int]) -> dict[int, int]:
        """The leader epochs to commit with the positions: those of the last records before them (KIP-320)."""
        return {p: self.last_epoch[p] for p in partitions} if self._rules.era.consumers_validate else {}

    # --- fetching

    def _fetch(self) -> None:
        """Send a fetch to each broker that leads partitions to fetch and has none in flight."""
        now = self.loop.now
        if now < self._retry_at:
            return
        if self._reset:
            self._list_offsets()
        wanted: dict[int, list[FetchPart]] = {}
        rules, buffer, reset = self._rules, self._buffer, self._reset
        for partition in self.assigned:
            if partition in buffer or partition in reset:
                continue
            known = self.leaders[partition]
            if known.leader == NO_LEADER:
                self.refresh()
                continue
            source = known.leader if self.goal else rules.read_replica(self.index, known.leader, known.isr)
            if source in self._fetching:
                continue
            epoch = known.epoch if rules.era.consumers_validate else -1
            part = FetchPart(partition, self.position[partition], epoch, self.last_epoch[partition], 0)
            wanted.setdefault(source, []).append(part)
        for source in sorted(wanted):
            self._fetching[source] = self.request_from(
                FetchRequest,
                source,
                self.on_fetched,
                self.on_closed,
                *(-1, self.config.fetch_max_batches, wanted[source]),
                aborted={} if self.committed else None,
                max_bytes=self._max_bytes,
            )

    def on_fetched(self, request: FetchRequest) -> None:
        """Buffer the records; a poll that waits for them returns."""
        if request.is_closed or self._fetching.get(request.broker) is not request or not self.alive:
            return
        del self._fetching[request.broker]
        failed = False
        for part in request.parts:
            partition, error = part.partition, part.error
            if part.offset != self.position[partition] or partition in self._buffer:
                continue
            if partition not in self.assigned:
                continue  # it was taken away meanwhile
            if error == errors.LOG_TRUNCATION:
                # The 4.x client silently goes back to where the logs diverge, and continues with the epoch that the
                # leader found (SubscriptionState.maybeCompleteValidation).
                self._ledger.on_reset(self.name, partition, self.position[partition], part.diverging.end)
                self.position[partition] = part.diverging.end
                self.last_epoch[partition] = part.diverging.epoch
            elif error == errors.OFFSET_OUT_OF_RANGE:
                if partition not in self._reset:
                    self._reset.append(partition)
            elif error:
                failed = True
                if error != errors.OFFSET_NOT_AVAILABLE:
                    self.refresh()
            elif part.batches:
                batches = self._skip_hidden(request, partition, part.batches) if self._has_gaps else part.batches
                if batches:
                    self._buffer[partition] = list(batches)
        if failed:
            self._retry_at = self.loop.now + self.config.retry_backoff
            return
        if self._polling and self._buffer:
            self._end_poll()
        else:
            self._fetch()

    def _skip_hidden(self, request: FetchRequest, partition: int, batches: list[Batch]) -> list[Batch]:
        """The batches for the application; if there are none, the position skips the others."""
        found = readable(batches, None if request.aborted is None else request.aborted.get(partition))
        if not found:
            self.position[partition] = batches[-1].end
            self.last_epoch[partition] = batches[-1].epoch
        return found

    def on_closed(self, request: Request) -> None:
        """The connection closed, with every request on it: refresh the leaders, and retry later."""
        broker = request.broker
        if request.connection is not self.connections[broker]:
            return
        self.reconnect(broker)
        if self._listing is not None and self._listing.broker == broker:
            self._listing.is_closed = True
            self._listing = None
        if (fetch := self._fetching.pop(broker, None)) is not None:
            fetch.is_closed = True
        self._retry_at = self.loop.now + self.config.retry_backoff
        self.refresh()

    def _list_offsets(self) -> None:
        """Request the offsets of one leader's partitions (auto.offset.reset)."""
        if self._listing is not None:
            return
        leader = self.leaders[self._reset[0]].leader
        if leader == NO_LEADER:
            self.refresh()
            return
        self._listing = self.request_from(OffsetsRequest, leader, self.on_offsets, self.on_closed)

    def on_offsets(self, request: OffsetsRequest) -> None:
        """Set the positions that need a reset."""
        if request is not self._listing:
            return
        self._listing = None
        latest = self.config.offset_reset == "latest" and not self.goal
        targets = {p: known.end if latest else known.start for p, known in request.offsets.items()}
        if not any(targets.get(partition, -1) >= 0 for partition in self._reset):
            self._retry_at = self.loop.now + self.config.retry_backoff
            self.refresh()
            return
        for partition in list(self._reset):
            target = targets.get(partition, -1)
            if target >= 0:
                self._ledger.on_reset(self.name, partition, self.position[partition], target)
                self.position[partition] = target
                self.last_epoch[partition] = -1
                self._reset.remove(partition)
        self._fetch()

    def on_leaders(self) -> None:
        """Fetch from the new leaders."""
        if self.alive and self._polling:
            self._fetch()

    def _tick(self, incarnation: int) -> None:
        """End polls at their deadline, and give up requests without a response."""
        if self.finished or not self._is_running(incarnation):
            return
        now = self.loop.now
        self.loop.after(TICK, self._tick, incarnation)
        timeout = min(self.config.request_timeout, 30 * SECOND)
        for request in [r for r in self._fetching.values() if now - r.sent > timeout]:
            self.on_closed(request)
        if self._listing is not None and now - self._listing.sent > timeout:
            self.on_closed(self._listing)
        if self._polling:
            if self._buffer or now >= self._poll_deadline:
                self._end_poll()
            else:
                self._fetch()
