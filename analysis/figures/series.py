"""One partition over time: outcomes, latency, unread records, consumer lag."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ...models.arrays import Ints
from ..extremes import suffix_minima
from ..partitions.partition import Partition
from ..rules.loss import outcomes_of_sends
from ..rules.polling import moves_of

MAX_BINS = 192
MAX_CONSUMERS = 16
PER_OCTAVE = 4  # latency buckets for each doubling: a bucket is 19 % wide
OF_ACKNOWLEDGED = ("acked", "seen", "never", "gone", "lost")  # names in `over_time`


@dataclass(frozen=True)
class Bins:
    """`count` bins of 2**shift ns; the first one begins at first << shift."""

    shift: int
    first: int
    count: int

    def of(self, times: Ints) -> Ints:
        """The number of the bin of each time (ns); times outside are in the nearest one."""
        numbers: Ints = np.clip((times >> self.shift) - self.first, 0, self.count - 1)
        return numbers

    def ends(self) -> Ints:
        """The end of each bin, exclusive, in ns."""
        return (np.arange(self.first, self.first + self.count, dtype=np.int64) + 1) << self.shift

    def count_in(self, times: Ints) -> list[int]:
        """The number of times in each bin."""
        tally: list[int] = np.bincount(self.of(times), minlength=self.count).tolist()
        return tally

    def to_json(self) -> dict[str, int]:
        """The arguments of these bins by name."""
        return asdict(self)


def bins_over(start: int, end: int, shift: int = 0) -> Bins:
    """The narrowest bins of at least 2**shift ns such that at most MAX_BINS cover start..end (ns, inclusive)."""
    shift = max(shift, ((end - start) // MAX_BINS).bit_length() - 1, 0)
    while (end >> shift) - (start >> shift) >= MAX_BINS:
        shift += 1
    return Bins(shift, start >> shift, (end >> shift) - (start >> shift) + 1)


def numbers_in(bins: Bins, wider: Bins) -> Ints:
    """For each bin of `bins` the number of the bin of `wider` that contains it."""
    return (np.arange(bins.first, bins.first + bins.count, dtype=np.int64) >> (wider.shift - bins.shift)) - wider.first


def sum_by_bin(values: list[int], bins: Bins, wider: Bins) -> Ints:
    """Counts by bin of `bins`, added up by bin of `wider`."""
    total = np.zeros(wider.count, np.int64)
    np.add.at(total, numbers_in(bins, wider), np.asarray(values, np.int64))
    return total


class SendsAndReads(Protocol):
    """The observations of one or many partitions."""

    @property
    def sends(self) -> pl.DataFrame: ...
    @property
    def reads(self) -> pl.DataFrame: ...


def values_of(rule: str, findings: list[Finding]) -> pl.Series:
    """All values of the findings of a rule."""
    values = [value for finding in findings if finding.rule == rule for value in finding.values]
    return pl.Series("value", values, dtype=pl.String)


def outcomes_of_acknowledged(p: Partition, findings: list[Finding]) -> pl.DataFrame:
    """One row for each acknowledged value: offset, acked (ns), first_read (ns), lost, legal, value.

    `lost` is from the findings, so that plots and findings agree in every dialect.
    """
    lost = values_of("lost-write", findings)
    return outcomes_of_sends(p).select(
        "offset",
        pl.coalesce("completed", "invoked").alias("acked"),
        "first_read",
        (pl.col("value").is_in(lost.implode()) if len(lost) else pl.lit(False)).alias("lost"),
        (pl.col("legal") & ~pl.col("in_final")).fill_null(False).alias("legal"),
        "value",
    )


def span_of(*frames: pl.DataFrame) -> tuple[int, int] | None:
    """The first and last time (ns) in the observations; None without any."""
    columns = [frame[name].drop_nulls() for frame in frames for name in ("invoked", "completed")]
    spans = [(int(times.min()), int(times.max())) for times in columns if len(times)]  # type: ignore[arg-type]
    return (min(first for first, _ in spans), max(last for _, last in spans)) if spans else None


def outcomes(sends: pl.DataFrame, bins: Bins) -> dict[str, list[int]]:
    """Counts of ok, fail and info sends by completion time (without completion: by invocation time)."""
    ended = bins.of(sends.select(pl.coalesce("completed", "invoked")).to_series().to_numpy())
    codes = sends["outcome"].to_physical().to_numpy().astype(np.int64)
    tally = np.bincount(codes * bins.count + ended, minlength=3 * bins.count).reshape(3, -1)
    return dict(zip(("ok", "fail", "info"), tally.tolist(), strict=True))


def unplaced_outcomes(sends: pl.DataFrame) -> dict[str, Any] | None:
    """Outcomes of a topic's sends without a known partition. Equal in all its partitions, so merging takes one."""
    if not len(sends):
        return None
    times = sends.select(pl.coalesce("completed", "invoked")).to_series().to_numpy()
    bins = bins_over(int(times.min()), int(times.max()))
    return {"bins": bins.to_json(), "series": outcomes(sends, bins)}


