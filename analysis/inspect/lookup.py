"""Where a record is, by its value or its key."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from ..partitions.attempts import ATTEMPT
from ..partitions.partition import Partition
from ..wording import brokers, plural


class Match(NamedTuple):
    """A record with a value or a key, at an offset; None: only in a send without a known offset."""

    partition: str | None  # None: of a send that failed before it had one
    offset: int | None
    about: str  # who sent it, read it and stores it

    @property
    def place(self) -> str:
        """The place as text."""
        if self.partition is None:
            return "no partition"
        return f"{self.partition}, no offset" if self.offset is None else f"{self.partition}@{self.offset}"


def find_records(parts: Iterable[Partition], text: str) -> list[Match]:
    """The records with this value, else those with this key, in the order of partitions and offsets."""
    listed = list(parts)
    for column in ("value", "key"):
        found = [match for p in listed for match in _matches(p, column, text)]
        unplaced = pl.concat([p.unplaced for p in listed]).filter(pl.col(column) == text).unique("at")
        found += [Match(None, None, _sends_text(unplaced))] if len(unplaced) else []
        if found:
            return found
    return []


def _matches(p: Partition, column: str, text: str) -> list[Match]:
    same = pl.col(column) == text
    if column == "value":
        same |= pl.col(column).str.starts_with(f"{text}{ATTEMPT}")
    sends = p.sends.filter(same)
    reads = p.reads.filter(same) if column in p.reads.columns else p.reads.clear()
    stored = p.replica_logs.records.filter(same) if p.replica_logs is not None else None
    found = [sends["offset"], reads["offset"], *([stored["offset"]] if stored is not None else [])]
    offsets = sorted({offset for column in found for offset in column.drop_nulls()})
    at = pl.col("offset")
    unplaced = sends.filter(at.is_null())
    matches = [Match(p.label, None, _sends_text(unplaced))] if len(unplaced) else []
    for offset in offsets:
        sent, read = sends.filter(at == offset), reads.filter(at == offset, outcome="ok")
        holders = [] if stored is None else sorted(stored.filter(at == offset)["broker"].unique())
        parts = [_sends_text(sent)] if len(sent) else []
        parts += [f"read {plural(len(read), 'time')}"] if len(read) else []
        parts += [f"in the log of {brokers(holders)}"] if holders else []
        matches.append(Match(p.label, offset, ", ".join(parts)))
    return matches


def _sends_text(sends: pl.DataFrame) -> str:
    """The first of some sends, and how many more there are."""
    process, invoked, outcome = sends.sort("invoked", "at").select("process", "invoked", "outcome").row(0)
    end = {"ok": "", "fail": ", which failed", "info": ", without a recorded outcome"}[outcome]
    more = f", and {len(sends) - 1:,} more sends" if len(sends) > 1 else ""
    return f"sent by {process} at {invoked / 1e9:.3f} s{end}{more}"
