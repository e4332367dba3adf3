"""Explains values at several offsets, several values at one offset, and reads of damaged copies."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl

from ...histories.tables import Finding
from .. import causes
from ..causes.cases import Explanation, Lost
from ..causes.repeated_values import Repeated, records_at
from ..extremes import greatest
from ..partitions.partition import Partition, once

Record = dict[str, Any]


def explain_duplicate(p: Partition, finding: Finding) -> Explanation | None:
    """The cause of a value at several offsets; None without brokers' evidence."""
    if p.timeline is None or not finding.values:
        return None
    if (misread := explain_misread(p, finding)) is not None:
        return misread
    repeats = _repeats(p)
    value = finding.values[0]
    read = repeats.read.get(value, {})
    send = repeats.sends.get(value, _FirstSend(None, None, None, None))
    producer = p.settings.processes.get(send.process, {}) if send.process else {}
    records = [row for offset in read for row in repeats.records.get(offset, ())]
    replaced = {
        offset: (time, place)
        for offset, since in read.items()
        for time, place, other in reversed(repeats.acknowledged.get(offset, ()))
        if other != value and since is not None and time > since
    }
    repeated = Repeated(p.topic, p.partition, value, tuple(read), *send, producer, read, replaced)
    return causes.explain_duplicate(p.timeline, repeated, records)


class _FirstSend(NamedTuple):
    """The first send of a value."""

    process: str | None
    invoked: int | None  # ns
    place: int | None  # of its invocation
    acks: str | None


class _Repeats(NamedTuple):
    """All values at several offsets, which may be thousands, and what was acknowledged at these offsets."""

    read: dict[str, dict[int, int | None]]  # by offset: ns of the first read
    sends: dict[str, _FirstSend]
    records: dict[int, list[Record]]  # of the brokers, by offset
    acknowledged: dict[int, list[tuple[int, int, str]]]  # by offset, in order of time: ns, place, value


@once
def _repeats(p: Partition) -> _Repeats:
    entries = p.entries.filter(pl.col("value").is_duplicated())
    read: dict[str, dict[int, int | None]] = {}
    for value, offset, time in entries.select("value", "offset", "first_read").iter_rows():
        read.setdefault(value, {})[offset] = time
    sent = p.sends.join(entries, on="value", how="semi", maintain_order="left").unique("value", keep="first")
    rows = sent.select("value", "process", "invoked", "invoked_at", "acks").iter_rows()
    sends = {value: _FirstSend(*row) for value, *row in rows}
    records = records_at(p.timeline, entries["offset"]) if p.timeline is not None else {}
    # The end of a transaction may be long after the brokers acknowledged its records.
    acked = p.sends.filter("acknowledged", ~pl.col("txn"), pl.col("offset").is_in(entries["offset"].implode()))
    acknowledged: dict[int, list[tuple[int, int, str]]] = {}
    for offset, *row in acked.sort("completed").select("offset", "completed", "at", "value").iter_rows():
        acknowledged.setdefault(offset, []).append(tuple(row))
    return _Repeats(read, sends, records, acknowledged)


def explain_replaced(p: Partition, finding: Finding) -> Explanation | None:
    """The cause of several values at one offset, or of a step back to it: a damaged copy that was read, or what
    truncated the records that others have replaced.

    None without brokers' evidence of these others, if an offset had several before, and if the finding follows from a
    loss.
    """
    if finding.rule == "inconsistent-offsets" and (misread := explain_misread(p, finding)) is not None:
        return misread
    first, last = finding.first_offset, finding.last_offset
    if p.timeline is None or finding.related or first is None or last is None:
        return None
    seen = p.entries_between(first, last)
    if not seen["offset"].is_duplicated().any():
        return None
    logs = p.timeline.replica_logs
    now = logs.last_records.filter(pl.col("offset").is_between(first, last), broker=logs.leader or "")
    gone = seen.join(now, on="offset", how="semi").join(now, on=["offset", "value"], how="anti")
    gone = gone.filter(pl.col("first_read").is_not_null())
    if not len(gone) == gone["offset"].n_unique() == finding.count:
        return None
    acks = p.sends.filter(pl.col("value").is_in(gone["value"].implode()))["acks"].drop_nulls()
    place, read_at = (p.topic, p.partition, first, last, len(gone)), greatest(gone["first_read"], 0)
    lost = Lost(*place, frozenset(acks), tuple(gone["value"]), written=read_at, read=len(gone))
    return causes.explain_loss(p.timeline, lost)


def explain_misread(p: Partition, finding: Finding) -> Explanation | None:
    """The proved cause of a read at any of the finding's offsets that returned a damaged copy."""
    if p.timeline is None or finding.first_offset is None or finding.last_offset is None:
        return None
    if p.timeline.replica_logs.damage.is_empty():
        return None  # without a query for each of thousands of findings
    offsets: list[int] = [finding.first_offset]
    if finding.rule in ("duplicate", "inconsistent-offsets"):
        within = pl.col("offset").is_between(finding.first_offset, finding.last_offset)
        offsets = p.entries.filter(within & pl.col("value").is_in(finding.values))["offset"].unique().sort().to_list()
    for offset in offsets:
        explanation = causes.explain_misread(p.timeline, offset, is_read=finding.rule != "log-corruption")
        if explanation.is_known:
            return explanation
    return None
