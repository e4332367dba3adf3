"""Builds findings and their evidence; puts places and times into words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...histories.tables import Evidence, Finding
from ..replicas.replica_logs import TopicPartition

Row = dict[str, Any]
# A proof of a finding and its place in the history, or evidence from a file.
Proof = tuple[str, int | None] | Evidence


def finding(
    about: TopicPartition,
    sentence: str,
    offsets: tuple[int | None, int | None],
    evidence: Iterable[Proof],
    *,
    count: int = 1,
    values: Iterable[Any] = (),
    processes: Iterable[Any] = (),
    severity: str = "violation",
    acks: str | None = None,
    event: int | None = None,
    brokers: Iterable[str] = (),
    snapshot: str = "",
) -> Finding:
    """One breach at the first and last of `offsets`; the rule adds its name.

    Processes are named once; evidence without a place is left out.
    """
    return Finding(
        rule="",
        sentence=sentence,
        topic=about.topic,
        partition=about.partition,
        severity=severity,
        first_offset=offsets[0],
        last_offset=offsets[1],
        count=count,
        values=[str(value) for value in values],
        processes=distinct(processes),
        evidence=[
            item if isinstance(item, Evidence) else Evidence(*item)
            for item in evidence
            if isinstance(item, Evidence) or item[1] is not None
        ],
        replicas=list(brokers),
        snapshot=snapshot or None,
        acks=acks,
        event=event,
    )


def where(about: TopicPartition, first: int | None, last: int | None = None) -> str:
    """orders-2@4711, or orders-2@4711-4720."""
    if first is None:
        return f"{about.name} (offset unknown)"
    return f"{about.name}@{first}" if last is None or last == first else f"{about.name}@{first}-{last}"


def seconds(ns: int | None) -> str:
    """A time of the history's clock in words."""
    return "an unknown time" if ns is None else f"{ns / 1e9:.3f} s"


def distinct(values: Iterable[Any]) -> list[str]:
    """The values as text, each once, in order, without null."""
    return list(dict.fromkeys(str(value) for value in values if value is not None))
