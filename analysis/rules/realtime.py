"""realtime-order and stale-end-offset: what is acknowledged stays in front of what comes later."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.tables import Finding
from ..neighbours import neighbours
from ..partition import Partition
from .loss import fates
from .wording import distinct, plural, proof, seconds, some, where


def realtime_order(p: Partition) -> Iterator[Finding]:
    """An append that completed before another was invoked has the greater offset (strictly: intervals are closed).

    One finding for neighbouring later appends, with one witness pair, as every later append below the highest
    earlier offset is a breach.
    """
    sent = p.acknowledged.filter(pl.col("offset").is_not_null() & pl.col("completed").is_not_null())
    later = sent.filter(~pl.col("synthetic"))
    if not len(later):
        return
    done = sent.sort("completed", "at", "index")
    offsets = done["offset"].to_numpy()
    highest = np.maximum.accumulate(offsets)
    # The row that set the running maximum.
    setter = np.maximum.accumulate(np.where(offsets == highest, np.arange(len(offsets)), 0))
    index = np.searchsorted(done["completed"].to_numpy(), later["invoked"].to_numpy(), "left") - 1
    before = np.where(index >= 0, highest[np.maximum(index, 0)], -1)
    broken = before > later["offset"].to_numpy()
    if not broken.any():
        return
    rows = later.with_columns(pl.Series("witness", setter[np.maximum(index, 0)])).filter(pl.Series(broken))
    # What was lost does not stand between those that took its place.
    sound = later.filter(~pl.Series(broken)).join(fates(p).filter(pl.col("lost")), on="value", how="anti")
    for run in neighbours(rows.sort("offset", "invoked"), sound["offset"].sort().to_numpy()):
        first = run.row(0, named=True)
        witness = done.row(int(first["witness"]), named=True)
        one = len(run) == 1
        yield Finding(
            rule="realtime-order",
            sentence=f"{witness['value']} was acknowledged at {where(p, witness['offset'])} at"
            f" {seconds(witness['completed'])}, yet {plural(len(run), 'append')} sent after that"
            f" ({some(run['value'].to_list())}) {'stands' if one else 'stand'} before it, at"
            f" {where(p, first['offset'], run['offset'][-1])}",
            topic=p.topic,
            partition=p.partition,
            first_offset=first["offset"],
            last_offset=run["offset"][-1],
            count=len(run),
            values=[witness["value"], *run["value"].to_list()],
            processes=distinct([witness["process"], *run["process"]]),
            evidence=proof(
                (f"{witness['value']} acknowledged at offset {witness['offset']}", witness["at"]),
                (f"{first['process']} sends {first['value']} afterwards", first["invoked_at"]),
                (f"{first['value']} acknowledged at offset {first['offset']}", first["at"]),
            ),
        )


def stale_end_offsets(p: Partition) -> Iterator[Finding]:
    """end_offsets answers less than an append acknowledged before the question, or less than an earlier answer."""
    asked = p.log_ends
    if not len(asked):
        return
    sent = p.acknowledged.filter(pl.col("offset").is_not_null()).sort("completed", "at")
    highest = np.maximum.accumulate(sent["offset"].to_numpy()) if len(sent) else np.empty(0, np.int64)
    done = sent["completed"].to_numpy()
    answers = asked.sort("completed", "at")
    for row in asked.iter_rows(named=True):
        index = int(np.searchsorted(done, row["invoked"], "left")) - 1
        if index >= 0 and highest[index] >= row["offset"]:
            witness = sent.filter((pl.col("offset") == int(highest[index])) & (pl.col("completed") < row["invoked"]))
            first = witness.row(0, named=True)
            yield _stale(
                p,
                row,
                f"{first['value']} was acknowledged at {where(p, first['offset'])} at {seconds(first['completed'])}",
                (f"{first['value']} acknowledged at offset {first['offset']}", first["at"]),
                int(highest[index]),
            )
            continue
        earlier = answers.filter((pl.col("completed") < row["invoked"]) & (pl.col("offset") > row["offset"]))
        if len(earlier):
            first = earlier.row(0, named=True)
            yield _stale(
                p,
                row,
                f"an end offset of {first['offset']} was answered at {seconds(first['completed'])}",
                (f"end offset {first['offset']}", first["at"]),
                first["offset"] - 1,
            )


def _stale(p: Partition, row: dict[str, int], because: str, proven: tuple[str, int], last: int) -> Finding:
    return Finding(
        rule="stale-end-offset",
        sentence=f"{row['process']} was told at {seconds(row['completed'])} that {p.name} ends at {row['offset']},"
        f" but {because}",
        topic=p.topic,
        partition=p.partition,
        first_offset=row["offset"],
        last_offset=last,
        count=1,
        processes=[str(row["process"])],
        evidence=proof(proven, (f"end offset {row['offset']}", row["at"])),
    )
