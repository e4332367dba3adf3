"""Explains findings by their causes, and returns the explanations as plain records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ..partitions.coordinators import committed_at_last
from ..partitions.log_start import log_start
from ..partitions.partition import Partition, once
from ..replicas.replica_logs import ReplicaLogs
from ..rules import RULES
from ..rules.rule import sends_of
from ..timelines.facts import OUT_OF_RANGE, SECOND, ordered
from ..timelines.timeline import LogEnd, Timeline
from ..wording import brokers, span
from . import explain_divergence, explain_duplicate, explain_loss, explain_misread, explain_missed
from .cases import GROUP_EVENTS, LOSSES, Explanation, Lost, LostRange, Missed, Repeated, records_at
from .loss_ranges import explain_losses

MAX_TEXT = 400  # characters of a finding's sentence

Record = dict[str, Any]
Explained = tuple[Sequence[Finding], Lost | None, Explanation]
Losses = Sequence[Explained]  # the explanations of a partition's losses


def explain(p: Partition, findings: list[Finding]) -> tuple[list[Finding], list[Record]]:
    """The findings with their cause where it is known, and one record for each explanation.

    A record has findings (ids), says (the sentence of the first finding), lost (the LostRange of a loss), cause, chain
    (facts with says, time in ns, place or source with line or byte), prevented_by, citation, missing, readings.
    Findings with equal explanations share one record; incidents.py joins the records of one event.
    """
    records: list[Record] = []
    if p.timeline is not None and not len(p.sends):
        truncated = _explain_truncations(p.timeline)
        records = [record for record in truncated if record["cause"] != "unknown" or not _has_clients(p)]
    shared: dict[Any, Record] = {}
    causes: dict[str, dict[str, None]] = {finding.id: {} for finding in findings}
    for together, lost, explanation in _explained(p, findings):
        key = _sharing_key(together[0], lost, explanation)
        if key not in shared:
            about: Record = {"findings": [], "says": together[0].sentence[:MAX_TEXT], "lost": _lost_range(lost)}
            shared[key] = {**about, **record_of(explanation)}
            records.append(shared[key])
            if explanation.chain:
                # A consequence of a loss with the same facts shares the explanation of the loss.
                shared.setdefault((explanation.cause, tuple(explanation.chain)), shared[key])
        for finding in together:
            shared[key]["findings"].append(finding.id)
            causes[finding.id][explanation.cause] = None
    known = {name: ", ".join(found) if found.keys() - {"unknown"} else None for name, found in causes.items()}
    return [replace(finding, cause=known[finding.id]) for finding in findings], records


def _explained(p: Partition, findings: list[Finding]) -> list[Explained]:
    """All explanations in the order of findings: each with the findings and the lost range that it is about."""
    losses = [finding for finding in findings if finding.rule in LOSSES]
    explained: list[Explained] = []
    if p.timeline is not None and losses:
        explained += explain_losses(p.timeline, losses, sends_of(p))
    of_losses = tuple(explained)
    for finding in findings:
        explain_finding = EXPLAINERS.get(RULES[finding.rule].explained_as or "")
        if explain_finding is not None and (explanation := explain_finding(p, finding, of_losses)) is not None:
            explained.append(([finding], None, explanation))
    position = {finding.id: number for number, finding in enumerate(findings)}
    return sorted(explained, key=lambda item: position[item[0][0].id])


def _sharing_key(finding: Finding, lost: Lost | None, explanation: Explanation) -> Any:
    """A key that is equal for findings which share a record.

    For a loss or a conflict it identifies the explanation; otherwise it has the chain, or else the missing evidence."""
    if lost is not None or explanation.readings:
        return id(explanation)
    if explanation.chain:
        return explanation.cause, tuple(explanation.chain)
    return finding.rule, finding.severity, explanation.cause, tuple(explanation.missing)


def _has_clients(p: Partition) -> bool:
    """Whether a truncation without a proved cause is not reported.

    Either clients are recorded, so the rules judge it; or the topic is Kafka's own, where every clean election
    truncates unacknowledged tails."""
    return p.topic.startswith("__") or p.context.height > 0


def _explain_truncations(timeline: Timeline) -> list[Record]:
    """The causes of truncations in a run without clients, where acknowledgements are not recorded."""
    topic, partition = timeline.replica_logs.topic, timeline.replica_logs.partition
    cuts: dict[tuple[int, int], list[LogEnd]] = {}
    for cut in timeline.ends:
        loaded = [end for end in timeline.ends_of(cut.broker, "loaded") if end.time is not None and end.end > cut.end]
        before = [end for end in loaded if cut.time is not None and (end.time or 0) <= cut.time]
        if cut.kind == "truncated" and not cut.noop and before:
            first = _first_removed(timeline.replica_logs, cut.end, before[-1].end)
            if first is not None:
                cuts.setdefault((first, before[-1].end), []).append(cut)
    records = []
    for (first, end), alike in cuts.items():
        # A term that began below the cut had written the records by the time of the truncation.
        wrote = [term for term in timeline.terms.values() if term.start is not None and term.start < first]
        written = wrote[-1].time if wrote and (wrote[-1].time or 0) <= (alike[0].time or 0) else None
        acks = frozenset({"all"} if topic.startswith("__") else ())  # brokers write their own topics with acks=all
        lost = Lost(topic, partition, first, end - 1, end - first, acks, written=written)
        who = brokers(sorted({cut.broker for cut in alike}))
        text = f"{who} truncated {span(first, end - 1)} of {lost.name}{_reason_of_truncation(timeline, alike[0])}"
        text += "; no acknowledgements are recorded"
        records.append({"findings": [], "says": text, "lost": None, **record_of(explain_loss(timeline, lost))})
    return records


def _first_removed(logs: ReplicaLogs, start: int, end: int) -> int | None:
    """The first offset of a truncated range at which the last logs have no record, or one of a later leader epoch.

    None if there is none: then the follower fetched the same records again. An epoch that begins within the range
    wrote other records there; batches before format v2 have no epoch. Without logs it is the first offset.
    """
    own = logs.batches.filter(logs.is_of_leader)
    last = own if len(own) else logs.batches.filter(snapshot=logs.last)
    if not len(last):
        return None if logs.held else start
    begun = last.group_by("leader_epoch").agg(pl.col("base_offset").min()).drop_nulls()["base_offset"]
    log_end = last.select(pl.col("last_offset").max() + 1).item()
    removed = [offset for offset in (*begun, max(log_end, start)) if start <= offset < end]
    return min(removed, default=None)


def _reason_of_truncation(timeline: Timeline, cut: LogEnd) -> str:
    """A clause with the leader to whose shorter log a follower truncated, if its log line records that."""
    for fact in timeline.refused_fetches:
        if fact.kind != OUT_OF_RANGE or (fact.broker, fact.offset) != (cut.broker, cut.end) or not fact.brokers:
            continue
        if cut.time is not None and fact.time is not None and abs(fact.time - cut.time) <= SECOND:
            return f", because the log of its leader, broker {min(fact.brokers)}, ended at offset {cut.end}"
    return ""


def _lost_range(lost: Lost | None) -> Record | None:
    """A lost range as a record; None for findings that are no losses."""
    if lost is None:
        return None
    return asdict(LostRange(lost.topic, lost.partition, lost.first, lost.last, lost.count, lost.read, *lost.reported))


def _explain_divergence(p: Partition, finding: Finding, _: Losses = ()) -> Explanation | None:
    """Why replicas differ at the end, or in a run without clients at any time. None without a proof at the end of a
    run with clients: the replica may not have truncated yet, and a loss has an explanation of its own."""
    first, last = finding.first_offset, finding.last_offset
    if p.timeline is None or first is None or last is None:
        return None
    if finding.snapshot == (p.timeline.replica_logs.last or None):
        explanation = explain_divergence(p.timeline, Lost(p.topic, p.partition, first, last, finding.count))
        if explanation.cause != "unknown":
            return explanation
    if finding.severity != "violation" or len(p.sends) or len(p.unplaced):
        return None
    return _explain_losing_side(p, p.timeline, finding, (first, last))


def _explain_losing_side(
    p: Partition, timeline: Timeline, finding: Finding, offsets: tuple[int, int]
) -> Explanation | None:
    """The cause for which committed records are not on the side of the later leader, as of a loss; None if that side
    is not known. The checkpointed high watermark shows that they were committed, which is equivalent to acks=all."""
    losing = _losing_records(timeline, finding.snapshot or "", offsets)
    if not len(losing):
        return None
    broker, first, last = losing["broker"][0], int(losing["offset"][0]), int(losing["offset"][-1])
    values = tuple(losing["value"].drop_nulls())
    lost = Lost(p.topic, p.partition, first, last, len(losing), frozenset({"all"}), values)
    explanation = explain_loss(timeline, lost)
    if explanation.cause == "unknown":
        return explanation
    marks = timeline.ends_of(broker, "high-watermark")
    committed = [mark.fact for mark in marks if mark.snapshot == (finding.snapshot or "") and mark.end > first]
    return replace(explanation, chain=ordered([*explanation.chain, *committed[:1]]))


def _losing_records(timeline: Timeline, snapshot: str, offsets: tuple[int, int]) -> pl.DataFrame:
    """One replica's records in a range of offsets where a later leader wrote other values; none without epochs."""
    held = timeline.replica_logs.records.filter(pl.col("offset").is_between(*offsets), snapshot=snapshot)
    latest = pl.col("leader_epoch").max()
    won = held.filter(latest.over("broker") == latest)
    losing = held.filter(latest.over("broker") < latest).join(won, on=["offset", "value"], how="anti", nulls_equal=True)
    losing = losing.sort("offset", "broker")
    return losing.filter(broker=losing["broker"][0]) if len(losing) else losing


