"""The operations around one finding: sends, polls, and other operations. At most MAX_OPERATIONS."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import polars as pl

from ...histories.tables import Finding, collect
from ..finding_order import is_consequence, worst_first
from ..partitions.partition import Partition
from ..wording import clipped

MAX_WINDOWS = 3  # of one partition
MAX_OPERATIONS = 40
MAX_TEXT = 80  # characters of one operation's text

_COMMON = ("process", "outcome", "invoked", "completed", "at")


def windows(p: Partition, findings: list[Finding]) -> list[dict[str, Any]]:
    """The worst findings of the partition, each with the operations that show it, sorted by time."""
    chosen = worst_first(findings)[:MAX_WINDOWS]
    return [window for window in (_window_of(p, finding) for finding in chosen) if window["operations"]]


def _window_of(p: Partition, finding: Finding) -> dict[str, Any]:
    places = [item.place for item in finding.evidence if item.place is not None]
    at_place = pl.col("at").is_in(places) | pl.col("invoked_at").is_in(places)
    offsets = _offsets_of(finding)
    near = pl.col("offset").is_in(offsets).fill_null(False)
    values = [*finding.values[:1], *finding.values[-1:]]
    has_value = pl.col("value").is_in(values).fill_null(False)
    sends = p.sends.filter(at_place | has_value | near)
    reads = p.reads.filter(at_place | has_value | near)
    if len(reads):  # more than two reads of a process, offset and value would show nothing new
        reads = reads.filter(pl.int_range(pl.len()).over("process", "offset", "value") < 2)
    marks = p.marks.filter(at_place & (pl.col("kind") != "handle"))
    proven = set(places)
    if not places:  # brokers' files prove the finding: the operations on its first and last offset show it
        is_end = pl.col("offset").is_in([finding.first_offset, finding.last_offset]).fill_null(False)
        proven = {*sends.filter(is_end)["at"], *reads.filter(is_end)["at"]}
    lost = set(finding.values) if finding.rule == "lost-write" else set()
    rows = _operations(p, sends, reads, marks, lost, proven)
    rows = _distinct([*rows, *_crashes(p, rows)])
    shown = sorted(rows, key=lambda row: (not row["proof"], row["invoked"], row["process"], row["text"]))
    shown = shown[:MAX_OPERATIONS]
    if len(shown) < MAX_OPERATIONS // 2:
        shown = _distinct([*shown, *_adjacent_operations(p, shown, lost, MAX_OPERATIONS // 2 - len(shown))])
    shown.sort(key=lambda row: (row["invoked"], row["completed"] or row["invoked"], row["process"], row["text"]))
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity,
        "follows": is_consequence(finding),
        "sentence": finding.sentence[:500],
        "first_offset": finding.first_offset,
        "last_offset": finding.last_offset,
        "operations": [{name: value for name, value in row.items() if name != "at"} for row in shown],
        "left_out": max(len(rows) - MAX_OPERATIONS, 0),
    }


def _offsets_of(finding: Finding) -> list[int]:
    """The first and last offset of the finding and those beside them, so that the picture shows its ends."""
    if finding.first_offset is None:
        return []
    last = finding.first_offset if finding.last_offset is None else finding.last_offset
    return sorted({finding.first_offset - 1, finding.first_offset, last, last + 1})


def _polls_of(p: Partition, reads: pl.DataFrame) -> pl.DataFrame:
    """The polls that returned these records: one row each, with its range of offsets, first and last value.

    A condensed partition may lack some of their records.
    """
    polls = p.reads.lazy().join(reads.lazy().select("at"), on="at", how="semi", maintain_order="left")
    ranges = polls.group_by("at", maintain_order=True).agg(
        pl.col("process", "outcome", "invoked", "completed", "invoked_at").first(),
        first=pl.col("offset").min(),
        last=pl.col("offset").max(),
        value=pl.col("value").first(),
        last_value=pl.col("value").last(),
        records=pl.len(),
        least=pl.lit("at least " if p.is_condensed else ""),
    )
    return collect(ranges, len(p.reads))


def _operations(
    p: Partition,
    sends: pl.DataFrame,
    reads: pl.DataFrame,
    marks: pl.DataFrame,
    lost: set[str],
    proven: Collection[int] = (),
) -> list[dict[str, Any]]:
    """Operations for the plot; `lost`: values that the finding reports as lost; `proven`: places that prove it."""
    tables = (("send", sends), ("poll", _polls_of(p, reads)), ("", marks))
    return [_operation(kind or row["kind"], row, lost, proven) for kind, rows in tables for row in rows.to_dicts()]


def _operation(kind: str, row: dict[str, Any], lost: set[str], proven: Collection[int]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in _COMMON},
        "kind": kind,
        "text": _describe(kind, row)[:MAX_TEXT],
        "proof": row["at"] in proven or row.get("invoked_at") in proven,
        "lost": bool(lost & {row.get("value"), row.get("last_value")}),
    }


def _describe(kind: str, row: dict[str, Any]) -> str:
    if kind == "send":
        where = "" if row["offset"] is None else f" @{row['offset']}"
        return f"{_shorten(row['value'])}{where}"
    if kind == "poll":
        if row["records"] == 1:
            return f"{_shorten(row['value'])} @{row['first']}"
        ends = f"{_shorten(row['value'])} … {_shorten(row['last_value'])}"
        return f"{row['least']}{row['records']} records @{row['first']}-{row['last']}: {ends}"
    if kind == "crash":
        return "crashed"
    return kind.replace("_", " ") + ("" if row["offset"] is None else f" {row['offset']}")


def _crashes(p: Partition, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first crash of each process with an operation that proves the finding: it explains why it stopped."""
    since = min((row["invoked"] for row in rows), default=0)
    is_involved = pl.col("process").is_in(sorted({row["process"] for row in rows if row["proof"]}))
    crashes = p.context.filter(is_involved, pl.col("invoked") >= since, kind="crash").sort("invoked", "at")
    first = crashes.unique("process", keep="first", maintain_order=True)
    return [_operation("crash", row, set(), [row["at"]]) for row in first.to_dicts()]


def _shorten(value: str | None) -> str:
    return "null" if value is None else clipped(value, 24)


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each operation once. The records of a transaction are on one line but differ in text."""
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        seen.setdefault((row["at"], row["kind"], row["text"]), row)
    return list(seen.values())


def _adjacent_operations(
    p: Partition, shown: list[dict[str, Any]], lost: set[str], wanted: int
) -> list[dict[str, Any]]:
    """Other operations on the partition about the time of the proof, if the proof has few operations.

    A condensed partition has few of them.
    """
    if not shown or p.is_condensed:
        return []
    focus = shown[0]["completed"] or shown[0]["invoked"]
    is_involved = pl.col("process").is_in(sorted({row["process"] for row in shown}))
    distance = (pl.coalesce("completed", "invoked") - focus).abs()
    third = max(wanted // 3, 1)
    moves = ["commit", "assign", "seek", "revoke"]
    sends = _nearest(p.sends.filter(is_involved), distance, third)
    reads = _nearest(p.reads.unique("at", keep="first", maintain_order=True), distance, third)
    marks = _nearest(p.marks.filter(pl.col("kind").is_in(moves)), distance, third)
    return _operations(p, sends, reads, marks, lost)


def _nearest(rows: pl.DataFrame, distance: pl.Expr, count: int) -> pl.DataFrame:
    return collect(rows.lazy().sort(distance, "at", "index").head(count), len(rows))
