"""Large logs are compared by the headers of their batches, and only what may differ is decoded to records.

Batches of one base offset, last offset, leader epoch and CRC hold the same records. Where every replica that reaches
so far has the batch, nothing of it can diverge: it is *sealed*, and told as a range of offsets. Only with a history
must its values be known; then one replica's copy is decoded and credited to all that hold it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from ..histories.evidence.tables import LOCATION, RECORDS

JOB_BYTES = 32 << 20  # of one file that a task decodes at once
SEALED = {
    "snapshot": pl.String,
    "broker": pl.String,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
    "leader_epoch": pl.Int32,
    "records": pl.Int64,
}
_SAME = ["snapshot", "base_offset", "last_offset", "leader_epoch", "crc", "size"]


def sealed_batches(batches: pl.DataFrame, history: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Of all replicas' batches (BATCHES with location and `path`): those to decode, each with the `copies` that its
    records are credited to, and the ranges of those that nobody needs to decode (SEALED).
    """
    sound = batches.filter("crc_ok")
    held = sound.group_by("snapshot", "broker").agg(
        pl.col("base_offset").min().alias("start"), pl.col("last_offset").max().alias("end")
    )
    grouped = sound.group_by(_SAME, maintain_order=True).agg(
        pl.struct("broker", "file", "byte").alias("copies"),
        pl.col("broker").n_unique().alias("holders"),
        pl.col("path", "byte", "magic", "count").first(),
    )
    reaching = pl.lit(0)
    for row in held.iter_rows(named=True):
        mine = (pl.col("snapshot") == row["snapshot"]) & pl.col("base_offset").is_between(row["start"], row["end"])
        reaching = reaching + mine.cast(pl.Int64)
    # A message set's wrapper tells its offsets only once it is unpacked.
    same = (pl.col("holders") == reaching) & (pl.col("magic") == 2) & (pl.col("copies").list.len() == pl.col("holders"))
    marked = grouped.with_columns(same.alias("same"))
    if history:
        whole = marked.filter("same").drop("same")
        return pl.concat([whole, _each(marked.filter(~pl.col("same")).drop("same"), sound)]), _ranges(marked.clear())
    return _each(marked.filter(~pl.col("same")).drop("same"), sound), _ranges(marked.filter("same"))


def _each(marked: pl.DataFrame, sound: pl.DataFrame) -> pl.DataFrame:
    """A row a copy, as each stands in its own file."""
    paths = sound.select("file", "byte", "snapshot", "broker", pl.col("path").alias("own"))
    apart = marked.drop("path", "byte").explode("copies").with_columns(pl.col("copies").alias("copy")).unnest("copies")
    joined = apart.join(paths, on=["snapshot", "broker", "file", "byte"], how="left")
    return joined.with_columns(pl.concat_list("copy").alias("copies"), pl.col("own").alias("path")).select(
        marked.columns
    )


def _ranges(same: pl.DataFrame) -> pl.DataFrame:
    """Neighbouring batches of a replica and epoch as one range."""
    apart = same.select("snapshot", "copies", "base_offset", "last_offset", "leader_epoch", "count")
    apart = apart.explode("copies").unnest("copies").sort("snapshot", "broker", "base_offset")
    who = pl.struct("snapshot", "broker", "leader_epoch")
    begins = (pl.col("base_offset") != pl.col("last_offset").shift() + 1) | (who != who.shift())
    return (
        apart.with_columns(begins.fill_null(True).cum_sum().alias("run"))
        .group_by("run", "snapshot", "broker", "leader_epoch", maintain_order=True)
        .agg(
            pl.col("base_offset").first().alias("first_offset"),
            pl.col("last_offset").last(),
            pl.col("count").sum().alias("records"),
        )
        .select(pl.col(name).cast(kind) for name, kind in SEALED.items())
    )


def jobs(chosen: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The batches to decode, in pieces of one file each."""
    for mine in chosen.sort("path", "byte").partition_by("path", maintain_order=True):
        piece = (pl.col("size").cum_sum() // JOB_BYTES).alias("piece")
        yield from mine.with_columns(piece).partition_by("piece", maintain_order=True, include_key=False)


def decode(job: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """RECORDS of a job's batches, credited to all their copies, and what of them cannot be decoded (with location)."""
    from ..histories.evidence.segments import read_segment  # its compiled loops take a while to load

    frames, broken = [], []
    path = Path(job["path"][0])
    apart = (pl.col("byte") != (pl.col("byte") + pl.col("size")).shift()).fill_null(True).cum_sum().alias("run")
    for run in job.with_columns(apart).partition_by("run", maintain_order=True):
        first, last = run["byte"][0], run["byte"][-1] + run["size"][-1]
        segment = read_segment(path, first, last)
        wanted = run.select("byte", "snapshot", "copies")
        frames.append(_credited(segment.records, wanted, list(RECORDS)))
        damage = segment.damage.filter(pl.col("kind") == "decode")
        broken.append(_credited(damage, wanted, damage.columns))
    return pl.concat(frames), pl.concat(broken)


def _credited(rows: pl.DataFrame, wanted: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    copies = rows.join(wanted, on="byte", how="inner", maintain_order="left").drop("byte")
    return copies.explode("copies").unnest("copies").select(*LOCATION, *columns)
