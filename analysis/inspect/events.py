"""The events of a partition in order of time: elections, ISR, truncations, deaths, faults, snapshots.

The same facts as in the chains of causes (timelines/timeline.py), all of them, each once.
"""

from __future__ import annotations

from typing import Any

from ...histories.evidence.clock import Fault
from ...histories.tables import MAX_INT64
from ..partitions.partition import Partition
from ..timelines.facts import Fact
from ..timelines.timeline import Term, Timeline
from .coordinators import facts_of_groups, facts_of_transactions

Record = dict[str, Any]
Moment = tuple[str, str, Fact]  # kind, how the leader was elected (or empty), what happened


def events_of_partition(p: Partition) -> list[Record]:
    """Moments of a partition: kind, says, time (ns since the start, or None), source with line or byte, place, also,
    and the fact's other data (facts.ABOUT).

    Kinds, coarser than those of facts: topic (deleted or created), election, leader, isr, truncation, noop, log, died,
    started, unfenced, fault, reassignment, retention, compaction, group, transaction, snapshot. Undated moments come
    last.
    """
    if p.timeline is None:
        return []
    moments: dict[Fact, Record] = {}
    of_groups = [("group", "", fact) for fact in facts_of_groups(p)]
    of_transactions = [("transaction", "", fact) for fact in facts_of_transactions(p)]
    for kind, how, fact in [*_facts(p.timeline), *of_groups, *of_transactions, *_snapshots(p)]:
        merged = p.timeline.merged.get(fact, fact)
        sentence = f"{merged.sentence} [{how}]" if how else merged.sentence
        moments.setdefault(merged, {**merged.record(), "kind": kind, "says": sentence})
    # Python's sort is stable: facts of one millisecond keep the order of their kinds above.
    return sorted(moments.values(), key=lambda moment: MAX_INT64 if moment["time"] is None else moment["time"])


def _facts(timeline: Timeline) -> list[Moment]:
    # Kills and restarts are left out here, as each broker's death or start is an event.
    faults = zip(timeline.faults, timeline.fault_facts, strict=True)
    moments = [("topic", "", fact) for fact in timeline.topic_changes]
    moments += [
        ("fault", "", fact)
        for fault, fact in faults
        if (fault.kind not in ("kill", "restart") or not fault.nodes) and _concerns(fault, timeline)
    ]
    moments += [(event.kind, "", event.fact) for event in timeline.events]
    for term in timeline.terms.values():
        moments += _of_term(term)
    of_terms = {fact for _, _, fact in moments}
    in_sync = [*(fact for _, _, fact in timeline.isr), *timeline.overruled]
    moments += [("isr", "", fact) for fact in in_sync if fact not in of_terms]
    for end in timeline.ends:
        if end.kind != "snapshot" and end.kind != "high-watermark":
            kind = "log" if end.kind == "loaded" else "noop" if end.noop else "truncation"
            moments.append((kind, "", end.fact))
    moments += [("truncation", "", fact) for fact in timeline.refused_fetches]
    moments += [("reassignment", "", move.fact) for move in timeline.moves]
    moments += [("retention", "", fact) for fact in timeline.log_starts]
    moments += [("fault", "", fact) for fact in timeline.disk_errors]
    return moments + [("compaction", "", fact) for fact in timeline.cleanings]


def _concerns(fault: Fault, timeline: Timeline) -> bool:
    """Whether a fault concerns this partition, or all of them."""
    about = fault.details or {}
    here = {"topic": timeline.replica_logs.topic, "partition": timeline.replica_logs.partition}
    return all(about.get(name) in (None, value) for name, value in here.items())


def _of_term(term: Term) -> list[Moment]:
    """The facts of a term, the first with whether its election was clean."""
    facts = dict.fromkeys([*term.facts, *term.start_facts])
    dated = sorted(facts, key=lambda fact: MAX_INT64 if fact.time is None else fact.time)
    moments = [("leader", "", fact) for fact in dated]
    return [("election", term.how_elected, dated[0]), *moments[1:]] if moments else []


def _snapshots(p: Partition) -> list[Moment]:
    if p.replica_logs is None:
        return []
    moments = []
    for name in p.replica_logs.snapshots:
        held = p.replica_logs.batches.filter(p.replica_logs.batches["snapshot"] == name)
        if not name or not held.height:
            continue
        brokers = ", ".join(sorted(held["broker"].unique()))
        sentence = f"snapshot {name} of the logs of brokers {brokers}"
        moments.append(("snapshot", "", Fact(sentence, "snapshot", p.replica_logs.times.get(name), snapshot=name)))
    return moments
