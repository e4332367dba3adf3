"""Compares large logs by the headers of their batches, and decodes only the records that matter.

Batches of one base offset, last offset, leader epoch and CRC hold the same records. If every replica that reaches a
batch has it, its records cannot diverge: the batch is *identical* and becomes a range of offsets. A history may refer
to some of its records (record_filter.py). Then one copy is decoded: these records are added to each replica with the
batch, and the others become ranges. Batches that differ, and their neighbours, are decoded whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from ...histories.evidence.tables import LOCATION, RECORDS
from ...histories.tables import Schema

if TYPE_CHECKING:
    from ...histories.evidence.record_filter import BloomFilter

JOB_BYTES = 32 << 20  # the part of one file that a task decodes at once
IDENTICAL: Schema = {
    "snapshot": pl.String,
    "broker": pl.String,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "leader_epoch": pl.Int32,
    "producer_id": pl.Int64,  # of transactional records, where batches were decoded
    "records": pl.Int64,
}
_SAME = ["snapshot", "base_offset", "last_offset", "leader_epoch", "crc", "size"]


def split_identical_batches(batches: pl.DataFrame, has_history: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The batches to decode, and the ranges of those that need no decoding (IDENTICAL).

    `batches` are those of all replicas (BATCHES with location and `path`). `has_history`: a history may refer to their
    records. A batch to decode has the `copies` that its records are added to, and `whole`: whether all of its records
    are needed.
    """
    sound = batches.filter("crc_ok")
    held = sound.group_by("snapshot", "broker").agg(start=pl.col("base_offset").min(), end=pl.col("last_offset").max())
    grouped = sound.group_by(_SAME, maintain_order=True).agg(
        pl.struct("broker", "file", "byte").alias("copies"),
        pl.col("broker").n_unique().alias("holders"),
        pl.col("path", "byte", "magic", "count").first(),
    )
    reaching = pl.lit(0)
    for row in held.iter_rows(named=True):
        within = pl.col("base_offset").is_between(row["start"], row["end"])
        reaching = reaching + (within & (pl.col("snapshot") == row["snapshot"])).cast(pl.Int64)
    # The offsets in a message set's wrapper are only known once it is unpacked.
    same = (pl.col("holders") == reaching) & (pl.col("magic") == 2) & (pl.col("copies").list.len() == pl.col("holders"))
    marked = _with_whole(grouped.with_columns(same=same))
    alike = marked.filter("same").drop("same")
    whole = pl.concat([alike.filter("whole"), _one_row_per_copy(marked.filter(~pl.col("same")).drop("same"), sound)])
    rest = alike.filter(~pl.col("whole"))
    undecoded = rest.select(
        "snapshot",
        "copies",
        pl.col("base_offset").alias("first_offset"),
        *("last_offset", "leader_epoch"),
        producer_id=pl.lit(None, pl.Int64),
        records="count",
    )
    return (pl.concat([whole, rest]), _ranges(undecoded.clear())) if has_history else (whole, _ranges(undecoded))


def _with_whole(marked: pl.DataFrame) -> pl.DataFrame:
    """The batches with the column `whole`: whether all of their records are needed.

    These are batches that differ in any snapshot or overlap within a log, all others at their offsets, and the
    neighbours in each log, which show where the replicas agree again. For example, if the batches of offsets 10 to 19
    differ, those of 5 to 9 and of 20 to 24 are needed, too.
    """
    logs = marked.select("snapshot", "base_offset", "last_offset", "same", "copies").with_row_index("group")
    logs = logs.explode("copies").unnest("copies").sort("base_offset", maintain_order=True)
    overlaps = pl.col("base_offset") <= pl.col("last_offset").cum_max().shift()
    logs = logs.with_columns(differs=~pl.col("same") | overlaps.fill_null(False).over("snapshot", "broker"))
    differing = logs.filter("differs")
    # Of the differing batches that begin by the end of each batch, the greatest last offset.
    number = np.searchsorted(differing["base_offset"].to_numpy(), logs["last_offset"].to_numpy(), "right")
    reach = np.concatenate([[-1], differing["last_offset"].cum_max().to_numpy()])[number]
    logs = logs.with_columns(meets=pl.Series(reach) >= pl.col("base_offset"))
    meets = pl.col("meets")
    is_beside = (meets.shift() | meets.shift(-1)).over("snapshot", "broker").fill_null(False)
    groups = logs.filter(meets | is_beside)["group"].unique()
    return marked.with_columns(whole=pl.Series(np.isin(np.arange(len(marked)), groups.to_numpy())))


