"""A follower's fetcher: one for each leader, one request in flight, all partitions that follow this leader
in it.

On a new leader epoch a partition is first truncated, by its high watermark or by asking for epochs, as the
rules say, and only then fetched. Simplification: it asks in all versions, though since 2.7 (KIP-595) a follower
fetches at once and the answer to its fetch says where the logs part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .network import Channel
from .requests import (
    FENCED,
    NONE,
    OUT_OF_RANGE,
    UNKNOWN_EPOCH,
    EpochRequest,
    FetchPart,
    FetchRequest,
    FetchResult,
)

if TYPE_CHECKING:
    from .broker import Broker
    from .replica import Replica


class Fetcher:
    """ReplicaFetcherThread: truncate, fetch, append, tell the high watermark, again."""

    __slots__ = (
        "asking",
        "broker",
        "channel",
        "closed",
        "fetch_limit",
        "fetching",
        "leader",
        "request",
        "wait_until",
    )

    def __init__(self, broker: Broker, leader: int) -> None:
        self.broker = broker
        self.leader = leader
        self.channel: Channel = Channel(broker.id)
        self.fetch_limit: int = broker.config.fetch_max_batches
        self.asking: dict[int, int] = {}  # partitions to truncate: the epoch to ask for
        self.fetching: list[int] = []
        self.request: FetchRequest | EpochRequest | None = None
        self.wait_until = 0  # replica.fetch.backoff.ms after an error
        self.closed = False

    def close(self) -> None:
        """The broker stops; answers under way no longer count."""
        self.closed = True
        self.broker.network.hang_up(self.channel)
        if self.request is not None:
            self.request.closed = True

    def add(self, replica: Replica) -> None:
        """Follow this leader in a new epoch."""
        partition = replica.partition
        self.remove(partition)
        offset = self.broker.rules.truncate_at_once(replica)
        if offset is not None:
            self.broker.truncate(replica, offset, "high-watermark", ())
            self._follow(replica)
        else:
            self.asking[partition] = replica.log.last_epoch
        # A request under way for the older epoch must not be believed for this partition; it is asked again.
        if self.request is not None:
            self.request.closed = True
            self.request = None
        self.step()

    def remove(self, partition: int) -> None:
        self.asking.pop(partition, None)
        if partition in self.fetching:
            self.fetching.remove(partition)

    def _follow(self, replica: Replica) -> None:
        self.asking.pop(replica.partition, None)
        self.fetching.append(replica.partition)
        self.broker.tell_fact("fetching", replica.partition, self.leader, replica.log.end, replica.epoch)

    def step(self, _: None = None) -> None:
        """Send the next request, if none is under way."""
        broker = self.broker
        now = broker.loop.now
        if self.closed or self.request is not None or now < self.wait_until:
            return
        if self.asking:
            asked = [(p, broker.replicas[p].epoch, epoch) for p, epoch in self.asking.items()]
            ask = EpochRequest(self, self.leader, asked, now)
            self.request = ask
            broker.send(self.leader, ask)
        elif self.fetching:
            parts: list[FetchPart] = []
            for partition in self.fetching:
                replica = broker.replicas[partition]
                log = replica.log
                parts.append((partition, log.end, replica.epoch, log.last_epoch, log.start))
            fetch = FetchRequest(self, broker.id, self.leader, broker.id, parts, now, self.channel)
            self.request = fetch
            broker.send(self.leader, fetch)

    def back_off(self) -> None:
        """Wait before the next request (replica.fetch.backoff.ms)."""
        broker = self.broker
        self.wait_until = broker.loop.now + broker.config.fetch_backoff
        broker.loop.at(self.wait_until, self.step)

    def on_broken(self, request: FetchRequest | EpochRequest) -> None:
        """The connection broke, be it with a request that nobody waits for any more."""
        if request.channel is not self.channel or self.closed:
            return
        self.broker.network.hang_up(self.channel)
        self.channel = Channel(self.broker.id)
        if self.request is not None:
            self.request.closed = True
            self.request = None
            self.back_off()

    def tick(self, now: int) -> None:
        """Give up on a request that nobody answered (replica.socket.timeout.ms)."""
        request = self.request
        if request is not None and now - request.sent > self.broker.config.socket_timeout:
            self.on_broken(request)

    def on_epochs(self, request: EpochRequest) -> None:
        """The leader said where our last epoch ends in its log."""
        broker = self.broker
        if broker.delayed(self.on_epochs, request) or request is not self.request or self.closed:
            return
        self.request = None
        failed = False
        for partition, error, epoch, end in request.results:
            if partition not in self.asking:
                continue
            replica = broker.replicas[partition]
            if error:
                failed = True
                continue
            cut, done = broker.rules.truncate_by_epoch(replica, epoch, end)
            by = "epoch" if end >= 0 else "high-watermark"
            broker.truncate(replica, cut, by, (epoch, end))
            if done:
                self._follow(replica)
            else:
                self.asking[partition] = replica.log.last_epoch
        if failed:
            self.back_off()
        else:
            self.step()

    def on_fetched(self, request: FetchRequest) -> None:
        """Append what came, take over the high watermark, fetch again."""
        broker = self.broker
        if request is not self.request or self.closed or broker.delayed(self.on_fetched, request):
            return
        self.request = None
        failed = False
        for result in request.results:
            if result[0] not in self.fetching:
                continue  # it has another leader by now
            if result[1]:
                failed = self._on_error(result) or failed
            else:
                self._take(result)
        if self.closed:
            return
        if failed:
            self.back_off()
        else:
            self.step()

    def _take(self, result: FetchResult) -> None:
        partition, _, batches, mark, start, epoch_start = result
        broker = self.broker
        replica = broker.replicas[partition]
        log = replica.log
        if batches:
            if broker.disk_full:
                broker.fail_disk()
                return
            for batch in batches:
                # A batch that does not continue the log belongs to an answer from before a truncation.
                if batch.base != log.end:
                    break
                log.append(batch)
            broker.after_append(replica)
        if start > log.start:
            log.advance_start(start)
        if replica.log_view != replica.epoch and log.end >= epoch_start:
            replica.log_view = replica.epoch
        new = mark if mark < log.end else log.end
        if new != replica.hw:
            # The follower's mark may go back: it is whatever the leader says (Log.updateHighWatermark).
            replica.hw = new
            broker.wake_consumers(replica)

    def _on_error(self, result: FetchResult) -> bool:
        """Say whether to back off."""
        partition, error, _, _, start, _ = result
        broker = self.broker
        replica = broker.replicas[partition]
        broker.tell_fact("fetch-error", partition, self.leader, error, replica.log.end)
        if error == OUT_OF_RANGE:
            end = result[3]  # the leader's log end, asked for by ListOffsets; simplification: it comes with the error
            if end < replica.log.end:
                # Old brokers with unclean elections disabled halted here; simplification: they truncate.
                broker.truncate(replica, end, "out-of-range", (end,))
            elif start > replica.log.end:
                replica.log.restart_at(start)
                replica.hw = start
            return False
        # A fenced or too new epoch waits for the controller's next word; NOT_LEADER for a new leader.
        return error in (FENCED, UNKNOWN_EPOCH) or error != NONE
