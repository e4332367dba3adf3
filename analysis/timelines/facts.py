"""Dated facts, each with its source, and chains of them in order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...histories.tables import MAX_INT64, Evidence

SECOND = 1_000_000_000  # ns
RESTART = "restart"  # kind of a start that the history records
LEADERS_LOG_START = "leader-log-start"  # kind of a line in which any replica states the leader's log start
ABOUT = ("kind", "partition", "epoch", "broker", "brokers", "isr", "offset", "snapshot")


@dataclass(frozen=True)
class Fact:
    """One dated event and its source. Facts from files may have no date.

    `says` is for people. Code uses the fields that ABOUT names, as far as they apply to a kind.
    """

    says: str
    kind: str
    time: int | None = None  # ns since the start of the run, on the history's clock
    source: str | None = None
    line: int | None = None
    byte: int | None = None
    place: int | None = None
    partition: str | None = None  # topic-partition; None for what brokers did as a whole
    epoch: int | None = None  # of the leader
    broker: str | None = None  # who did it or suffered it; of elections the leader
    brokers: frozenset[str] | None = None  # others: in sync before, followed, removed, hit by a fault
    isr: frozenset[str] | None = None  # from then on
    offset: int | None = None
    snapshot: str | None = None
    also: tuple[Fact, ...] = ()  # the same event in other files

    @property
    def about(self) -> tuple[Any, ...]:
        """The event as a key, alike in all sources that record it."""
        if self.kind == "isr":
            return self.kind, self.isr
        kind = "started" if self.kind == RESTART else self.kind
        return kind, self.epoch, self.broker, self.offset, self.snapshot

    def evidence(self) -> Evidence:
        return Evidence(self.says, self.place, self.source, self.line, self.byte)

    def record(self) -> dict[str, Any]:
        record = {name: getattr(self, name) for name in ("says", "time", "source", "line", "byte", "place")}
        known = {name: value for name in ABOUT if (value := getattr(self, name)) is not None}
        record |= {name: sorted(value) if isinstance(value, frozenset) else value for name, value in known.items()}
        return {**record, "also": [fact.record() for fact in self.also]} if self.also else record


def ordered(facts: list[Fact]) -> list[Fact]:
    """Facts in order of time, each once; undated ones keep their place after the fact before them."""
    keyed: list[tuple[int, Fact]] = []
    latest = -MAX_INT64
    for fact in dict.fromkeys(facts):
        latest = fact.time if fact.time is not None else latest
        keyed.append((latest, fact))
    return [fact for _, fact in sorted(keyed, key=lambda item: item[0])]


def chain(*parts: list[Fact]) -> list[Fact]:
    """The facts of all parts in order of time."""
    return ordered([fact for part in parts for fact in part])
