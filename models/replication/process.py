"""A broker's process: what it is made of, what it loses when it dies, and its disk.

The layers above it, one job each: serving.py answers requests, isr.py keeps the ISRs, broker.py lives,
dies, keeps time and obeys the controller.
"""

from __future__ import annotations

from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any

from .config import MS, NEVER, SECOND, Config
from .fetcher import Fetcher
from .network import Network
from .replica import Replica
from .requests import EpochRequest, FetchRequest, ProduceRequest
from .state import PartitionState, Truncated

if TYPE_CHECKING:
    from collections.abc import Callable

    from .cluster import Cluster

TICK = 100 * MS  # Kafka's purgatory reaper wakes every 200 ms, its schedulers at their own intervals
REGISTER_AGAIN = 200 * MS  # a refused registration is asked for again
PROPAGATION_CHECK = 2500 * MS  # the period of ReplicaManager's task isr-change-propagation

DOWN, RUNNING, STARTING = 0, 1, 2


class Connection:
    """A client's connection: one request is handled at a time, the others wait in order."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.busy = False
        self.waiting: deque[ProduceRequest] = deque()


class Process:
    """Everything of one broker that outlives a crash (its disk, its id), and the process while it runs."""

    __slots__ = (
        "_backlog",
        "_disk_free",
        "_due_checkpoint",
        "_due_flush",
        "_due_heartbeat",
        "_due_propagation",
        "_due_recovery",
        "_due_shrink",
        "_due_start",
        "_due_writeback",
        "_isr_changed",
        "_parked",
        "_parked_consumers",
        "_rng",
        "_ticking",
        "clean_stop",
        "cluster",
        "config",
        "connections",
        "controller_epoch",
        "disk_delay",
        "disk_full",
        "fetchers",
        "host_down",
        "id",
        "incarnation",
        "last_propagation",
        "leaving",
        "loop",
        "metadata",
        "network",
        "paused",
        "recovery_points",
        "replicas",
        "rules",
        "skew",
        "start_points",
        "state",
    )

    def __init__(self, cluster: Cluster, broker: int, config: Config, rng: Random) -> None:
        self.cluster = cluster
        self.loop = cluster.loop
        self.network: Network = cluster.network
        self.rules = cluster.rules
        self.id = broker
        self.config = config
        self._rng = rng
        self.state = DOWN
        self.incarnation = 0
        self.paused = False
        self.host_down = False
        self.clean_stop = True
        self.disk_full = False
        self.disk_delay = 0  # microseconds that a slow disk adds to each request
        self.skew = 0  # how far the wall clock is off, microseconds
        self.replicas: dict[int, Replica] = {}
        self.recovery_points: dict[int, int] = {}  # recovery-point-offset-checkpoint
        self.start_points: dict[int, int] = {}  # log-start-offset-checkpoint
        self._ticking = False
        self._forget()

    def _forget(self) -> None:
        """What a process loses when it dies."""
        self.fetchers: dict[int, Fetcher] = {}
        self.connections: dict[int, Connection] = {}
        self.metadata: dict[int, PartitionState] = {}
        self.controller_epoch = 0
        self.leaving = False  # in controlled shutdown
        self._parked: dict[int, FetchRequest] = {}  # waiting fetch of each follower
        self._parked_consumers: dict[int, list[FetchRequest]] = {}
        self._backlog: list[tuple[Callable[[Any], None], Any]] = []
        self._isr_changed: list[int] = []
        self._disk_free = 0
        self.last_propagation = now = self.loop.now
        phase = int(self._rng.random() * SECOND)
        config = self.config
        self._due_heartbeat = now
        self._due_checkpoint = now + config.hw_checkpoint
        self._due_recovery = now + config.recovery_checkpoint
        self._due_start = now + config.start_checkpoint
        self._due_shrink = now + config.lag_time_max // 2 + phase
        self._due_propagation = now + PROPAGATION_CHECK
        self._due_flush = now + config.flush_ms if config.flush_ms < NEVER else NEVER
        self._due_writeback = now + int(config.writeback * self._rng.random())

    # --- small helpers

    def wall(self) -> int:
        """This machine's clock."""
        return self.loop.now + self.skew

    def tell_fact(self, kind: str, *details: Any) -> None:
        tell = self.cluster.tell
        if tell is not None:
            tell((self.loop.now, self.id, kind, details))

    def delayed(self, action: Callable[[Any], None], message: Any) -> bool:
        """While the process is paused, or down, messages wait or are lost; say whether this one is."""
        if self.state == RUNNING and not self.paused:
            return False
        if self.paused:
            self._backlog.append((action, message))
        return True

    def send(self, leader: int, request: FetchRequest | EpochRequest) -> None:
        self.network.send(self.id, leader, self.cluster.brokers[leader].receive, request)

    # --- the disk

    def truncate(self, replica: Replica, offset: int, reason: str, detail: tuple[Any, ...]) -> None:
        """Cut a follower's log, or a disk that lost its cache; the high watermark cannot stay beyond the
        end."""
        log = replica.log
        before = log.end
        removed = log.truncate(max(offset, log.start))
        self.tell_fact("truncate", *Truncated(replica.partition, before, log.end, reason, detail, replica.leader))
        replica.hw = min(replica.hw, log.end)
        if replica.partition in self.recovery_points:
            # LogManager.truncateTo checkpoints the recovery points, so none stays beyond its log.
            self.recovery_points[replica.partition] = min(self.recovery_points[replica.partition], log.end)
        if reason == "unclean-disk":
            replica.checkpointed_hw = min(replica.checkpointed_hw, log.end)
        if removed or reason == "high-watermark":  # what it left uncut may be what the leader never had
            self.cluster.ledger.removed(self.id, replica.partition, removed, log.end, reason, self.loop.now)

    def fail_disk(self) -> None:
        """The only log directory failed, so the broker halts (LogDirFailureHandler)."""
        self.stop("disk-full")

    def _lose_page_cache(self) -> None:
        """Keep what was flushed, and of the rest as much as the kernel happened to have written."""
        for partition in sorted(self.replicas):
            replica = self.replicas[partition]
            log = replica.log
            kept = log.flushed + int((log.end - log.flushed + 1) * self._rng.random())
            last = log.at(kept)
            if last is not None and last.base < kept:
                kept = last.base  # a torn batch fails its CRC at recovery
            self.truncate(replica, kept, "unclean-disk", ())
            log.flushed = log.end

    def _darken(self) -> None:
        """The machine of a dead process loses power: its page cache goes, but for what the kernel wrote back since."""
        if self.host_down:
            return
        self.host_down = True
        self.tell_fact("stop", "power-loss")
        if self.loop.now >= self._due_writeback:
            for replica in self.replicas.values():
                replica.log.flushed = replica.log.end
        self._lose_page_cache()

    def _flush_all(self) -> None:
        for partition, replica in self.replicas.items():
            replica.log.flushed = replica.log.end
            self.recovery_points[partition] = replica.log.end

    # --- what the layers above do

    def stop(self, reason: str) -> None:
        raise NotImplementedError

    def expand(self, replica: Replica, follower: int) -> None:
        raise NotImplementedError
