"""Finds the dependencies between the transactions of one topic-partition: writes before writes, and reads of writes.

- **wr**: an operation read a value that the other wrote.
- **ww**: both wrote, at adjacent offsets; only offsets with a known transaction count.

Two more orders need no edge here, as they follow from the times of two operations: real time (one completed before the
other was invoked) and process order (real time within a process). Jepsen's edges are those of jepsen.tests.kafka and
elle.core (`wr-graph`, `ww-graph`, `realtime-graph`).
"""

from __future__ import annotations

import polars as pl

from ...histories.tables import MAX_INT64, MIN_INT64, Schema, typed
from ..partitions.foreign_clock import foreign_clock
from ..partitions.jepsen_log import jepsen_log
from ..partitions.observations import Observations
from ..partitions.partition import Partition

KINDS = pl.Enum(["ww", "wr", "rw"])  # rw: only of transactions on lists and registers (version_edges.py)

# One row for each dependency. Operations are identified by the place of their completion (`at`). `start` and `end` are
# times in ns, or places in Jepsen's histories, whose order of lines is their order in time. An operation that is not
# acknowledged has no end (MAX_INT64), one without a known invocation no start (MIN_INT64).
DEPENDENCIES: Schema = {
    "topic": pl.String,
    "partition": pl.Int32,
    "kind": KINDS,
    **{
        f"{end}_{name}": kind
        for end in ("source", "target")
        for name, kind in {
            "at": pl.Int64,
            "start": pl.Int64,
            "end": pl.Int64,
            "process": pl.String,
            "offset": pl.Int64,
            "value": pl.String,  # of a wr only source_value, which the target read
        }.items()
    },
}
_OPERATION = ["at", "start", "end", "process", "offset", "value"]


def dependencies(p: Partition) -> pl.DataFrame:
    """The DEPENDENCIES between the operations of a partition; none if no transaction sent or polled.

    If the clock of a process contradicts all others, no operation has a start or end.
    """
    if p.settings.dialect == "jepsen":
        found = _in_jepsen(p)
    elif p.has_transactions or p.reads["txn"].any():
        found = _native(p)
    else:
        return pl.DataFrame(schema=DEPENDENCIES)
    here = found.with_columns(topic=pl.lit(p.topic), partition=pl.lit(p.partition, pl.Int32))
    if p.settings.dialect != "jepsen" and foreign_clock(p):
        here = here.with_columns(pl.lit(MIN_INT64).alias(f"{end}_start") for end in ("source", "target"))
        here = here.with_columns(pl.lit(MAX_INT64).alias(f"{end}_end") for end in ("source", "target"))
    return typed(here, DEPENDENCIES)


def _native(p: Partition) -> pl.DataFrame:
    """Dependencies of a native history. Failed sends wrote nothing, and polls of aborted transactions have no effect.

    A plain send is a transaction of one record: realtime-order judges its place. A value that was read before its
    write began is a phantom-read or precommitted-read, and no dependency.
    """
    sends = p.possible_sends.filter(pl.col("outcome") != "fail", pl.col("value").is_not_null())
    writers = sends.select(
        "at",
        pl.when(~pl.col("synthetic").fill_null(False)).then("invoked").fill_null(MIN_INT64).alias("start"),
        pl.when("acknowledged").then("completed").fill_null(MAX_INT64).alias("end"),
        "process",
        "value",
        "txn",
    ).unique(["at", "value"], maintain_order=True)
    # A value that two operations sent identifies no writer.
    writers = writers.filter(pl.col("value").is_unique()) if p.repeated_values or len(p.unplaced) else writers
    reads = p.reads.filter(pl.col("outcome") != "fail", pl.col("value").is_not_null()).select(
        "at",
        pl.col("invoked").fill_null(MIN_INT64).alias("start"),
        pl.when(pl.col("outcome") == "ok").then("completed").fill_null(MAX_INT64).alias("end"),
        "process",
        "offset",
        "value",
    )
    entries = p.entries.filter(p.committed & ~pl.col("aborted")).select("offset", "value")
    log = entries.filter(pl.col("offset").is_unique()).sort("offset")
    known = log.join(writers.filter("txn"), on="value", maintain_order="left")
    read = _read_from(writers.drop("txn"), reads).filter(pl.col("target_end") >= pl.col("source_start"))
    return pl.concat([_neighbours(known), read])


def _in_jepsen(p: Partition) -> pl.DataFrame:
    """Dependencies of a Jepsen history, between operations of any outcome. A value's last writer counts."""
    end = pl.when(pl.col("outcome") == "ok").then("at").otherwise(MAX_INT64).alias("end")
    start = pl.col("invoked_at").alias("start")
    writers = p.sends.sort("at", maintain_order=True).unique("value", keep="last", maintain_order=True)
    writers = writers.select("at", start, end, "process", "value")
    reads = p.reads.select("at", start, end, "process", "offset", "value")
    found = [_read_from(writers, reads)]
    if p.settings.ww_deps:
        found.insert(0, _neighbours_in_jepsen(p, writers))
    return pl.concat(found)


def _neighbours_in_jepsen(p: Observations, writers: pl.DataFrame) -> pl.DataFrame:
    """The ww dependencies: each value follows the value before its last place in the dense log."""
    chosen = jepsen_log(p).unique("offset", keep="first", maintain_order=True).select("offset", "value")
    before = chosen.with_columns(pl.all().shift(1).name.prefix("source_")).with_row_index("place")
    last = before.unique("value", keep="last", maintain_order=True).sort("place").drop("place")
    sources = writers.rename({name: f"source_{name}" for name in writers.columns})
    targets = last.join(writers, on="value", maintain_order="left").select(
        "source_offset", "source_value", pl.col(_OPERATION).name.prefix("target_")
    )
    return _between_two(targets.join(sources, on="source_value", maintain_order="left"), "ww")


def _neighbours(known: pl.DataFrame) -> pl.DataFrame:
    """The ww dependencies between adjacent rows; each row is an operation, in the order of offsets."""
    operation = pl.col(_OPERATION)
    pairs = known.select(operation.shift(1).name.prefix("source_"), operation.name.prefix("target_"))
    return _between_two(pairs.slice(1), "ww")


def _read_from(writers: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """The wr dependencies. Of several values between two operations, the first one counts."""
    targets = reads.rename({name: f"target_{name}" for name in _OPERATION if name != "value"})
    sources = writers.rename({name: f"source_{name}" for name in writers.columns if name != "value"})
    pairs = targets.join(sources, on="value", maintain_order="left").with_columns(
        source_offset="target_offset", source_value="value", target_value=pl.lit(None, pl.String)
    )
    return _between_two(pairs, "wr").unique(["source_at", "target_at"], keep="first", maintain_order=True)


def _between_two(pairs: pl.DataFrame, kind: str) -> pl.DataFrame:
    different = pairs.filter(pl.col("source_at") != pl.col("target_at"))
    columns = [f"{end}_{name}" for end in ("source", "target") for name in _OPERATION]
    return different.select(pl.lit(kind).alias("kind"), *columns)
