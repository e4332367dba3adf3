"""How a broker handles fetch requests of followers and consumers: respond with records, or delay the response."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .. import errors
from ..config import FetchLimits
from ..requests import FetchPart, FetchRequest
from ..sizes import BatchSize, batch_sizes
from ..storage.batches import Batch
from .part import BrokerPart
from .quota import ReplicationQuota
from .replica import Replica


@dataclass(slots=True, eq=False)
class FetchHandler(BrokerPart):
    """Serves records (ReplicaManager.fetchMessages), and records the progress of followers."""

    _expand_isr: Callable[[Replica, int], None]
    _complete_deletes: Callable[[Replica], None]
    _delayed: dict[tuple[int, int], FetchRequest] = field(default_factory=dict, init=False)  # by follower and fetcher
    _delayed_consumers: dict[int, list[FetchRequest]] = field(default_factory=dict, init=False)  # by partition
    _quota: ReplicationQuota = field(init=False)
    _sizes: list[BatchSize] = field(init=False)

    def __post_init__(self) -> None:
        config = self._config
        self._sizes = batch_sizes(config, self._rules.era.epochs_in_log)
        self._quota = ReplicationQuota(config.leader_throttle, config.leaders_throttled, self._process.id)

    def restart(self) -> None:
        """A new process has no requests."""
        self._delayed = {}
        self._delayed_consumers = {}

    def handle(self, request: FetchRequest) -> None:
        """Record a follower's progress, then respond, or delay the request if there is nothing new."""
        if request.is_closed:
            return
        follower = request.follower
        if follower < 0:
            self._handle_consumer(request)
            return
        has_content = self._read_all(request)
        now, replicas = self._process.wall_clock(), self._manager.replicas
        for part in request.parts:
            if part.error:
                continue
            replica = replicas[part.partition]
            if replica.record_fetch(follower, part.offset, part.start, now) is None:
                continue
            if replica.deletes:
                self._complete_deletes(replica)
            if follower not in replica.isr:
                self._expand_isr(replica, follower)
            self._manager.advance(replica)
        if has_content:
            self._reply(request)
        else:
            request.deadline = self._process.loop.now + self._config.fetch_wait_max
            self._delayed[follower, request.fetcher] = request

    def _handle_consumer(self, request: FetchRequest) -> None:
        if self._read_all(request):
            self._reply(request)
            return
        request.deadline = self._process.loop.now + self._config.fetch_wait_max
        for part in request.parts:
            self._delayed_consumers.setdefault(part.partition, []).append(request)

    def _read_all(self, request: FetchRequest) -> bool:
        """Fill in the response from the log; returns whether it has records or errors."""
        has_content = False
        if request.max_bytes is not None:
            request.used_bytes = 0
        for part in request.parts:
            part.error = self._read(part, request)
            if part.error or part.batches:
                has_content = True
        return has_content

    def _read(self, part: FetchPart, request: FetchRequest) -> str:
        """Fill in a partition of the response; returns its error."""
        partition, offset = part.partition, part.offset
        follower = request.follower
        replica = self._manager.replicas.get(partition)
        rules = self._rules
        if replica is None:
            return errors.NOT_LEADER_OR_FOLLOWER
        leads = replica.leader == replica.broker
        if not leads and (follower >= 0 or not rules.era.reads_followers):
            return errors.NOT_LEADER_OR_FOLLOWER
        if 0 <= part.leader_epoch != replica.epoch and (error := rules.check_epoch(replica, part.leader_epoch)):
            return error
        log = replica.log
        last_epoch = part.last_epoch
        is_validated = follower < 0 <= last_epoch and rules.era.consumers_validate
        if is_validated and not log.has_in_last_epoch(last_epoch, offset):
            # Check epochs first: beyond the leader's end the logs diverge, so the error is truncation, not
            # OFFSET_OUT_OF_RANGE (KIP-320). Simplification: each fetch validates the position, not a separate request.
            found = log.end_of_epoch(last_epoch)
            if 0 <= found.end < offset:
                part.diverging = found
                return errors.LOG_TRUNCATION
        if offset > log.end or offset < log.start:
            part.leader_start, part.leader_end = log.start, log.end
            return errors.OFFSET_NOT_AVAILABLE if not leads and offset > log.end else errors.OFFSET_OUT_OF_RANGE
        below = log.end if follower >= 0 else replica.hw
        aborted = request.aborted
        if aborted is not None:
            below = log.transactions.stable_end(below)
        batches = log.read(offset, request.limit, below) if offset < below else []
        if batches:
            if self._quota.is_set and follower >= 0 and follower not in replica.isr:
                batches = self._within_quota(partition, batches)
            if request.max_bytes is not None:
                batches = self._within_bytes(request, partition, batches, request.max_bytes)
            if aborted is not None and batches:
                aborted[partition] = log.transactions.aborted_between(offset, batches[-1].end)
        part.batches, part.hw = batches, replica.hw
        part.epoch_start, part.leader_start = replica.epoch_start, log.start
        return errors.NONE

    def _within_bytes(
        self, request: FetchRequest, partition: int, batches: list[Batch], max_bytes: FetchLimits
    ) -> list[Batch]:
        """The batches that fit. The first one of a response is returned even if it does not (KIP-74)."""
        limit = min(max_bytes.partition, max_bytes.response - request.used_bytes)
        found: list[Batch] = []
        size = 0
        for batch in batches:
            own = self._sizes[partition](batch)
            if size + own > limit and (found or request.used_bytes):
                break
            found.append(batch)
            size += own
        request.used_bytes += size
        return found

    def _within_quota(self, partition: int, batches: list[Batch]) -> list[Batch]:
        """The batches, unless this second's quota for replicas out of sync is used up."""
        now = self._process.loop.now
        if self._quota.throttles(partition):
            if self._quota.is_exceeded(now):
                return []
            self._quota.record(batches, now)
        return batches

    def _respond(self, request: FetchRequest) -> None:
        if not request.is_closed:
            self._read_all(request)
            self._reply(request)

    # --- delayed requests

    def wake_followers(self, replica: Replica) -> None:
        """Respond to the followers that wait for new records of this leader."""
        if self._delayed:
            fetcher = replica.partition % self._config.fetchers
            for follower in replica.followers:
                waiting = self._delayed.pop((follower, fetcher), None)
                if waiting is not None:
                    self._respond(waiting)

    def wake_consumers(self, replica: Replica) -> None:
        """Respond to the consumers that wait for the high watermark, which moved."""
        waiting = self._delayed_consumers.get(replica.partition)
        if waiting:
            for request in list(waiting):
                self._remove_delayed(request)
                self._respond(request)

    def resign(self, replica: Replica) -> None:
        """The replica no longer leads: respond to all delayed requests, so that their senders find the new leader."""
        for fetch in list(self._delayed.values()):
            del self._delayed[fetch.follower, fetch.fetcher]
            self._respond(fetch)
        self.wake_consumers(replica)

    def expire(self, now: int) -> None:
        """Respond to requests that waited for replica.fetch.wait.max.ms."""
        if self._delayed:
            for request in [r for r in self._delayed.values() if now >= r.deadline]:
                del self._delayed[request.follower, request.fetcher]
                self._respond(request)
        for partition in sorted(self._delayed_consumers):
            for request in [r for r in self._delayed_consumers[partition] if now >= r.deadline]:
                self._remove_delayed(request)
                self._respond(request)

    def _remove_delayed(self, request: FetchRequest) -> None:
        for part in request.parts:
            waiting = self._delayed_consumers.get(part.partition)
            if waiting and request in waiting:
                waiting.remove(request)

    def delayed_followers(self) -> Iterator[FetchRequest]:
        """The delayed requests of followers."""
        yield from self._delayed.values()

    def delayed_consumers(self) -> Iterator[FetchRequest]:
        """The delayed requests of consumers, once for each of their partitions."""
        for partition in sorted(self._delayed_consumers):
            yield from self._delayed_consumers[partition]