def _one_row_per_copy(marked: pl.DataFrame, sound: pl.DataFrame) -> pl.DataFrame:
    """One row for each copy of a batch, with the path of its own file."""
    paths = sound.select("file", "byte", "snapshot", "broker", own="path")
    apart = marked.drop("path", "byte").explode("copies").with_columns(copy="copies").unnest("copies")
    joined = apart.join(paths, on=["snapshot", "broker", "file", "byte"], how="left")
    return joined.with_columns(copies=pl.concat_list("copy"), path="own").select(marked.columns)


def _ranges(ranges: pl.DataFrame) -> pl.DataFrame:
    """IDENTICAL of ranges with their `copies`: adjacent ranges of one replica are joined."""
    apart = ranges.explode("copies").unnest("copies").sort("snapshot", "broker", "first_offset")
    who = pl.struct("snapshot", "broker", "leader_epoch", "producer_id")
    begins = (pl.col("first_offset") != pl.col("last_offset").shift() + 1) | who.ne_missing(who.shift())
    return (
        apart.with_columns(run=begins.fill_null(True).cum_sum())
        .group_by("run", "snapshot", "broker", "leader_epoch", "producer_id", maintain_order=True)
        .agg(pl.col("first_offset").first(), pl.col("last_offset").last(), pl.col("records").sum())
        .select(pl.col(name).cast(kind) for name, kind in IDENTICAL.items())
    )


def jobs(chosen: pl.DataFrame, record_filter: BloomFilter | None) -> Iterator[pl.DataFrame]:
    """The batches to decode, in pieces of at most about JOB_BYTES of one file.

    A piece is a frame of one row: `path`, `batches`, and `bits` and `offsets` of the record filter, as the bytes of
    these arrays (null: all records are needed).
    """
    piece = (pl.col("size").cum_sum() // JOB_BYTES).over("path").alias("piece")
    pieces = chosen.sort("path", "byte").with_columns(piece).partition_by("path", "piece", maintain_order=True)
    for batches_of_piece in pieces:
        bits, offsets = None, None
        if record_filter is not None:
            extent = batches_of_piece.select(pl.col("base_offset").min(), pl.col("last_offset").max())
            first, last = extent.row(0)
            low, _ = np.searchsorted(record_filter.offsets, [first, last], "left")
            _, high = np.searchsorted(record_filter.offsets, [first, last], "right")
            bits, offsets = record_filter.bits.tobytes(), record_filter.offsets[low:high].tobytes()
        batches = pl.struct(pl.exclude("piece", "path")).implode().alias("batches")
        filter_bytes = (pl.lit(bits, pl.Binary).alias("bits"), pl.lit(offsets, pl.Binary).alias("offsets"))
        yield batches_of_piece.select(pl.col("path").first(), batches, *filter_bytes)


def decode(job: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Decodes one piece of `jobs`.

    Returns RECORDS of its batches, for each of their copies; DAMAGE of those that cannot be decoded (both with
    location); and IDENTICAL of the records that the filter leaves out.
    """
    from ...histories.evidence.record_filter import BloomFilter
    from ...histories.evidence.segments import read_segment  # its compiled loops take a while to load

    frames, broken, dropped = [], [], []
    (bits,), (offsets,) = job["bits"], job["offsets"]
    record_filter = None
    if bits is not None:
        record_filter = BloomFilter(np.frombuffer(bits, np.uint8), np.frombuffer(offsets, np.int64))
    batches = job["batches"].explode().struct.unnest()
    path = Path(job["path"][0])
    begins = pl.col("byte") != (pl.col("byte") + pl.col("size")).shift()
    begins = begins | (pl.col("whole") != pl.col("whole").shift())
    apart = begins.fill_null(True).cum_sum().alias("run")
    for run in batches.with_columns(apart).partition_by("run", maintain_order=True):
        first, last = run["byte"][0], run["byte"][-1] + run["size"][-1]
        segment = read_segment(path, first, last, None if run["whole"][0] else record_filter)
        wanted = run.select("byte", "snapshot", "copies")
        frames.append(_for_each_copy(segment.records, wanted, list(RECORDS)))
        damage = segment.damage.filter(kind="decode")
        broken.append(_for_each_copy(damage, wanted, damage.columns))
        dropped.append(segment.dropped.join(wanted, on="byte", maintain_order="left").drop("byte"))
    records = (pl.col("last_offset") - pl.col("first_offset") + 1).alias("records")
    return pl.concat(frames), pl.concat(broken), _ranges(pl.concat(dropped).with_columns(records))


def _for_each_copy(rows: pl.DataFrame, wanted: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """The rows of decoded batches, once for each copy of their batch in `wanted`, with location."""
    copies = rows.join(wanted, on="byte", maintain_order="left").drop("byte")
    return copies.explode("copies").unnest("copies").select(*LOCATION, *columns)
