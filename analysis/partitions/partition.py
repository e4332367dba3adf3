"""The input of a rule: the observations of one topic-partition, and values that several rules derive from them.

A rule is a pure function of a Partition. This module is independent of Spark, files and other partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ...models.arrays import Ints
from ..cached import cached_property
from .entries import index_entries
from .final_reads import FinalReads, final_reads
from .log_start import LogStart, log_start
from .observations import Observations
from .observations import once as once

Offsets = Ints


@dataclass(frozen=True, eq=False)
class Partition(Observations):
    """The observations of one topic-partition, and lazily computed values that several rules need."""

    # The partitions to judge instead if the topic deletions of unknown outcome took effect.
    if_deleted: Sequence[Partition] = ()
    # Pairs of a kind of evidence that rules need, and why it may belong to another generation of the topic.
    ambiguous: Sequence[tuple[str, str]] = ()

    @property
    def uncommitted_readers(self) -> list[str]:
        """The processes that read uncommitted records, as far as run.json sets it."""
        return [name for name in self.settings.processes if self.settings.reads_uncommitted(name)]

    @cached_property
    def _index(self) -> tuple[pl.DataFrame, Ints, Ints]:
        final = list(self.final.processes) if self.final else []
        return index_entries(self.sends, self.reads, final, self.uncommitted_readers, self.last_heal)

    @property
    def entries(self) -> pl.DataFrame:
        """Each (offset, value) that was in the log, by offset (index_entries)."""
        return self._index[0]

    def entries_between(self, first: int, last: int) -> pl.DataFrame:
        """The entries at offsets `first` to `last`, by binary search."""
        low, high = np.searchsorted(self.entries["offset"].to_numpy(), [first, last + 1], "left")
        return self.entries[int(low) : int(high)]

    @property
    def entry_of_send(self) -> Ints:
        """The row in `entries` of each send; -1 where offset or value is not known."""
        return self._index[1]

    @property
    def entry_of_read(self) -> Ints:
        """The row in `entries` of each read; -1 where offset or value is not known."""
        return self._index[2]

    @cached_property
    def elsewhere(self) -> pl.DataFrame:
        """Polled entries without a send that is known to have written there: usually none."""
        return self.entries.filter(pl.col("send").is_null())

    @property
    def log_start(self) -> LogStart:
        """The certain and the possible start of the log (log_start.py)."""
        return log_start(self)

    @property
    def final(self) -> FinalReads | None:
        """The final reads (final_reads.py); None: there were none."""
        return final_reads(self)

    @cached_property
    def committed(self) -> pl.Expr:
        """An expression on entries: whether read_committed consumers see it. It was acknowledged, or one polled it."""
        read = pl.col("read") & ~pl.col("aborted")
        if self.has_transactions and any(
            self.settings.isolation(name) is None for name in self.reads["process"].unique()
        ):
            # A consumer without a recorded isolation level may have polled records of open transactions.
            unsure = self.sends.filter(pl.col("txn") & ~pl.col("acknowledged"))["value"].drop_nulls().unique()
            read = read & ~pl.col("value").is_in(unsure.implode())
        return pl.col("sent_ok") | read
