"""Batches with a base offset or a leader epoch that does not fit their log: the CRC of a batch covers neither.

The reader of a segment finds those that do not fit between two batches of the same file
(histories/evidence/batch_headers.py); the first and the last batch of a file have neighbours in other files, or one
alone. A leader epoch is wrong only if another replica has the same batch with one that fits.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from .missing_logs import BASE_IN_NAME, COPY

_BEFORE_FIRST = (BASE_IN_NAME - 1).fill_null(-1)  # the offset before a log
_BATCH = (*COPY, "file", "byte")  # columns that identify one copy of a batch
_CONTENT = ("snapshot", "base_offset", "last_offset", "crc", "size")  # columns that replicas of a batch have in common
_BASE, _LAST, _BEFORE, _AFTER = (pl.col(name) for name in ("base_offset", "last_offset", "before", "after"))
_BEGINS_FILE = (_BASE == BASE_IN_NAME).fill_null(False)


def misplaced_batches(batches: pl.DataFrame, is_compacted: bool | None) -> pl.DataFrame:
    """The sound batches with an implausible base offset, with `before` and `after`: the last offset of the batch before
    and the first offset of the batch after them (null behind the last batch).

    A batch does not fit if its neighbours fit each other without it. The first batch of a log follows the name of its
    file, and is right if it begins there. The last one has to begin behind the one before, if that fits its own
    neighbour; and right behind it if the topic is not compacted, as brokers leave no gaps, or if another replica has it
    there. Of two batches that do not follow each other both are damage, unless one of them is right.

    For example, between batches that end at offset 9 and begin at offset 20, one with base offset 7 or 40 does not fit.
    """
    columns = [*batches.columns, "before", "after"]
    sound = _with_neighbours(batches.filter(pl.col("crc_ok").fill_null(False)).sort(*_BATCH))
    is_last = _AFTER.is_null()
    is_plain = (_BASE > _BEFORE) & (~is_last | (_BASE == _BEFORE + 1))
    if sound.select(is_plain.all()).item():
        return sound.clear().select(columns)
    do_neighbours_fit = _BEFORE < _AFTER
    is_outside = do_neighbours_fit & ((_BASE <= _BEFORE) | (_LAST >= _AFTER)) & ~_BEGINS_FILE
    is_misplaced = is_outside | (is_last & _is_wrong_last(is_compacted)) | _last_elsewhere(sound)
    marked = sound.with_columns(misplaced=is_misplaced.fill_null(False))
    fits = ~pl.col("misplaced")
    return (
        marked.with_columns(
            before=pl.when(fits).then(_LAST).forward_fill().over(COPY).fill_null(_BEFORE_FIRST),
            after=pl.when(fits).then(_BASE).backward_fill().over(COPY),
        )
        .filter("misplaced")
        .select(columns)
    )


def _with_neighbours(ordered: pl.DataFrame) -> pl.DataFrame:
    """The batches, each with what is beside it in its log.

    after: the first offset of the next batch. before, second_before: the last offsets of the two batches before. Of the
    batch before also its base offset, its file, where it ends there, and whether it begins there by the file's name.
    """
    beside = {
        "after": _BASE.shift(-1),
        "before": _LAST.shift(),
        "second_before": _LAST.shift(2),
        "base_before": _BASE.shift(),
        "file_before": pl.col("file").shift(),
        "end_byte_before": (pl.col("byte") + pl.col("size")).shift(),
        "begins_file_before": _BEGINS_FILE.shift(),
    }
    found = ordered.with_columns(value.over(COPY).alias(name) for name, value in beside.items())
    return found.with_columns(is_first=_BEFORE.is_null(), before=_BEFORE.fill_null(_BEFORE_FIRST))


def _is_wrong_last(is_compacted: bool | None) -> pl.Expr:
    """Whether the last batch of a log overlaps the one before, or follows it with a gap that no broker leaves."""
    second = pl.col("second_before")
    before_is_right = (second < pl.col("base_before")) | (second.is_null() & pl.col("begins_file_before"))
    overlaps = (_BASE <= _BEFORE) & (second.is_null() | before_is_right)
    is_same_file, is_only = pl.col("file") == pl.col("file_before"), pl.col("is_first") & BASE_IN_NAME.is_not_null()
    is_adjacent = (
        (is_same_file & (pl.col("byte") == pl.col("end_byte_before")))
        | (~is_same_file & (_BEFORE + 1 == BASE_IN_NAME))
        | (is_only & (pl.col("byte") == 0))
    )
    is_behind_gap = pl.lit(is_compacted is False) & (_BASE > _BEFORE + 1) & (pl.col("magic") == 2) & is_adjacent
    return overlaps | (is_behind_gap & (before_is_right | is_only))


def _last_elsewhere(ordered: pl.DataFrame) -> pl.Series:
    """Whether a batch is the last one of its log, behind a gap in which another replica has it with no gap before it.

    Compaction leaves gaps, but moves no batch. Within a leader epoch a batch of an idempotent producer has one offset.
    Another producer's may have been written twice, so the other replica must reach this offset without it.
    """
    ends = ordered.group_by(COPY).agg(end=_LAST.max())
    others = ordered.filter(_BASE == _BEFORE + 1).join(ends, on=COPY)
    behind_gap = _AFTER.is_null() & (_BASE > _BEFORE + 1)
    lasts = ordered.filter(behind_gap, pl.col("magic") == 2, ~pl.col("control").fill_null(True))
    same = lasts.join(others, on=("snapshot", "leader_epoch", "crc", "size"), suffix="_there")
    is_in_gap = pl.col("base_offset_there").is_between(_BEFORE, _BASE, closed="none")
    is_single = pl.col("producer_id").is_not_null() | (pl.col("end") > _BASE)
    found = same.filter(is_in_gap & is_single).select(_BATCH).unique()
    return ordered.join(found.with_columns(found=True), on=_BATCH, how="left", maintain_order="left")["found"]


def _damage_of_misplaced(misplaced: pl.DataFrame) -> pl.DataFrame:
    """Damage for misplaced batches, which may have all offsets between their neighbours.

    Behind the last batch the length of the log is not known.
    """
    is_last = pl.when(pl.col("after").is_null())
    where = is_last.then(pl.format("after offset {}", "before"))
    between = where.otherwise(pl.format("between offsets {} and {}", "before", "after"))
    first = pl.col("before") + 1
    return misplaced.with_columns(
        first_offset=first,
        last_offset=pl.when(pl.col("after").is_not_null()).then(pl.max_horizontal(pl.col("after") - 1, first)),
        reason=pl.format("base offset {} does not fit {}", "base_offset", between),
    )


def wrong_epochs(batches: pl.DataFrame, epochs: pl.DataFrame) -> pl.DataFrame:
    """The sound batches with a wrong leader epoch, with `right`, the epoch of the same batch in another replica.

    An epoch fits a log if it does not decrease there, and if the entry of its leader-epoch-checkpoint that covers the
    batch has it. Where both fit, each leader may have written the batch, which a producer had sent again: then the logs
    diverge.
    """
    sound = batches.filter(pl.col("crc_ok").fill_null(False), pl.col("leader_epoch").is_not_null(), magic=2)
    epoch = pl.col("leader_epoch")
    differing = sound.group_by(_CONTENT).agg(differs=epoch.min() != epoch.max()).filter("differs")
    if not differing.height:
        return sound.clear().with_columns(right=epoch)
    beside = [epoch.shift().alias("before"), epoch.shift(-1).alias("after")]
    ordered = sound.sort(_BATCH).with_columns(value.over(COPY) for value in beside)
    entries = epochs.sort("start_offset", "leader_epoch").select(*COPY, "start_offset", expected="leader_epoch")
    suspects = ordered.join(differing, on=_CONTENT, how="semi").sort("base_offset")
    dated = suspects.join_asof(
        entries, left_on="base_offset", right_on="start_offset", by=list(COPY), check_sortedness=False
    )
    others = suspects.select(*_CONTENT, right="leader_epoch").unique()
    pairs = dated.join(others, on=_CONTENT).filter(pl.col("right") != epoch)
    wrong = pairs.filter(~_fits(epoch), _fits(pl.col("right"))).unique(_BATCH, keep="first", maintain_order=True)
    return wrong.select(*batches.columns, "right")


def _fits(epoch: pl.Expr) -> pl.Expr:
    """Whether a batch may have an epoch, by its neighbours in the log and by the leader-epoch-checkpoint."""
    is_in_order = (epoch >= pl.col("before").fill_null(epoch)) & (epoch <= pl.col("after").fill_null(epoch))
    return is_in_order & (epoch == pl.col("expected").fill_null(epoch))


def _without_epochs(rows: pl.DataFrame, wrong: pl.DataFrame) -> pl.DataFrame:
    """The batches, or the records, where the leader epoch of these batches is null."""
    marked = rows.join(wrong.select(*_BATCH, is_wrong=True), on=_BATCH, how="left", maintain_order="left")
    epoch = pl.when(pl.col("is_wrong").is_null()).then("leader_epoch")
    return marked.with_columns(epoch.alias("leader_epoch")).drop("is_wrong")


def without_header_damage(frames: Mapping[str, pl.DataFrame], is_compacted: bool | None) -> dict[str, pl.DataFrame]:
    """The batches and records without misplaced batches and wrong epochs, which are damage instead."""
    batches, records, damage = (frames[name] for name in ("batches", "records", "damage"))
    found = []
    misplaced = misplaced_batches(batches, is_compacted)
    if misplaced.height:
        batches, records = (
            rows.join(misplaced, on=_BATCH, how="anti", maintain_order="left") for rows in (batches, records)
        )
        found.append(_damage_of_misplaced(misplaced))
    wrong = wrong_epochs(batches, frames["epochs"])
    if wrong.height:
        batches, records = _without_epochs(batches, wrong), _without_epochs(records, wrong)
        text = "leader epoch {} does not fit the log; the same batch of another replica has {}"
        offsets = {name: pl.lit(None) for name in ("first_offset", "last_offset")}
        found.append(wrong.with_columns(reason=pl.format(text, "leader_epoch", "right"), **offsets))
    for rows in found:
        rows = rows.with_columns(kind=pl.lit("order"), line=pl.lit(None))
        damage = pl.concat([damage, rows.select(pl.col(name).cast(kind) for name, kind in damage.schema.items())])
    return {"batches": batches, "records": records, "damage": damage}
