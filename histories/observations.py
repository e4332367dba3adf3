"""Operations to observations: one row for each record that an operation sent, read or referred to."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import orjson
import polars as pl

from .outcomes import is_indeterminate
from .settings import Settings
from .tables import CONTEXT, MARKS, OPERATIONS, OUTCOME, READS, SENDS, complete, no_rows


class Observations(NamedTuple):
    """The tables of one part of a history, with the columns of tables.py."""

    sends: pl.DataFrame
    reads: pl.DataFrame
    marks: pl.DataFrame
    context: pl.DataFrame


_PARTITION, _OFFSET = re.compile("[0-9]{1,9}"), re.compile("[0-9]{1,18}")

_OPERATION = ("process", "outcome", "invoked", "completed", "invoked_at", "at")
# A client without a membership reports an empty member id and a negative generation.
_MEMBERSHIP = (
    pl.when(pl.col("member") != "").then("member").alias("member"),
    pl.when(pl.col("generation") >= 0).then("generation").alias("group_generation"),
)


def observe(operations: pl.DataFrame, settings: Settings) -> Observations:
    """Takes OPERATIONS apart. Values are text; a reader has converted integers."""
    marks = [no_rows(MARKS)]
    if settings.dialect == "native":
        operations = _with_dated_moves(_with_corrected_outcomes(operations))
    elif settings.dialect == "jepsen":
        # Jepsen's rules only look at completions. What never completed may have sent its values all the same.
        is_open = pl.col("completed").is_null()
        marks.append(_open_sends(operations.filter(is_open), settings))
        operations = operations.filter(~is_open)
    # A block has few functions. A query on its wide rows costs as much if it selects none of them.
    functions = {*operations["f"].unique()}

    def rows_of(*names: str) -> pl.DataFrame:
        return operations.filter(pl.col("f").is_in(names))

    steps = _steps(rows_of("txn")) if "txn" in functions else _no_steps()
    sends, reads = no_rows(SENDS), no_rows(READS)
    if not functions.isdisjoint(("send", "txn")):
        sends = _sends(operations if functions == {"send"} else rows_of("send"), steps, settings)
    if len(steps):
        marks.append(_commits_in(steps))
    if not functions.isdisjoint(("poll", "txn")):
        polled = _poll_entries(rows_of("poll"), steps)
        # An entry without offset and value is a partition that a poll returned without records: only in Jepsen's.
        is_empty = polled["offset"].is_null() & polled["value"].is_null()
        reads = polled.select(list(READS))
        if is_empty.any():
            reads = reads.filter(~is_empty)
            marks.append(_records_as_marks(polled.filter(is_empty), "empty"))
    marks += [make(rows_of(*names)) for names, make in _MARKS if not functions.isdisjoint(names)]
    if "subscribe" in functions and settings.dialect == "jepsen":
        marks.append(_subscriptions(rows_of("subscribe")))
    context = no_rows(CONTEXT) if functions == {"send"} else _context(operations, settings.dialect)
    return Observations(sends, reads, pl.concat(marks), context)


def count_indeterminate_failures(operations: pl.DataFrame) -> int:
    """The number of sends recorded as failed whose error leaves the outcome indeterminate (jepsen#596)."""
    if not (operations["outcome"] == "fail").any():  # as in most blocks
        return 0
    failed = operations.filter(_IS_FAILED_SEND)
    return int(failed.select(is_indeterminate(pl.col("error")).sum()).item() or 0) if len(failed) else 0


_IF_REVOKED = pl.when((pl.col("f") == "assign") & pl.col("revoked").fill_null(False)).then(pl.lit("revoke"))
_IS_FAILED_SEND = (pl.col("outcome") == "fail") & pl.col("f").is_in(["send", "txn"])


def _with_corrected_outcomes(operations: pl.DataFrame) -> pl.DataFrame:
    """The operations, with the outcome info in place of fail where the error leaves it indeterminate."""
    if not count_indeterminate_failures(operations):  # as in most blocks: the patterns cost more than the rest
        return operations
    is_open = _IS_FAILED_SEND & is_indeterminate(pl.col("error"))
    return operations.with_columns(outcome=pl.when(is_open).then(pl.lit("info").cast(OUTCOME)).otherwise("outcome"))


_MOVES = ("assign", "subscribe", "seek", "crash", "handle")


def _with_dated_moves(operations: pl.DataFrame) -> pl.DataFrame:
    """Operations that return nothing, completed at their invocation if they never completed.

    A consumer is single-threaded, so what it did next came after them.
    """
    if not operations["completed"].null_count():
        return operations
    is_open = pl.col("completed").is_null() & pl.col("f").is_in(_MOVES)
    return operations.with_columns(completed=pl.when(is_open).then("invoked").otherwise("completed"))


def _steps(transactions: pl.DataFrame) -> pl.DataFrame:
    """One row for each step of a transaction, with its position."""
    return (
        transactions.select(*_OPERATION, "rebalanced", "ops")
        .filter(pl.col("ops").list.len() > 0)
        .with_columns(index=pl.int_ranges(0, pl.col("ops").list.len(), dtype=pl.Int32))
        .explode("ops", "index")
        .unnest("ops")
    )


@cache
def _no_steps() -> pl.DataFrame:
    return _steps(no_rows(OPERATIONS))


def _sends(operations: pl.DataFrame, steps: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """The sends, each with its acks. With acks=0 no broker responds, so a client made up any offset."""
    columns = [name for name in SENDS if name != "acknowledged"]
    sends = operations.with_columns(txn=pl.lit(False), index=pl.lit(0, dtype=pl.Int32)).select(columns)
    if len(steps):
        within = steps.filter(pl.col("f") == "send").with_columns(
            txn=pl.lit(True), acks=pl.lit(None, dtype=pl.String), synthetic=pl.lit(False)
        )
        sends = pl.concat([sends, within.select(columns)])
    configured = {name: settings.acks(name) for name in settings.processes}
    default = pl.col("process").replace_strict(configured, default="all", return_dtype=pl.String)
    return (
        sends.with_columns(
            pl.coalesce(pl.when(pl.col("acks") == "-1").then(pl.lit("all")).otherwise("acks"), default).alias("acks"),
            pl.col("synthetic").fill_null(False),
        )
        .with_columns(
            acknowledged=(pl.col("outcome") == "ok") & (pl.col("acks") != "0"),
            offset=pl.when(pl.col("acks") != "0").then("offset"),
        )
        .select(list(SENDS))
    )


def _poll_entries(operations: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """The entries of polls, one row each."""
    polls = operations.filter(pl.col("records").list.len() > 0)
    plain = _explode_records(polls, pl.lit(0, dtype=pl.Int32)).with_columns(txn=pl.lit(False))
    if not len(steps):
        return plain
    stepwise = steps.filter((pl.col("f") == "poll") & (pl.col("records").list.len() > 0))
    stepwise = stepwise.drop("topic", "partition", "offset", "key", "value", "timestamp")
    within = _explode_records(stepwise, pl.col("index")).with_columns(txn=pl.lit(True))
    return pl.concat([plain, within])


def _explode_records(polls: pl.DataFrame, step: pl.Expr) -> pl.DataFrame:
    """One row for each polled record. Positions count through all steps of an operation, in order."""
    exploded = (
        polls.with_columns(step=step)
        .select(*_OPERATION, "rebalanced", "step", "records")
        .explode("records")
        .with_columns(pl.col("records").struct.unnest())
        .drop("records")
    )
    position = pl.int_range(pl.len(), dtype=pl.Int32)
    exempt = pl.col("rebalanced").list.contains(pl.col("topic")).fill_null(False).alias("exempt")
    if exploded["rebalanced"].null_count() == len(exploded):
        exempt = pl.lit(False).alias("exempt")
    # The rows of an operation are adjacent, so positions in the frame order them.
    return exploded.with_columns(position.alias("index"), exempt)


def _positions(operations: pl.DataFrame) -> pl.DataFrame:
    """The positions that operations committed, returned or moved to, as marks."""
    return _positions_as_marks(operations, _IF_REVOKED.otherwise("f"), False)


def _commits_in(steps: pl.DataFrame) -> pl.DataFrame:
    """The commits of transactions, as marks."""
    commits = steps.filter(pl.col("f") == "commit").with_columns(
        group=pl.lit(False), auto=pl.lit(False), member=pl.lit(None, pl.String), generation=pl.lit(None, pl.Int64)
    )
    return _positions_as_marks(commits, pl.lit("commit"), True)


def _positions_as_marks(rows: pl.DataFrame, kind: pl.Expr, txn: bool) -> pl.DataFrame:
    return (
        rows.with_columns(kind=kind)
        .select(*_OPERATION, "kind", pl.col("group", "auto").fill_null(False), *_MEMBERSHIP, "offsets")
        .filter(pl.col("offsets").list.len() > 0)
        .explode("offsets")
        .unnest("offsets")
        .with_columns(
            value=pl.lit(None, dtype=pl.String), txn=pl.lit(txn), index=pl.int_range(pl.len(), dtype=pl.Int32)
        )
        .select(list(MARKS))
    )


def _open_sends(operations: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """The sends of operations without a completion, as marks. Only for Jepsen's histories."""
    single, transactions = (operations.filter(f=function) for function in ("send", "txn"))
    return _records_as_marks(_sends(single, _steps(transactions), settings), "open send")


def _handle_marks(operations: pl.DataFrame) -> pl.DataFrame:
    """The records that processes handled, as marks."""
    handles = operations.filter(pl.col("records").list.len() > 0)
    return _records_as_marks(_explode_records(handles, pl.lit(0, dtype=pl.Int32)), "handle")


def _owned_marks(operations: pl.DataFrame) -> pl.DataFrame:
    """The partitions that a member owned after an assignment, as marks."""
    assigns = operations.filter(pl.col("assignment").list.len() > 0)
    if not len(assigns):
        return no_rows(MARKS)
    rows = assigns.drop("topic", "partition").explode("assignment").unnest("assignment")
    index = pl.int_range(pl.len(), dtype=pl.Int32).alias("index")
    marks = _records_as_marks(rows.drop("offset").with_columns(index), "owned")
    return marks.with_columns(rows["group"].fill_null(False), *(rows.select(_MEMBERSHIP)))


def _subscriptions(operations: pl.DataFrame) -> pl.DataFrame:
    """The topics of subscriptions, as marks. Only for Jepsen's histories, where a key is a topic of one partition."""
    named = operations.filter(pl.col("topics").list.len() > 0)
    rows = named.drop("topic", "partition", "offset").explode("topics").rename({"topics": "topic"})
    first = pl.lit(0, dtype=pl.Int32)
    return _records_as_marks(rows.with_columns(partition=first, index=first), "subscribe")


def _records_as_marks(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The rows as marks, without a log start and a membership. What they lack is null."""
    known = [name for name in (*_OPERATION, "topic", "partition", "offset", "value", "index") if name in rows.columns]
    flags = dict.fromkeys(("group", "auto", "txn"), pl.lit(False))
    return complete(rows.select(known, kind=pl.lit(kind), **flags), MARKS)


def _deletions(operations: pl.DataFrame) -> pl.DataFrame:
    """The log starts that delete-records set, as marks. The fault records them by partition."""
    rows: list[dict[str, object]] = []
    for operation in operations.filter(pl.col("outcome") != "fail").iter_rows(named=True):
        for topic, partition, offset in deletions_of(operation["fault"]) or ():
            identity = {name: operation[name] for name in _OPERATION}
            deletion = {"topic": topic, "partition": partition, "kind": "delete-records", "offset": offset}
            rows.append({**identity, **deletion, "index": len(rows)})
    return pl.DataFrame(rows, schema=MARKS)


# What makes marks, by the functions of the operations that have them.
_MARKS: tuple[tuple[tuple[str, ...], Callable[[pl.DataFrame], pl.DataFrame]], ...] = (
    (("commit", "assign", "seek", "end_offsets"), _positions),
    (("assign",), _owned_marks),
    (("handle",), _handle_marks),
    (("fault",), _deletions),
)


class DeleteRecords(NamedTuple):
    """A new log start that an administrator sets."""

    topic: str
    partition: int
    offset: int | None  # None: unreadable


def deletions_of(fault: str | None) -> list[DeleteRecords] | None:
    """The log starts that a delete-records sets; None if it names no partition."""
    event = json_object(fault)
    if event.get("kind") != "delete-records":
        return []
    topic, offsets = event.get("topic"), event.get("offsets")
    if not isinstance(topic, str) or not isinstance(offsets, dict) or not all(map(_PARTITION.fullmatch, offsets)):
        return None
    starts = {partition: _OFFSET.fullmatch(str(offset)) for partition, offset in offsets.items()}
    return [DeleteRecords(topic, int(name), int(number.group()) if number else None) for name, number in starts.items()]


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object in a text, such as the detail of a fault; empty if the text is none."""
    try:
        value = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _context(operations: pl.DataFrame, dialect: str) -> pl.DataFrame:
    """The rows of CONTEXT, and one `handles` for each process that recorded a handle."""
    kinds = ["assign", "subscribe", "seek", "crash", "fault", "heal"]
    indeterminate_poll = (pl.col("f") == "poll") & (pl.col("outcome") == "info")
    # The steps of a transaction are in its completion, so without one it may have sent anything. In Jepsen histories
    # the completion may have the value nil.
    may_lack_steps = pl.lit(True) if dialect == "jepsen" else pl.col("outcome") == "info"
    is_empty = (pl.col("f") == "txn") & may_lack_steps & (pl.col("ops").list.len().fill_null(0) == 0)
    # The invocation of a handle may lack the records.
    is_bare = (
        (pl.col("f") == "handle") & (pl.col("outcome") == "info") & (pl.col("records").list.len().fill_null(0) == 0)
    )
    rows = operations.filter(pl.col("f").is_in(kinds) | indeterminate_poll | is_empty | is_bare).with_columns(
        _IF_REVOKED.when(pl.col("f") == "txn")
        .then(pl.lit("txn without steps"))
        .when(pl.col("f") == "handle")
        .then(pl.lit("handle without records"))
        .otherwise("f")
        .alias("kind"),
        pl.coalesce("fault", pl.format("{}", pl.col("offsets").list.len())).alias("detail"),
        pl.col("group").fill_null(False),
        *_MEMBERSHIP,
    )
    context = rows.select(list(CONTEXT))
    handles = operations.filter(pl.col("f") == "handle").unique("process", keep="first", maintain_order=True)
    if len(handles):
        named = [name for name in _OPERATION if name in CONTEXT]
        recorded = handles.select(named, kind=pl.lit("handles"), group=pl.lit(False))
        context = pl.concat([context, complete(recorded, CONTEXT)])
    return context
