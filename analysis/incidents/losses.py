"""Explains losses, each part of a range by itself, and ranges with the same evidence together.

Adjacent records can have different causes: an election may lose the first ones, and a power failure the next. The
evidence of a cause belongs to single records: their acks, the epoch that wrote them, the ISR that acknowledged them,
the epochs that began and the logs that ended at or below them, and the record at their offset now. A range is split
where this evidence changes. Many ranges with the same evidence, such as thousands of a run whose producers alternate
between acks, share one explanation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ..causes import explain_loss
from ..causes.cases import ACKED_BY, Explanation, Lost, lost_of, lost_part
from ..causes.outages import is_process_dead
from ..timelines.facts import dated
from ..timelines.terms import Term
from ..timelines.timeline import Timeline
from .chains import election_of

MAX_PARTS = 40  # of a range; one with more is explained as a whole
MAX_SINGLE = 20  # findings with the same evidence that are explained one by one
TIMES = {"acked_from": pl.Int64, "acked_by": pl.Int64}
EVIDENCE = ("acks", "epoch_then", "epoch_now", "isr", "starts", "ends")


class ExplainedRange(NamedTuple):
    """A lost range and its explanation."""

    lost: Lost
    explanation: Explanation


class ExplainedFindings(NamedTuple):
    """Findings with one explanation."""

    findings: list[Finding]
    lost: Lost | None  # the range that is explained, if they are losses
    explanation: Explanation


Losses = Sequence[ExplainedRange]  # of a partition


def explain_losses(timeline: Timeline, findings: Sequence[Finding], sends: pl.DataFrame) -> Iterator[ExplainedFindings]:
    """The causes of lost ranges."""
    values = list({value for finding in findings for value in finding.values})
    sends = with_acknowledgement_times(timeline, sends, values)
    gone = _with_evidence(timeline, sends.filter(pl.col("acknowledged") & pl.col("value").is_in(values)))
    shared = _findings_with_same_evidence(findings, gone) if len(findings) > MAX_SINGLE else []
    for together in shared:
        merged = replace(together[0], values=[value for finding in together for value in finding.values])
        yield ExplainedFindings(together, *_explain_part(timeline, merged, _lost_sends_of(merged, gone), sends))
    done = {id(finding) for together in shared for finding in together}
    for finding in findings:
        if id(finding) not in done:
            for part in _explain_finding(timeline, finding, _lost_sends_of(finding, gone), sends):
                yield ExplainedFindings([finding], *part)


def _lost_sends_of(finding: Finding, gone: pl.DataFrame) -> pl.DataFrame:
    return gone.filter(pl.col("value").is_in(finding.values)).sort("offset")


def _explain_finding(
    timeline: Timeline, finding: Finding, gone: pl.DataFrame, sends: pl.DataFrame
) -> Iterator[ExplainedRange]:
    """The causes of a finding's lost range, each with the part of it that it explains, in order of offset."""
    whole = lost_of(finding, sends)
    if whole is None:
        return
    # Runs of adjacent sends with the same evidence.
    parts = gone.with_columns(run=pl.struct(EVIDENCE).rle_id()).partition_by("run", maintain_order=True)
    if len(parts) > MAX_PARTS:  # for example, if producers alternate between acks
        parts = gone.partition_by(EVIDENCE, maintain_order=True)
    if gone["offset"].null_count() or gone.height != finding.count or not 1 < len(parts) <= MAX_PARTS:
        yield ExplainedRange(whole, explain_loss(timeline, whole))
        return
    explained = [_explain_part(timeline, finding, part, sends) for part in parts]
    for event, group in groupby(range(len(parts)), key=lambda number: _event_of(explained[number].explanation)):
        same = list(group)
        together = pl.concat([parts[number] for number in same])
        joined = _explain_part(timeline, finding, together, sends) if len(same) > 1 else explained[same[0]]
        yield from [joined] if _event_of(joined.explanation) == event else [explained[number] for number in same]


def _event_of(explanation: Explanation) -> tuple[str, int | None]:
    """The cause of a loss, and the election that lost the records."""
    return explanation.cause, election_of(explanation.chain)


def _explain_part(timeline: Timeline, finding: Finding, part: pl.DataFrame, sends: pl.DataFrame) -> ExplainedRange:
    lost = lost_part(finding, part, sends)
    return ExplainedRange(lost, explain_loss(timeline, lost))


def _findings_with_same_evidence(findings: Sequence[Finding], gone: pl.DataFrame) -> list[list[Finding]]:
    """Groups of more than MAX_SINGLE findings of one rule and severity; all their records have the same evidence."""
    unique = gone.filter(pl.col("offset").is_not_null()).filter(pl.col("value").is_unique())
    evidence = dict(unique.select("value", pl.struct(EVIDENCE).rank("dense")).iter_rows())
    groups: dict[tuple[str, str, int], list[Finding]] = {}
    for finding in findings:
        found = {evidence.get(value) for value in finding.values}
        if len(found) == 1 and len(finding.values) == finding.count and (same := found.pop()) is not None:
            groups.setdefault((finding.rule, finding.severity, same), []).append(finding)
    return [group for group in groups.values() if len(group) > MAX_SINGLE]


