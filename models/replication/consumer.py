"""A consumer with partitions assigned by hand: polls, prefetches, resets its offset, commits before or after.

A partition is fetched again once its earlier records were handed to the application, as the Java client
does. Groups are not modelled yet: a committed offset belongs to the consumer's name, and the coordinator
never fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .batches import Batch
from .client import Client
from .config import MS, SECOND
from .requests import NOT_AVAILABLE, OUT_OF_RANGE, TRUNCATED, FetchPart, FetchRequest, OffsetsRequest
from .state import NO_LEADER

if TYPE_CHECKING:
    from .cluster import Cluster

TICK = 100 * MS


class Consumer(Client):
    """Polls one after the other; what a poll returns is recorded, then handled, then the next poll begins."""

    __slots__ = (
        "_buffer",
        "_fetching",
        "_listing",
        "_op",
        "_poll_deadline",
        "_poll_op",
        "_poll_seen",
        "_polling",
        "_reset",
        "_retry_at",
        "alive",
        "config",
        "fetch_limit",
        "finished",
        "goal",
        "index",
        "last_epoch",
        "life",
        "position",
    )

    def __init__(self, cluster: Cluster, node: int, index: int, name: str) -> None:
        super().__init__(cluster, node, name)
        self.index = index
        self.fetch_limit: int = cluster.config.fetch_max_batches
        self.config = cluster.config
        self.alive = False
        self.life = 0
        self.finished = False
        self.goal: dict[int, int] = {}  # a final reader stops there
        self.position: dict[int, int] = {}
        self.last_epoch: dict[int, int] = {}
        self._op = 0
        self._clear()

    def _clear(self) -> None:
        self._buffer: dict[int, list[Batch]] = {}
        self._fetching: dict[int, FetchRequest] = {}
        self._reset: list[int] = []  # partitions whose position must be asked for
        self._listing: OffsetsRequest | None = None
        self._polling = False
        self._poll_op = 0
        self._poll_deadline = 0
        self._poll_seen: dict[int, int] = {}
        self._retry_at = 0

    def next_op(self) -> int:
        self._op += 1
        return self._op

    def start(self, _: None = None) -> None:
        """Assign all partitions: at the committed offset, else by auto.offset.reset."""
        self.alive = True
        self.life += 1
        self._clear()
        self.refresh()
        config = self.config
        committed = self.cluster.commits.get(self.name, {})
        given: list[tuple[int, int | None]] = []
        for partition in range(config.partitions):
            offset = committed.get(partition)
            if offset is None and (config.offset_reset == "earliest" or self.goal):
                offset = 0
            given.append((partition, offset))
            self.position[partition] = offset or 0
            self.last_epoch[partition] = -1
            if offset is None:
                self._reset.append(partition)
        history = self.cluster.history
        if history is not None:
            history.assign(self.loop.now, self.name, self.next_op(), given)
        self._begin_poll()
        self.loop.at(self.loop.now + TICK, self._tick, self.life)

    def caught_up(self) -> bool:
        """Is it at the end of everything, or dead?"""
        ends = self.cluster.logs()
        return not self.alive or all(e is not None and self.position[p] >= e[1] for p, e in enumerate(ends))

    def crash(self) -> None:
        """The process dies between two lines of its application."""
        if not self.alive:
            return
        self.alive = False
        for request in self._fetching.values():
            request.closed = True
        for broker in self.channels:
            self.hang_up(broker)
        history = self.cluster.history
        if history is not None:
            history.crash(self.loop.now, self.name, self.next_op())

    # --- the application

    def _begin_poll(self, life: int | None = None) -> None:
        if not self.alive or self.finished or (life is not None and life != self.life):
            return
        now = self.loop.now
        self._polling = True
        self._poll_op = self.next_op()
        self._poll_deadline = now + self.config.poll_timeout
        self._poll_seen = dict(self.cluster.ledger.acknowledged_end)
        history = self.cluster.history
        if history is not None:
            history.poll(now, self.name, self._poll_op)
        self._fetch()
        if self._buffer:
            self._end_poll()

    def _end_poll(self) -> None:
        """Hand out what is buffered, up to max.poll.records, and go on fetching meanwhile."""
        left = self.config.max_poll_records
        given: list[tuple[int, Batch]] = []
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
                given.append((partition, batch))
                self.position[partition] = batch.end
                self.last_epoch[partition] = batch.epoch
            if not batches:
                del self._buffer[partition]
        self._polling = False
        now = self.loop.now
        ledger = self.cluster.ledger
        for partition, batch in given:
            ledger.read(self.name, partition, batch)
        if not given:
            ledger.polled_nothing(self, self._poll_seen, now)
        history = self.cluster.history
        if history is not None:
            history.polled(now, self.name, self._poll_op, given)
        if self.goal and all(self.position[p] >= end for p, end in self.goal.items()):
            self.finished = True
            self.cluster.on_final_read()
            return
        self._fetch()
        self._after_poll(given)

    def _after_poll(self, given: list[tuple[int, Batch]]) -> None:
        """Commit and handle, in the order that the application chose."""
        config = self.config
        now = self.loop.now
        if config.commit == "none" or self.goal or not given:
            if config.handle_time and given and not self.goal:
                self.loop.at(now + config.handle_time, self._begin_poll, self.life)
            elif self._buffer:
                self.loop.at(now, self._begin_poll, self.life)
            else:
                self._begin_poll()
            return
        if config.commit == "before":
            self._commit()
        self.loop.at(now + config.handle_time, self._handled, (self.life, given))

    def _handled(self, argument: tuple[int, list[tuple[int, Batch]]]) -> None:
        life, given = argument
        if not self.alive or life != self.life:
            return
        self.cluster.ledger.handled(self.name, given)
        history = self.cluster.history
        if history is not None:
            history.handle(self.loop.now, self.name, self.next_op(), given)
        if self.config.commit == "after":
            self._commit()
        self._begin_poll()

    def _commit(self) -> None:
        """Commit the positions. Simplification: the coordinator answers at once."""
        self.cluster.commits[self.name] = dict(self.position)
        history = self.cluster.history
        if history is not None:
            history.commit(self.loop.now, self.name, self.next_op(), sorted(self.position.items()))

    # --- fetching

    def _fetch(self) -> None:
        """One fetch for each broker that has something to be fetched and none under way."""
        now = self.loop.now
        if now < self._retry_at:
            return
        if self._reset:
            self._list_offsets()
        wanted: dict[int, list[FetchPart]] = {}
        rules = self.cluster.rules
        for partition in range(self.config.partitions):
            if partition in self._buffer or partition in self._reset:
                continue
            leader, epoch, isr = self.leaders[partition]
            if leader == NO_LEADER:
                self.refresh()
                continue
            source = leader if self.goal else rules.read_from(self.index, leader, isr)
            if source in self._fetching:
                continue
            known = epoch if rules.consumers_validate else -1
            part = (partition, self.position[partition], known, self.last_epoch[partition], 0)
            wanted.setdefault(source, []).append(part)
        for source in sorted(wanted):
            request = FetchRequest(self, self.node, source, -1, wanted[source], now, self.channels[source])
            self._fetching[source] = request
            self.network.send(self.node, source, self.cluster.brokers[source].receive, request)

    def on_fetched(self, request: FetchRequest) -> None:
        """Buffer what came; a poll that waits for it returns."""
        if request.closed or self._fetching.get(request.broker) is not request or not self.alive:
            return
        del self._fetching[request.broker]
        failed = False
        for index, result in enumerate(request.results):
            partition, error, batches, offset, _, epoch = result
            if request.parts[index][1] != self.position[partition] or partition in self._buffer:
                continue
            if error == TRUNCATED:
                # The 4.x client goes back to where the logs part, without a word to the application, and asks from
                # there by the epoch that the leader found (SubscriptionState.maybeCompleteValidation).
                self.cluster.ledger.reset(self.name, partition, self.position[partition], offset)
                self.position[partition] = offset
                self.last_epoch[partition] = epoch
            elif error == OUT_OF_RANGE:
                if partition not in self._reset:
                    self._reset.append(partition)
            elif error:
                failed = True
                if error != NOT_AVAILABLE:
                    self.refresh()
            elif batches:
                self._buffer[partition] = list(batches)
        if failed:
            self._retry_at = self.loop.now + self.config.retry_backoff
            return
        if self._polling and self._buffer:
            self._end_poll()
        else:
            self._fetch()

    def on_broken(self, request: FetchRequest | OffsetsRequest) -> None:
        """The connection broke, for all that was asked on it: ask who leads, and try again a little later."""
        broker = request.broker
        if request.channel is not self.channels[broker]:
            return
        self.hang_up(broker)
        if self._listing is not None and self._listing.broker == broker:
            self._listing.closed = True
            self._listing = None
        if (fetch := self._fetching.pop(broker, None)) is not None:
            fetch.closed = True
        self._retry_at = self.loop.now + self.config.retry_backoff
        self.refresh()

    def _list_offsets(self) -> None:
        """Ask one leader for the ends of its partitions (auto.offset.reset)."""
        if self._listing is not None:
            return
        leader = self.leaders[self._reset[0]][0]
        if leader == NO_LEADER:
            self.refresh()
            return
        self._listing = OffsetsRequest(self, leader, self.loop.now)
        self.network.send(self.node, leader, self.cluster.brokers[leader].receive, self._listing)

    def on_offsets(self, request: OffsetsRequest) -> None:
        if request is not self._listing:
            return
        self._listing = None
        latest = self.config.offset_reset == "latest" and not self.goal
        targets = {p: end if latest else start for p, (start, end) in request.offsets.items()}
        if not any(targets.get(partition, -1) >= 0 for partition in self._reset):
            self._retry_at = self.loop.now + self.config.retry_backoff
            self.refresh()
            return
        for partition in list(self._reset):
            target = targets.get(partition, -1)
            if target >= 0:
                self.cluster.ledger.reset(self.name, partition, self.position[partition], target)
                self.position[partition] = target
                self.last_epoch[partition] = -1
                self._reset.remove(partition)
        self._fetch()

    def on_leaders(self) -> None:
        if self.alive and self._polling:
            self._fetch()

    def _tick(self, life: int) -> None:
        """End polls that found nothing, and give up on requests that nobody answers."""
        if not self.alive or self.finished or life != self.life:
            return
        now = self.loop.now
        self.loop.at(now + TICK, self._tick, life)
        patience = min(self.config.request_timeout, 30 * SECOND)
        for request in [r for r in self._fetching.values() if now - r.sent > patience]:
            self.on_broken(request)
        if self._listing is not None and now - self._listing.sent > patience:
            self.on_broken(self._listing)
        if self._polling:
            if self._buffer or now >= self._poll_deadline:
                self._end_poll()
            else:
                self._fetch()
