"""inconsistent-offsets and duplicate: one offset holds one value, and one value is at one offset."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from ...histories.references import REPLICATION, kip
from ..partitions.adjacent_runs import adjacent_runs, coexisting_offsets
from ..partitions.jepsen_log import jepsen_log
from ..partitions.partition import Partition
from ..wording import plural, short, some, some_values
from .gone_sends import gone_sends
from .rule import Result, Rule, Unknown, distinct, finding, where
from .send_evidence import missing_sends, without_idempotence


@Rule(
    "inconsistent-offsets",
    group="order",
    summary="One offset held two values",
    example="p:a@0 p:b@0 c:<a@0 d:<b@0",
    source=REPLICATION,
    needs=("records", "at offsets"),
    assumes=("partitions",),
    follows="offset",
    explained_as="replaced",
).judged_by
def inconsistent_offsets(p: Partition) -> Iterator[Result]:
    """Offsets at which clients saw several values; adjacent ones are one finding.

    Breach: Acknowledgements and polls report different values for one offset. Adjacent offsets are one finding. It
    follows from the loss of the values that were replaced.
    Not a breach: One value that was seen several times at its offset.
    In Jepsen histories: The same. Polls of every outcome count, and so do sends that must have committed.
    """
    conflicting = p.entries.filter(pl.col("offset").is_duplicated())
    if not len(conflicting):
        return
    known = _places(p).group_by("offset").agg(since=pl.col("completed").min())
    conflicts = known.join(conflicting, on="offset", how="semi").sort("offset").rename({"since": "until"})
    # Offsets with one value separate findings, unless they were lost as well, or were written after the loss.
    gone = gone_sends(p).select("offset")
    single = known.join(conflicting, on="offset", how="anti").join(gone, on="offset", how="anti")
    separating = coexisting_offsets(single, conflicts)
    places = _places_of(conflicting, p).sort("offset", maintain_order=True)
    offsets = places["offset"].to_numpy()
    by_offset = conflicting.group_by("offset", maintain_order=True).agg("value")
    for run in adjacent_runs(by_offset, separating):
        first, last = int(run["offset"][0]), int(run["offset"][-1])
        here = run["value"][0].to_list()
        seen = places[slice(*np.searchsorted(offsets, [first, first + 1]).tolist())]
        yield finding(
            p,
            f"{where(p, first)} held {' and '.join(map(short, here))}"
            if len(run) == 1
            else f"{plural(len(run), 'offset')} at {where(p, first, last)} held more than one value"
            f" ({where(p, first)}: {' and '.join(map(short, here))})",
            (first, last),
            _occurrences(seen),
            count=len(run),
            values=distinct(run["value"].explode()),
            processes=seen["process"].sort(),
        )


@inconsistent_offsets.judged_in_jepsen_by
def inconsistent_offsets_in_jepsen(p: Partition) -> Iterator[Result]:
    """Offsets with two or more values."""
    conflicting = jepsen_log(p).filter(pl.col("offset").is_duplicated())
    for rows in conflicting.partition_by("offset", maintain_order=True):
        offset, values = int(rows["offset"][0]), rows["value"].to_list()
        yield finding(
            p,
            f"offset {offset} of key {p.topic} held {' and '.join(map(short, values))}",
            (offset, offset),
            _occurrences(rows),
            values=values,
        )


def _occurrences(places: pl.DataFrame) -> list[tuple[str, int]]:
    """The first eight places as evidence."""
    return [
        (f"{short(row['value'])} at offset {row['offset']}", row["at"]) for row in places.head(8).iter_rows(named=True)
    ]


@Rule(
    "duplicate",
    group="order",
    summary="One value is at two offsets",
    example="p:a@0 c:<a@0,a@1",
    source=kip(98),
    needs=("records", "at offsets"),
    assumes=("values", "partitions"),
    explained_as="duplicate",
).judged_by
def duplicate(p: Partition) -> Iterator[Result]:
    """Values at two offsets or more. Without idempotence a retry may write twice, so that is permitted.

    Breach: A value was acknowledged or polled at several offsets.
    Not a breach: Permitted: a producer without idempotence may write twice when it retries. The evidence is its
    configuration, acks=0 or acks=1, or records without a producer id in the brokers' logs. A retry after a failure,
    an abort or a timeout sends the value again: each attempt may have one offset (docs/transactions.md). Where attempts
    cannot be distinguished, the assumptions report that values are not unique.
    Unknown when: No send of the value is recorded, and sends may be missing from the history, as for phantom-read.
    In Jepsen histories: The same, and always a violation: the configuration of producers is not recorded.
    """
    twice = p.entries.filter(pl.col("value").is_duplicated())
    if p.repeated_values or len(p.unplaced):
        # Two sends may each have written it once; the assumptions report that values are not unique.
        values = p.possible_sends["value"]
        twice = twice.filter(~pl.col("value").is_in(values.filter(values.is_duplicated()).implode()))
    if not len(twice):
        return
    shown = _places_of(twice, p).sort("offset").partition_by("value", as_dict=True)
    sent = p.possible_sends.join(twice, on="value", how="semi", maintain_order="left").select("value", "process")
    senders = dict(sent.reverse().iter_rows())  # the first sender, if several sent it
    excused = without_idempotence(p, twice["value"])
    known = pl.Series([*senders, *(value for _, value in excused)], dtype=pl.String)
    unsent = twice.filter(~pl.col("value").is_in(known.implode()))
    missing, is_doubtful = missing_sends(p) if len(unsent) else ("", pl.lit(False))
    doubtful = unsent.filter(is_doubtful)["value"].unique().sort()
    if len(doubtful):
        named = some_values(doubtful.to_list())
        yield Unknown(f"no send is recorded of {named}, each at several offsets of {p.name}; but {missing}")
        twice = twice.filter(~pl.col("value").is_in(doubtful.implode()))
    for (value,), rows in twice.group_by("value", maintain_order=True):
        offsets = np.sort(rows["offset"].to_numpy())
        sender = senders.get(str(value))
        is_permitted = (sender, value) in excused
        how = " without idempotence" if is_permitted else ""
        by = f", sent by {sender}{how}," if sender else f", sent{how}," if is_permitted else ""
        yield finding(
            p,
            f"{short(value)}{by} is at {len(offsets)} offsets of {p.name}: {some([str(o) for o in offsets], 5)}",
            (int(offsets[0]), int(offsets[-1])),
            _occurrences(shown[(value,)]),
            values=[value],
            processes=[sender],
            severity="permitted" if is_permitted else "violation",
        )


@duplicate.judged_in_jepsen_by
def duplicate_in_jepsen(p: Partition) -> Iterator[Result]:
    """Values at two or more offsets."""
    twice = jepsen_log(p).filter(pl.col("value").is_duplicated())
    for rows in twice.partition_by("value", maintain_order=True):
        offsets, value = rows["offset"].to_list(), rows["value"][0]
        yield finding(
            p,
            f"{short(value)} is at offsets {some(list(map(str, offsets)), 8)} of key {p.topic}",
            (offsets[0], offsets[-1]),
            _occurrences(rows),
            values=[value],
        )


def _places_of(entries: pl.DataFrame, p: Partition) -> pl.DataFrame:
    """The first place in the history of each of these entries."""
    places = _places(p).join(entries, on=["offset", "value"], how="semi")
    return places.unique(["offset", "value"], keep="first", maintain_order=True)


def _places(p: Partition) -> pl.DataFrame:
    """The acknowledgement and the first poll of each (offset, value), in the order of time."""
    acks = p.sends.filter(pl.col("offset").is_not_null()).select("offset", "value", "process", "completed", "at")
    reads = p.entries.filter(pl.col("times") > 0).select(
        "offset", "value", process="first_reader", completed="first_read", at="first_read_at"
    )
    return pl.concat([acks, reads]).sort("completed", "at", nulls_last=True)
