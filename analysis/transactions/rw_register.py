"""Versions and anomalies of registers that transactions read and write, as elle.rw-register infers them.

A read shows which write it saw, but not the order of the writes. Only the initial version (nil) certainly comes first.
More follows from what the user assumes of each key (ASSUMPTIONS). So a history may have anomalies that are not found.
`ordered_by` tries the order of time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import polars as pl

from ...histories.errors import UsageError
from ...histories.tables import MIN_INT64, Schema
from .anomalies import (
    Anomaly,
    MicroOperation,
    intermediate_reads,
    lost_updates,
    shown,
    version_in_words,
    within_transactions,
)
from .graph import Edges, components_of, next_in_time
from .txn_history import TxnHistory
from .version_edges import BASES, BASIS, INITIAL, Versions

ASSUMPTIONS = {  # of each key by itself; Elle's options wfr-keys?, sequential-keys? and linearizable-keys?
    "wfr": "a transaction that reads and writes it replaces the version that it read",
    "sequential": "each process sees it move forward",
    "linearizable": "all processes see it move forward in real time",
}


def check_assumptions(names: Iterable[str]) -> None:
    """Raises UsageError unless these are names of ASSUMPTIONS."""
    for name in names:
        if name not in ASSUMPTIONS:
            raise UsageError(f"found keys {name!r}, expected some of {', '.join(ASSUMPTIONS)}")


class Registers(NamedTuple):
    """The reads and writes of each register."""

    writes: pl.DataFrame  # key, value, txn, step, outcome
    reads: pl.DataFrame  # key, value (INITIAL: nil), txn: of committed transactions
    # key, txn, start, end, process, first, last: the version that a transaction used first, and the one it left
    uses: pl.DataFrame
    finals: pl.DataFrame  # key, value, txn: the last write of transactions that committed for certain
    unwritten: int  # versions that were read but never written


class VersionStep(NamedTuple):
    """A version of a key that comes before another, by an assumption, and the transactions that show it."""

    key: int
    before: str
    after: str
    one: int
    other: int


class Use(NamedTuple):
    """A transaction that used a key."""

    start: int  # ns
    end: int  # ns
    txn: int
    first: str  # the version that it used first
    last: str  # the version that it left


def seen_writers(history: TxnHistory) -> pl.Series:
    """The transactions with a write that was read."""
    reads = history.steps.filter(f="r").select("key", "value")
    return history.writes().join(reads, on=["key", "value"], how="semi")["txn"]


def registers_of(history: TxnHistory, seen: pl.Series) -> Registers:
    """The transactions' reads and writes of each register. Requires that no value is written twice to a key, nor nil.

    `seen`: the result of seen_writers for all keys.
    """
    writes = history.writes()
    steps = history.steps.with_columns(pl.col("value").fill_null(INITIAL))
    reads = steps.filter(f="r").select("key", "value", "txn")
    written = writes.select("key", "value")
    unwritten = reads.filter(pl.col("value") != INITIAL).join(written, on=["key", "value"], how="anti")
    certain = (history.txns["outcome"] == "ok") | history.txns["txn"].is_in(seen.implode())
    certain &= history.txns["outcome"] != "fail"
    of_certain = steps.filter(certain.gather(steps["txn"]))
    is_write = pl.col("f") == "w"
    uses = of_certain.group_by("key", "txn", maintain_order=True).agg(
        first=pl.when(pl.col("f").first() == "r")
        .then(pl.col("value").first())
        .otherwise(pl.col("value").filter(is_write).last()),
        last=pl.coalesce(pl.col("value").filter(is_write).last(), pl.col("value").first()),
    )
    finals = of_certain.filter(is_write).group_by("key", "txn", maintain_order=True).agg(pl.col("value").last())
    times = (history.txns[name].gather(uses["txn"]) for name in ("start", "end", "process"))
    return Registers(
        writes,
        reads,
        uses.with_columns(*times),
        finals.select("key", "value", "txn"),
        unwritten.select("key", "value").n_unique() if len(unwritten) else 0,
    )


def versions_of(registers: Registers, assumed: Iterable[str]) -> tuple[Versions, list[VersionStep]]:
    """The partial order of the versions under some ASSUMPTIONS, and its contradictions.

    A contradiction is a step between two versions that are each before the other.
    """
    taken = [name for name in ASSUMPTIONS if name in assumed]
    found = [(*step[:3], name, *step[3:]) for name in taken for step in _assumed_order(registers, name)]
    schema: Schema = {"key": pl.Int64, "before": pl.String, "after": pl.String, **BASIS}
    steps = pl.DataFrame(found, schema, orient="row").filter(pl.col("before") != pl.col("after"))
    steps = steps.unique(["key", "before", "after"], keep="first", maintain_order=True)
    cyclic = _in_cycles(steps.drop("basis"))
    inferred = steps.join(cyclic, on="key", how="anti").filter(pl.col("before") != INITIAL)
    # Only versions without a written version before them need an edge from the initial one.
    written = inferred.join(registers.finals.rename({"value": "before"}), on=["key", "before"], how="semi")
    first = registers.finals.select("key", after="value").join(written, on=["key", "after"], how="anti")
    initial = first.select("key", pl.lit(INITIAL).alias("before"), "after", basis=pl.lit("initial", BASES))
    order = pl.concat([inferred, initial], how="diagonal")
    return _versions(registers, order), [VersionStep(*row) for row in cyclic.iter_rows()]


def ordered_by(registers: Registers, moment: str) -> Versions:
    """A total order of the versions: by the time when the writer or the first reader of each began or ended.

    If one of these orders has no anomaly, the history is legal.
    """
    ends = registers.uses.select("key", "txn", pl.col(moment).alias("end"))
    of_writer = registers.finals.join(ends, on=["key", "txn"], how="left").select("key", "value", "end")
    of_readers = registers.reads.join(ends, on=["key", "txn"]).select("key", "value", "end")
    times = pl.concat([of_writer, of_readers]).group_by("key", "value").agg(pl.col("end").min())
    finals = registers.finals.join(times, on=["key", "value"], how="left").sort("key", "end", "txn")
    order = finals.select("key", pl.col("value").shift(1).over("key").fill_null(INITIAL).alias("before"), after="value")
    return _versions(registers, order.with_columns(pl.lit(None, kind).alias(name) for name, kind in BASIS.items()))


def _versions(registers: Registers, order: pl.DataFrame) -> Versions:
    writers = registers.writes.filter(pl.col("outcome") != "fail").select("key", "value", "txn")
    return Versions(order, writers, registers.reads)


def _assumed_order(registers: Registers, name: str) -> Iterator[VersionStep]:
    """The order of versions by one of ASSUMPTIONS."""
    uses = registers.uses
    if name == "wfr":
        changed = uses.filter(pl.col("first") != pl.col("last")).join(registers.reads, on=["key", "txn"], how="semi")
        yield from map(VersionStep._make, changed.select("key", "first", "last", "txn", other="txn").iter_rows())
        return
    known = uses.filter(pl.col("start") > MIN_INT64).sort("key", "start")
    groups: dict[tuple[int, str], list[Use]] = defaultdict(list)  # by key and process
    columns = ("key", "txn", "start", "end", "process", "first", "last")
    for key, txn, start, end, process, first, last in known.select(columns).iter_rows():
        groups[key, process if name == "sequential" else ""].append(Use(start, end, txn, first, last))
    for (key, _), own in groups.items():
        for one, other in next_in_time([use.start for use in own], [use.end for use in own]):
            yield VersionStep(key, own[one].last, own[other].first, own[one].txn, own[other].txn)


def _in_cycles(inferred: pl.DataFrame) -> pl.DataFrame:
    """Two versions of each key whose order has a cycle, with the transactions that show the first step."""
    # The initial version comes before all others.
    first = inferred.filter(pl.col("after") != INITIAL).select("key", pl.lit(INITIAL).alias("before"), "after").unique()
    steps = pl.concat([inferred, first.with_columns(one=pl.lit(-1, pl.Int64), other=pl.lit(-1, pl.Int64))])
    versions = pl.concat([steps.select("key", value=end) for end in ("before", "after")])
    nodes = versions.select(pl.struct("key", "value").rank("dense").cast(pl.Int64) - 1).to_series().to_numpy()
    source, target = nodes[: len(steps)], nodes[len(steps) :]
    label = components_of(len(nodes), Edges(source, target), "strong")
    inside = steps.filter(pl.Series(label[source] == label[target], dtype=pl.Boolean) & (pl.col("one") >= 0))
    inside = inside.sort("key", "one", "other").unique("key", keep="first", maintain_order=True)
    return inside.select("key", "before", "after", "one", "other")


def anomalies_of(history: TxnHistory, registers: Registers, contradictions: list[VersionStep]) -> Iterator[Anomaly]:
    """The anomalies that are not cycles of transactions; `contradictions` come from `versions_of`."""
    for key, before, after, one, other in contradictions:
        name = shown(history.keys[key])
        if one == other:
            text = f"T1 replaced {version_in_words(before)} of key {name} by {version_in_words(after)}"
        else:
            text = f"T1 left key {name} with {version_in_words(before)} and T2 then used {version_in_words(after)}"
        text = f"{text}, but another order of its versions is shown, too"
        yield Anomaly("cyclic-versions", text, (one, other), key=key)
    aborted = registers.writes.filter(outcome="fail").select("key", "value", pl.col("txn").alias("writer"))
    pairs = registers.reads.join(aborted, on=["key", "value"]).unique().sort("txn", "key", "value")
    for key, value, reader, writer in pairs.iter_rows():
        sentence = f"T2 read {shown(value)} of key {shown(history.keys[key])}, which T1 wrote, but T1 failed"
        yield Anomaly("G1a", sentence, (writer, reader), (value,), key=key, leader=reader)
    yield from intermediate_reads(history, registers.writes, registers.reads)
    yield from lost_updates(history)
    yield from within_transactions(history, _judge_steps)


def _judge_steps(steps: list[MicroOperation]) -> Iterator[tuple[str, str]]:
    """internal: a read contradicts what its transaction read or wrote. future-read: it has a later write."""
    expected: str | None = None
    for number, (f, value) in enumerate(steps):
        current = value or INITIAL
        if f == "r":
            if number and current != expected:
                state = version_in_words(expected or INITIAL)
                yield "internal", f"read {version_in_words(current)} in place of {state}"
                return
            if current != INITIAL and ("w", value) in steps[number:]:
                yield "future-read", f"read its own later write {shown(current)}"
                return
        expected = current
