"""The observations of many partitions: the tables of Partition, with a key column `tp`, the number of the partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MIN_INT64, OBSERVED
from ..cached import cached_property
from ..partitions.common import Common
from ..partitions.marks import IS_LOG_END, IS_POSITION, is_final_read
from ..partitions.observations import last_heal

KEY = ("topic", "partition")


@dataclass(frozen=True, eq=False)
class ManyPartitions:
    """Sends, reads and marks of many partitions, and values that several premises need. It holds no brokers' files."""

    keys: pl.DataFrame  # tp, topic, partition
    sends: pl.DataFrame
    reads: pl.DataFrame
    marks: pl.DataFrame
    context: pl.DataFrame
    unplaced: pl.DataFrame  # sends to any topic without a known partition: not in transactions
    settings: Settings

    @classmethod
    def of(cls, tables: Mapping[str, pl.DataFrame], common: Common) -> ManyPartitions:
        """The partitions in the tables sends, reads and marks, which have the columns topic and partition."""
        keys = (
            pl.concat([tables[name].select(KEY).unique() for name in OBSERVED]).unique().sort(KEY).with_row_index("tp")
        )
        numbered = {name: tables[name].join(keys, on=KEY).drop(KEY) for name in OBSERVED}
        return cls(keys, **numbered, context=common.context, unplaced=common.unplaced, settings=common.settings)

    def without(self, numbers: Collection[int]) -> ManyPartitions:
        """A copy without the partitions of these numbers."""
        is_left = ~pl.col("tp").is_in([*numbers])
        return replace(self, **{name: getattr(self, name).filter(is_left) for name in ("keys", *OBSERVED)})

    def numbers_of(self, partitions: Iterable[tuple[str, int]]) -> list[int]:
        """The numbers of the partitions that are among these."""
        wanted = set(partitions)
        return [number for number, *key in self.keys.iter_rows() if tuple(key) in wanted]

    def largest(self, count: int) -> list[int]:
        """The numbers of the partitions with most acknowledged and read records."""
        records = pl.concat([self.sends.filter("acknowledged").select("tp"), self.reads.select("tp")])
        sizes = records.group_by("tp").len().sort("len", "tp", descending=[True, False])
        return sizes["tp"].head(count).to_list()

    @cached_property
    def records(self) -> pl.DataFrame:
        """The sends, each with the reads of its value: read_offset, first_read (ns), in_final; `place` is its offset.

        A send without an offset was written where its value was read.
        """
        polled = self.reads.group_by("tp", "value").agg(
            read_offset=pl.col("offset").min(), first_read=pl.col("completed").min(), in_final=self.is_final_read.any()
        )
        return self.sends.join(polled, on=["tp", "value"], how="left").with_columns(
            pl.col("in_final").fill_null(False), place=pl.coalesce("offset", "read_offset")
        )

    @cached_property
    def placed(self) -> pl.DataFrame:
        """The records with a known offset (`place`): they are in the log."""
        return self.records.filter(pl.col("place").is_not_null())

    @cached_property
    def acknowledged(self) -> pl.DataFrame:
        """The records of acknowledged sends."""
        return self.records.filter("acknowledged")

    @cached_property
    def last_heal(self) -> int:
        """Time (ns) of the last fault or heal."""
        return last_heal(self.context)

    @property
    def is_final_read(self) -> pl.Expr:
        """An expression on reads: whether it belongs to the final reads."""
        return is_final_read(self.settings.final_readers(), self.last_heal)

    @cached_property
    def end_offsets(self) -> pl.DataFrame:
        """The completed requests of end offsets."""
        return self.marks.filter(IS_LOG_END)

    @cached_property
    def final_reads(self) -> pl.DataFrame:
        """`final_reads_of` the partitions."""
        returned = self.reads.filter(self.is_final_read).group_by("tp")
        passes = returned.agg(
            end=pl.col("offset").max() + 1, first=pl.col("completed").min(), until=pl.col("completed").max()
        )
        return final_reads_of(passes, self.marks, self.last_heal, self.settings.final_readers())

    @cached_property
    def known_ends(self) -> pl.DataFrame:
        """The known end of the log from each time on: tp, completed (ns), end; sorted by time.

        An acknowledged or polled record proves an end after it, a returned end offset proves itself.
        """
        records = self.placed.with_columns(end=pl.col("place") + 1)
        known = pl.concat(
            [
                records.filter("acknowledged").select("tp", "completed", "end"),
                records.filter(pl.col("first_read").is_not_null()).select("tp", completed="first_read", end="end"),
                self.end_offsets.select("tp", "completed", end="offset"),
            ]
        )
        return known.sort("completed").with_columns(pl.col("end").cum_max().over("tp"))


def final_reads_of(
    returned: pl.DataFrame, marks: pl.DataFrame, last_heal: int, processes: Collection[str]
) -> pl.DataFrame:
    """One row for each partition with final reads: tp, and the columns of FinalReads that differ between partitions.

    The same definition as partitions/final_reads.py, for logs that start at 0 and have no transactions, if the reads
    returned all acknowledged records. `returned`: their end by tp, their first completion and the last (`until`).
    """
    assigned = marks.filter(pl.col("process").is_in(processes) & IS_POSITION)
    late = marks.filter(IS_LOG_END & (pl.col("invoked") >= last_heal)).sort("invoked", "at")
    positions = assigned.group_by("tp").agg(start=pl.col("offset").min().clip(0), begun=pl.col("completed").max())
    passes = (
        returned.join(positions, on="tp", how="full", coalesce=True)
        .join(late.group_by("tp").agg(requested_end=pl.col("offset").last()), on="tp", how="left")
        .select(
            "tp",
            start=pl.col("start").fill_null(0),
            end=pl.max_horizontal(pl.coalesce("end", "start"), "requested_end"),
            since=pl.coalesce("begun", "first", pl.lit(MIN_INT64)),
            until=pl.coalesce("until", "begun", pl.lit(MIN_INT64)),
        )
    )
    requests = late.group_by("tp", end="offset").agg(requested=pl.col("invoked").max())
    return passes.join(requests, on=["tp", "end"], how="left")
