"""What happened to a partition, in order of time: elections, ISR, truncations, deaths, faults, snapshots.

The same facts of which causes make their chains (causes/timeline.py), all of them and each once.
"""

from __future__ import annotations

from typing import Any

from ..histories.evidence.clock import Fault
from .causes.facts import Fact
from .causes.terms import Term
from .causes.timeline import Timeline
from .partition import Partition

Record = dict[str, Any]
_LATE = 2**62


def chronicle(p: Partition) -> list[Record]:
    """Moments of a partition: kind, says, time (ns since the start, or None), source with line or byte, place.

    Kinds: election, leader, isr, truncation, noop, log, died, started, fault, retention, compaction, snapshot.
    What nothing dates stands at the end.
    """
    if p.timeline is None:
        return []
    moments: dict[tuple[str, int | None], Record] = {}
    for kind, fact in [*_facts(p.timeline), *_snapshots(p)]:
        moments.setdefault((fact.says, fact.time), {"kind": kind, **vars(fact)})
    # Python's sort is stable: facts of one millisecond keep the order of their kinds above.
    return sorted(moments.values(), key=lambda moment: _LATE if moment["time"] is None else moment["time"])


def _facts(timeline: Timeline) -> list[tuple[str, Fact]]:
    # A kill or restart is told as the death or start of each broker.
    faults = zip(timeline.faults, timeline.fault_facts, strict=True)
    told = [
        ("fault", fact)
        for fault, fact in faults
        if (fault.kind not in ("kill", "restart") or not fault.nodes) and _concerns(fault, timeline)
    ]
    told += [(event.kind, event.fact) for event in timeline.events]
    told += [("isr", fact) for _, _, fact in timeline.isr if not _is_term(timeline, fact)]
    for term in timeline.terms.values():
        told += [("election" if number == 0 else "leader", fact) for number, fact in enumerate(_of(term))]
    for end in timeline.ends:
        if end.kind != "snapshot" and end.kind != "high-watermark":
            kind = "log" if end.kind == "loaded" else "noop" if end.noop else "truncation"
            told.append((kind, end.fact))
    told += [("retention", fact) for fact in timeline.log_starts]
    return told + [("compaction", fact) for fact in timeline.cleanings]


def _concerns(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault is not one of another partition alone."""
    about = fault.details or {}
    here = {"topic": timeline.kept.topic, "partition": timeline.kept.partition}
    return all(about.get(name) in (None, value) for name, value in here.items())


def _is_term(timeline: Timeline, fact: Fact) -> bool:
    return any(fact in term.facts or fact in term.start_facts for term in timeline.terms.values())


def _of(term: Term) -> list[Fact]:
    """The facts of a term, the first with whether its election was clean."""
    facts = [*term.facts, *(fact for fact in term.start_facts if fact not in term.facts)]
    facts.sort(key=lambda fact: _LATE if fact.time is None else fact.time)
    if not facts:
        return []
    how = how_elected(term)
    first = facts[0]
    said = f"{first.says} [{how}]" if how else first.says
    return [Fact(said, first.time, first.source, first.line, first.byte, first.place), *facts[1:]]


def how_elected(term: Term) -> str:
    """clean election, unclean election, or that nothing tells; empty for the first term, which elects nobody."""
    if term.conflict:
        return "sources disagree about who led this epoch"
    unclean = term.elected_uncleanly
    if unclean is None:
        return "" if term.epoch == 0 else "whether it was clean is not known"
    return "unclean election" if unclean else "clean election"


def _snapshots(p: Partition) -> list[tuple[str, Fact]]:
    if p.kept is None:
        return []
    told = []
    for name in p.kept.snapshots:
        held = p.kept.batches.filter(p.kept.batches["snapshot"] == name)
        if not name or not held.height:
            continue
        brokers = ", ".join(sorted(held["broker"].unique()))
        told.append(("snapshot", Fact(f"snapshot {name} of the logs of brokers {brokers}", p.kept.times.get(name))))
    return told
