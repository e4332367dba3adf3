"""Brokers' wall clocks against the history's clock.

A broker's log gives its own local time and no zone. Where the history records that a broker was killed and
started again, its log must lie around that: its last line before cannot be later than the kill, nor its
first line after earlier than the restart. That bounds the offset from both sides. Zones differ by quarters of an
hour, so the whole quarter nearest to 0 is taken where the bounds hold one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

DAY = 86_400_000  # ms
QUARTER = 15 * 60 * 1000  # ms
SLACK = 50  # ms; a kill is recorded a little before its signal works


@dataclass(frozen=True)
class Fault:
    """A fault or heal of the history: times in ns since the start."""

    type: str  # fault or heal
    kind: str
    nodes: tuple[str, ...]
    invoked: int
    completed: int
    place: int | None = None
    details: Mapping[str, object] | None = None
    outcome: str = "ok"


@dataclass(frozen=True)
class Clock:
    """What to subtract from a broker's time: offset in ms, within low..high where faults bound it."""

    broker: str
    offset: int = 0
    low: int | None = None
    high: int | None = None
    conflict: bool = False

    @property
    def bounded(self) -> bool:
        """Whether faults of the history bound the offset on both sides."""
        return self.low is not None and self.high is not None

    @property
    def says(self) -> str:
        if self.conflict:
            away = min(abs(self.low or 0), abs(self.high or 0)) / DAY
            why = f"is {away:.0f} days away from the history" if away > 1 else "does not fit the history's faults"
            return f"broker {self.broker}: its log {why}; its times are doubtful"
        if not self.bounded and self.offset:
            return f"broker {self.broker}: no fault bounds its clock; taken as ahead by {self.offset} ms too"
        if not self.bounded:
            return f"broker {self.broker}: no fault bounds its clock; taken as the history's"
        bounds = f"between {self.low} and {self.high}"
        return f"broker {self.broker}: its clock is ahead by {self.offset} ms ({bounds})"


def process_starts(events: pl.DataFrame) -> pl.DataFrame:
    """The dated events with which processes began: `boot`, and `configured` where no boot is said. A log that is kept
    twice (a console's output beside it) tells a start twice, in the same millisecond: it is one."""
    dated = events.filter(pl.col("time").is_not_null()).sort("file", "line")
    dated = dated.unique(["broker", "kind", "time"], keep="first", maintain_order=True)
    boots = dated.filter(pl.col("kind") == "boot")
    silent = dated.filter(pl.col("kind") == "configured").join(boots, on="broker", how="anti")
    return pl.concat([boots, silent])


def clock_offset(broker: str, events: pl.DataFrame, faults: Sequence[Fault], started: int | None) -> Clock:
    """The offset of one broker's clock, of its LOG_EVENTS; `started` is the run's start, ms since the epoch."""
    if started is None:
        return Clock(broker)
    # In order of time, as a log that was rolled has its oldest lines in files of any name.
    boots = process_starts(events).sort("time", "file", "line")
    times = boots["time"].to_list()
    restarts = [f for f in faults if f.type == "heal" and f.kind == "restart" and broker in f.nodes]
    kills = [f for f in faults if f.type == "fault" and f.kind == "kill" and broker in f.nodes]
    # The first start of all is before the history, so each later one belongs to the restart of its number.
    if not restarts or len(times) != len(restarts) + 1:
        return Clock(broker)
    last_lines = [json.loads(fields).get("alive_until") for fields in boots["fields"][1:]]
    low, high = [], []
    for restart, boot in zip(restarts, times[1:], strict=True):
        high.append(boot - (started + restart.invoked // 1_000_000))
    if len(restarts) == len(kills):
        for kill, line in zip(kills, last_lines, strict=True):
            if line is None:
                continue
            low.append(line - (started + kill.completed // 1_000_000) - SLACK)
    highest, lowest = min(high), max(low) if low else min(high) - 60_000
    # No time zone is a day away: such a log is of another run, or the run's start is told wrong.
    if lowest > highest or lowest > DAY or highest < -DAY:
        return Clock(broker, 0, lowest, highest, conflict=True)
    return Clock(broker, _within(lowest, highest), lowest, highest)


def _within(low: int, high: int) -> int:
    """The likeliest offset between bounds: a zone's, else the nearest to 0."""
    nearest = min(max(0, low), high)
    zone = nearest // QUARTER * QUARTER if nearest < 0 else -(-nearest // QUARTER) * QUARTER
    return zone if low <= zone <= high else nearest


def clock_offsets(events: pl.DataFrame, faults: Sequence[Fault], started: int | None) -> dict[str, Clock]:
    """Of all brokers; one that no fault bounds takes the offset that all bounded ones share."""
    clocks = {
        broker: clock_offset(broker, events.filter(pl.col("broker") == broker), faults, started)
        for broker in sorted(events["broker"].unique())
    }
    bounded = [c for c in clocks.values() if c.bounded and not c.conflict]
    if bounded:
        low, high = max(c.low or 0 for c in bounded), min(c.high or 0 for c in bounded)
        if low <= high and not low <= 0 <= high:
            shared = _within(low, high)
            clocks.update({b: Clock(b, shared) for b, c in clocks.items() if c.low is None})
    return clocks