def _explain_missed(p: Partition, finding: Finding, losses: Losses) -> Explanation | None:
    if finding.first_offset is None or finding.last_offset is None or not finding.processes:
        return None
    group = finding.processes[0]
    members = {name: about for name, about in p.settings.processes.items() if p.settings.group_of(name) == group}
    earlier = _earlier_record(p, list(members), finding)
    stored = next(committed_at_last(p).filter(group=group).iter_rows(named=True), None)
    at = (finding.first_offset, finding.last_offset, finding.count)
    truncation = _truncation_of(p, finding.first_offset, earlier, losses)
    missed = Missed(p.topic, p.partition, group, *at, earlier, stored, truncation, lambda offset: _deleted(p, offset))
    return explain_missed(_group_events(p, list(members)), missed, members)


def _deleted(p: Partition, offset: int) -> int | None:
    """The earliest time (ns) at which an offset may have been below the log start, if it certainly was at the end."""
    start = log_start(p)
    return int(start.since(np.array([offset]))[0]) if offset < start.certain else None


def _earlier_record(p: Partition, members: list[str], finding: Finding) -> Record | None:
    """The first poll by a member of another record at the first missed offset, unless one polled the missed record."""
    polls = p.reads.filter(pl.col("process").is_in(members), offset=finding.first_offset)
    polls = polls.select("process", "value", time="completed", place="at").drop_nulls()
    others = polls.filter(~pl.col("value").is_in(finding.values)).sort("time")
    return others.row(0, named=True) if len(others) and len(others) == len(polls) else None