def _with_evidence(timeline: Timeline, gone: pl.DataFrame) -> pl.DataFrame:
    """Lost sends with the columns of EVIDENCE."""
    logs = timeline.replica_logs
    held = logs.records.select("offset", "value", "leader_epoch").drop_nulls("leader_epoch")
    then = held.unique(["offset", "value"], keep="first").rename({"leader_epoch": "epoch_then"})
    at_end = (pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader if logs.leader is not None else True)
    now = logs.records.filter(at_end).group_by("offset").agg(epoch_now=pl.col("leader_epoch").max())
    known = gone.join(then, on=["offset", "value"], how="left", maintain_order="left")
    known = known.join(now, on="offset", how="left", maintain_order="left")
    reports = timeline.isr_between()
    changes = [one.when for i, one in enumerate(reports) if i == 0 or one.isr != reports[i - 1].isr]
    starts = sorted(term.start for term in timeline.terms.values() if term.start is not None)
    ends = sorted({end.end for end in timeline.ends})
    return known.with_columns(
        pl.Series("isr", np.searchsorted(changes, known.select(ACKED_BY).to_series(), side="right")),
        pl.Series("starts", np.searchsorted(starts, known["offset"], side="right")),
        pl.Series("ends", np.searchsorted(ends, known["offset"], side="right")),
    )


def with_acknowledgement_times(timeline: Timeline, sends: pl.DataFrame, values: list[str]) -> pl.DataFrame:
    """Sends (SENT_RECORDS) with `acked_from` and `acked_by` for those of `values` that were sent in transactions.

    A client only reports the end of a transaction, which may be long after the brokers acknowledged its records, and an
    election in between may have lost them. So such a send was acknowledged

    - after its transaction and the epoch that wrote it began (`acked_from`), as far as that epoch is known: a copy has
      it, or the next epoch has another record there;
    - before its transaction ended and before a consumer read it (`acked_by`);
    - before the last leader that had the record died, and before the first epoch that began at or below its offset: the
      leader of that epoch did not have the record (`acked_by`).
    """
    wanted = pl.col("txn").fill_null(False) & pl.col("acknowledged") & pl.col("value").is_in(values)
    known = sends.filter(wanted & pl.col("offset").is_not_null()).unique(["offset", "value"], keep="none")
    if not len(known):
        return sends
    key = ["offset", "value"]
    held = timeline.replica_logs.records.select(*key, "leader_epoch").drop_nulls().unique().unique(key, keep="none")
    known = known.drop(*TIMES).join(held, on=key, how="left", maintain_order="left")
    places = known.select("leader_epoch", "offset", "invoked", "completed").rows()
    leaders = {place: _times_of_leaders(timeline, *place) for place in dict.fromkeys(places)}
    began, gone = zip(*(leaders[place] for place in places), strict=True)
    times = known.select(
        *key,
        acked_from=pl.max_horizontal("invoked", pl.Series(began, dtype=pl.Int64)),
        acked_by=pl.min_horizontal("completed", "first_read", pl.Series(gone, dtype=pl.Int64)),
    )
    # Times in the wrong order come from clocks that disagree, and prove nothing.
    times = times.filter(pl.col("acked_from") <= pl.col("acked_by"))
    return sends.drop(*TIMES).join(times, on=key, how="left", maintain_order="left")


def _times_of_leaders(
    timeline: Timeline, epoch: int | None, offset: int, begun: int, ended: int
) -> tuple[int | None, int | None]:
    """The times (ns) when the epoch that wrote a record began, and when the last leader with the record was gone.

    The record's transaction began and ended at `begun` and `ended`.
    """
    epoch = _clean_epoch(timeline, offset, begun, ended) if epoch is None else epoch
    epoch = _replaced_epoch(timeline, offset, begun, ended) if epoch is None else epoch
    terms = [term for term in timeline.terms.values() if epoch is not None and term.epoch >= epoch]
    if not terms or terms[0].epoch != epoch:
        return None, None
    later = (number for number, term in enumerate(terms) if number and term.start is not None and term.start <= offset)
    number = next(later, None)
    return terms[0].time, None if number is None else _last_time_of(timeline, terms[number - 1], terms[number])


def _clean_epoch(timeline: Timeline, offset: int, begun: int, ended: int) -> int | None:
    """The last epoch that began at or below a record, by a clean election, while its transaction was open.

    A leader that is elected cleanly has all acknowledged records, so it wrote this one. None if no later epoch began at
    or below the record, so that this election lost it after all.
    """
    below = [t for t in dated(timeline.terms.values()) if t.start is not None and t.start <= offset]
    found = [t for t in dated(below[:-1], begun, ended - 1) if t.elected_uncleanly is False]
    return found[-1].epoch if found else None


def _replaced_epoch(timeline: Timeline, offset: int, begun: int, ended: int) -> int | None:
    """The epoch that wrote a lost record, if the next one, which began while its transaction was open, has another now.

    The leader of the next epoch did not start again while the transaction was open, so it appended each offset once.
    """
    logs = timeline.replica_logs
    now = logs.last_records.filter(broker=logs.leader or "", offset=offset)["leader_epoch"].drop_nulls()
    for before, term in pairwise(timeline.dated_terms if len(now) else ()):
        if term.epoch != now[0]:
            continue
        if term.start is None or term.start > offset or not before.when <= begun < term.when < ended:
            return None
        is_known = bool(timeline.starts_and_loads(term.leader)) and not term.has_conflict and not before.has_conflict
        return before.epoch if is_known and not timeline.starts_and_loads(term.leader, term.when, ended) else None
    return None


def _last_time_of(timeline: Timeline, last: Term, successor: Term) -> int | None:
    """The time (ns) at which a term's leader stopped leading: the next term, or its death; None if not known."""
    # The controller's record of a change names the ISR after it.
    until = min((time - 1 for time in (successor.time, last.ended) if time is not None), default=None)
    if until is None or last.leader is None or not is_process_dead(timeline, last.leader, until, until):
        return until
    return max(e.when for e in dated(timeline.deaths_of(last.leader), until=until) if e.fact.place is not None)
