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
from itertools import groupby

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ..timelines.timeline import Timeline
from . import explain_loss
from .attempts import Explanation
from .losses import Lost, gone_of, lost_of, lost_part

MAX_PARTS = 40  # of a range; if the ISR changes more often, its changes explain no single record
MAX_SINGLE = 20  # findings with the same evidence that are explained one by one
EVIDENCE = ("acks", "epoch_then", "epoch_now", "isr", "starts", "ends")

ExplainedRange = tuple[Lost, Explanation]


def explain_losses(
    timeline: Timeline, findings: Sequence[Finding], sends: pl.DataFrame
) -> Iterator[tuple[Sequence[Finding], Lost, Explanation]]:
    """The causes of lost ranges: each explanation with the findings and the range that it explains."""
    shared = _findings_with_same_evidence(timeline, findings, sends) if len(findings) > MAX_SINGLE else []
    for together in shared:
        merged = replace(together[0], values=[value for finding in together for value in finding.values])
        yield together, *_explain_part(timeline, merged, gone_of(merged, sends).sort("offset"), sends)
    done = {id(finding) for together in shared for finding in together}
    for finding in findings:
        if id(finding) not in done:
            yield from (([finding], *part) for part in explain_ranges(timeline, finding, sends))


def explain_ranges(timeline: Timeline, finding: Finding, sends: pl.DataFrame) -> list[ExplainedRange]:
    """The causes of a finding's lost range, each with the part of it that it explains, in order of offset."""
    whole = lost_of(finding, sends)
    if whole is None:
        return []
    gone = gone_of(finding, sends).sort("offset")
    parts = [] if gone["offset"].null_count() else _split_by_evidence(timeline, gone)
    if not 1 < len(parts) <= MAX_PARTS or gone.height != finding.count:
        return [(whole, explain_loss(timeline, whole))]
    explained = [(part, *_explain_part(timeline, finding, part, sends)) for part in parts]
    out: list[ExplainedRange] = []
    for cause, group in groupby(explained, key=lambda item: item[2].cause):
        adjacent = list(group)
        separate = [(lost, explanation) for _, lost, explanation in adjacent]
        joined = (
            _explain_part(timeline, finding, pl.concat([part for part, _, _ in adjacent]), sends)
            if len(adjacent) > 1
            else separate[0]
        )
        out += [joined] if joined[1].cause == cause else separate
    return out


def _explain_part(timeline: Timeline, finding: Finding, part: pl.DataFrame, sends: pl.DataFrame) -> ExplainedRange:
    lost = lost_part(finding, part, sends)
    return lost, explain_loss(timeline, lost)


def _findings_with_same_evidence(
    timeline: Timeline, findings: Sequence[Finding], sends: pl.DataFrame
) -> list[list[Finding]]:
    """Groups of more than MAX_SINGLE findings of one rule and severity; all their records have the same evidence."""
    values = list({value for finding in findings for value in finding.values})
    gone = sends.filter(pl.col("acknowledged") & pl.col("value").is_in(values) & pl.col("offset").is_not_null())
    unique = _with_evidence(timeline, gone).filter(pl.col("value").is_unique())
    evidence = dict(unique.select("value", pl.struct(EVIDENCE).rank("dense")).iter_rows())
    groups: dict[tuple[str, str, int], list[Finding]] = {}
    for finding in findings:
        found = {evidence.get(value) for value in finding.values}
        if len(found) == 1 and len(finding.values) == finding.count and (same := found.pop()) is not None:
            groups.setdefault((finding.rule, finding.severity, same), []).append(finding)
    return [group for group in groups.values() if len(group) > MAX_SINGLE]


def _split_by_evidence(timeline: Timeline, gone: pl.DataFrame) -> list[pl.DataFrame]:
    """Runs of adjacent lost sends with the same evidence, in order of offset."""
    runs = _with_evidence(timeline, gone).with_columns(pl.struct(EVIDENCE).rle_id().alias("run"))
    return runs.select(*gone.columns, "run").partition_by("run", include_key=False, maintain_order=True)


def _with_evidence(timeline: Timeline, gone: pl.DataFrame) -> pl.DataFrame:
    """Lost sends with the columns of EVIDENCE."""
    logs = timeline.replica_logs
    held = logs.records.select("offset", "value", "leader_epoch").drop_nulls("leader_epoch")
    then = held.unique(["offset", "value"], keep="first").rename({"leader_epoch": "epoch_then"})
    at_end = (pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader if logs.leader is not None else True)
    now = logs.records.filter(at_end).group_by("offset").agg(pl.col("leader_epoch").max().alias("epoch_now"))
    known = gone.join(then, on=["offset", "value"], how="left", maintain_order="left")
    known = known.join(now, on="offset", how="left", maintain_order="left")
    isr = [(time, brokers) for time, brokers, _ in timeline.isr if time is not None]
    changes = [time for i, (time, brokers) in enumerate(isr) if i == 0 or brokers != isr[i - 1][1]]
    starts = sorted(term.start for term in timeline.terms.values() if term.start is not None)
    ends = sorted({end.end for end in timeline.ends})
    return known.with_columns(
        pl.Series("isr", np.searchsorted(changes, known["completed"], side="right")),
        pl.Series("starts", np.searchsorted(starts, known["offset"], side="right")),
        pl.Series("ends", np.searchsorted(ends, known["offset"], side="right")),
    )
