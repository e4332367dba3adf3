"""A follower's fetchers: num.replica.fetchers for each leader, which share its partitions.

Each has one request in flight.

In a new leader epoch the follower first truncates a partition, to its high watermark or to the end offset of its last
epoch in the leader's log, and then fetches it. Simplification: in all versions it requests that offset. Since 2.7
(KIP-595) a follower fetches at once, and the fetch response contains the offset at which the logs diverge.
"""

from __future__ import annotations

from functools import partial

from .. import errors
from ..network import Connection
from ..ports import Inboxes
from ..requests import EpochLookup, EpochRequest, FetchPart, FetchRequest
from ..storage.batches import Batch
from .disk import Disk
from .part import BrokerPart, Parts
from .quota import ReplicationQuota
from .replica import Replica


class FetcherManager:
    """The fetchers of one broker, by leader and number (ReplicaFetcherManager)."""

    def __init__(self, parts: Parts, disk: Disk, inboxes: Inboxes) -> None:
        config = parts.config
        self._count = config.fetchers
        quota = ReplicationQuota(config.follower_throttle, config.followers_throttled, parts.process.id)
        self._make = partial(Fetcher, parts, disk, inboxes, quota)
        self.fetchers: dict[tuple[int, int], Fetcher] = {}

    def restart(self) -> None:
        """A new process fetches nothing yet."""
        self.fetchers = {}

    def follow(self, replica: Replica, leader: int) -> None:
        """Fetch a partition from this leader."""
        number = replica.partition % self._count
        fetcher = self.fetchers.get((leader, number))
        if fetcher is None:
            fetcher = self.fetchers[leader, number] = self._make(leader, number)
        fetcher.add(replica)

    def stop(self, partition: int) -> None:
        """Stop fetching a partition."""
        for fetcher in self.fetchers.values():
            fetcher.remove(partition)

    def tick(self, now: int) -> None:
        """Give up requests without a response."""
        for fetcher in list(self.fetchers.values()):
            fetcher.tick(now)

    def close(self) -> None:
        """The process ends."""
        for fetcher in self.fetchers.values():
            fetcher.close()


