"""Versions and anomalies of lists that transactions append to and read, as elle.list-append infers them.

The elements of a list show its history: of a key, the longest list that was read has the order of the appends, and
every other read is a prefix of it. Unread appends come after all of these, in an unknown order. Without an
anomaly every order of the transactions that keeps these dependencies explains all reads. Only snapshot isolation needs
more, as it forbids concurrent writes to a key: where several appends were not read, `is_guess` orders them by time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import polars as pl

from .anomalies import (
    Anomaly,
    MicroOperation,
    intermediate_reads,
    lost_updates,
    shown,
    version_in_words,
    within_transactions,
)
from .txn_history import TxnHistory
from .version_edges import BASES, INITIAL, Versions

_LAST = r"([^\n]*)\n$"


class Lists(NamedTuple):
    """The lists of a history, as its reads show them."""

    appends: pl.DataFrame  # key, value, txn, step, outcome
    reads: pl.DataFrame  # key, list (an element a line), size, txn: of committed transactions
    longest: pl.DataFrame  # key, list, size, txn: the longest read of each key that was read non-empty
    elements: pl.DataFrame  # key, value, position: of the longest list of each key, each value once
    known: pl.DataFrame  # key, value, position, txn, step, outcome: those whose append may be committed


def lists_of(history: TxnHistory) -> Lists:
    """The lists of a history, as its reads show them. No value may be appended twice to a key."""
    reads = (
        history.steps.filter(f="r")
        .select("key", pl.col("value").fill_null("").alias("list"), "txn")
        .with_columns(size=pl.col("list").str.count_matches("\n", literal=True).cast(pl.Int64))
    )
    longest = reads.filter(pl.col("size") > 0).sort("size", descending=True, maintain_order=True)
    longest = longest.unique("key", keep="first", maintain_order=True).sort("key")
    elements = (
        longest.select("key", pl.col("list").str.strip_suffix("\n").str.split("\n").alias("value"))
        .explode("value", empty_as_null=False)
        .with_columns(position=pl.int_range(pl.len()).over("key"))
        .unique(["key", "value"], keep="first", maintain_order=True)
    )
    appends = history.writes()
    known = elements.join(appends.filter(pl.col("outcome") != "fail"), on=["key", "value"]).sort("key", "position")
    return Lists(appends, reads, longest, elements, known)


def versions_of(lists: Lists, seen: pl.Series, is_guess: bool = False) -> Versions:
    """The order of the versions that the reads show. A version is the last element of the list.

    `seen`: the transactions of `known`, of all keys. `is_guess`: unread appends are in the order of time, too.
    """
    possible, known = lists.appends.filter(pl.col("outcome") != "fail"), lists.known
    chain = known.select("key", pl.col("value").shift(1).over("key").fill_null(INITIAL).alias("before"), after="value")
    chain = chain.with_columns(basis=pl.lit("both read", BASES))
    # An indeterminate transaction without an append that was read may be aborted.
    certain = possible.filter((pl.col("outcome") == "ok") | pl.col("txn").is_in(seen.implode()))
    unread = certain.join(lists.elements, on=["key", "value"], how="anti")
    last = known.group_by("key").agg(pl.col("value").last().alias("before"))
    tail = unread.join(last, on="key", how="left").sort("key", "txn", "step")
    before = pl.col("before").fill_null(INITIAL)
    if is_guess:
        before = pl.col("value").shift(1).over("key").fill_null(before)
    basis = pl.lit(None if is_guess else "first read", BASES)
    tail = tail.select("key", before.alias("before"), after="value", basis=basis)
    reads = lists.reads.select("key", pl.col("list").str.extract(_LAST).fill_null(INITIAL).alias("value"), "txn")
    order = pl.concat([chain, tail]).join(lists.longest.select("key", one="txn"), on="key", how="left")
    order = order.with_columns(other=pl.lit(None, pl.Int64))
    return Versions(order, possible.select("key", "value", "txn"), reads)


def anomalies_of(history: TxnHistory, lists: Lists) -> Iterator[Anomaly]:
    """The anomalies that are not cycles."""
    joined = lists.reads.join(lists.longest.select("key", longest="list", by="txn"), on="key")
    incompatible = joined.filter(~pl.col("longest").str.starts_with(pl.col("list"))).sort("key", "txn")
    first = incompatible.unique("key", keep="first", maintain_order=True)
    for key, read, txn, longest, by in first.select("key", "list", "txn", "longest", "by").iter_rows():
        sentence = f"T1 read {version_in_words(read)} and T2 {version_in_words(longest)} of key {_name(history, key)}"
        yield Anomaly("incompatible-order", f"{sentence}: neither is a prefix of the other", (txn, by), key=key)
    longest_first = enumerate((lists.longest, incompatible))
    texts = pl.concat([frame.select("key", "list", "txn", rank=pl.lit(rank)) for rank, frame in longest_first])
    texts = texts.unique(["key", "list"], keep="first", maintain_order=True)
    seen = texts.select("key", "txn", "rank", value=pl.col("list").str.strip_suffix("\n").str.split("\n"))
    yield from _of_elements(history, lists, seen.explode("value", empty_as_null=False))
    yield from _dirty_updates(history, lists)
    last = lists.reads.select("key", pl.col("list").str.extract(_LAST).alias("value"), "txn").drop_nulls("value")
    yield from intermediate_reads(history, lists.appends, last)
    yield from lost_updates(history)
    yield from within_transactions(history, _judge_steps)


def _name(history: TxnHistory, key: int) -> str:
    return shown(history.keys[key])


def _of_elements(history: TxnHistory, lists: Lists, seen: pl.DataFrame) -> Iterator[Anomaly]:
    """Anomalies of single elements, one for each element. `seen`: lists that together have every element read."""
    counts = seen.group_by("key", "txn", "rank", "value", maintain_order=True).len().filter(pl.col("len") > 1)
    for key, txn, rank, value, number in counts.unique(["key", "value"], keep="first", maintain_order=True).iter_rows():
        sentence = f"T1 read {shown(value)} {number:,} times in one list of key {_name(history, key)}"
        yield Anomaly("duplicate-elements", sentence, (txn,), (value,), key=key, rank=rank)
    once = seen.unique(["key", "value"], keep="first", maintain_order=True)
    writers = lists.appends.select("key", "value", "outcome", pl.col("txn").alias("writer"))
    of_writers = once.join(writers, on=["key", "value"], how="left", maintain_order="left")
    aborted = of_writers.filter(outcome="fail")
    for key, reader, rank, value, writer in aborted.select("key", "txn", "rank", "value", "writer").iter_rows():
        sentence = f"T2 read {shown(value)} of key {_name(history, key)}, which T1 appended, but T1 failed"
        yield Anomaly("G1a", sentence, (writer, reader), (value,), key=key, rank=rank)
    if history.is_whole:  # else a line that was left out may have the append
        unwritten = of_writers.filter(pl.col("outcome").is_null())
        for key, reader, rank, value in unwritten.select("key", "txn", "rank", "value").iter_rows():
            sentence = f"T1 read {shown(value)} of key {_name(history, key)}, which no transaction appended"
            yield Anomaly("garbage-read", sentence, (reader,), (value,), key=key, rank=rank)


def _dirty_updates(history: TxnHistory, lists: Lists) -> Iterator[Anomaly]:
    """dirty-update: a committed append that came after one of an aborted transaction."""
    decided = lists.elements.join(lists.appends.filter(pl.col("outcome") != "info"), on=["key", "value"])
    before = pl.col("value", "txn", "outcome").shift(1).over("key").name.prefix("before_")
    pairs = decided.sort("key", "position").with_columns(before)
    dirty = pairs.filter(before_outcome="fail", outcome="ok")
    for key, first, value, one, other in dirty.select("key", "before_value", "value", "before_txn", "txn").iter_rows():
        sentence = f"T2 appended {shown(value)} to key {_name(history, key)} after {shown(first)} of T1, which failed"
        yield Anomaly("dirty-update", sentence, (one, other), (first, value), key=key)


def _judge_steps(steps: list[MicroOperation]) -> Iterator[tuple[str, str]]:
    """internal: a read contradicts what its transaction read or appended. future-read: it has a later append."""
    expected: str | None = None  # the list; None until it is read
    appended = ""  # the elements that the transaction appended until then
    for number, (f, value) in enumerate(steps):
        if f == "w":
            appended += f"{value}\n"
            expected = None if expected is None else f"{expected}{value}\n"
            continue
        read = value or ""
        whole = expected is not None
        if (read != expected) if whole else not f"\n{read}".endswith(f"\n{appended}"):
            state = version_in_words(expected or "") if whole else f"a list that ends with {version_in_words(appended)}"
            yield "internal", f"read {version_in_words(read)} in place of {state}"
            return
        later = {value for f, value in steps[number:] if f == "w"}
        if later and (found := [item for item in read.split("\n")[:-1] if item in later]):
            yield "future-read", f"read its own later append {shown(found[0])}"
            return
        expected = read
