"""A loss that has several causes: its range is taken apart where what they rest on changes, and each part is explained.

Neighbouring records are lost together, yet the ones may be gone by an election and the next by a power failure. What
the causes rest on is of each record: its acks, the epoch that wrote it, the ISR that acknowledged it, the epochs that
began and the logs that once ended at or below it, and what stands at its offset now.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ..timelines.timeline import Timeline
from . import explain_loss
from .attempts import Explanation
from .losses import Lost, gone_of, lost_of, lost_part

MAX_PARTS = 40  # of a range: an ISR that flaps all the while tells nothing of the single record

Told = tuple[Lost, Explanation]


def explain_ranges(timeline: Timeline, finding: Finding, sends: pl.DataFrame) -> list[Told]:
    """The causes of a finding's lost range, each with the part of it that it explains, in order of offset."""
    whole = lost_of(finding, sends)
    if whole is None:
        return []
    gone = gone_of(finding, sends).sort("offset")
    parts = [] if gone["offset"].null_count() else _alike(timeline, gone)
    if not 1 < len(parts) <= MAX_PARTS or gone.height != finding.count:
        return [(whole, explain_loss(timeline, whole))]
    told = [(part, *_explained(timeline, finding, part, sends)) for part in parts]
    out: list[Told] = []
    for cause, group in groupby(told, key=lambda one: one[2].cause):
        mine = list(group)
        apart = [(lost, explanation) for _, lost, explanation in mine]
        joined = (
            _explained(timeline, finding, pl.concat([part for part, _, _ in mine]), sends)
            if len(mine) > 1
            else apart[0]
        )
        out += [joined] if joined[1].cause == cause else apart
    return out


def _explained(timeline: Timeline, finding: Finding, part: pl.DataFrame, sends: pl.DataFrame) -> Told:
    lost = lost_part(finding, part, sends)
    return lost, explain_loss(timeline, lost)


def _alike(timeline: Timeline, gone: pl.DataFrame) -> list[pl.DataFrame]:
    """Runs of lost sends, in order of offset, of which the causes know the same."""
    logs = timeline.replica_logs
    held = logs.records.select("offset", "value", "leader_epoch").drop_nulls("leader_epoch")
    then = held.unique(["offset", "value"], keep="first").rename({"leader_epoch": "then"})
    at_end = (pl.col("snapshot") == logs.last) & (pl.col("broker") == logs.leader if logs.leader is not None else True)
    now = logs.records.filter(at_end).group_by("offset").agg(pl.col("leader_epoch").max().alias("now"))
    known = gone.join(then, on=["offset", "value"], how="left", maintain_order="left")
    known = known.join(now, on="offset", how="left", maintain_order="left")
    isr = [(time, brokers) for time, brokers, _ in timeline.isr if time is not None]
    changes = [time for i, (time, brokers) in enumerate(isr) if i == 0 or brokers != isr[i - 1][1]]
    starts = sorted(term.start for term in timeline.terms.values() if term.start is not None)
    ends = sorted({end.end for end in timeline.ends})
    known = known.with_columns(
        pl.Series("isr", np.searchsorted(changes, known["completed"], side="right")),
        pl.Series("starts", np.searchsorted(starts, known["offset"], side="right")),
        pl.Series("ends", np.searchsorted(ends, known["offset"], side="right")),
    )
    runs = known.with_columns(pl.struct("acks", "then", "now", "isr", "starts", "ends").rle_id().alias("run"))
    return runs.select(*gone.columns, "run").partition_by("run", include_key=False, maintain_order=True)
