"""Batches with a leader epoch that does not fit their log, while another replica has the same batch with one that does.

The CRC of a batch does not cover its leader epoch. The reader of a segment finds an epoch that does not fit between two
batches of the same file (histories/evidence/batch_headers.py). The first and the last batch have one neighbour alone.
"""

from __future__ import annotations

import polars as pl

from .missing_logs import COPY

_BATCH = (*COPY, "file", "byte")  # columns that identify one copy of a batch
_CONTENT = ("snapshot", "base_offset", "last_offset", "crc", "size")  # columns that replicas of a batch have in common


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


def epoch_damage(wrong: pl.DataFrame, damage: pl.DataFrame) -> pl.DataFrame:
    """Rows of damage for batches with a wrong epoch."""
    unknown = {name: pl.lit(None) for name in ("line", "first_offset", "last_offset")}
    reason = pl.format(
        "leader epoch {} does not fit the log; the same batch of another replica has {}", "leader_epoch", "right"
    )
    rows = wrong.with_columns(kind=pl.lit("order"), reason=reason, **unknown)
    return rows.select(pl.col(name).cast(kind) for name, kind in damage.schema.items())


def without_epochs(rows: pl.DataFrame, wrong: pl.DataFrame) -> pl.DataFrame:
    """The batches, or the records, where the leader epoch of these batches is null."""
    marked = rows.join(wrong.select(*_BATCH, is_wrong=True), on=_BATCH, how="left", maintain_order="left")
    epoch = pl.when(pl.col("is_wrong").is_null()).then("leader_epoch")
    return marked.with_columns(epoch.alias("leader_epoch")).drop("is_wrong")
