"""Batches at the edges of segments with a base offset that does not fit between their neighbours in the log.

The CRC of a batch does not cover its base offset. The reader of a segment finds an offset that does not fit between
two batches of the same file (histories/evidence/batch_headers.py); the first and the last batch of a file have
neighbours in other files, or one alone.
"""

from __future__ import annotations

import polars as pl

from .missing_logs import BASE_IN_NAME, COPY

_BATCH = (*COPY, "file", "byte")  # columns that identify one copy of a batch


def misplaced_batches(batches: pl.DataFrame, is_compacted: bool | None) -> pl.DataFrame:
    """The sound batches with an implausible base offset, with `before` and `after`: the last offset of the batch before
    and the first offset of the batch after them (null behind the last batch).

    A batch does not fit if its neighbours fit each other without it. The first batch of a log follows the name of its
    file. The last one has to begin behind the one before, if that fits its own neighbour; and right behind it within a
    file of a topic that is not compacted, as brokers leave no gaps.
    """
    ordered = batches.filter(pl.col("crc_ok").fill_null(False)).sort(*_BATCH)
    base, last = pl.col("base_offset"), pl.col("last_offset")
    before = last.shift().over(COPY).fill_null(BASE_IN_NAME - 1)
    after = base.shift(-1).over(COPY)
    is_between = (before < after) & ((base <= before) | (last >= after))
    end_byte = (pl.col("byte") + pl.col("size")).shift().over(COPY)
    is_apart = pl.lit(is_compacted is False) & (base > before + 1) & (pl.col("magic") == 2)
    is_apart &= (pl.col("file") == pl.col("file").shift().over(COPY)) & (pl.col("byte") == end_byte)
    is_last = after.is_null() & (last.shift(2).over(COPY) < base.shift().over(COPY))
    marked = ordered.with_columns(misplaced=(is_between | (is_last & ((base <= before) | is_apart))).fill_null(False))
    if not marked["misplaced"].any():
        return marked.clear().drop("misplaced").with_columns(before=last, after=base)
    fitting = ~pl.col("misplaced")
    return (
        marked.with_columns(
            before=pl.when(fitting).then(last).forward_fill().over(COPY).fill_null(BASE_IN_NAME - 1),
            after=pl.when(fitting).then(base).backward_fill().over(COPY),
        )
        .filter("misplaced")
        .drop("misplaced")
    )


def as_damage(misplaced: pl.DataFrame, damage: pl.DataFrame) -> pl.DataFrame:
    """Rows of damage for misplaced batches, which may have all offsets between their neighbours.

    Behind the last batch the length of the log is not known.
    """
    is_last = pl.when(pl.col("after").is_null())
    where = is_last.then(pl.format("after offset {}", "before"))
    between = where.otherwise(pl.format("between offsets {} and {}", "before", "after"))
    first = pl.col("before") + 1
    rows = misplaced.with_columns(
        kind=pl.lit("order"),
        line=pl.lit(None, pl.Int64),
        first_offset=first,
        last_offset=pl.when(pl.col("after").is_not_null()).then(pl.max_horizontal(pl.col("after") - 1, first)),
        reason=pl.format("base offset {} does not fit {}", "base_offset", between),
    )
    return rows.select(pl.col(name).cast(kind) for name, kind in damage.schema.items())


def without_batches(rows: pl.DataFrame, misplaced: pl.DataFrame) -> pl.DataFrame:
    """The batches, or the records, without those of misplaced batches."""
    return rows.join(misplaced, on=list(_BATCH), how="anti", maintain_order="left")
