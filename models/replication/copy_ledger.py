"""The record of the group's topic from which each copy was made. No part of the protocol reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count


@dataclass(slots=True)
class CopyLedger:
    """Filled by processors; models/exploration/processing_invariants.py checks it."""

    first_pid: int  # of processors' idempotent producers
    sources: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    # producer, partition and value number of a copy -> partition and offset of its source
    pids: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pids = count(self.first_pid)
