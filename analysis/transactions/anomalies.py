"""Anomalies of transactions on lists and registers that are not cycles, as far as both workloads share them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import polars as pl

from ..wording import clipped
from .txn_history import TxnHistory

MAX_ANOMALIES = 100  # of a type; the last one has the count of the others
MAX_SHOWN = 40  # characters of a key or value in a sentence


class MicroOperation(NamedTuple):
    """A read or a write of one key within a transaction."""

    f: str  # r or w
    value: str | None


Judge = Callable[[list[MicroOperation]], Iterator[tuple[str, str]]]


@dataclass(frozen=True)
class Anomaly:
    """One anomaly. Its sentence calls its transactions T1, T2, …"""

    type: str  # of rules/anomalies.py
    sentence: str
    txns: tuple[int, ...]
    values: tuple[str, ...] = ()
    others: int = 0  # anomalies of its type beyond MAX_ANOMALIES
    key: int = 0  # its number
    leader: int | None = None  # the transaction by which those of its type are ordered first; None: `rank`
    rank: int = 0
    members: tuple[int, ...] = ()  # of a lost update: the places of its transactions, at most MAX_ANOMALIES


def collect(found: Iterable[Anomaly]) -> list[Anomaly]:
    """At most MAX_ANOMALIES anomalies of each type, with the count of the others."""
    by_type: dict[str, list[Anomaly]] = {}
    more: Counter[str] = Counter()
    for one in found:
        chosen = by_type.setdefault(one.type, [])
        more[one.type] += one.others + (len(chosen) == MAX_ANOMALIES)
        if len(chosen) < MAX_ANOMALIES:
            chosen.append(replace(one, others=0))
    for name, chosen in by_type.items():
        chosen[-1] = replace(chosen[-1], others=more[name])
    return [one for chosen in by_type.values() for one in chosen]


def shown(text: str) -> str:
    """A key or value for a sentence."""
    return clipped(text, MAX_SHOWN)


def version_in_words(value: str) -> str:
    """A version of a register, or of a list with a line feed after each element; empty: the initial one."""
    if not value.endswith("\n"):
        return shown(value) if value else "the initial state"
    items = value.removesuffix("\n").split("\n")
    chosen = items if len(items) <= 8 else [*items[:3], "…", *items[-3:]]
    return f"[{' '.join(map(shown, chosen))}]"


def intermediate_reads(history: TxnHistory, writes: pl.DataFrame, reads: pl.DataFrame) -> Iterator[Anomaly]:
    """G1b: a transaction read a version that another one replaced before it ended. `reads`: key, value, txn."""
    replaced = writes.filter(pl.col("outcome") != "fail", pl.col("step") < pl.col("step").max().over("txn", "key"))
    pairs = (
        reads.join(replaced.select("key", "value", pl.col("txn").alias("writer")), on=["key", "value"])
        .filter(pl.col("txn") != pl.col("writer"))
        .select("txn", "key", "value", "writer")
        .unique()
        .sort("txn", "key", "value")
    )
    for reader, key, value, writer in pairs.iter_rows():
        name = shown(history.keys[key])
        sentence = f"T2 read {shown(value)} of key {name}, which T1 wrote before it wrote the key again"
        yield Anomaly("G1b", sentence, (writer, reader), (value,), key=key, leader=reader)


def lost_updates(history: TxnHistory) -> Iterator[Anomaly]:
    """lost-update: two committed transactions read the same version of a key, and then both wrote the key."""
    by_key = (
        _of_committed(history)
        .group_by("txn", "key")
        .agg(pl.col("f", "value").first(), (pl.col("f") == "w").any().alias("writes"))
    )
    updates = by_key.filter(pl.col("writes"), f="r").with_columns(pl.col("value").fill_null(""))
    groups = updates.group_by("key", "value").agg(pl.col("txn").sort()).filter(pl.col("txn").list.len() > 1)
    for key, value, txns in groups.sort(pl.col("txn").list.first(), "key", "value").iter_rows():
        more = f" (so did {len(txns) - 2:,} more)" if len(txns) > 2 else ""
        read = f"{version_in_words(value)} of key {shown(history.keys[key])}"
        sentence = f"T1 and T2 both read {read} and then wrote the key{more}"
        members = tuple(history.txns["at"].gather(txns[:MAX_ANOMALIES]))
        yield Anomaly("lost-update", sentence, tuple(txns[:2]), key=key, leader=txns[0], members=members)


def within_transactions(history: TxnHistory, judge: Judge) -> Iterator[Anomaly]:
    """The anomalies within committed transactions that use a key several times.

    `judge` gets the micro-operations of one transaction on one key, in order, and yields types and sentences.
    """
    several = _of_committed(history).filter(pl.len().over("txn", "key") > 1).sort("txn", "key", "step")
    rows = several.select("txn", "key", "f", "value").iter_rows()
    for (txn, key), group in groupby(rows, itemgetter(0, 1)):
        for kind, sentence in judge([MicroOperation(f, value) for _, _, f, value in group]):
            yield Anomaly(kind, f"T1 {sentence} of key {shown(history.keys[key])}", (txn,), key=key, leader=txn)


def _of_committed(history: TxnHistory) -> pl.DataFrame:
    is_ok = history.txns["outcome"] == "ok"
    return history.steps.filter(is_ok.gather(history.steps["txn"]))
