"""Batches at the edges of segments with a base offset that does not fit between their neighbours in the log.

The CRC of a batch does not cover its base offset. The reader of a segment finds an offset that does not fit between
two batches of the same file (histories/evidence/batch_headers.py); the first and the last batch of a file have
neighbours in other files, or one alone.
"""

from __future__ import annotations

import polars as pl

from .missing_logs import BASE_IN_NAME, COPY

_BEFORE_FIRST = (BASE_IN_NAME - 1).fill_null(-1)  # the offset before a log
_BATCH = (*COPY, "file", "byte")  # columns that identify one copy of a batch


def misplaced_batches(batches: pl.DataFrame, is_compacted: bool | None) -> pl.DataFrame:
    """The sound batches with an implausible base offset, with `before` and `after`: the last offset of the batch before
    and the first offset of the batch after them (null behind the last batch).

    A batch does not fit if its neighbours fit each other without it. The first batch of a log follows the name of its
    file, and is right if it begins there. The last one has to begin behind the one before, if that fits its own
    neighbour; and right behind it if the topic is not compacted, as brokers leave no gaps, or if another replica has it
    there. Of two batches that do not follow each other both are damage, unless one of them is right.
    """
    ordered = batches.filter(pl.col("crc_ok").fill_null(False)).sort(*_BATCH)
    base, last, file = pl.col("base_offset"), pl.col("last_offset"), pl.col("file")
    before = last.shift().over(COPY).fill_null(_BEFORE_FIRST)
    after = base.shift(-1).over(COPY)
    begins_file = (base == BASE_IN_NAME).fill_null(False)
    is_between = (before < after) & ((base <= before) | (last >= after)) & ~begins_file
    end_byte = (pl.col("byte") + pl.col("size")).shift().over(COPY)
    is_adjacent = (file == file.shift().over(COPY)) & (pl.col("byte") == end_byte)
    is_adjacent |= (file != file.shift().over(COPY)) & (before + 1 == BASE_IN_NAME)
    is_only = last.shift().over(COPY).is_null() & after.is_null() & BASE_IN_NAME.is_not_null()
    is_adjacent |= is_only & (pl.col("byte") == 0)
    is_apart = pl.lit(is_compacted is False) & (base > before + 1) & (pl.col("magic") == 2) & is_adjacent
    second = last.shift(2).over(COPY)
    follows_right = (second < base.shift().over(COPY)) | (second.is_null() & begins_file.shift().over(COPY))
    is_behind = (base <= before) & (second.is_null() | follows_right)
    is_apart &= follows_right | is_only
    is_last = after.is_null() & (is_behind | is_apart)
    elsewhere = _last_elsewhere(ordered.with_columns(before=before, after=after))
    marked = ordered.with_columns(misplaced=(is_between | is_last | elsewhere).fill_null(False))
    if not marked["misplaced"].any():
        return marked.clear().drop("misplaced").with_columns(before=last, after=base)
    fitting = ~pl.col("misplaced")
    return (
        marked.with_columns(
            before=pl.when(fitting).then(last).forward_fill().over(COPY).fill_null(_BEFORE_FIRST),
            after=pl.when(fitting).then(base).backward_fill().over(COPY),
        )
        .filter("misplaced")
        .drop("misplaced")
    )


def _last_elsewhere(ordered: pl.DataFrame) -> pl.Series:
    """Whether a batch is the last one of its log, behind a gap in which another replica has it, without a gap.

    Compaction leaves gaps, but moves no batch. Within a leader epoch a batch of an idempotent producer has one offset.
    Another producer's may have been written twice, so the other replica must reach this offset without it.
    """
    ends = ordered.group_by(COPY).agg(end=pl.col("last_offset").max())
    others = ordered.filter(pl.col("base_offset") == pl.col("before") + 1).join(ends, on=COPY)
    behind_gap = pl.col("after").is_null() & (pl.col("base_offset") > pl.col("before") + 1)
    lasts = ordered.filter(behind_gap, pl.col("magic") == 2, ~pl.col("control").fill_null(True))
    same = lasts.join(others, on=("snapshot", "leader_epoch", "crc", "size"), suffix="_there")
    is_in_gap = pl.col("base_offset_there").is_between(pl.col("before"), pl.col("base_offset"), closed="none")
    is_single = pl.col("producer_id").is_not_null() | (pl.col("end") > pl.col("base_offset"))
    found = same.filter(is_in_gap & is_single).select(_BATCH).unique()
    return ordered.join(found.with_columns(found=True), on=_BATCH, how="left", maintain_order="left")["found"]


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