def _truncation_of(p: Partition, offset: int, earlier: Record | None, losses: Losses) -> Explanation | None:
    """The proved cause of the truncation of a record that was read at an offset and is replaced there."""
    if p.timeline is None or earlier is None:
        return None
    for _, lost, explanation in losses:
        if lost is not None and lost.first <= offset <= lost.last and earlier["value"] in lost.values:
            return None if explanation.cause == "unknown" else explanation
    truncated = Lost(p.topic, p.partition, offset, offset, 1, values=(earlier["value"],), written=earlier["time"])
    explanation = explain_loss(p.timeline, truncated)
    return None if explanation.cause == "unknown" else explanation


def _group_events(p: Partition, members: list[str]) -> pl.DataFrame:
    own = pl.col("process").is_in(members)
    offsets = (pl.col("offset").min().alias("first_offset"), pl.col("offset").max().alias("last_offset"))
    who = (pl.col("completed").alias("time"), pl.col("at").alias("place"), "process")
    polls = p.reads.filter(own).group_by("completed", "at", "process", maintain_order=True).agg(*offsets)
    is_known = pl.col("kind").is_in(["assign", "seek", "commit", "handle"])
    marks = p.marks.filter(own, is_known, pl.col("outcome") != "fail").with_columns(
        # An offset that the application assigned is not the group's committed offset. Without an offset the client
        # starts at the committed offset, or resets.
        kind=pl.when((pl.col("kind") == "assign") & ~pl.col("group"))
        .then(pl.when(pl.col("offset").is_null()).then(pl.lit("assign-own")).otherwise(pl.lit("seek")))
        .when((pl.col("kind") == "commit") & (pl.col("outcome") == "info"))
        .then(pl.lit("commit-info"))
        .otherwise("kind")
    )
    marks = marks.group_by("completed", "at", "process", "kind", maintain_order=True).agg(*offsets)
    crashes = p.context.filter(own, kind="crash")
    events = [
        polls.select(*who, "first_offset", "last_offset", f=pl.lit("poll")),
        marks.select(*who, "first_offset", "last_offset", f="kind"),
        crashes.select(*who, f=pl.lit("crash")),
    ]
    return pl.concat(events, how="diagonal").select(pl.col(name).cast(kind) for name, kind in GROUP_EVENTS.items())


