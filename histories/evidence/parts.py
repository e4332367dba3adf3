"""A part of the brokers' files: what one task reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NOT_READ = ("left-out", "leftover", "unreadable", "missing")  # kinds of parts that are only reported, with their reason


@dataclass(frozen=True)
class Part:
    """One file of a broker, a range of it, or a folder, and its snapshot, broker and partition."""

    snapshot: str  # "" is the end of the run
    broker: str
    # segment, headers (a segment of a large log), txnindex, snapshot (of producers), metadata, groups, transactions,
    # offsets, epochs, properties, log, dump;
    # aside: a segment of a leftover folder (leftover_folders.py);
    # left-out: excluded from the judgement; leftover: of no current replica (leftover_folders.py);
    # unreadable: not a readable file; missing: not there, as other files prove
    kind: str
    path: Path
    name: str  # the path that findings cite: relative to the opened folder
    topic: str | None = None
    partition: int | None = None
    start: int = 0  # bytes
    end: int | None = None
    first_line: int = 1
    source: str | None = None  # of a log with prefixes: the source whose lines it has (log_prefixes.py)
    topics: tuple[tuple[str, str], ...] = ()  # of groups: ids and names of the broker's topics
    # why it is left out, unreadable or missing; of groups and transactions, why a copy of their partition is
    reason: str = ""
