"""Facts of one event in several files, such as a broker's log and the metadata log, merged into one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from ...histories.tables import MAX_INT64, MIN_INT64
from .facts import Fact

SAME_TIME_NS = 2_000_000_000  # between two sources' records of one event: their clocks and delays differ
MAX_SOURCES = 4
MAX_CANDIDATES = 100  # earlier facts with the same content that a fact is compared with
BOTH_SIDES = ("fenced", "unfenced")  # a node that is controller and broker logs each of them in both roles
ONCE = ("elected", "begins")  # a leader epoch has one of each, whatever the recorded time


def merge_sources(facts: Iterable[Fact]) -> dict[Fact, Fact]:
    """Maps each fact to the earliest fact of the same event.

    Its `also` has the facts of at most MAX_SOURCES - 1 other sources.
    """
    merged: list[Fact] = []
    index_of: dict[Fact, int] = {}
    by_content: dict[Any, list[int]] = {}
    by_place: dict[Any, int] = {}  # copies of one log have each fact, and without times they are far apart
    isr, isr_index = None, 0  # the current ISR, and the fact that first recorded it
    for fact in sorted(facts, key=lambda fact: MAX_INT64 if fact.time is None else fact.time):
        if fact in index_of:
            continue
        same = by_content.setdefault(fact.about, [])
        place = (fact.about, _origin(fact), fact.line, fact.byte, fact.place)
        if fact.kind == "isr" and fact.isr == isr:
            found = isr_index
        elif fact.time is None and place in by_place:
            found = by_place[place]
        else:
            earlier = _candidates(merged, same, fact)
            found = next((index for index in earlier if _is_same_event(merged[index], fact)), len(merged))
        if found < len(merged):
            merged[found] = _join_sources(merged[found], fact)
        else:
            same.append(found)
            merged.append(fact)
            isr, isr_index = (fact.isr, found) if fact.isr is not None else (isr, isr_index)
        index_of[fact] = found
        if fact.time is None:
            by_place.setdefault(place, found)
    return {fact: merged[index] for fact, index in index_of.items()}


def _candidates(merged: list[Fact], same: list[int], fact: Fact) -> Iterator[int]:
    """The facts of `same`, in order of time, that may record a later fact's event; the last comes first."""
    first = MIN_INT64 if fact.time is None or fact.kind in ONCE else fact.time - SAME_TIME_NS
    for index in same[: -MAX_CANDIDATES - 1 : -1]:
        time = merged[index].time
        if time is not None and time < first:
            return
        yield index


def _is_same_event(one: Fact, other: Fact) -> bool:
    """Whether two facts of `_candidates` record one event. If one source records both, they are two events."""
    if other.kind in ONCE:
        return True
    for known in (one, *one.also) if other.kind not in BOTH_SIDES else ():
        if _origin(known) == _origin(other):
            return _place_in_source(known) == _place_in_source(other)
    return other.time is not None


def _place_in_source(fact: Fact) -> tuple[Any, ...]:
    return fact.line, fact.byte, fact.place, fact.time


def _join_sources(one: Fact, other: Fact) -> Fact:
    """The first fact, with the other one in `also` unless its source is already named."""
    known = {_origin(fact) for fact in (one, *one.also)}
    if _origin(other) in known or len(known) == MAX_SOURCES:
        return one
    return replace(one, also=(*one.also, other))


def _origin(fact: Fact) -> str | None:
    """The path of the source without its snapshot: copies of one log are one source. None means the history."""
    return fact.source and _without_snapshot(fact.source)


@lru_cache(maxsize=1024)  # a log that repeats one line has each fact compared with MAX_CANDIDATES others
def _without_snapshot(source: str) -> str:
    return re.sub(r"^snapshots/[^/]+/", "", source)