def _explain_misread(p: Partition, finding: Finding, _: Losses = ()) -> Explanation | None:
    """The proved cause of a read at any of the finding's offsets that returned a damaged copy."""
    if p.timeline is None or finding.first_offset is None or finding.last_offset is None:
        return None
    offsets: list[int] = [finding.first_offset]
    if finding.rule in ("duplicate", "inconsistent-offsets"):
        within = pl.col("offset").is_between(finding.first_offset, finding.last_offset)
        offsets = p.entries.filter(within & pl.col("value").is_in(finding.values))["offset"].unique().sort().to_list()
    for offset in offsets:
        explanation = explain_misread(p.timeline, offset, is_read=finding.rule != "log-corruption")
        if explanation.cause != "unknown":
            return explanation
    return None


def _explain_duplicate(p: Partition, finding: Finding, _: Losses = ()) -> Explanation | None:
    if p.timeline is None or not finding.values:
        return None
    if (misread := _explain_misread(p, finding)) is not None:
        return misread
    repeats = _repeats(p)
    value = finding.values[0]
    read = repeats.read.get(value, {})
    send = repeats.sends.get(value, (None, None, None, None))
    producer = p.settings.processes.get(send[0], {}) if send[0] else {}
    records = [row for offset in read for row in repeats.records.get(offset, ())]
    repeated = Repeated(p.topic, p.partition, value, tuple(read), *send, producer, read)
    return explain_duplicate(p.timeline, repeated, records)


class _Repeats(NamedTuple):
    """Reads, sends and records of all values at several offsets; there may be thousands."""

    read: dict[str, dict[int, int | None]]  # by offset: ns of the first read
    sends: dict[str, tuple[str | None, int | None, int | None, str | None]]  # first: process, invoked, its place, acks
    records: dict[int, list[Record]]  # of the brokers, by offset


@once
def _repeats(p: Partition) -> _Repeats:
    entries = p.entries.filter(pl.col("value").is_duplicated())
    read: dict[str, dict[int, int | None]] = {}
    for value, offset, time in entries.select("value", "offset", "first_read").iter_rows():
        read.setdefault(value, {})[offset] = time
    sent = p.sends.join(entries, on="value", how="semi", maintain_order="left").unique("value", keep="first")
    sends = {row[0]: row[1:] for row in sent.select("value", "process", "invoked", "invoked_at", "acks").iter_rows()}
    records = records_at(p.timeline, entries["offset"]) if p.timeline is not None else {}
    return _Repeats(read, sends, records)


# By what a rule's findings are explained as (Rule.explained_as); losses have `explain_losses`.
EXPLAINERS: dict[str, Callable[[Partition, Finding, Losses], Explanation | None]] = {
    "divergence": _explain_divergence,
    "missed": _explain_missed,
    "duplicate": _explain_duplicate,
    "misread": _explain_misread,
}


def record_of(explanation: Explanation) -> Record:
    """An explanation as a record of verdict.json."""
    chain = [fact.record() for fact in explanation.chain]
    return {**vars(explanation), "chain": chain, "readings": [record_of(reading) for reading in explanation.readings]}
