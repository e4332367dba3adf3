"""A small history, as lines and as a DataFrame."""

from __future__ import annotations

import json

import polars as pl

CONFIG = {"final": True, "processes": {"final": {"role": "final"}}, "topics": {"orders": {"cleanup.policy": "delete"}}}


def lines(lost: bool = False) -> list[dict[str, object]]:
    """Two sends and the final read of their partition."""
    records = [{"topic": "orders", "partition": 0, "offset": offset, "value": f"m{offset}"} for offset in range(2)]
    found: list[dict[str, object]] = []
    for number, record in enumerate(records):
        head = {"process": "p0", "op": number, "f": "send", "topic": "orders", "partition": 0}
        found.append({"time": number * 2000, **head, "type": "invoke", "value": record["value"]})
        found.append({"time": number * 2000 + 1000, **head, "type": "ok", "offset": record["offset"]})
    start = [{"topic": "orders", "partition": 0, "offset": 0}]
    for number, (f, field, items) in enumerate(
        (
            ("assign", "offsets", start),
            ("poll", "records", records[lost:]),
            ("end_offsets", "offsets", [{"topic": "orders", "partition": 0, "offset": 2, "start": 0}]),
        )
    ):
        for kind in ("invoke", "ok"):
            time = 10_000 + number * 1000 + (kind == "ok") * 500
            event: dict[str, object] = {"time": time, "process": "final", "op": number, "type": kind, "f": f}
            found.append({**event, field: items} if kind == "ok" else event)
    return found


def frame(lost: bool = False) -> pl.DataFrame:
    return pl.read_ndjson("\n".join(map(json.dumps, lines(lost))).encode(), infer_schema_length=None)
