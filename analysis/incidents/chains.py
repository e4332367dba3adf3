"""Chains of dated facts: the decisive fact of a chain, and several chains merged into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...histories.tables import MIN_INT64
from ..causes.cases import ACKNOWLEDGEMENTS, LostRange, acks_clause
from ..timelines.facts import MS, Fact, dated
from ..wording import plural

# Kinds of facts that lose records, the most decisive first: a leader change, else the death of a broker with them. A
# group misses records because a member crashes, or is assigned a partition and begins at another offset.
DEATH_KINDS = ("power-loss", "fault-truncate", "kill", "halted", "failed", "fenced")
GROUP_KINDS = ("crashed", "assigned", "committed")
DECISIVE_KINDS = (("elected", "elected-unclean"), ("begins",), DEATH_KINDS, *((kind,) for kind in GROUP_KINDS))


def decisive_fact(chain: Iterable[Fact]) -> Fact | None:
    """The fact that lost the records, or by which a group missed them; None if no such fact has a time."""
    for kinds in DECISIVE_KINDS:
        if facts := [fact for fact in dated(chain) if fact.kind in kinds]:
            return facts[-1]
    return None


def election_of(chain: Iterable[Fact]) -> int | None:
    """The leader epoch of the election that lost the records; None if another fact is the decisive one."""
    fact = decisive_fact(chain)
    return fact.epoch if fact is not None and fact.kind in (*DECISIVE_KINDS[0], *DECISIVE_KINDS[1]) else None


def merge_chains(chains: Iterable[Sequence[Fact]], lost: Sequence[LostRange]) -> list[Fact]:
    """The facts of all chains in order of time, each once.

    If chains have the acknowledgements of several ranges of a partition, they become two facts: the first and the last.
    """
    acknowledged: dict[str | None, dict[Any, Fact]] = {}
    facts: dict[Any, tuple[int, Fact]] = {}
    for chain in chains:
        latest = MIN_INT64
        for fact in chain:
            latest = latest if fact.time is None else fact.time
            # The order of records within a millisecond is that in the rows of each partition.
            key = fact.sentence, None if fact.time is None else fact.time // MS, fact.source, fact.line
            # The acknowledgement of a lost record; that of a replacing record has an offset.
            if fact.kind in ACKNOWLEDGEMENTS and fact.time is not None and fact.offset is None:
                acknowledged.setdefault(fact.partition, {}).setdefault(key, fact)
            else:
                facts.setdefault(key, (latest, fact))
    for name, acknowledgements in acknowledged.items():
        ranges, shown = [one for one in lost if one.name == name], [*acknowledgements.values()]
        if len(ranges) > 1 or (ranges and len(shown) > 2):
            shown = _first_and_last(name, shown, ranges)
        facts |= {(name, fact.sentence): (fact.time or 0, fact) for fact in shown}
    # An undated fact, such as a setting, stays behind all facts of the time at which a chain has it.
    return [fact for _, fact in sorted(facts.values(), key=lambda item: (item[0], item[1].time is None))]


def _first_and_last(name: str | None, facts: list[Fact], ranges: Sequence[LostRange]) -> list[Fact]:
    records = plural(sum(one.count for one in ranges), "lost record")
    ordered = sorted(facts, key=lambda fact: fact.time or 0)
    first = min((one.first for one in ranges if one.first is not None), default=0)
    last = max((one.last for one in ranges if one.last is not None), default=0)
    which = f"offsets {first} to {last} of {name}"
    what = ACKNOWLEDGEMENTS[ordered[0].kind] if len({fact.kind for fact in facts}) == 1 else "acknowledgement"
    acks = {fact.acks for fact in facts if fact.acks is not None}
    clause = acks_clause(acks.pop() if len(acks) == 1 else None)
    first_fact = replace(ordered[0], sentence=f"first {what}{clause} of {which} ({records})")
    return [first_fact, replace(ordered[-1], sentence=f"last {what} of {which}")]
