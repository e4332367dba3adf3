"""The tables that all folders exchange, as polars schemas (Arrow underneath).

Times are nanoseconds since the start of the run, on the one clock of the history. A **place** is the position of a
line: the number of its split times PLACES_OF_SPLIT, plus its line within the split (see bundle.py). Places order lines
by file and line, whatever the splits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import polars as pl

Schema = dict[str, pl.DataType | type[pl.DataType]]

PLACES_OF_SPLIT = 1 << 32
MAX_PARTITION = 2**31 - 1
MAX_OFFSET = 2**63 - 2  # the offset after it still has 64 bits
MAX_INT64 = 2**62  # beyond every time (ns) and offset of a real run; sums with it still fit 64 bits
MIN_INT64 = -MAX_INT64  # ns

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


RECORD: Schema = {
    "topic": pl.String,
    "partition": pl.Int32,
    "offset": pl.Int64,
    "key": pl.String,
    "value": pl.String,
    "timestamp": pl.Int64,  # of the record, as Kafka has it: ms since 1970
}
POSITION: Schema = {"topic": pl.String, "partition": pl.Int32, "offset": pl.Int64, "start": pl.Int64}
_RECORDS = pl.List(pl.Struct(RECORD))
_PARTITIONS = pl.List(pl.Struct({"topic": pl.String, "partition": pl.Int32}))
_POSITIONS = pl.List(pl.Struct(POSITION))
STEP: Schema = {"f": pl.String, **RECORD, "records": _RECORDS, "offsets": _POSITIONS}

# One row for each line of a history; every reader produces it. Numbers given as values or keys become text.
EVENTS: Schema = {
    "line": pl.Int64,  # within the split, from 0
    "time": pl.Int64,  # ns
    "process": pl.String,
    "op": pl.Int64,  # null: pair with the next event of the process (formats without operation ids)
    "type": pl.String,  # of TYPES
    "f": pl.String,  # of FUNCTIONS
    "topic": pl.String,
    "partition": pl.Int32,
    "key": pl.String,
    "value": pl.String,
    "offset": pl.Int64,
    "timestamp": pl.Int64,  # of the record: ms since 1970
    "acks": pl.String,
    "records": _RECORDS,  # a record without offset and value: this partition was polled and returned no records
    "ops": pl.List(pl.Struct(STEP)),  # the steps of a transaction, in order
    "offsets": _POSITIONS,
    "topics": pl.List(pl.String),
    "group": pl.Boolean,
    "revoked": pl.Boolean,
    "auto": pl.Boolean,
    "member": pl.String,  # the member id that the group gave to the process
    "generation": pl.Int64,  # of the group (a member epoch in the protocol of KIP-848), as the client recorded it
    "assignment": _PARTITIONS,  # everything that the member now owns
    "reason": pl.String,
    "error": pl.String,
    "fault": pl.String,  # the JSON object as text
    "synthetic": pl.Boolean,  # an invocation added by the reader: its time is unknown
    "rebalanced": pl.List(pl.String),  # topics whose assignment changed during this poll (Jepsen's :rebalance-log)
}

# A line that cannot be read, or that belongs to no operation.
REASONS: Schema = {"line": pl.Int64, "reason": pl.String}
QUARANTINE: Schema = {
    **REASONS,
    "of_nemesis": pl.Boolean,  # true: no operation of a client was on it; null: not known
}

OUTCOME = pl.Enum(["ok", "fail", "info"])  # info: indeterminate, it may have happened

# One row for each operation: an invocation and its completion, or an invocation without one (info).
OPERATIONS: Schema = {
    "process": pl.String,
    "f": pl.String,
    "outcome": OUTCOME,
    "invoked": pl.Int64,  # ns
    "completed": pl.Int64,  # ns; null: never
    "invoked_at": pl.Int64,  # place
    "at": pl.Int64,  # place of the completion, else of the invocation: the operation's identity
    **{name: EVENTS[name] for name in EVENTS if name not in ("line", "time", "process", "op", "type", "f")},
}

_OPERATION_KEY: Schema = {
    "topic": pl.String,
    "partition": pl.Int32,
    "process": pl.String,
    "outcome": OUTCOME,
    "invoked": pl.Int64,
    "completed": pl.Int64,
    "invoked_at": pl.Int64,
    "at": pl.Int64,
    "index": pl.Int32,  # position within the operation
}

# The observations: one row for each record that an operation sent, read or referred to.
SENDS: Schema = {
    **_OPERATION_KEY,
    "offset": pl.Int64,
    "key": pl.String,
    "value": pl.String,
    "timestamp": pl.Int64,  # of the record: ms since 1970; the broker replaces it where LogAppendTime is configured
    "acks": pl.String,  # all, 1 or 0
    "acknowledged": pl.Boolean,  # ok, and acks was not 0
    "txn": pl.Boolean,
    "synthetic": pl.Boolean,  # the time of invocation is unknown
}
READS: Schema = {
    **_OPERATION_KEY,
    "offset": pl.Int64,
    "value": pl.String,
    "timestamp": pl.Int64,  # of the record: ms since 1970
    "txn": pl.Boolean,
    "exempt": pl.Boolean,  # the assignment changed during this poll (Jepsen's :rebalance-log)
}
MARKS: Schema = {
    **_OPERATION_KEY,
    "kind": pl.String,  # commit, handle, end_offsets, assign, owned, seek, revoke, empty, open send, delete-records
    "offset": pl.Int64,
    "value": pl.String,  # of a handled record
    "start": pl.Int64,  # log start offset, of end_offsets
    "group": pl.Boolean,  # assigned by the group
    "auto": pl.Boolean,  # an automatic commit: recorded at its callback, after it happened
    "txn": pl.Boolean,
    "member": pl.String,  # of a group, with its generation; null: not recorded
    "group_generation": pl.Int64,
}
OBSERVED = {"sends": SENDS, "reads": READS, "marks": MARKS}  # the tables of what clients observed
# Events of a process or of the run rather than of one partition: the rules of every partition get all of them.
CONTEXT: Schema = {
    # An event: assign, subscribe, revoke, crash, seek, fault, heal.
    # An operation without an outcome: poll, "txn without steps" (in Jepsen histories of any outcome), "handle without
    # records".
    # A fact about the whole run:
    #   handles: the process recorded handled records
    #   sends, events: the process, which is in run.json, recorded some
    #   sends to: the history has sends to the topic in `process`
    #   sends with offsets: the process has acknowledgements with offsets
    #   sends without offsets: the process has acknowledgements without offsets, and its acks is not recorded
    #   left out: lines of the history were not read
    #   unreadable: lines could not be read; their number is in `detail`
    #   lone completions: those without an invocation, whose lines are missing; their number is in `detail`
    "kind": pl.String,
    "process": pl.String,
    "outcome": OUTCOME,
    "invoked": pl.Int64,
    "completed": pl.Int64,
    "at": pl.Int64,
    "group": pl.Boolean,
    "detail": pl.String,  # of a fault: its JSON
    "member": pl.String,
    "group_generation": pl.Int64,
}

# The tables of brokers' files are in histories/evidence/tables.py.

FINDINGS: Schema = {
    "id": pl.String,  # rule/topic-partition/number, or rule/number for a finding without partition
    "rule": pl.String,
    "severity": pl.String,  # violation | permitted | note
    "topic": pl.String,
    "partition": pl.Int32,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,  # inclusive
    "count": pl.Int64,  # of records
    "values": pl.List(pl.String),
    "processes": pl.List(pl.String),
    "cause": pl.String,  # null until known
    "sentence": pl.String,
    "evidence": pl.List(pl.Struct({"source": pl.String, "line": pl.Int64, "byte": pl.Int64, "says": pl.String})),
    "related": pl.List(pl.String),  # ids of findings of the same event
    "replicas": pl.List(pl.String),  # brokers, for rules on their files
    "snapshot": pl.String,
    "topic_generation": pl.Int32,  # from 1, where the topic was deleted and created again; else null
}


def without_key(schema: Schema) -> Schema:
    """The columns of a table that belongs to one topic-partition."""
    return {name: kind for name, kind in schema.items() if name not in ("topic", "partition")}


def no_rows(schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """The empty frame of a schema. It is shared, as polars takes a tenth of a millisecond to make a wide one."""
    return _no_rows(tuple(schema.items()))


@cache
def _no_rows(columns: tuple[tuple[str, Any], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


MIN_STREAMED_ROWS = 100_000


def collect(query: pl.LazyFrame, rows: int) -> pl.DataFrame:
    """The result of a query on so many rows.

    polars' default is its streaming engine, which takes a millisecond to start: twenty times the work on a few rows.
    """
    return query.collect(engine="in-memory" if rows < MIN_STREAMED_ROWS else "auto")


def complete(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of the schema in its order; missing ones are null. The frame has one of them at least."""
    known = set(frame.columns)
    return frame.select(name if name in known else pl.lit(None, kind).alias(name) for name, kind in schema.items())


