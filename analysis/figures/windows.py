"""The operations around one finding: who sent what when, and what each consumer saw. At most MAX_OPERATIONS."""

from __future__ import annotations

from typing import Any

import polars as pl

from ...histories.tables import Finding
from ..finding_order import follows, worst_first
from ..partitions.partition import Partition

MAX_WINDOWS = 3  # of one partition
MAX_OPERATIONS = 40
MAX_TEXT = 80  # characters of one operation's text

_WHO = ("process", "outcome", "invoked", "completed", "at")


def windows(p: Partition, findings: list[Finding]) -> list[dict[str, Any]]:
    """The worst findings of the partition, each with operations that show it, in order of time."""
    chosen = worst_first(findings)[:MAX_WINDOWS]
    return [window for window in (_window(p, finding) for finding in chosen) if window["operations"]]


def _window(p: Partition, finding: Finding) -> dict[str, Any]:
    places = [item.place for item in finding.evidence if item.place is not None]
    at_place = pl.col("at").is_in(places) | pl.col("invoked_at").is_in(places)
    offsets = _offsets_of(finding)
    near = pl.col("offset").is_in(offsets).fill_null(False)
    values = [*finding.values[:1], *finding.values[-1:]]
    named = pl.col("value").is_in(values).fill_null(False)
    sends = p.sends.filter(at_place | named | near)
    reads = _few(p.reads.filter(at_place | named | near))
    marks = p.marks.filter(at_place & (pl.col("kind") != "handle"))
    proven = set(places)
    lost = set(finding.values) if finding.rule == "lost-write" else set()
    rows = [
        *_told(sends, "send", proven, lost),
        *_told(_whole(p, reads), "poll", proven, lost),
        *_told(marks, "", proven, lost),
    ]
    rows = _distinct([*rows, *_crashes(p, rows)])
    kept = sorted(rows, key=lambda row: (not row["proof"], row["invoked"], row["process"], row["text"]))
    kept = kept[:MAX_OPERATIONS]
    if len(kept) < MAX_OPERATIONS // 2:
        kept = _distinct([*kept, *_adjacent_operations(p, kept, lost, MAX_OPERATIONS // 2 - len(kept))])
    kept.sort(key=lambda row: (row["invoked"], row["completed"] or row["invoked"], row["process"], row["text"]))
    return {
        "id": finding.id,
        "rule": finding.rule,
        "severity": finding.severity,
        "follows": follows(finding),
        "sentence": finding.sentence[:500],
        "first_offset": finding.first_offset,
        "last_offset": finding.last_offset,
        "operations": [{name: value for name, value in row.items() if name != "at"} for row in kept[:MAX_OPERATIONS]],
        "left_out": max(len(rows) - MAX_OPERATIONS, 0),
    }


def _offsets_of(finding: Finding) -> list[int]:
    """The ends of the finding's range and the offsets beside it, so that the picture shows where it begins and ends."""
    if finding.first_offset is None:
        return []
    last = finding.first_offset if finding.last_offset is None else finding.last_offset
    return sorted({finding.first_offset - 1, finding.first_offset, last, last + 1})


def _few(reads: pl.DataFrame) -> pl.DataFrame:
    """Of each process, offset and value the first two reads: further ones tell nothing new."""
    return reads.filter(pl.int_range(pl.len()).over("process", "offset", "value") < 2) if len(reads) else reads


def _whole(p: Partition, reads: pl.DataFrame) -> pl.DataFrame:
    """The polls that returned these records, whole: one row a poll with its range of offsets and end values."""
    polls = p.reads.filter(pl.col("at").is_in(reads["at"].unique().implode()))
    return polls.group_by("at", maintain_order=True).agg(
        pl.col("process", "outcome", "invoked", "completed", "invoked_at").first(),
        pl.col("offset").min().alias("first"),
        pl.col("offset").max().alias("last"),
        pl.col("value").first().alias("value"),
        pl.col("value").last().alias("last_value"),
        pl.len().alias("records"),
    )


def _told(rows: pl.DataFrame, kind: str, proven: set[int], lost: set[str]) -> list[dict[str, Any]]:
    """Operations as the plot draws them: `lost` where one wrote or saw a record that the finding calls lost."""
    told = []
    for row in rows.iter_rows(named=True):
        told.append(
            {
                **{name: row[name] for name in _WHO},
                "kind": kind or row["kind"],
                "text": _text(kind or row["kind"], row)[:MAX_TEXT],
                "proof": row["at"] in proven or row.get("invoked_at") in proven,
                "lost": bool(lost & {row.get("value"), row.get("last_value")}),
            }
        )
    return told


def _text(kind: str, row: dict[str, Any]) -> str:
    if kind == "send":
        where = "" if row["offset"] is None else f" @{row['offset']}"
        return f"{_short(row['value'])}{where}"
    if kind == "poll":
        if row["records"] == 1:
            return f"{_short(row['value'])} @{row['first']}"
        ends = f"{_short(row['value'])} … {_short(row['last_value'])}"
        return f"{row['records']} records @{row['first']}-{row['last']}: {ends}"
    if kind == "crash":
        return "crashed"
    return kind.replace("_", " ") + ("" if row["offset"] is None else f" {row['offset']}")


def _crashes(p: Partition, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first crash of each process that did what proves the finding: it explains why nothing more came of it."""
    since = min((row["invoked"] for row in rows), default=0)
    mine = pl.col("process").is_in(sorted({row["process"] for row in rows if row["proof"]}))
    crashes = p.context.filter((pl.col("kind") == "crash") & mine & (pl.col("invoked") >= since)).sort("invoked", "at")
    first = crashes.unique("process", keep="first", maintain_order=True)
    return _told(first, "crash", set(first["at"]), set())


def _short(value: str | None) -> str:
    if value is None:
        return "null"
    return value if len(value) <= 24 else value[:23] + "…"


def _distinct(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each operation once: a transaction's records share a line but differ in text."""
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        seen.setdefault((row["at"], row["kind"], row["text"]), row)
    return list(seen.values())


def _adjacent_operations(p: Partition, kept: list[dict[str, Any]], lost: set[str], wanted: int) -> list[dict[str, Any]]:
    """What else happened to the partition about the time of the proof, where the proof alone is too bare."""
    if not kept:
        return []
    focus = kept[0]["completed"] or kept[0]["invoked"]
    mine = pl.col("process").is_in(sorted({row["process"] for row in kept}))
    distance = (pl.coalesce("completed", "invoked") - focus).abs()
    third = max(wanted // 3, 1)
    moves = ["commit", "assign", "seek", "revoke"]
    sends = _nearest(p.sends.filter(mine), distance, third)
    reads = _nearest(p.reads.unique("at", keep="first", maintain_order=True), distance, third)
    marks = _nearest(p.marks.filter(pl.col("kind").is_in(moves)), distance, third)
    return [
        *_told(sends, "send", set(), lost),
        *_told(_whole(p, reads), "poll", set(), lost),
        *_told(marks, "", set(), lost),
    ]


def _nearest(rows: pl.DataFrame, distance: pl.Expr, count: int) -> pl.DataFrame:
    near = rows.with_columns(distance.alias("distance"))
    return near.sort("distance", "at", "index").head(count).drop("distance")
