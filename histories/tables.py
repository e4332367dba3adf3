"""The tables that every folder speaks, as polars schemas (Arrow underneath).

Times are nanoseconds since the start of the run, on the history's one clock. A **place** says where a line
stands: the number of its split shifted left by 32 bits, plus its line within the split (see bundle.py), so
that places order lines as files and lines do, whatever the splits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

TYPES = ("invoke", "ok", "fail", "info")
FUNCTIONS = (
    "send",
    "poll",
    "txn",
    "commit",
    "handle",
    "assign",
    "subscribe",
    "seek",
    "end_offsets",
    "crash",
    "fault",
    "heal",
)

# Tables of what brokers kept are described in histories/evidence.

FINDINGS: dict[str, pl.DataType | type[pl.DataType]] = {
    "id": pl.String,  # rule/topic-partition/number, or rule/number where no partition is concerned
    "rule": pl.String,
    "severity": pl.String,  # violation | permitted | note
    "topic": pl.String,
    "partition": pl.Int32,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,  # inclusive
    "count": pl.Int64,  # records concerned
    "values": pl.List(pl.String),
    "processes": pl.List(pl.String),
    "cause": pl.String,  # null until known
    "sentence": pl.String,
    "evidence": pl.List(
        pl.Struct({"source": pl.String, "line": pl.Int64, "byte": pl.Int64, "says": pl.String})
    ),
    "related": pl.List(pl.String),  # ids of findings of the same event
    "replicas": pl.List(pl.String),  # brokers, for the rules on their evidence
    "snapshot": pl.String,
}


@dataclass(frozen=True)
class Evidence:
    """One thing that proves a finding: a line of a history (place), or a line or byte of a file (source)."""

    says: str
    place: int | None = None
    source: str | None = None
    line: int | None = None
    byte: int | None = None


@dataclass
class Finding:
    """One breach of one rule; a row of findings.parquet once it is numbered and its places are resolved."""

    rule: str
    sentence: str
    topic: str | None = None
    partition: int | None = None
    severity: str = "violation"
    first_offset: int | None = None
    last_offset: int | None = None
    count: int = 1
    values: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    related: list[str] = field(default_factory=list)
    cause: str | None = None
    replicas: list[str] = field(default_factory=list)
    snapshot: str | None = None
