"""Acknowledged records that an earlier attempt may have written, too: compaction may have removed that copy.

A producer without idempotence that gets no answer sends a record again, and the log may have it twice. If a truncation
removes the second copy, the first one stays, until a later record of its key replaces it. All that is left then is an
offset without a known record.

For example, a is written at offset 3, and its producer gets no answer. It sends a again, which is acknowledged at
offset 6. A truncation to offset 5 removes that, and the cleaner removes the copy at 3, as b follows with the same key.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.settings import idempotence
from ...histories.tables import MAX_INT64
from .absences import sends_with_repeated_keys
from .partition import Partition


def may_be_compacted_below(p: Partition, sends: pl.DataFrame) -> pl.Series:
    """Whether compaction may have removed another copy of sends, at an offset without a known record.

    The offset is below the acknowledged one, and above all that were acknowledged before the send was invoked and not
    truncated. Another record of the key is or may be above it. `sends`: acknowledged ones, with the columns of
    `with_other_value` and `with_later_end`.
    """
    never = pl.repeat(False, len(sends), eager=True)
    if not p.settings.is_compacted(p.topic):
        return never
    candidates = sends.with_row_index("row").drop_nulls("offset").filter(~pl.col("in_final"), _may_repeat(p, sends))
    if not len(candidates):
        return never
    is_truncated = pl.any_horizontal(pl.col("other", "later_end").is_not_null())
    remaining = sends.filter(~is_truncated).drop_nulls("offset").sort("completed")
    reached = remaining.select("completed", reached=pl.col("offset").cum_max())
    placed = candidates.sort("invoked").join_asof(reached, left_on="invoked", right_on="completed")
    placed = placed.with_columns(pl.col("reached").fill_null(p.log_start.certain - 1)).join(_others(p), on="value")
    is_below = _has_unknown(p, placed["reached"], placed["offset"]) & (placed["highest_other"] > placed["reached"])
    return pl.int_range(len(sends), eager=True).is_in(placed.filter(is_below)["row"].implode())


def _may_repeat(p: Partition, sends: pl.DataFrame) -> pl.Expr:
    """Whether the producer of a send may write it twice: run.json does not show that it is idempotent."""
    producers = sends.select("process", "acks").unique().rows()
    idempotent = [
        process for process, acks in producers if idempotence(p.settings.processes.get(process, {}), acks) is True
    ]
    return ~pl.col("process").is_in(idempotent)


def _others(p: Partition) -> pl.DataFrame:
    """The values of repeated keys, and the highest offset of another send of the key: MAX_INT64 if it is not known."""
    keyed = sends_with_repeated_keys(p).with_columns(pl.col("offset").fill_null(MAX_INT64))
    highest, second = pl.col("offset").max().over("key"), pl.col("offset").top_k(2).min().over("key")
    return keyed.select("value", highest_other=pl.when(pl.col("offset") == highest).then(second).otherwise(highest))


def _has_unknown(p: Partition, after: pl.Series, before: pl.Series) -> pl.Series:
    """Whether an offset in between, both excluded, has no known record: in the history, or in any copy of a log."""
    recorded = [p.entries["offset"], *([] if p.replica_logs is None else [p.replica_logs.records["offset"]])]
    known = np.unique(pl.concat(recorded).to_numpy())
    number = np.searchsorted(known, before.to_numpy(), "left") - np.searchsorted(known, after.to_numpy(), "right")
    return pl.Series(number < before.to_numpy() - after.to_numpy() - 1)
