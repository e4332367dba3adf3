"""One partition over time: outcomes, latency, what nobody has read yet, how far consumers are behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ..partition import Partition
from ..rules.loss import fates
from ..rules.polling import moves_of
from .bins import Bins, Ints, bins_over

PER_OCTAVE = 4  # buckets of latency in each doubling: a bucket is 19 % wide
MOST_CONSUMERS = 16


def lost_values(findings: list[Finding]) -> pl.Series:
    """Every value that a finding calls lost."""
    values = [value for finding in findings if finding.rule == "lost-write" for value in finding.values]
    return pl.Series("value", values, dtype=pl.String)


def fate_of_acknowledged(p: Partition, findings: list[Finding]) -> pl.DataFrame:
    """offset, acked (ns), first_read (ns), lost, legal, value: a row each acknowledged value.

    Lost is what the findings call lost, so that pictures and findings agree whatever the dialect.
    """
    lost = lost_values(findings)
    fate = fates(p)
    return fate.select(
        "offset",
        pl.coalesce("completed", "invoked").alias("acked"),
        "first_read",
        (pl.col("value").is_in(lost.implode()) if len(lost) else pl.lit(False)).alias("lost"),
        (pl.col("legal") & ~pl.col("in_final")).fill_null(False).alias("legal"),
        "value",
    )


def span_of(p: Partition) -> tuple[int, int] | None:
    """The first and last time that the partition's observations tell, in ns."""
    lows, highs = [], []
    for frame in (p.sends, p.reads, p.marks):
        if len(frame):
            low, high = frame["invoked"].min(), frame["completed"].max()
            lows += [int(low)] if isinstance(low, int) else []
            highs += [int(value) for value in (high, frame["invoked"].max()) if isinstance(value, int)]
    return (min(lows), max(highs)) if lows and highs else None


def outcomes(sends: pl.DataFrame, bins: Bins) -> dict[str, list[int]]:
    """Sends that ended ok, fail or info, by the time of their end (of their invocation, if they never ended)."""
    ended = bins.of(sends.select(pl.coalesce("completed", "invoked")).to_series().to_numpy())
    codes = sends["outcome"].to_physical().to_numpy().astype(np.int64)
    tally = np.bincount(codes * bins.number + ended, minlength=3 * bins.number).reshape(3, -1)
    return dict(zip(("ok", "fail", "info"), tally.tolist(), strict=True))


def unplaced_outcomes(p: Partition) -> dict[str, Any] | None:
    """The topic's sends whose partition nobody learned. The same in each of its partitions: merging takes one."""
    sends = p.unplaced
    if not len(sends):
        return None
    times = sends.select(pl.coalesce("completed", "invoked")).to_series().to_numpy()
    bins = bins_over(int(times.min()), int(times.max()))
    return {"bins": bins.to_json(), "series": outcomes(sends, bins)}


def latency(p: Partition, bins: Bins) -> list[list[int]]:
    """Acknowledged sends by (bin of their end, bucket of their latency): parallel lists of bin, bucket and count."""
    sent = p.sends.filter((pl.col("outcome") == "ok") & ~pl.col("synthetic") & pl.col("completed").is_not_null())
    if not len(sent):
        return [[], [], []]
    ended, begun = sent["completed"].to_numpy(), sent["invoked"].to_numpy()
    bucket = np.floor(np.log2(np.maximum(ended - begun, 1).astype(np.float64)) * PER_OCTAVE).astype(np.int64)
    wide = 64 * PER_OCTAVE
    cells, counts = np.unique(bins.of(ended) * wide + bucket, return_counts=True)
    return [(cells // wide).tolist(), (cells % wide).tolist(), counts.tolist()]


def bucket_floor(bucket: int) -> float:
    """The least latency of a bucket, in ns."""
    return float(2.0 ** (bucket / PER_OCTAVE))


def over_time(p: Partition, fate: pl.DataFrame, bins: Bins) -> dict[str, list[int]]:
    """By bin: ok, fail, info (sends), read (records), acked, lost (by the time of their acknowledgement),

    seen (acknowledged values first read, not before their acknowledgement) and never (acknowledged, never read).
    """
    acked = fate["acked"].to_numpy()
    first_read = fate["first_read"]
    known = first_read.is_not_null().to_numpy()
    seen = np.maximum(acked[known], first_read.drop_nulls().to_numpy())
    read_at = p.reads.select(pl.coalesce("completed", "invoked")).to_series().to_numpy()
    return {
        **outcomes(p.sends, bins),
        "read": bins.count_in(read_at),
        "acked": bins.count_in(acked),
        "lost": bins.count_in(acked[fate["lost"].to_numpy()]),
        "seen": bins.count_in(seen),
        "never": bins.count_in(acked[~known & ~fate["legal"].to_numpy()]),
    }


def lags(p: Partition, fate: pl.DataFrame, bins: Bins) -> list[dict[str, Any]]:
    """By consumer and bin: the age (ns) of the oldest acknowledged record that it has not passed, at the bin's end.

    0: it has passed them all; None: it has no position. Lost records are left out, as nobody can wait for them,
    and so are those legally gone. `since` is the time from which it lags at the end (None: it does not), so that
    merging can go on to the end of the run. Final readers begin at 0 on purpose and are left out.
    """
    kept = fate.filter(~pl.col("lost") & ~pl.col("legal") & pl.col("offset").is_not_null()).sort("offset")
    if not len(kept) or not len(p.reads):
        return []
    final = p.final.processes if p.final else ()
    counts = p.reads.filter(pl.col("offset").is_not_null())["process"].value_counts()
    ranked = counts.filter(~pl.col("process").is_in(list(final))).sort(["count", "process"], descending=[True, False])
    offsets = kept["offset"].to_numpy()
    oldest = np.append(np.minimum.accumulate(kept["acked"].to_numpy()[::-1])[::-1], np.iinfo(np.int64).max)
    named = moves_of(p).select("process", "completed", "at", "index", "position")
    polled = p.reads.filter(pl.col("offset").is_not_null())
    lines = []
    for process in ranked["process"].head(MOST_CONSUMERS).to_list():
        mine = polled.filter(pl.col("process") == process).select(
            "process", "completed", "at", "index", (pl.col("offset") + 1).alias("position")
        )
        jumps = named.filter(pl.col("process") == process)
        if len(jumps):
            mine = pl.concat([mine, jumps]).sort("completed", "at", "index", maintain_order=True)
        lines.append({"process": process, **_lag(mine, offsets, oldest, bins)})
    return lines


def _lag(mine: pl.DataFrame, offsets: Ints, oldest: Ints, bins: Bins) -> dict[str, Any]:
    """The lag at each bin's end of a consumer whose positions are `mine`, in order of time."""
    times = mine["completed"].fill_null(strategy="forward").fill_null(0).to_numpy()
    positions = mine["position"].fill_null(-1).to_numpy()
    ends = bins.ends()
    last = np.searchsorted(np.maximum.accumulate(times), ends, "left") - 1
    position = np.where(last >= 0, positions[np.maximum(last, 0)], -1)
    since = oldest[np.searchsorted(offsets, position, "left")]
    behind = np.where(since < ends, ends - since, 0)
    line = [None if where < 0 else int(lag) for where, lag in zip(position.tolist(), behind.tolist(), strict=True)]
    late = position[-1] >= 0 and since[-1] < ends[-1]
    return {"behind": line, "since": int(since[-1]) if late else None}
