"""A broker's only log directory: checkpoints, flushes, cleaning, and what a power loss or a full disk does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any

from ..config import NEVER
from ..events import Truncated
from ..ledger import Ledger
from ..sizes import batch_sizes
from ..storage.compaction import Cleaner
from ..storage.segments import retained_from
from .part import BrokerPart
from .replica import Replica


@dataclass(slots=True, eq=False)
class Disk(BrokerPart):
    """The state of one broker that survives its process, and the tasks that write it."""

    _rng: Random
    _ledger: Ledger
    _halt: Callable[[str], None]
    _cleaners: Mapping[int, Cleaner]  # by partition
    is_full: bool = field(default=False, init=False)
    request_delay: int = field(default=0, init=False)  # microseconds that a slow disk adds to each request
    recovery_points: dict[int, int] = field(default_factory=dict, init=False)  # recovery-point-offset-checkpoint
    start_points: dict[int, int] = field(default_factory=dict, init=False)  # log-start-offset-checkpoint
    _intervals: dict[Callable[[], None], int] = field(init=False)  # of the tasks
    _due: dict[Callable[[], None], int] = field(init=False)

    def restart(self) -> None:
        """Restart the intervals of all tasks, as a new process does."""
        now, config = self._process.loop.now, self._config
        self._intervals = {
            self.checkpoint_high_watermarks: config.hw_checkpoint,
            self._flush: config.flush_ms,
            self._write_back: config.writeback,
            self._checkpoint_recovery_points: config.recovery_checkpoint,
            self.checkpoint_log_starts: config.start_checkpoint,
            self._delete_old_segments: NEVER if config.retention is None else config.retention_check,
            self._clean_logs: config.cleaner_backoff if self._cleaners else NEVER,
        }
        self._due = {task: now + interval for task, interval in self._intervals.items()}
        self._due[self._write_back] = now + int(config.writeback * self._rng.random())

    def tick(self, now: int) -> None:
        """Run the tasks that are due."""
        for task, interval in self._intervals.items():
            if now >= self._due[task]:
                self._due[task] = now + interval
                task()

    def _flush(self) -> None:
        """Flush every log (log.flush.interval.ms)."""
        for replica in self._manager.replicas.values():
            replica.log.flush()

    def _clean_logs(self) -> None:
        """Compact the logs that are dirty enough (log.cleaner.backoff.ms)."""
        for partition, replica in self._manager.replicas.items():
            cleaner = self._cleaners.get(partition)
            cleaned = cleaner and cleaner.clean(replica.log, replica.hw, self._process.wall_clock())
            if cleaned:
                self._process.report("cleaned", partition, *cleaned)
                if replica.is_leader:
                    self._ledger.on_compacted(partition, replica.log)

    def _delete_old_segments(self) -> None:
        """Delete the segments that are too old or too many (log.retention.check.interval.ms)."""
        limits, now = self._config.retention, self._process.wall_clock()
        assert limits is not None
        sizes = batch_sizes(self._config, self._rules.era.epochs_in_log)
        for partition, replica in self._manager.replicas.items():
            if partition >= self._config.data_partitions:
                continue  # coordinators' logs are compacted
            log = replica.log
            start, reason = retained_from(log, replica.hw, replace(limits, size_of=sizes[partition]), now)
            if start <= log.start:
                continue
            first = log.base
            if replica.is_leader:
                self._ledger.on_delete_records(partition, log, start, partial(log.delete_segments, start))
            else:
                log.delete_segments(start)
            self._process.report("retention", partition, first, start, reason)

    def _write_back(self) -> None:
        """The kernel writes the page cache back, unknown to Kafka."""
        for replica in self._manager.replicas.values():
            replica.log.flushed = replica.log.end

    # --- checkpoints

    def checkpoint_high_watermarks(self) -> None:
        """Write replication-offset-checkpoint: to a new file, flushed and renamed, so it is never torn."""
        if self.fails():
            return
        for replica in self._manager.replicas.values():
            replica.checkpointed_hw = replica.hw

    def _checkpoint_recovery_points(self) -> None:
        """Write recovery-point-offset-checkpoint."""
        self.recovery_points = {p: r.log.recovery_point for p, r in self._manager.replicas.items()}

    def checkpoint_log_starts(self) -> None:
        """Write log-start-offset-checkpoint."""
        self.start_points = {p: r.log.checkpoint_start() for p, r in self._manager.replicas.items()}

    def load(self, replica: Replica) -> None:
        """Read a replica back at a start: the high watermark and the recovery point come from the checkpoints."""
        replica.hw = min(replica.checkpointed_hw, replica.log.end)
        # What recovery found beyond the checkpoint does not move it (LogLoader.recoverLog).
        replica.log.recovery_point = min(self.recovery_points.get(replica.partition, 0), replica.log.end)

    def flush_all(self) -> None:
        """Flush every log and write all checkpoints, as a clean shutdown does."""
        for partition, replica in self._manager.replicas.items():
            replica.log.flushed = replica.log.end
            self.recovery_points[partition] = replica.log.end
        self.checkpoint_high_watermarks()
        self.checkpoint_log_starts()

    # --- truncation and failures

    def truncate(self, replica: Replica, offset: int, reason: str, detail: tuple[Any, ...]) -> None:
        """Truncate the log of a follower, or of a disk that lost its cache; the high watermark follows its end."""
        log = replica.log
        before = log.end
        removed = log.truncate(max(offset, log.start))
        self._process.report("truncate", Truncated(replica.partition, before, log.end, reason, detail, replica.leader))
        replica.hw = min(replica.hw, log.end)
        if replica.partition in self.recovery_points:
            # LogManager.truncateTo checkpoints the recovery points, so none stays beyond its log.
            self.recovery_points[replica.partition] = min(self.recovery_points[replica.partition], log.end)
        if reason == "unclean-disk":
            replica.checkpointed_hw = min(replica.checkpointed_hw, log.end)
        if removed or reason == "high-watermark":  # records that it kept may be missing from the leader's log
            self._ledger.on_truncated(self._process.id, replica.partition, removed, log.end, reason)

    def forget(self, partition: int) -> None:
        """Delete a partition's entries in the checkpoints."""
        self.recovery_points.pop(partition, None)
        self.start_points.pop(partition, None)

    def fails(self) -> bool:
        """Whether a write fails. Then the broker halts, as its only log directory failed (LogDirFailureHandler)."""
        if self.is_full:
            self._halt("disk-full")
        return self.is_full

    def restore_log_starts(self) -> None:
        """Reset log starts to log-start-offset-checkpoint after the process ended."""
        for partition, replica in self._manager.replicas.items():
            replica.log.restore_start(self.start_points.get(partition, 0))

    def lose_page_cache(self) -> None:
        """Keep what was flushed, and a random part of the rest, which the kernel happened to write."""
        for partition in sorted(self._manager.replicas):
            replica = self._manager.replicas[partition]
            log = replica.log
            end = log.flushed + int((log.end - log.flushed + 1) * self._rng.random())
            last = log.at(end)
            if last is not None and last.base < end:
                end = last.base  # a torn batch fails its CRC at recovery
            self.truncate(replica, end, "unclean-disk", ())
            log.flushed = log.end

    def lose_power_after_crash(self) -> None:
        """The machine of a dead process loses power: only what the kernel wrote back since then stays."""
        if self._process.loop.now >= self._due[self._write_back]:
            self._write_back()
        self.lose_page_cache()