def latency(p: SendsAndReads, bins: Bins) -> list[list[int]]:
    """Acknowledged sends by completion bin and latency bucket, as parallel lists: bin, bucket, count."""
    sent = p.sends.filter(~pl.col("synthetic"), pl.col("completed").is_not_null(), outcome="ok")
    if not len(sent):
        return [[], [], []]
    ended, begun = sent["completed"].to_numpy(), sent["invoked"].to_numpy()
    bucket = np.floor(np.log2(np.maximum(ended - begun, 1).astype(np.float64)) * PER_OCTAVE).astype(np.int64)
    wide = 64 * PER_OCTAVE
    cells, counts = np.unique(bins.of(ended) * wide + bucket, return_counts=True)
    return [(cells // wide).tolist(), (cells % wide).tolist(), counts.tolist()]


def over_time(p: SendsAndReads, acknowledged: pl.DataFrame, bins: Bins) -> dict[str, list[int]]:
    """Counts by bin.

    ok, fail, info: sends. read: records. acked, lost: by acknowledgement time. seen: acknowledged values by their first
    read, no earlier than their acknowledgement. never: acknowledged, never read. gone: legally absent, never read.
    """
    acked = acknowledged["acked"].to_numpy()
    first_read = acknowledged["first_read"]
    known, legal = first_read.is_not_null().to_numpy(), acknowledged["legal"].to_numpy()
    seen = np.maximum(acked[known], first_read.drop_nulls().to_numpy())
    read_at = p.reads.select(pl.coalesce("completed", "invoked")).to_series().to_numpy()
    return {
        **outcomes(p.sends, bins),
        "read": bins.count_in(read_at),
        "acked": bins.count_in(acked),
        "lost": bins.count_in(acked[acknowledged["lost"].to_numpy()]),
        "seen": bins.count_in(seen),
        "never": bins.count_in(acked[~known & ~legal]),
        "gone": bins.count_in(acked[~known & legal]),
    }


def rows_by_process(p: Partition) -> list[tuple[str, Ints]]:
    """The rows of `reads` with an offset, by consumer; the consumer with most reads comes first."""
    if not len(p.reads):
        return []
    names = p.reads["process"].unique().sort()
    codes = p.reads["process"].cast(pl.Enum(names)).to_physical().to_numpy()
    placed = p.reads["offset"].is_not_null().to_numpy()
    rows = [(str(name), np.flatnonzero((codes == code) & placed)) for code, name in enumerate(names.to_list())]
    return sorted(rows, key=lambda item: (-len(item[1]), item[0]))


def lags(
    p: Partition, acknowledged: pl.DataFrame, consumers: list[tuple[str, Ints]], bins: Bins
) -> list[dict[str, Any]]:
    """Lag by consumer and bin: the age (ns) at the bin's end of the oldest acknowledged record above its position.

    0: it has passed all records. None: it has no position. Lost and legally absent records are excluded, as they can't
    be read. `since`: when the lag at the end began (None: no lag), so that merging can extend it to the end of the run.
    Final readers start at 0 on purpose and are excluded.
    """
    gone = (acknowledged["lost"] | acknowledged["legal"] | acknowledged["offset"].is_null()).to_numpy()
    offsets, acked = acknowledged["offset"].fill_null(-1).to_numpy()[~gone], acknowledged["acked"].to_numpy()[~gone]
    if not len(offsets):
        return []
    order = np.argsort(offsets, kind="stable")
    offsets = offsets[order]
    oldest = suffix_minima(acked[order])
    moves = moves_of(p).select("process", "completed", "at", "index", pl.col("position").fill_null(-1))
    reads = _Positions.of(p.reads.with_columns(position=(pl.col("offset") + 1).fill_null(-1)))
    final = p.final.processes if p.final else ()
    lines = []
    for process, rows in [item for item in consumers if item[0] not in final and len(item[1])][:MAX_CONSUMERS]:
        own_moves = _Positions.of(moves.filter(process=process))
        parts = [_last_reads(reads, rows, bins), own_moves.dated(np.arange(len(own_moves.completed)))]
        positions = np.concatenate(parts)
        positions = positions[np.lexsort((positions[:, 2], positions[:, 1], positions[:, 0]))]
        lines.append({"process": process, **_lag(positions[:, 0], positions[:, 3], offsets, oldest, bins)})
    return lines


class _Positions(NamedTuple):
    """Columns of operations that set a consumer's position; `completed` is -1 without a completion."""

    completed: Ints
    at: Ints
    nth: Ints
    position: Ints

    @classmethod
    def of(cls, rows: pl.DataFrame) -> _Positions:
        columns = rows.select(pl.col("completed").fill_null(-1), "at", nth="index", position="position").cast(pl.Int64)
        return cls(*(columns[name].to_numpy() for name in cls._fields))

    def dated(self, rows: Ints) -> Ints:
        """The rows that have a completion, as an array."""
        rows = rows[self.completed[rows] >= 0]
        return np.column_stack([column[rows] for column in self])


def _last_reads(reads: _Positions, rows: Ints, bins: Bins) -> Ints:
    """The last read in each bin: it determines the consumer's position at the bin's end."""
    completed = np.maximum.accumulate(reads.completed[rows])
    last = rows[np.append(np.flatnonzero(np.diff(bins.of(completed)) > 0), len(rows) - 1)]
    return reads.dated(last)


def _lag(times: Ints, positions: Ints, offsets: Ints, oldest: Ints, bins: Bins) -> dict[str, Any]:
    """The lag at each bin's end. From `times` on, the consumer is at `positions` (-1: no position)."""
    if not len(times):
        return {"behind": [None] * bins.count, "since": None}
    ends = bins.ends()
    last = np.searchsorted(times, ends, "left") - 1
    position = np.where(last >= 0, positions[np.maximum(last, 0)], -1)
    since = oldest[np.searchsorted(offsets, position, "left")]
    behind = np.where(since < ends, ends - since, 0)
    line = [None if where < 0 else int(lag) for where, lag in zip(position.tolist(), behind.tolist(), strict=True)]
    is_late = position[-1] >= 0 and since[-1] < ends[-1]
    return {"behind": line, "since": int(since[-1]) if is_late else None}
