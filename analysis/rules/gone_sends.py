"""The records that a truncation removed, which other rules leave to lost-write."""

from __future__ import annotations

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ..extremes import least
from ..partitions.absences import removable_values
from ..partitions.partition import Offsets, Partition, once
from ..partitions.truncated_sends import REMOVED
from .loss import outcomes_of_sends


@once
def gone_sends(p: Partition) -> pl.DataFrame:
    """The acknowledged values that a truncation removed, also after a deletion; columns as in `outcomes_of_sends`."""
    deleted = pl.col("truncated") & pl.any_horizontal(REMOVED)
    return outcomes_of_sends(p).filter(pl.col("lost") | deleted)


def truncated_offsets(p: Partition, offsets: Offsets) -> Offsets:
    """The offsets of records that a truncation removed: a consumer that continues after them skips nothing."""
    gone = gone_sends(p)
    truncated = gone.filter("truncated")
    later = offsets[offsets >= least(truncated["offset"], MAX_INT64)]
    if not len(later):
        return later
    held = p.entries_between(int(later[0]), int(later[-1])).filter(pl.col("in_final") | pl.col("sent_ok"))
    remains = pl.col("in_final") | ~pl.col("value").is_in(removable_values(p)["value"].implode())
    present = (
        held.filter(remains)
        .join(gone, on=["offset", "value"], how="anti")
        .join(_cut_off(p, gone), on=["offset", "value"], how="anti")
    )
    return np.setdiff1d(later, present["offset"].to_numpy())


def _cut_off(p: Partition, gone: pl.DataFrame) -> pl.DataFrame:
    """Acknowledged sends (offset, value) that were cut off with a lost one at a lower offset.

    They were acknowledged before the record that replaced the lost one was sent: behind it they would be later.
    """
    sent = p.sends.select("offset", other="value", since="invoked")
    cuts = gone.filter("replaced").select("offset", "other").join(sent, on=["offset", "other"]).sort("offset")
    cuts = cuts.select("offset", since=pl.col("since").cum_max())
    acked = p.sends.filter(pl.col("acknowledged") & pl.col("offset").is_not_null()).sort("offset")
    dated = acked.join_asof(cuts, on="offset", check_sortedness=False)
    return dated.filter(pl.col("completed") < pl.col("since")).select("offset", "value")
