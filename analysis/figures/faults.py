"""Bands of faults: each fault with the heal that ended it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

MAX_FAULTS = 120
# Faults that are over when they are done: nothing heals them.
INSTANT = ("delete-records", "delete-topic", "create-topic", "add-partitions", "truncate", "preferred-election")
STOPS = ("kill", "pause", "power-loss", "shutdown", "disk-full")  # what starting a process again ends


def fault_bands(context: pl.DataFrame) -> tuple[list[dict[str, Any]], int]:
    """Bands in order of time and how many were left out: kind, nodes, place, from and to in ns.

    `to` is None where nothing ended the fault; it equals `from` for a fault of a moment, which alone has a place:
    orders-0, or logs-0@237, logs-1@240. A fault of several nodes that end apart becomes several bands.
    """
    events = context.filter(pl.col("kind").is_in(["fault", "heal"])).sort("invoked", "at")
    open_since: dict[tuple[str, str], int] = {}
    bands: list[tuple[str, str, int, int | None]] = []
    moments = []
    for row in events.iter_rows(named=True):
        kind, nodes, place = _named(row["detail"])
        start, end = row["invoked"], row["invoked"] if row["completed"] is None else row["completed"]
        if row["kind"] == "heal":
            ended = _ended_by(kind, nodes, open_since)
            bands += [(*key, open_since.pop(key), end) for key in ended]
        elif kind in INSTANT:
            moments.append({"kind": kind, "nodes": nodes, "place": place, "from": start, "to": start})
        else:
            for node in nodes or [""]:
                # A process that is killed while it is paused is no longer paused.
                if kind == "kill" and ("pause", node) in open_since:
                    bands.append(("pause", node, open_since.pop(("pause", node)), start))
                open_since.setdefault((kind, node), start)
    bands += [(*key, since, None) for key, since in open_since.items()]
    together: dict[tuple[int, int | None, str], list[str]] = {}
    for kind, node, since, until in bands:
        together.setdefault((since, until, kind), []).append(node)
    rows = moments + [
        {"kind": kind, "nodes": sorted({node for node in nodes if node})[:20], "place": "", "from": since, "to": until}
        for (since, until, kind), nodes in together.items()
    ]
    rows.sort(
        key=lambda band: (band["from"], band["to"] is None, band["to"] or 0, band["kind"], band["nodes"], band["place"])
    )
    return rows[:MAX_FAULTS], max(len(rows) - MAX_FAULTS, 0)


def _ended_by(kind: str, nodes: list[str], open_since: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
    """The open faults that a heal ends. Starting a process again ends whatever was done to the process."""
    kinds = STOPS if kind == "restart" else (kind,)
    return [key for key in open_since if key[0] in kinds and (not nodes or key[1] in nodes or not key[1])]


def _named(detail: str | None) -> tuple[str, list[str], str]:
    """Kind, nodes and place of a fault's JSON; a fault that says nothing is called by its text."""
    try:
        told = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        told = detail
    if not isinstance(told, dict):
        return (str(told)[:40] or "fault"), [], ""
    nodes = told.get("nodes")
    named = [str(node)[:40] for node in nodes][:20] if isinstance(nodes, list) else []
    return str(told.get("kind") or "fault")[:40], named, _place(told)


def _place(told: dict[str, Any]) -> str:
    topic, partition, offsets = (told.get(name) for name in ("topic", "partition", "offsets"))
    if topic is None:
        return ""
    if isinstance(offsets, dict):
        return ", ".join(f"{topic}-{number}@{offset}" for number, offset in offsets.items())[:80]
    return (str(topic) if partition is None else f"{topic}-{partition}")[:80]