def typed(frame: pl.DataFrame, schema: Mapping[str, pl.DataType | type[pl.DataType]]) -> pl.DataFrame:
    """The columns of the schema in its order, with its types."""
    return frame.select(pl.col(name).cast(kind) for name, kind in schema.items())


Locate = Callable[[int], tuple[str | None, int | None]]  # the file and the line of a place in the history


@dataclass(frozen=True)
class Evidence:
    """One proof of a finding: a line of a history (place), or a line or byte of a file (source)."""

    sentence: str
    place: int | None = None
    source: str | None = None
    line: int | None = None
    byte: int | None = None

    @staticmethod
    def of(row: dict[str, Any]) -> Evidence:
        """The evidence in a row of findings.parquet."""
        return Evidence(row["says"], source=row["source"], line=row["line"], byte=row["byte"])

    @staticmethod
    def in_file(sentence: str, row: dict[str, Any]) -> Evidence:
        """The evidence at the line or byte of a row of brokers' files."""
        return Evidence(sentence, source=row["file"], line=row.get("line"), byte=row.get("byte"))

    def located(self, locate: Locate) -> Evidence:
        """The evidence with the file and line of its place in the history."""
        return self if self.place is None else Evidence(self.sentence, None, *locate(self.place), self.byte)


@dataclass(frozen=True)
class Finding:
    """One breach of one rule. It becomes a row of findings.parquet once it has an id and its places are resolved.

    Later stages add the id, severity, related findings and cause, each as a new value (`dataclasses.replace`).
    """

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
    topic_generation: int | None = None
    id: str = ""
    acks: str | None = None  # of the sends, for --allow rule:acks=1
    event: int | None = None  # of lost writes: findings of one partition with the same number were lost together
    is_accepted: bool = False  # permitted by --allow, not by the configuration; not in findings.parquet

    def covers(self, offset: int) -> bool:
        """Whether it is about a range that holds the offset."""
        first, last = self.first_offset, self.last_offset
        return first is not None and first <= offset <= (first if last is None else last)
