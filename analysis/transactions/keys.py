"""Judges each key by itself: its anomalies, and the order of its versions.

Only one thing needs the other keys: an indeterminate transaction is committed if a write of it was read, of any key.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import polars as pl

from ...histories.settings import Settings
from . import list_append, rw_register
from .anomalies import Anomaly, collect
from .txn_history import TxnHistory
from .version_edges import Versions


class OfKeys(NamedTuple):
    """The anomalies and versions of the keys of a history, or of a part of it."""

    anomalies: list[Anomaly]
    versions: Versions
    guesses: tuple[Callable[[], Versions], ...]  # orders to try if there is no breach: versions by time
    counts: dict[str, int]


def without_repeated(history: TxnHistory) -> tuple[TxnHistory, list[str]]:
    """The history without the keys whose versions identify no writer, and their names.

    To such a key a value was written twice, or nil, the initial state.
    """
    counts = history.writes().group_by("key", "value").len()
    repeated = counts.filter((pl.col("len") > 1) | (pl.col("value") == "nil")).select("key").unique()
    steps = history.steps.join(repeated, on="key", how="anti", maintain_order="left")
    return replace(history, steps=steps), history.keys.gather(repeated["key"]).to_list()


def seen_writers(history: TxnHistory, settings: Settings) -> pl.Series:
    """The transactions with a write that was read."""
    if settings.dialect == "elle-append":
        return list_append.lists_of(history).known["txn"]
    return rw_register.seen_writers(history)


def guesses_of(settings: Settings) -> int:
    """The number of guesses that `judge_keys` returns."""
    return 2 if settings.dialect == "elle-register" else int(settings.model.endswith("snapshot-isolation"))


def judge_keys(history: TxnHistory, settings: Settings, seen: pl.Series | None = None) -> OfKeys:
    """Judges the keys of a history `without_repeated`. `seen`: seen_writers of all keys, unless the history has all."""
    if settings.dialect == "elle-append":
        lists = list_append.lists_of(history)
        seen = lists.known["txn"] if seen is None else seen
        by_time = partial(list_append.versions_of, lists, seen, is_guess=True)
        found = collect(list_append.anomalies_of(history, lists))
        return OfKeys(found, list_append.versions_of(lists, seen), (by_time,) * guesses_of(settings), {})
    registers = rw_register.registers_of(history, rw_register.seen_writers(history) if seen is None else seen)
    versions, contradictions = rw_register.versions_of(registers, settings.keys)
    orders = tuple(partial(rw_register.ordered_by, registers, moment) for moment in ("end", "start"))
    found = collect(rw_register.anomalies_of(history, registers, contradictions))
    return OfKeys(found, versions, orders, {"unwritten versions": registers.unwritten})
