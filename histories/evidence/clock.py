"""Offsets between the brokers' wall clocks and the history's clock.

A broker logs in local time without a time zone. A recorded kill and restart of the broker bound the offset: its last
line before cannot be later than the kill, its first line after cannot be earlier than the restart. Time zones differ
by quarters of an hour, so the multiple nearest to 0 within the bounds is taken. If there is none, the clock itself is
off, and the first line after the restart gives the best estimate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import polars as pl

from ...models.internal_topics import METADATA_TOPIC
from ..settings import DAY_MS
from ..tables import MIN_INT64

QUARTER_MS = 15 * 60 * 1000
SLACK_MS = 5_000  # between brokers' clocks and the clients', as NTP allows
START_MS = 700  # from the restart of a JVM to Kafka's first line
KILL_SLACK_MS = 50  # a kill is recorded shortly before the process dies
ENDS = ("kill", "power-loss", "shutdown")  # kinds of faults after which a process no longer logs
SKEW = "clock-skew"  # kind of a fault that sets a broker's clock


@dataclass(frozen=True)
class Fault:
    """A fault or heal of the history: times in ns since the start."""

    type: str  # fault or heal
    kind: str
    nodes: tuple[str, ...]
    invoked: int
    completed: int
    place: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    outcome: str = "ok"


@dataclass(frozen=True)
class Clock:
    """The offset to subtract from a broker's time (ms), within low..high where faults or records bound it."""

    broker: str
    offset: int = 0
    low: int | None = None
    high: int | None = None
    has_conflict: bool = False
    by_records: bool = False  # bounded by the records of a partition, or doubtful by its own log: not by faults
    was_set: bool = False  # while the broker ran

    @property
    def bounded(self) -> bool:
        """Whether the offset is bounded on both sides."""
        return self.low is not None and self.high is not None

    @property
    def is_of_metadata(self) -> bool:
        """Whether it is the clock of `__cluster_metadata`, and not that of a broker."""
        return self.broker == METADATA_TOPIC

    @property
    def description(self) -> str:
        """One sentence for the report."""
        if self.is_of_metadata:
            return f"the metadata log's times are ahead by {self.offset} ms"
        if self.has_conflict:
            if self.was_set:
                return f"broker {self.broker}: its clock was set while it ran; its times are not reliable"
            if self.low is None:
                return f"broker {self.broker}: its log goes back in time where it starts; its times are not reliable"
            away = min(abs(self.low or 0), abs(self.high or 0)) / DAY_MS
            what = "times at which records were sent" if self.by_records else "faults"
            why = f"is {away:.0f} days away from the history" if away > 1 else f"does not fit the history's {what}"
            return f"broker {self.broker}: its log {why}; its times are not reliable"
        if not self.bounded:
            assumed = f"ahead by {self.offset} ms as the others are" if self.offset else "equal to the history's"
            return f"broker {self.broker}: no fault bounds its clock; assumed {assumed}"
        bounds = f"between {self.low} and {self.high}"
        return f"broker {self.broker}: its clock is ahead by {self.offset} ms ({bounds})"


def process_starts(events: pl.DataFrame) -> list[dict[str, Any]]:
    """The dated events that start processes: `boot`, or `configured` of brokers without a boot line.

    A log and a copy of the console's output record one start twice, in the same millisecond; it counts once.
    """
    starts = events.filter(pl.col("kind").is_in(["boot", "configured"]) & pl.col("time").is_not_null())
    once: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in starts.sort("file", "line").iter_rows(named=True):
        once.setdefault((row["broker"], row["kind"], row["time"]), row)
    booted = {row["broker"] for row in once.values() if row["kind"] == "boot"}
    return [row for row in once.values() if row["kind"] == "boot" or row["broker"] not in booted]


def clock_offset(broker: str, boots: Sequence[Mapping[str, Any]], faults: Sequence[Fault], started: int) -> Clock:
    """The clock of one broker, from its `process_starts` in order of time.

    `started` is the start of the run, ms since the epoch.
    """
    times = [boot["time"] for boot in boots]
    last_lines = [json.loads(boot["fields"]).get("alive_until") for boot in boots]
    if any(line is not None and time < line - SLACK_MS for time, line in zip(times, last_lines, strict=True)):
        return Clock(broker, has_conflict=True, by_records=True)  # it restarted in another time zone
    if any(fault.kind == SKEW and broker in fault.nodes for fault in faults):
        return Clock(broker, has_conflict=True, by_records=True, was_set=True)
    restarts = [f for f in faults if f.type == "heal" and f.kind == "restart" and broker in f.nodes]
    ended = [f for f in faults if f.type == "fault" and f.kind in ENDS and broker in f.nodes]
    # The first start is before the history; start n + 1 belongs to restart n.
    if not restarts or len(times) != len(restarts) + 1:
        return Clock(broker)
    high = [boot - (started + restart.invoked // 1_000_000) for restart, boot in zip(restarts, times[1:], strict=True)]
    ends = zip(_first_ends(ended, restarts), last_lines[1:], strict=True)
    low = [
        line - (started + end.completed // 1_000_000) - KILL_SLACK_MS
        for end, line in ends
        if line is not None and end is not None and end.kind == "kill"
    ]
    highest, lowest = min(high), max(low, default=min(high) - 60_000)
    # No time zone is a day away: the log is of another run, or started_at in run.json is wrong.
    if lowest > highest or lowest > DAY_MS or highest < -DAY_MS:
        return Clock(broker, 0, lowest, highest, has_conflict=True)
    return Clock(broker, _likeliest_offset(lowest, highest), lowest, highest)


def _first_ends(ended: Sequence[Fault], restarts: Sequence[Fault]) -> Iterator[Fault | None]:
    """For each restart the first of these faults since the restart before it; None: there was none."""
    for before, restart in zip([None, *restarts], restarts, strict=False):
        since = MIN_INT64 if before is None else before.completed
        yield next((fault for fault in ended if since <= fault.completed <= restart.completed), None)


def _likeliest_offset(low: int, high: int) -> int:
    """The likeliest offset within the bounds: that of a time zone, else an estimate.

    The estimate has the broker's first line START_MS after its restart. Its last line may be long before the kill.
    """
    nearest = min(max(0, low), high)
    zone = nearest // QUARTER_MS * QUARTER_MS if nearest < 0 else -(-nearest // QUARTER_MS) * QUARTER_MS
    return zone if low <= zone <= high else max(low, high - START_MS)


def clock_offsets(events: pl.DataFrame, faults: Sequence[Fault], started: int | None) -> dict[str, Clock]:
    """The clocks of all brokers. A broker without bounds takes the offset that fits all bounded ones."""
    brokers = sorted(events["broker"].unique())
    if started is None:
        return {broker: Clock(broker) for broker in brokers}
    # Ordered by time, as the names of rolled files do not order them.
    boots = sorted(process_starts(events), key=itemgetter("time", "file", "line"))
    clocks = {
        broker: clock_offset(broker, [boot for boot in boots if boot["broker"] == broker], faults, started)
        for broker in brokers
    }
    bounded = [c for c in clocks.values() if c.bounded and not c.has_conflict]
    if bounded:
        low, high = max(c.low or 0 for c in bounded), min(c.high or 0 for c in bounded)
        if low <= high and not low <= 0 <= high:
            shared = _likeliest_offset(low, high)
            clocks.update({b: Clock(b, shared) for b, c in clocks.items() if c.low is None})
    return clocks
