"""Judges a run of transactions on lists or registers (Elle's workloads) on Spark.

    splits → events and steps ─ by process → steps with their transactions ─ by key → anomalies ──→ driver
                                                                                  └ dependencies → cycles.py

Each task has all steps on some keys, so it judges these as the local engine judges all (transactions/keys.py). An
indeterminate transaction is committed if a write of it was read in any task: that is a join. The driver receives
counts, at most MAX_ANOMALIES of a type from each task, windows, cycles, and the transactions of findings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
import polars as pl
import pyarrow as pa

from ....histories.bundle import Run
from ....histories.files import Block, Split
from ....histories.settings import Settings
from ...results import MAX_NAMED, Results
from ...rules.anomalies import ANOMALIES
from ...rules.cycles import CyclesByType
from ...stages import Progress
from ...transactions.anomalies import Anomaly, collect
from ...transactions.keys import guesses_of, judge_keys, seen_writers, without_repeated
from ...transactions.txn_history import (
    OWNED,
    UNPAIRED,
    TxnHistory,
    history_in,
    outcome_counts,
    owned_steps,
    pair_transactions,
)
from ...transactions.version_edges import edges_of, with_operations
from ...txn_run import add_findings, placed_events, try_orders
from .blocks import dependency_blocks, pack, rows_in, split_by_hash, to_batches, unpack
from .buckets import ROW, SCHEMA, Payloads, Row, by_bucket, read_splits
from .cycles import find_cycles
from .plan import store
from .session import shuffle_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TUPLES = ("txns", "values", "members")  # fields of Anomaly
_PLACES = ("source_at", "one_at", "other_at")  # in the row of a step: transactions that a finding names


def judge_transactions(run: Run, session: SparkSession, progress: Progress = lambda *_: None) -> Results:
    """Judges one run: the findings and counts of txn_run.judge_transactions. The caller sized the shuffles."""
    results, settings, buckets = Results(run), run.settings, shuffle_tasks(session)
    results.add_counts(dict.fromkeys(("keys", "operations", "repeated keys", UNPAIRED), 0))
    with ExitStack() as stored:
        progress("Spark is reading", 0, 1, "histories")
        read = store(read_splits(session, run, partial(_read_split, buckets)), stored)
        owned = store(
            by_bucket(read.filter("kind in ('events', 'steps')"), buckets, partial(_pair_processes, buckets)), stored
        )
        _add_reports(results, read.unionByName(owned))
        progress("Spark is judging", 0, 1, "histories")
        steps = owned.filter("kind = 'steps'")
        if results.counts.get("info"):
            steps = store(steps.unionByName(_certain(owned, settings, buckets)), stored)

        def judged(guess: int | None) -> tuple[DataFrame, CyclesByType]:
            is_whole = not results.left_out and not results.counts[UNPAIRED]
            judging = partial(_judge, settings, is_whole, guess)
            found = store(by_bucket(steps, buckets, judging), stored)
            _add_reports(results, found)
            return found, find_cycles(session, found.filter("kind = 'dependencies'"), settings)["all"]

        found, cycles = judged(None)
        anomalies = _merge_anomalies(
            orjson.loads(bytes(row["payload"])) for row in found.filter("kind = 'anomalies'").collect()
        )
        guesses = (judged(number)[1] for number in range(guesses_of(settings)))
        try_orders(anomalies, cycles, guesses if guesses_of(settings) else None, results)
        named = {at for one in anomalies for at in one.txns}
        rows = [step.row for of_type in cycles.values() for one in of_type.shortest for step in one.steps]
        named |= {at for row in rows for name in _PLACES if (at := row.get(name)) is not None}
        history = _history_of(steps, buckets, sorted(named))
    numbers = {at: number for number, at in enumerate(history.txns["at"])}
    anomalies = [replace(one, txns=tuple(numbers[at] for at in one.txns)) for one in anomalies]
    add_findings(history, anomalies, cycles, results)
    return results


def _add_reports(results: Results, frame: DataFrame) -> None:
    """Adds the counts in these rows, and lines that were left out."""
    for row in frame.filter("kind in ('counts', 'lines', 'quarantine', 'repeated')").collect():
        payload = bytes(row["payload"])
        if row["kind"] == "quarantine":
            results.add("quarantine", unpack(payload))
        elif row["kind"] == "lines":
            results.add_lines(*orjson.loads(payload))
        elif row["kind"] == "repeated":
            results.add_repeated_keys(*orjson.loads(payload))
        else:
            results.add_counts(orjson.loads(payload))


def _read_split(buckets: int, split: Split, source: Iterable[Block]) -> Iterator[Row]:
    """Events and steps by bucket of their process, with the lines of each split."""
    lines = count = 0
    for placed in placed_events(split.number, split.reader, split.path, source):
        lines, count = placed.lines, count + len(placed.events)
        steps = placed.steps.join(placed.events.select("place", "process"), on="place", maintain_order="left")
        for kind, frame in (("events", placed.events), ("steps", steps)):
            for bucket, part in split_by_hash(frame, "process", buckets):
                yield kind, bucket, pack(part)
        if len(placed.left_out):
            yield "quarantine", -1, pack(placed.left_out)
    yield "lines", -1, orjson.dumps([split.number, lines])
    yield "counts", -1, orjson.dumps({"events": count})


def _pair_processes(buckets: int, _: int, payloads: Payloads) -> Iterator[Row]:
    """Pairs the events of some processes: their known steps by bucket of the key, with the transactions."""
    txns = pair_transactions(pl.concat(map(unpack, payloads["events"])).sort("place"))
    yield "counts", -1, orjson.dumps(outcome_counts(txns))
    if payloads["steps"]:
        steps = pl.concat(map(unpack, payloads["steps"])).drop("process").sort("place", "step")
        for bucket, part in split_by_hash(owned_steps(steps, txns), "key", buckets):
            yield "steps", bucket, pack(part)
            indeterminate = part.filter(outcome="info").select("at").unique()
            if len(indeterminate):
                yield "indeterminate", bucket, pack(indeterminate)


def _certain(owned: DataFrame, settings: Settings, buckets: int) -> DataFrame:
    """For each bucket, its indeterminate transactions that certainly took effect: one of their writes was read.

    They have a write of a key in the bucket; the write that was read may be of any key.
    """

    def see(bucket: int, payloads: Payloads) -> Iterator[Row]:
        history, _ = _part_of(payloads)
        txns = history.txns[seen_writers(history, settings).unique()]
        yield "seen", bucket, pack(txns.filter(outcome="info").select("at"))

    def places(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in rows_in(batches):
            at = unpack(row["payload"])["at"].to_arrow()
            bucket = pa.array([row["bucket"]] * len(at), pa.int32())
            yield pa.RecordBatch.from_pydict({"at": at, "bucket": bucket})

    def gather(table: pa.Table) -> pa.Table:
        frame = pl.DataFrame({"at": pl.Series(table.column("at"))})
        row = ("certain", table.column("bucket")[0].as_py(), pack(frame))
        return pa.Table.from_batches(to_batches([row], SCHEMA))

    steps = owned.filter("kind = 'steps'")
    seen = by_bucket(steps, buckets, see).mapInArrow(places, "at long, bucket int").select("at").distinct()
    writes = owned.filter("kind = 'indeterminate'").mapInArrow(places, "at long, bucket int")
    return writes.join(seen, "at").repartition(buckets, "bucket").groupBy("bucket").applyInArrow(gather, ROW)


def _part_of(payloads: Payloads, is_whole: bool = True) -> tuple[TxnHistory, pl.Series]:
    """The part of the history that a bucket of keys has, as `history_in` returns it."""
    return history_in(pl.concat(map(unpack, payloads["steps"])), is_whole)


def _judge(settings: Settings, is_whole: bool, guess: int | None, bucket: int, payloads: Payloads) -> Iterator[Row]:
    """The anomalies and dependencies of keys; with the number of a guess only the dependencies under that order."""
    history, appeared = _part_of(payloads, is_whole)
    counts = {"keys": len(history.keys)}
    history, repeated = without_repeated(history)
    certain = [unpack(payload)["at"] for payload in payloads["certain"]]
    at = history.txns["at"]
    seen = history.txns["txn"].filter(at.is_in(pl.concat([at.clear(), *certain]).implode()))
    judged = judge_keys(history, settings, seen)
    counts |= judged.counts
    if guess is None:
        yield "repeated", bucket, orjson.dumps((sorted(repeated)[:MAX_NAMED], len(repeated)))
        rows = [_json_of(one, number, history, appeared) for number, one in enumerate(judged.anomalies)]
        yield "anomalies", bucket, orjson.dumps(rows)
    else:
        counts = {}
    edges, too_large = edges_of(judged.versions if guess is None else judged.guesses[guess]())
    if too_large:
        counts["keys too large"] = too_large
    yield "counts", bucket, orjson.dumps(counts)
    first = appeared.gather(edges["key"]).alias("key_appeared")
    yield from dependency_blocks(with_operations(edges, history).with_columns(first), bucket)


def _json_of(anomaly: Anomaly, number: int, history: TxnHistory, appeared: pl.Series) -> dict[str, Any]:
    """An anomaly with its transactions by their places, and its order among those of its type."""
    at = history.txns["at"]
    first = anomaly.rank if anomaly.leader is None else at[anomaly.leader]
    txns = [at[txn] for txn in anomaly.txns]
    chosen = {name: getattr(anomaly, name) for name in ("type", "sentence", "values", "others", "members")}
    return {**chosen, "txns": txns, "order": [first, appeared[anomaly.key], number]}


def _merge_anomalies(parts: Iterable[list[dict[str, Any]]]) -> list[Anomaly]:
    """The anomalies of all tasks, in the order in which one pass finds them. Their transactions are places."""
    rows = sorted((row for part in parts for row in part), key=lambda row: row.pop("order"))
    found = collect(Anomaly(**{**row, **{name: tuple(row[name]) for name in _TUPLES}}) for row in rows)
    names = {name: number for number, name in enumerate(ANOMALIES)}
    return sorted(found, key=lambda one: names[one.type])


def _history_of(steps: DataFrame, buckets: int, named: list[int]) -> TxnHistory:
    """The transactions at some places, without the steps on keys to which a value was written twice."""

    def choose(bucket: int, payloads: Payloads) -> Iterator[Row]:
        rows = pl.concat(map(unpack, payloads["steps"]))
        history, _ = without_repeated(history_in(rows, True)[0])
        keys = history.keys.gather(history.steps["key"].unique())
        chosen = rows.filter(pl.col("at").is_in(named) & pl.col("key").is_in(keys.implode()))
        if len(chosen):
            yield "steps", bucket, pack(chosen)

    found = by_bucket(steps, buckets, choose).collect() if named else []
    frames = [unpack(bytes(row["payload"])) for row in found]
    return history_in(pl.concat([pl.DataFrame(schema=OWNED), *frames]), True)[0]
