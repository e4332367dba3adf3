"""high-watermark-truncation: a follower truncated to a stale high watermark and was then elected.

Without leader epochs (before Kafka 0.11, and later in logs with message format v0 or v1; KIP-101) a follower that
starts truncates to its checkpointed high watermark, which lags. If the leader dies before the follower has fetched
the records again, the follower, still in the ISR, is elected cleanly without them.

Needs: a version before 0.11 or a log before v2; the broker that leads afterwards had the records, truncated its
log at or below them, was elected cleanly, and had not copied them again by then. The truncation is a line of its
server.log, or follows from its checkpointed high watermark and the later records of its log. A record that was
acknowledged at their offsets instead proves that it had not copied them again. So does the end of its log, known from
before its election, from a follower's fetch that it refused, or from the end of the run.

Replicas differ permanently if a replica returns whose high watermark is above the records that the new leader wrote
meanwhile: it truncates none of its own records (KIP-101, second scenario). If it is elected later, the records of the
others at these offsets are lost.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64
from ..timelines.changes import LogEnd
from ..timelines.facts import SECOND, Fact, chain, dated, fact_of
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from ..wording import span
from .cases import NOT_THE_CASE, Attempt, Lost, acknowledgement_facts, needs, needs_isr_of
from .leader_change import clean_by_configuration, clean_leader_change, facts_without_records, in_isr_before_election
from .outages import death_facts, end_of_leader
from .replica_history import (
    facts_had_records,
    may_have_lost_tail,
    return_facts,
    short_log_facts,
    snapshots_with_records,
    truncations,
)
from .writing_term import missing_if_replaced_leader_wrote

CITATION = "KIP-101 (leader epochs instead of the high watermark for truncation), KAFKA-1211, KAFKA-3410"
REMEDY = (
    "Kafka 0.11 or later with message format v2 (KIP-101); min.insync.replicas=2 with acks=all narrows the window only."
)
_RELEASE_OR_FORMAT = "the version of Kafka (server.log, run.json), or the format of the log's batches (segments)"
PREVENTED_BY = ["Kafka 0.11 or later with message format v2: leader epochs decide how far to truncate"]


def explain_loss(timeline: Timeline, lost: Lost) -> Attempt:
    """Whether the next leader had truncated the records to its high watermark before a clean election."""
    old_format = _old_format_facts(timeline)
    if old_format is None:
        return needs(_RELEASE_OR_FORMAT)
    if not old_format:
        return NOT_THE_CASE
    if own := _truncated_above_facts(timeline, lost):
        return Attempt(True, chain(old_format, acknowledgement_facts(lost), own), PREVENTED_BY)
    found = clean_leader_change(timeline, lost)
    if isinstance(found, Attempt):
        return found
    change, new = found
    if doubtful := missing_if_replaced_leader_wrote(timeline, change.old, lost):
        return needs(*doubtful)
    clean = _clean_election_facts(timeline, new)
    if not clean:
        return needs_isr_of(new)
    cut = _truncation_facts(timeline, new, lost)
    if not cut:
        return needs(
            f"evidence that broker {new.leader} had the records, and truncated its log to offset {lost.first} or below"
            " before its election (its server.log, or snapshots of its log and replication-offset-checkpoint)"
        )
    without = facts_without_records(timeline, change, lost)
    if not without:
        return needs(f"whether broker {new.leader} had fetched the records again before its election")
    old = change.old_leader
    facts = chain(
        old_format,
        change.began,
        acknowledgement_facts(lost),
        cut,
        death_facts(timeline, new.leader, cut[-1].time),
        end_of_leader(timeline, old, change.old, new.time),
        new.facts[:1],
        clean,
        without,
        return_facts(timeline, old, lost, new.time),
    )
    return Attempt(True, facts, PREVENTED_BY)


def explain_divergence(timeline: Timeline, differing: Lost) -> Attempt:
    """Whether replicas differ at the end because a follower of the last leader truncated above these offsets."""
    old_format, last = _old_format_facts(timeline), _last_term(timeline)
    if not old_format or last is None:
        return NOT_THE_CASE
    if own := _truncated_above_facts(timeline, differing):
        return Attempt(True, chain(old_format, own), PREVENTED_BY)
    leader = timeline.replica_logs.leader
    others = _records_at_end(timeline, differing.first)
    leaders = others.filter(broker=leader)["digest"].to_list()
    for row in others.filter(~pl.col("digest").is_in(leaders)).iter_rows(named=True):
        cuts = timeline.dated_ends(row["broker"], "truncated", since=last.when - 1)
        if cuts and cuts[-1].end > differing.last:
            own = [*_truncation_to_high_watermark(timeline, cuts[-1]), _own_record_fact(timeline, row, differing)]
            led = timeline.dated_ends(leader, "truncated", until=last.when - 1)
            before = _truncation_to_high_watermark(timeline, led[-1]) if led and led[-1].end <= differing.first else []
            return Attempt(True, chain(old_format, before, last.facts[:1], own), PREVENTED_BY)
    return needs(f"the offset to which a follower of broker {leader} truncated when it returned (its server.log)")


def _truncated_above_facts(timeline: Timeline, differing: Lost) -> list[Fact]:
    """The facts that prove that the last leader truncated above these offsets before its clean election; else empty.

    It kept its own records there, which the leader before it did not have.
    """
    new, leader = _last_term(timeline), timeline.replica_logs.leader or ""
    at = _records_at_end(timeline, differing.first)
    own = at.filter(broker=leader).rows(named=True)
    others = at.filter(~pl.col("digest").is_in([row["digest"] for row in own])).rows(named=True)
    held = [row for row in others if not differing.values or row["value"] in differing.values]
    if new is None or new.elected_uncleanly or not own or not held:
        return []
    if differing.acks and differing.acks != {"all"}:
        return []  # any election loses records that only the leader had acknowledged
    since = differing.last_acked or 0
    cuts = [e for e in timeline.ends_of(leader, "truncated") if e.time is None or since <= e.time <= new.when]
    if not cuts or any(cut.time is None or cut.end <= differing.last for cut in cuts):
        return []
    clean, loaded = _clean_election_facts(timeline, new), _load_facts_above(timeline, leader, cuts[0], differing)
    if not clean or not loaded or short_log_facts(timeline, leader, differing, differing.last):
        return []
    records = [_own_record_fact(timeline, row, differing) for row in (own[0], held[0])]
    return [*loaded, *_truncation_to_high_watermark(timeline, cuts[0]), *clean, *new.facts[:1], *records]


def _last_term(timeline: Timeline) -> Term | None:
    """The dated term since which the last leader led without interruption; None if that is not certain."""
    leader = timeline.replica_logs.leader
    others = [t.epoch for t in timeline.led_terms if t.leader != leader or t.time is None or t.has_conflict]
    return next((term for term in timeline.led_terms if term.epoch > max(others, default=-1)), None)


def _records_at_end(timeline: Timeline, offset: int) -> pl.DataFrame:
    """The records at an offset at the end of the run, in order of broker."""
    return timeline.replica_logs.last_records.filter(offset=offset).sort("broker")


def _own_record_fact(timeline: Timeline, row: dict[str, Any], differing: Lost) -> Fact:
    """The fact that a broker has records of its own in a range at the end of the run."""
    text = f"broker {row['broker']} kept its own records at {span(differing.first, differing.last)}"
    return fact_of(timeline.replica_logs, text, "kept", row, offset=differing.first)


def _truncation_to_high_watermark(timeline: Timeline, cut: LogEnd) -> list[Fact]:
    """A truncation, preceded by the checkpointed high watermark to which it cut the log, if that is known."""
    marks = [mark.fact for mark in timeline.ends_of(cut.broker, "high-watermark") if mark.end == cut.end]
    return [*marks[:1], cut.fact]


def _old_format_facts(timeline: Timeline) -> list[Fact] | None:
    """The facts that replicas truncate to the high watermark; [] if they use leader epochs, None if this is unknown."""
    batches = timeline.replica_logs.batches
    release = timeline.release()
    if release is not None and release < (0, 11):
        return [timeline.version_fact] if timeline.version_fact else []
    if batches.height:
        if (batches["magic"] < 2).all():
            row = batches.row(0, named=True)
            text = f"the log has message format v{row['magic']}, which has no leader epochs"
            return [Fact(text, "version", source=row["file"], byte=row["byte"])]
        return []
    return [] if release is not None else None


def _clean_election_facts(timeline: Timeline, new: Term) -> list[Fact]:
    """The facts that prove a clean election; empty without proof."""
    if known := in_isr_before_election(new):
        return known
    before = timeline.isr_between(until=new.time - 1) if new.time is not None else []
    reported = [report.fact for report in before[-1:] if new.leader in report.isr]
    configured = clean_by_configuration(timeline, new.time)
    # ZooKeeper keeps an absent broker in the ISR, so the configuration, if recorded, is the better proof.
    return configured or reported


def _truncation_facts(timeline: Timeline, new: Term, lost: Lost) -> list[Fact]:
    """The facts that prove that the new leader had the first lost record and truncated it before its election."""
    broker = new.leader or ""
    written = MIN_INT64 if lost.last_acked is None else lost.last_acked - 1
    elected = MAX_INT64 if new.time is None else new.time + SECOND
    for cut in reversed(dated(truncations(timeline, broker, None, lost.first), written, elected)):
        if before := _facts_held_before(timeline, broker, cut, lost):
            return [*before, *_truncation_to_high_watermark(timeline, cut)]
    return _truncation_facts_from_snapshots(timeline, broker, lost)


def _facts_held_before(timeline: Timeline, broker: str, cut: LogEnd, lost: Lost) -> list[Fact]:
    """The facts that prove that a log had the records before a truncation: a load, a snapshot, or being in the ISR."""
    if above := _load_facts_above(timeline, broker, cut, lost):
        return above
    if lost.last_acked is not None and timeline.dated_ends(broker, "loaded", since=lost.last_acked, until=cut.when):
        return []  # an earlier truncation removed them
    if may_have_lost_tail(timeline, broker, lost.last_acked, cut.time):
        return []
    return snapshots_with_records(timeline, broker, lost) or facts_had_records(timeline, broker, lost)


def _load_facts_above(timeline: Timeline, broker: str, cut: LogEnd, lost: Lost) -> list[Fact]:
    """The last load before a truncation, if the log then ended above the lost records."""
    loads = timeline.dated_ends(broker, "loaded", until=cut.when)
    return [loaded.fact for loaded in loads[-1:] if loaded.end > lost.last]


def _truncation_facts_from_snapshots(timeline: Timeline, broker: str, lost: Lost) -> list[Fact]:
    """The facts that prove a truncation without a line in server.log; empty without proof.

    One snapshot has the record, and a checkpointed high watermark at or below it. A later one has another record there.
    """
    logs = timeline.replica_logs
    own = logs.records.filter(broker=broker, offset=lost.first)
    holds = dict(zip(own["snapshot"], own["value"], strict=True))
    held = [name for name in logs.snapshots if holds.get(name) in lost.values]
    for mark in timeline.ends_of(broker, "high-watermark"):
        if mark.snapshot not in held or mark.end > lost.first:
            continue
        later = [name for name in logs.snapshots if logs.precedes(mark.snapshot, name)]
        replaced = [name for name in later if holds.get(name) is not None and holds[name] not in lost.values]
        if replaced:
            gone = [e.fact for e in timeline.ends_of(broker, "snapshot") if e.snapshot == replaced[0]]
            return [*snapshots_with_records(timeline, broker, lost), mark.fact, *gone]
    return []
