"""The tables that every folder speaks, as polars schemas (Arrow underneath).

Times are nanoseconds since the start of the run, on the history's one clock. A **place** says where a line
stands: the number of its split shifted left by 32 bits, plus its line within the split (see bundle.py), so
that places order lines as files and lines do, whatever the splits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

Schema = dict[str, pl.DataType | type[pl.DataType]]

MAX_OFFSET = 2**63 - 2  # the offset behind it is a number of 64 bits too
MAX_INT64 = 2**62  # behind every time (ns) and offset of a real run; what is added to it still has 64 bits
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


_RECORD = {
    "topic": pl.String,
    "partition": pl.Int32,
    "offset": pl.Int64,
    "key": pl.String,
    "value": pl.String,
}
_POSITION = {"topic": pl.String, "partition": pl.Int32, "offset": pl.Int64, "start": pl.Int64}
_RECORDS = pl.List(pl.Struct(_RECORD))
_POSITIONS = pl.List(pl.Struct(_POSITION))
_STEPS = pl.List(pl.Struct({"f": pl.String, **_RECORD, "records": _RECORDS, "offsets": _POSITIONS}))

# One row a line of a history: what every reader produces. Numbers given as values or keys become their text.
EVENTS: Schema = {
    "line": pl.Int64,  # within the split, from 0
    "time": pl.Int64,  # ns
    "process": pl.String,
    "op": pl.Int64,  # null: pair with the neighbouring event of the process (formats without operation ids)
    "type": pl.String,  # of TYPES
    "f": pl.String,  # of FUNCTIONS
    "topic": pl.String,
    "partition": pl.Int32,
    "key": pl.String,
    "value": pl.String,
    "offset": pl.Int64,
    "acks": pl.String,
    "records": _RECORDS,  # a record without offset and value says that this partition was polled and gave nothing
    "ops": _STEPS,  # the steps of a transaction, in order
    "offsets": _POSITIONS,
    "topics": pl.List(pl.String),
    "group": pl.Boolean,
    "revoked": pl.Boolean,
    "auto": pl.Boolean,
    "reason": pl.String,
    "error": pl.String,
    "fault": pl.String,  # the JSON object as text
    "synthetic": pl.Boolean,  # an invocation made up by the reader: its time is not known
    "rebalanced": pl.List(pl.String),  # topics whose assignment changed during this poll (Jepsen's :rebalance-log)
}

# A line that could not be read, or that no operation can be made of.
QUARANTINE: Schema = {"line": pl.Int64, "reason": pl.String}

OUTCOME = pl.Enum(["ok", "fail", "info"])  # info: nobody knows whether it happened

# One row an operation: an invocation and its completion, or an invocation that nothing completed (info).
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

_WHOSE: Schema = {
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

# One row a record that an operation sent, read, or spoke of otherwise: the observations.
SENDS: Schema = {
    **_WHOSE,
    "offset": pl.Int64,
    "key": pl.String,
    "value": pl.String,
    "acks": pl.String,  # all, 1 or 0
    "acknowledged": pl.Boolean,  # ok, and acks was not 0
    "txn": pl.Boolean,
    "synthetic": pl.Boolean,  # the time of invocation is unknown
}
READS: Schema = {
    **_WHOSE,
    "offset": pl.Int64,
    "value": pl.String,
    "txn": pl.Boolean,
    "exempt": pl.Boolean,  # the assignment changed during this poll (Jepsen's :rebalance-log)
}
MARKS: Schema = {
    **_WHOSE,
    "kind": pl.String,  # commit, handle, end_offsets, assign, seek, revoke, empty, delete-records
    "offset": pl.Int64,
    "value": pl.String,  # of a record that is handled
    "start": pl.Int64,  # log start offset, of end_offsets
    "group": pl.Boolean,  # assigned by the group
    "auto": pl.Boolean,  # an automatic commit, seen at its callback, later than it happened
    "txn": pl.Boolean,
}
# What concerns a process or the run rather than one partition: every partition's rules get all of it.
CONTEXT: Schema = {
    # assign, subscribe, revoke, crash, seek, fault, heal; poll: of unknown outcome; of the whole run: handles, sends
    # (the process recorded one) and left out (lines of the history)
    "kind": pl.String,
    "process": pl.String,
    "outcome": OUTCOME,
    "invoked": pl.Int64,
    "completed": pl.Int64,
    "at": pl.Int64,
    "group": pl.Boolean,
    "detail": pl.String,  # of a fault: its JSON
}

# Tables of what brokers kept are described in histories/evidence.

FINDINGS: Schema = {
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
    "evidence": pl.List(pl.Struct({"source": pl.String, "line": pl.Int64, "byte": pl.Int64, "says": pl.String})),
    "related": pl.List(pl.String),  # ids of findings of the same event
    "replicas": pl.List(pl.String),  # brokers, for the rules on their evidence
    "snapshot": pl.String,
    "topic_generation": pl.Int32,  # counted from 1, where the topic was deleted and created again; else null
}


def complete(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The columns of the schema in its order; what the frame lacks is null."""
    missing = [pl.lit(None, dtype=kind).alias(name) for name, kind in schema.items() if name not in frame.columns]
    return frame.with_columns(missing).select(list(schema))


@dataclass(frozen=True)
class Evidence:
    """One thing that proves a finding: a line of a history (place), or a line or byte of a file (source)."""

    says: str
    place: int | None = None
    source: str | None = None
    line: int | None = None
    byte: int | None = None


@dataclass(frozen=True)
class Finding:
    """One breach of one rule; a row of findings.parquet once it is numbered and its places are resolved.

    Later stages add to it with `dataclasses.replace`: its id, severity, related findings and cause.
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
    acks: str | None = None  # of the sends concerned, for --allow rule:acks=1
    event: int | None = None  # of lost writes: findings of one partition with the same number were lost together
