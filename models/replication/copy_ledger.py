"""The record of the group's topic from which each copy was made. No part of the protocol reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple


class Copy(NamedTuple):
    """A copy, by its value."""

    producer: int
    partition: int
    number: int  # of the producer's values in the partition


class Source(NamedTuple):
    """A record that was copied."""

    partition: int
    offset: int


@dataclass(slots=True)
class CopyLedger:
    """Filled by processors; models/exploration/processing_invariants.py checks it."""

    first_pid: int  # of processors' idempotent producers
    sources: dict[Copy, Source] = field(default_factory=dict)
    pids: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        self.pids = count(self.first_pid)
