"""A part of the brokers' evidence: what one task reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Part:
    """One file of evidence (or a range of it; or a metadata folder), and where it belongs."""

    snapshot: str  # "" is the end of the run
    broker: str
    # segment, headers (a segment of a large log), metadata, offsets, epochs, properties, log, dump; or left-out: not to
    # be judged; unreadable: no file
    kind: str
    path: Path
    name: str  # the path as findings cite it: relative to the folder that was given
    topic: str | None = None
    partition: int | None = None
    start: int = 0  # bytes
    end: int | None = None
    first_line: int = 1
    reason: str = ""  # why it is left out
