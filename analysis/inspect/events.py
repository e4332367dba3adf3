"""What happened to a partition, in order of time: elections, ISR, truncations, deaths, faults, snapshots.

The same facts of which causes make their chains (timelines/timeline.py), all of them and each once.
"""

from __future__ import annotations

from typing import Any

from ...histories.evidence.clock import Fault
from ...histories.tables import MAX_INT64
from ..partitions.partition import Partition
from ..timelines.facts import Fact
from ..timelines.terms import Term
from ..timelines.timeline import Timeline

Record = dict[str, Any]
Told = tuple[str, str, Fact]  # kind, how the leader was elected or nothing, what happened


def events_of_partition(p: Partition) -> list[Record]:
    """Moments of a partition: kind, says, time (ns since the start, or None), source with line or byte, place, also,
    and what else is known of the fact as data (facts.ABOUT).

    Kinds, coarser than those of facts: topic (deleted or created), election, leader, isr, truncation, noop, log, died,
    started, unfenced, fault, retention, compaction, snapshot. What nothing dates stands at the end.
    """
    if p.timeline is None:
        return []
    moments: dict[Fact, Record] = {}
    for kind, how, fact in [*_facts(p.timeline), *_snapshots(p)]:
        told = p.timeline.told.get(fact, fact)
        says = f"{told.says} [{how}]" if how else told.says
        moments.setdefault(told, {**told.record(), "kind": kind, "says": says})
    # Python's sort is stable: facts of one millisecond keep the order of their kinds above.
    return sorted(moments.values(), key=lambda moment: MAX_INT64 if moment["time"] is None else moment["time"])


def _facts(timeline: Timeline) -> list[Told]:
    # A kill or restart is told as the death or start of each broker.
    faults = zip(timeline.faults, timeline.fault_facts, strict=True)
    told = [("topic", "", fact) for fact in timeline.topic_changes]
    told += [
        ("fault", "", fact)
        for fault, fact in faults
        if (fault.kind not in ("kill", "restart") or not fault.nodes) and _concerns(fault, timeline)
    ]
    told += [(event.kind, "", event.fact) for event in timeline.events]
    for term in timeline.terms.values():
        told += _of(term)
    of_terms = {fact for _, _, fact in told}
    in_sync = [*(fact for _, _, fact in timeline.isr), *timeline.overruled]
    told += [("isr", "", fact) for fact in in_sync if fact not in of_terms]
    for end in timeline.ends:
        if end.kind != "snapshot" and end.kind != "high-watermark":
            kind = "log" if end.kind == "loaded" else "noop" if end.noop else "truncation"
            told.append((kind, "", end.fact))
    told += [("retention", "", fact) for fact in timeline.log_starts]
    return told + [("compaction", "", fact) for fact in timeline.cleanings]


def _concerns(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault is not one of another partition alone."""
    about = fault.details or {}
    here = {"topic": timeline.replica_logs.topic, "partition": timeline.replica_logs.partition}
    return all(about.get(name) in (None, value) for name, value in here.items())


def _of(term: Term) -> list[Told]:
    """The facts of a term, the first with whether its election was clean."""
    facts = dict.fromkeys([*term.facts, *term.start_facts])
    told = [
        ("leader", "", fact) for fact in sorted(facts, key=lambda fact: MAX_INT64 if fact.time is None else fact.time)
    ]
    return [("election", term.how_elected, told[0][2]), *told[1:]] if told else []


def _snapshots(p: Partition) -> list[Told]:
    if p.replica_logs is None:
        return []
    told = []
    for name in p.replica_logs.snapshots:
        held = p.replica_logs.batches.filter(p.replica_logs.batches["snapshot"] == name)
        if not name or not held.height:
            continue
        brokers = ", ".join(sorted(held["broker"].unique()))
        says = f"snapshot {name} of the logs of brokers {brokers}"
        told.append(("snapshot", "", Fact(says, "snapshot", p.replica_logs.times.get(name), snapshot=name)))
    return told
