"""Explains duplicates: values at several offsets of one partition.

If another record has a copy's offset now, that copy was truncated, and the producer wrote the record again. The cause
is then that of the truncation. Otherwise the producer wrote the record again while the log had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from ..timelines.timeline import Timeline
from . import explain_loss, idempotence_reset, retry_duplicate
from .attempts import Attempt, Explanation, combine_attempts
from .losses import Lost
from .repeated import Repeated

Copies = Sequence[Mapping[str, Any]]
DUPLICATING: dict[str, tuple[Callable[[Timeline, Repeated, Copies], Attempt], str]] = {
    module.NAME: (module.explain, module.CITATION) for module in (retry_duplicate, idempotence_reset)
}


def explain_repeated(timeline: Timeline, repeated: Repeated, records: Copies | None = None) -> Explanation:
    """The explanation of a duplicate.

    `records`: the brokers' records at its offsets. There may be thousands of duplicates, so the caller can look all of
    them up at once (`records_at`).
    """
    if records is None:
        records = [row for rows in records_at(timeline, repeated.offsets).values() for row in rows]
    held = _held_records(timeline, repeated, records)
    if replaced := [row["offset"] for row in held if row["value"] != repeated.value]:
        return _explain_truncated_copy(timeline, repeated, replaced)
    copies = [row for row in held if row["value"] == repeated.value]
    attempts = {
        name: (explain(timeline, repeated, copies), citation) for name, (explain, citation) in DUPLICATING.items()
    }
    return combine_attempts(attempts, "how the producer wrote a record twice")


def _explain_truncated_copy(timeline: Timeline, repeated: Repeated, replaced: list[int]) -> Explanation:
    first, last = min(replaced), max(replaced)
    acks = frozenset({repeated.acks} if repeated.acks else ())
    read = [time for offset in replaced if (time := repeated.read.get(offset)) is not None]
    lost = Lost(repeated.topic, repeated.partition, first, last, len(replaced), acks, (repeated.value,))
    found = explain_loss(timeline, replace(lost, written=min(read, default=repeated.invoked)))
    if found.cause == "unknown":
        places = ", ".join(map(str, replaced))
        missing = [f"what truncated the copy at offset {places}, where another record is now"]
        return Explanation("unknown", missing=missing)
    return found


def records_at(timeline: Timeline, offsets: Iterable[int]) -> dict[int, list[dict[str, Any]]]:
    """The brokers' records of each offset, without control records."""
    wanted = pl.Series(list(offsets), dtype=pl.Int64).implode()
    there = timeline.replica_logs.records.filter(pl.col("offset").is_in(wanted) & pl.col("control").is_null())
    found: dict[int, list[dict[str, Any]]] = {}
    for row in there.iter_rows(named=True):
        found.setdefault(row["offset"], []).append(row)
    return found


def _held_records(timeline: Timeline, repeated: Repeated, records: Copies) -> list[Mapping[str, Any]]:
    """The records at the offsets of the copies at the end, from the leader's log if it is known.

    A log that held all copies at once is preferred even if it was truncated later: there the second copy was written
    while the first one was in the log.
    """
    replica_logs = timeline.replica_logs
    held = [row for row in records if row["snapshot"] == replica_logs.last]
    of_leader = [row for row in held if row["broker"] == replica_logs.leader]
    held = of_leader or held
    if any(row["value"] != repeated.value for row in held):
        own = [row for row in records if row["value"] == repeated.value]
        copies: dict[tuple[str, str], set[int]] = {}
        for row in own:
            copies.setdefault((row["snapshot"], row["broker"]), set()).add(row["offset"])
        whole = min((log for log, offsets in copies.items() if offsets == set(repeated.offsets)), default=None)
        held = [row for row in own if (row["snapshot"], row["broker"]) == whole] or held
    by_offset: dict[int, Mapping[str, Any]] = {}
    for row in held:
        by_offset.setdefault(row["offset"], row)
    return [by_offset[offset] for offset in sorted(by_offset)]
