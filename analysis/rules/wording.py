"""How findings of rules say things: offsets, times, evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...histories.tables import Evidence
from ..partitions.partition import Partition

Row = dict[str, Any]


def where(partition: Partition, first: int | None, last: int | None = None) -> str:
    """orders-2@4711, or orders-2@4711-4720."""
    if first is None:
        return f"{partition.name} (offset unknown)"
    return f"{partition.name}@{first}" if last is None or last == first else f"{partition.name}@{first}-{last}"


def seconds(ns: int | None) -> str:
    return "an unknown time" if ns is None else f"{ns / 1e9:.3f} s"


def proof(*items: tuple[str, int | None]) -> list[Evidence]:
    """Evidence from (what it says, place) pairs; a place that is not known is left out."""
    return [Evidence(says, place) for says, place in items if place is not None]


def distinct(values: Iterable[Any]) -> list[str]:
    """The values as text, each once, in order."""
    return list(dict.fromkeys(str(value) for value in values if value is not None))
