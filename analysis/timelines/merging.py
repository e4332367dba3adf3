"""Merges the facts of several sources about one event into one fact with all its sources."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...histories.tables import MAX_INT64
from .facts import Fact

SAME_TIME_NS = 2_000_000_000  # between two sources' records of one event: their clocks and delays differ
MAX_SOURCES = 4
BOTH_SIDES = ("fenced", "unfenced")  # a node that is controller and broker logs each of them in both roles
ONCE = ("elected", "begins")  # a leader epoch has one of each, whatever the recorded time


def merge_sources(facts: Iterable[Fact]) -> dict[Fact, Fact]:
    """Maps each fact to the earliest fact of the same event, whose `also` has the facts of other sources (at most
    MAX_SOURCES - 1).
    """
    merged: list[Fact] = []
    index_of: dict[Fact, int] = {}
    by_content: dict[Any, list[int]] = {}
    isr, isr_index = None, 0  # the current ISR, and the fact that first recorded it
    for fact in sorted(facts, key=lambda fact: MAX_INT64 if fact.time is None else fact.time):
        if fact in index_of:
            continue
        same = by_content.setdefault(fact.about, [])
        if fact.kind == "isr" and fact.isr == isr:
            found = isr_index
        else:
            found = next((index for index in reversed(same) if _is_same_event(merged[index], fact)), len(merged))
        if found < len(merged):
            merged[found] = _joined(merged[found], fact)
        else:
            same.append(found)
            merged.append(fact)
            isr, isr_index = (fact.isr, found) if fact.isr is not None else (isr, isr_index)
        index_of[fact] = found
    return {fact: merged[index] for fact, index in index_of.items()}


def _is_same_event(one: Fact, other: Fact) -> bool:
    """Whether two facts with equal `about` record one event. If one source records both, they are two events."""
    if other.kind in ONCE:
        return True
    for known in (one, *one.also) if other.kind not in BOTH_SIDES else ():
        if _origin(known) == _origin(other):
            return all(getattr(known, name) == getattr(other, name) for name in ("time", "line", "byte", "place"))
    return one.time is not None and other.time is not None and abs(one.time - other.time) <= SAME_TIME_NS


def _joined(one: Fact, other: Fact) -> Fact:
    """The first fact, with the other one in `also` unless its source is already named."""
    known = {_origin(fact) for fact in (one, *one.also)}
    if _origin(other) in known or len(known) == MAX_SOURCES:
        return one
    return replace(one, also=(*one.also, other))


def _origin(fact: Fact) -> str | None:
    """The path of the source without its snapshot: copies of one log are one source. None means the history."""
    return fact.source and re.sub(r"^snapshots/[^/]+/", "", fact.source)
