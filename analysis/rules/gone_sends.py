"""The records that a truncation removed, which other rules leave to lost-write."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ..extremes import greatest, least
from ..partitions.absences import removable_values
from ..partitions.partition import Offsets, Partition, once
from ..partitions.truncated_sends import REMOVED
from .loss import outcomes_of_sends
from .send_evidence import known_since, placed_sends


@once
def gone_sends(p: Partition) -> pl.DataFrame:
    """The acknowledged values that a truncation removed, also after a deletion; columns as in `outcomes_of_sends`."""
    deleted = pl.col("truncated") & pl.any_horizontal(REMOVED)
    return outcomes_of_sends(p).filter(pl.col("lost") | deleted)


def truncated_offsets(p: Partition, offsets: Offsets) -> Offsets:
    """The offsets of records that a truncation may have removed: a consumer that continues after them skips nothing.

    It removed all records from some offset on. That is the first truncated one, or is above the last record that
    remained below it.
    """
    gone = gone_sends(p)
    first = least(gone.filter("truncated")["offset"], MAX_INT64)
    if not len(offsets) or first == MAX_INT64:
        return offsets[:0]
    held = p.entries_between(int(offsets[0]), max(first, int(offsets[-1]))).filter(
        pl.col("in_final") | pl.col("sent_ok")
    )
    remains = pl.col("in_final") | ~pl.col("value").is_in(removable_values(p)["value"].implode())
    present = (
        held.filter(remains)
        .join(gone, on=["offset", "value"], how="anti")
        .join(cut_off_records(p), on=["offset", "value"], how="anti")
    )["offset"].to_numpy()
    remained = present[present < first].max(initial=-1)
    return np.setdiff1d(offsets[offsets > remained], present)


@once
def last_truncated_offset(p: Partition) -> int:
    """The highest offset that a truncation is known to have removed, as it held two values or its record is gone."""
    rewritten = p.entries["offset"].filter(p.entries["offset"].is_duplicated())
    gone = gone_sends(p).filter("truncated")["offset"]
    return greatest(pl.concat([rewritten, gone]), -1)


@once
def cut_off_records(p: Partition) -> pl.DataFrame:
    """Records (offset, value) that a truncation removed, even if the log came back with them later.

    They were acknowledged or read before another record was sent, at their offset or a lower one, to an offset that has
    held two values.
    """
    rewritten = p.entries["offset"].filter(p.entries["offset"].is_duplicated()).implode()
    written = p.sends.filter(pl.col("offset").is_not_null(), ~pl.col("synthetic"))
    sent = pl.concat([frame.select("offset", "invoked") for frame in (written, placed_sends(p))])
    sent = sent.filter(pl.col("offset").is_in(rewritten)).sort("offset")
    since = sent.select("offset", since=pl.col("invoked").cum_max())
    known = known_since(p).sort("offset").join_asof(since, on="offset", check_sortedness=False)
    return known.filter(pl.col("completed") < pl.col("since")).select("offset", "value")
