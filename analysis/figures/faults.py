"""Bands of faults for the plots: each fault with the heal that ended it."""

from __future__ import annotations

import json
from typing import Any

import polars as pl

MAX_FAULTS = 120
# Faults without a duration: they need no heal.
INSTANT = (
    *("delete-records", "delete-topic", "create-topic", "add-partitions", "preferred-election"),
    *("reassignment", "cancel-reassignment", "init-transactions"),
    *("truncate", "restore", "restore-backup", "corrupt", "bit-flip"),  # of files
)
STOPS = ("kill", "stop", "pause", "power-loss", "shutdown", "disk-full")  # a restart of the process ends them


def fault_bands(context: pl.DataFrame) -> tuple[list[dict[str, Any]], int]:
    """Bands (kind, nodes, place, from and to in ns) sorted by time, and the number of bands left out.

    `to`: None if the fault was never healed; equal to `from` for an INSTANT fault. Only these have a place: orders-0,
    or logs-0@237, logs-1@240. A fault of several nodes becomes several bands if they were healed at different times.
    """
    events = context.filter(pl.col("kind").is_in(["fault", "heal"])).sort("invoked", "at")
    open_since: dict[tuple[str, str], int] = {}
    bands: list[tuple[str, str, int, int | None]] = []
    moments = []
    for row in events.iter_rows(named=True):
        kind, nodes, place = _parse_detail(row["detail"])
        start, end = row["invoked"], row["invoked"] if row["completed"] is None else row["completed"]
        if row["kind"] == "heal":
            ended = _ended_by(kind, nodes, open_since)
            bands += [(*key, open_since.pop(key), end) for key in ended]
        elif kind in INSTANT:
            moments.append({"kind": kind, "nodes": nodes, "place": place, "from": start, "to": start})
        else:
            for node in nodes or [""]:
                # A kill ends the pause of a process.
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
    """The open faults that a heal ends. A restart ends all STOPS of the process."""
    kinds = STOPS if kind == "restart" else (kind,)
    return [key for key in open_since if key[0] in kinds and (not nodes or key[1] in nodes or not key[1])]


def _parse_detail(detail: str | None) -> tuple[str, list[str], str]:
    """Kind, nodes and place from a fault's JSON. If it is not a JSON object, the text is the kind."""
    try:
        fault = json.loads(detail or "{}")
    except (ValueError, RecursionError):
        fault = detail
    if not isinstance(fault, dict):
        return (str(fault)[:40] or "fault"), [], ""
    nodes = fault.get("nodes")
    names = [str(node)[:40] for node in nodes][:20] if isinstance(nodes, list) else []
    return str(fault.get("kind") or "fault")[:40], names, _place(fault)


def _place(fault: dict[str, Any]) -> str:
    topic, partition, offsets = (fault.get(name) for name in ("topic", "partition", "offsets"))
    if topic is None:
        return ""
    if isinstance(offsets, dict):
        return ", ".join(f"{topic}-{number}@{offset}" for number, offset in offsets.items())[:80]
    return (str(topic) if partition is None else f"{topic}-{partition}")[:80]
