"""Dated facts, each with where it is written, and chains of them in order of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...histories.tables import BEYOND_ALL, Evidence

SECOND = 1_000_000_000  # ns


@dataclass(frozen=True)
class Fact:
    """One dated thing that happened, and where it is written. Undated facts come from files."""

    says: str
    time: int | None = None  # ns since the start of the run, on the history's clock
    source: str | None = None
    line: int | None = None
    byte: int | None = None
    place: int | None = None
    about: tuple[Any, ...] | None = None  # what happened, alike in all sources that tell of it (telling.py)
    also: tuple[Fact, ...] = ()  # the same as other files tell it

    def evidence(self) -> Evidence:
        return Evidence(self.says, self.place, self.source, self.line, self.byte)

    def record(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("says", "time", "source", "line", "byte", "place")}
        return {**told, "also": [fact.record() for fact in self.also]} if self.also else told


def ordered(facts: list[Fact]) -> list[Fact]:
    """Facts in order of time, each once; undated ones keep their place after the fact before them."""
    keyed: list[tuple[int, Fact]] = []
    latest = -BEYOND_ALL
    for fact in dict.fromkeys(facts):
        latest = fact.time if fact.time is not None else latest
        keyed.append((latest, fact))
    return [fact for _, fact in sorted(keyed, key=lambda item: item[0])]


def chain(*parts: list[Fact]) -> list[Fact]:
    """The facts of all parts in order of time."""
    return ordered([fact for part in parts for fact in part])
