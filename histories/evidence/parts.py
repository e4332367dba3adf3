"""A part of the brokers' files: what one task reads."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Kinds of parts that are only reported, with their reason.
NOT_READ = ("left-out", "leftover", "misplaced", "unreadable", "missing")
IN_PARTITION = "a folder TOPIC-PARTITION below one of its broker, such as 1/orders-0"
MISPLACED = f"found it in {{}}, expected {IN_PARTITION}"


@dataclass(frozen=True)
class Part:
    """One file of a broker, a range of it, or a folder, and its snapshot, broker and partition."""

    snapshot: str  # "" is the end of the run
    broker: str
    # segment, headers (a segment of a large log), txnindex, snapshot (of producers), metadata, groups, transactions,
    # offsets, epochs, properties, log, dump;
    # aside: a segment of a leftover folder (leftover_folders.py);
    # left-out: excluded from the judgement; leftover: of no current replica (leftover_folders.py);
    # misplaced: a segment in a folder of no partition; unreadable: not a readable file;
    # missing: not there, as other files prove
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
    # of those that are only reported: why; of groups and transactions: why a copy of their partition is missing
    reason: str = ""