class Fetcher(BrokerPart):
    """ReplicaFetcherThread: truncate, then repeatedly fetch, append, and update the high watermark."""

    def __init__(
        self, parts: Parts, disk: Disk, inboxes: Inboxes, quota: ReplicationQuota, leader: int, number: int
    ) -> None:
        super().__init__(*parts)
        self._disk = disk
        self._inbox = inboxes[leader]
        self._quota = quota  # of all fetchers of this broker
        self._caught_up: set[int] = set()  # the partitions that had everything at the last response
        self._number = number
        self._max_bytes = self._config.replica_max_bytes
        self.leader = leader
        self.connection = Connection(self._process.id)
        self.epochs_to_request: dict[int, int] = {}  # partitions to truncate -> the epoch whose end is requested
        self.fetching: list[int] = []
        self.request: FetchRequest | EpochRequest | None = None
        self.wait_until = 0  # replica.fetch.backoff.ms after an error
        self.is_closed = False

    def close(self) -> None:
        """The broker stops; later responses are ignored."""
        self.is_closed = True
        self._network.abandon(self.connection)
        if self.request is not None:
            self.request.is_closed = True

    def add(self, replica: Replica) -> None:
        """Follow this leader in a new epoch."""
        partition = replica.partition
        self.remove(partition)
        offset = self._rules.initial_truncation(replica)
        if offset is not None:
            self._disk.truncate(replica, offset, "high-watermark", ())
            self._start_fetching(replica)
        else:
            self.epochs_to_request[partition] = replica.log.last_epoch
        # A response to a request of the older epoch must not be applied to this partition, so send the request again.
        if self.request is not None:
            self.request.is_closed = True
            self.request = None
        self.step()

    def remove(self, partition: int) -> None:
        """Stop fetching a partition."""
        self.epochs_to_request.pop(partition, None)
        self._caught_up.discard(partition)
        if partition in self.fetching:
            self.fetching.remove(partition)

    def _start_fetching(self, replica: Replica) -> None:
        self.epochs_to_request.pop(replica.partition, None)
        self.fetching.append(replica.partition)
        self._process.report("fetching", replica.partition, self.leader, replica.log.end, replica.epoch)

    def step(self, _: None = None) -> None:
        """Send the next request, if none is in flight."""
        now = self._process.loop.now
        if self.is_closed or self.request is not None or now < self.wait_until:
            return
        if self.epochs_to_request or self.fetching:
            request = self.request = self._epoch_request(now) if self.epochs_to_request else self._fetch_request(now)
            if request is None:
                self._back_off()
            else:
                self._network.send(request.node, self.leader, self._inbox, request)

    def _epoch_request(self, now: int) -> EpochRequest:
        node, replicas = self._process.id, self._manager.replicas
        requested = self.epochs_to_request.items()
        lookups = [EpochLookup(partition, replicas[partition].epoch, epoch) for partition, epoch in requested]
        return EpochRequest(node, self.leader, now, self.on_epochs, self.on_closed, self.connection, lookups)

    def _fetch_request(self, now: int) -> FetchRequest | None:
        """The next fetch; None if the quota leaves no partition to fetch."""
        node = self._process.id
        parts: list[FetchPart] = []
        is_exceeded = self._quota.is_set and self._quota.is_exceeded(now)
        for partition in self.fetching:
            if is_exceeded and partition not in self._caught_up and self._quota.throttles(partition):
                continue
            replica = self._manager.replicas[partition]
            log = replica.log
            parts.append(FetchPart(partition, log.end, replica.epoch, log.last_epoch, log.start))
        if not parts:
            return None
        return FetchRequest(
            node,
            self.leader,
            now,
            self.on_fetched,
            self.on_closed,
            self.connection,
            node,
            self._config.fetch_max_batches,
            parts,
            None,
            self._number,
            self._max_bytes,
        )

    def _back_off(self) -> None:
        """Wait before the next request (replica.fetch.backoff.ms)."""
        loop = self._process.loop
        self.wait_until = loop.now + self._config.fetch_backoff
        loop.at(self.wait_until, self.step)

    def on_closed(self, request: FetchRequest | EpochRequest) -> None:
        """The connection closed: drop the request in flight, and wait before the next one."""
        if request.connection is not self.connection or self.is_closed:
            return
        self._network.abandon(self.connection)
        self.connection = Connection(self._process.id)
        if self.request is not None:
            self.request.is_closed = True
            self.request = None
            self._back_off()

    def tick(self, now: int) -> None:
        """Give up a request without a response (replica.socket.timeout.ms)."""
        request = self.request
        if request is not None and now - request.sent > self._config.socket_timeout:
            self.on_closed(request)

    def on_epochs(self, request: EpochRequest) -> None:
        """Truncate by the response, which contains the end of our last epoch in the leader's log."""
        if self._process.defer(self.on_epochs, request) or request is not self.request or self.is_closed:
            return
        self.request = None
        failed = False
        for partition, error, found in request.results:
            if partition not in self.epochs_to_request:
                continue
            replica = self._manager.replicas[partition]
            if error:
                failed = True
                continue
            truncation = self._rules.truncation_for(replica, found)
            reason = "epoch" if found.end >= 0 else "high-watermark"
            self._disk.truncate(replica, truncation.offset, reason, found)
            if truncation.is_final:
                self._start_fetching(replica)
            else:
                self.epochs_to_request[partition] = replica.log.last_epoch
        if failed:
            self._back_off()
        else:
            self.step()

    def on_fetched(self, request: FetchRequest) -> None:
        """Append the records, update the high watermark, fetch again."""
        if request is not self.request or self.is_closed or self._process.defer(self.on_fetched, request):
            return
        self.request = None
        failed = False
        for part in request.parts:
            if part.partition not in self.fetching:
                continue  # it has another leader by now
            if part.error:
                failed = self._handle_error(part) or failed
            else:
                self._append(part)
                if part.batches and request.max_bytes is not None:
                    # The others get their turn first (PartitionStates.updateAndMoveToEnd).
                    self.fetching.remove(part.partition)
                    self.fetching.append(part.partition)
        if self.is_closed:
            return
        if failed:
            self._back_off()
        else:
            self.step()

    def _append(self, fetched: FetchPart) -> None:
        partition, batches, mark = fetched.partition, fetched.batches, fetched.hw
        replica = self._manager.replicas[partition]
        log = replica.log
        if batches:
            if self._disk.fails():
                return
            for batch in batches:
                # A batch that does not continue the log is from a response before a truncation.
                if batch.base != log.end:
                    break
                log.append(batch)
            self._manager.after_append(replica)
        if self._quota.is_set and self._quota.throttles(partition):
            self._count_traffic(partition, batches, log.end >= mark)
        if fetched.leader_start > log.start:
            log.advance_start(fetched.leader_start)
        if replica.log_view != replica.epoch and log.end >= fetched.epoch_start:
            replica.log_view = replica.epoch
        new = mark if mark < log.end else log.end
        if new != replica.hw:
            # The follower's mark may go back: it is always the leader's (Log.updateHighWatermark).
            replica.hw = new
            self._manager.wake_consumers(replica)

    def _count_traffic(self, partition: int, batches: list[Batch], has_everything: bool) -> None:
        """Count what was fetched out of sync. Kafka's follower is in sync once it has reached the leader's mark."""
        if batches and partition not in self._caught_up:
            self._quota.record(batches, self._process.loop.now)
        (self._caught_up.add if has_everything else self._caught_up.discard)(partition)

    def _handle_error(self, fetched: FetchPart) -> bool:
        """Handle an error of one partition; returns whether to back off."""
        error = fetched.error
        replica = self._manager.replicas[fetched.partition]
        if error == errors.OFFSET_OUT_OF_RANGE:
            # Simplification: they come with the error, not by ListOffsets.
            start, end = fetched.leader_start, fetched.leader_end
            if end < replica.log.end:
                # Old brokers with unclean elections disabled halted here; simplification: they truncate.
                self._disk.truncate(replica, end, "out-of-range", (end,))
            elif start > replica.log.end:
                replica.log.restart_at(start)
                replica.hw = start
            return False
        # A fenced or too new epoch waits for the controller's next request; NOT_LEADER for a new leader.
        return error != errors.NONE
