"""What several sources tell of one thing is told once, with all of them named."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from ...histories.tables import MAX_INT64
from .facts import Fact

SAME_TIME = 2_000_000_000  # ns between what two sources tell of one thing, as clocks and their writers differ
MAX_SOURCES = 4
BOTH_SIDES = ("fenced", "unfenced")  # a node that is controller and broker logs what it grants and what it gets
ONCE = ("elected", "begins")  # a leader epoch has one of each, whenever it is told


def merge_sources(facts: Iterable[Fact]) -> dict[Fact, Fact]:
    """Each fact with the one that is told instead: the earliest of the same thing, `also` naming the others."""
    told: list[Fact] = []
    stands: dict[Fact, int] = {}
    alike: dict[Any, list[int]] = {}
    now, said = None, 0  # the ISR, and which fact told it first
    for fact in sorted(facts, key=lambda fact: MAX_INT64 if fact.time is None else fact.time):
        if fact in stands:
            continue
        same = alike.setdefault(fact.about, [])
        if fact.kind == "isr" and fact.isr == now:
            twin = said
        else:
            twin = next((one for one in reversed(same) if _is_one(told[one], fact)), len(told))
        if twin < len(told):
            told[twin] = _joined(told[twin], fact)
        else:
            same.append(twin)
            told.append(fact)
            now, said = (fact.isr, twin) if fact.isr is not None else (now, said)
        stands[fact] = twin
    return {fact: told[one] for fact, one in stands.items()}


def _is_one(one: Fact, other: Fact) -> bool:
    """Whether facts about the same thing are one: a source that tells it twice tells of two."""
    if other.kind in ONCE:
        return True
    for known in (one, *one.also) if other.kind not in BOTH_SIDES else ():
        if _origin(known) == _origin(other):
            return all(getattr(known, name) == getattr(other, name) for name in ("time", "line", "byte", "place"))
    return one.time is not None and other.time is not None and abs(one.time - other.time) <= SAME_TIME


def _joined(one: Fact, other: Fact) -> Fact:
    known = {_origin(fact) for fact in (one, *one.also)}
    if _origin(other) in known or len(known) == MAX_SOURCES:
        return one
    return replace(one, also=(*one.also, other))


def _origin(fact: Fact) -> str | None:
    """A file without the snapshot that it was copied in: copies of one log are one source. The history is None."""
    return fact.source and re.sub(r"^snapshots/[^/]+/", "", fact.source)
