"""Splits the observations of a topic-partition by the generation of its topic, as each has a log of its own.

Time decides first. An operation that completed before the topic was recreated belongs to the deleted generation; one
that began after the deletion belongs to the next. But a consumer may return records that it fetched before the
deletion, and a producer may send buffered records to the new topic. There the value decides, and the record that
another observation, or a broker's log, has at the offset. If neither decides, a send is indeterminate in all possible
generations, so that it never becomes a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from ...histories.evidence.duplicate_copies import same_id
from ...histories.evidence.tables import FINAL
from ...histories.tables import MAX_INT64, OUTCOME
from .common import Frames
from .topic_generations import ANY_TIME, Span, TopicCopy, TopicGeneration, existing_at, lifetimes

MAX_DELETION_NS = 60_000_000_000  # a deletion in a longer span is not dated
_POSITIONS = ["assign", "seek"]
_IN_ONE = pl.col("lowest") == pl.col("highest")
_DONE = pl.col("completed").fill_null(MAX_INT64)


class Boundary(NamedTuple):
    """The boundary of two generations: when the first was deleted, and the next created."""

    deleted: Span
    created: Span
    is_dated: bool


@dataclass
class Part:
    """The tables of one generation.

    `ambiguous`: evidence that could not be assigned to a generation, as pairs (kind of evidence, sentence).
    """

    generation: TopicGeneration
    shared: Frames  # evidence that belongs to no partition
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    ambiguous: list[tuple[str, str]] = field(default_factory=list)


def boundaries_of(generations: Sequence[TopicGeneration]) -> list[Boundary]:
    """The boundaries between successive generations. An unrecorded creation may have followed at once."""
    return [
        Boundary(
            deleted,
            Span(max(created.earliest, deleted.earliest), created.latest),
            one.is_deletion_dated and deleted.latest - deleted.earliest <= MAX_DELETION_NS,
        )
        for one, ((_, deleted), (created, _)) in zip(generations, pairwise(lifetimes(generations)), strict=False)
    ]


def _count(conditions: Iterable[pl.Expr]) -> pl.Expr:
    """The number of conditions that hold; if each is to be behind a boundary, it is the position of a generation."""
    return sum((condition.cast(pl.Int32) for condition in conditions), pl.lit(0, pl.Int32))


def possible_generations(frame: pl.DataFrame, boundaries: Sequence[Boundary]) -> pl.DataFrame:
    """The operations with `lowest` and `highest`: the positions of the generations in which they may have happened."""
    return _with_possible(frame, boundaries, (pl.col("invoked") >= boundary.deleted.latest for boundary in boundaries))


def _with_possible(
    frame: pl.DataFrame, boundaries: Sequence[Boundary], began_behind: Iterable[pl.Expr]
) -> pl.DataFrame:
    """The operations with `lowest` and `highest`; `began_behind`: whether they began behind each boundary."""
    may_be_behind = [boundary.created.earliest < _DONE for boundary in boundaries]
    is_behind = (may_be & began for may_be, began in zip(may_be_behind, began_behind, strict=True))
    return frame.with_columns(lowest=_count(is_behind), highest=_count(may_be_behind))


def split_observed(
    tables: Frames, generations: Sequence[TopicGeneration], records: pl.DataFrame
) -> tuple[dict[str, pl.DataFrame], int, int]:
    """Sends, reads and marks with the column `generation` (a position), and two counts: acknowledged sends, and reads,
    without evidence for one generation. `records` are from brokers' logs: generation, offset, value.
    """
    boundaries = boundaries_of(generations)
    sends = possible_generations(tables["sends"], boundaries).with_row_index("row")
    reads = _possible_generations_of_reads(tables["reads"], tables["marks"], boundaries).with_row_index("row")
    known = ["generation", "offset", "value"]
    sure = [
        frame.filter(_IN_ONE & of_log).with_columns(generation="lowest").select(known)
        for frame, of_log in ((sends, pl.col("acknowledged")), (reads, pl.lit(True)))
    ]
    held = pl.concat([*sure, records.select(known)]).drop_nulls().unique()
    decided = _decide_by_record(sends.filter(pl.col("acknowledged")), held, boundaries)
    sends = _assign_sends(sends.join(decided, on="row", how="left", maintain_order="left"))
    sent = sends.filter(pl.col("outcome") != "fail").select(pl.col("generation"), "offset", "value", "ambiguous")
    reads = _assign_by_value(reads, sent.filter(~pl.col("ambiguous")), held, boundaries)
    marks = _assign_marks(tables["marks"], reads, sent.filter(~pl.col("ambiguous")), held, boundaries)
    unassigned_sends = int(sends.filter(pl.col("ambiguous") & pl.col("was_acknowledged"))["row"].n_unique())
    unassigned_reads = int(reads["generation"].null_count())
    out = {"sends": sends, "reads": reads, "marks": marks}
    observed = {name: rows.select("generation", *tables[name].columns) for name, rows in out.items()}
    return observed, unassigned_sends, unassigned_reads


def _possible_generations_of_reads(
    reads: pl.DataFrame, marks: pl.DataFrame, boundaries: Sequence[Boundary]
) -> pl.DataFrame:
    """Reads with the `lowest` and `highest` generation that they may be from. A consumer may return records that it
    fetched before a deletion, unless it was assigned the partition again since.
    """
    moves = marks.filter(pl.col("kind").is_in(_POSITIONS))
    joined, began_behind = reads, []
    for number, boundary in enumerate(boundaries):
        since = moves.filter(boundary.created.earliest < _DONE, pl.col("invoked") >= boundary.deleted.latest)
        since = since.group_by("process").agg(pl.col("invoked").min().alias(f"since_{number}"))
        joined = joined.join(since, on="process", how="left", maintain_order="left")
        began_behind.append((pl.col("invoked") >= pl.col(f"since_{number}")).fill_null(False))
    return _with_possible(joined, boundaries, began_behind).select(*reads.columns, "lowest", "highest")


def _decide_by_record(rows: pl.DataFrame, held: pl.DataFrame, boundaries: Sequence[Boundary]) -> pl.DataFrame:
    """Columns row and `decided`: the only generation with the record, else the only one without another record there.

    For example, a belongs to generation 0 if only generation 0 holds a; or if neither does, and only generation 1 holds
    another value at the offset of a. The second only if the deletion is dated: else a record that was replaced by
    another may be a loss.
    """
    undecided = rows.filter(~_IN_ONE & pl.col("value").is_not_null())
    undecided = undecided.select("row", "offset", "value", "lowest", "highest")
    if not len(undecided):
        return pl.DataFrame(schema={"row": pl.UInt32, "decided": pl.Int32})
    possible, key = pl.int_ranges("lowest", pl.col("highest") + 1, dtype=pl.Int32), ["row", "generation"]
    candidates = undecided.with_columns(generation=possible).explode("generation")
    of_value = candidates.join(held, on=["generation", "value"], how="left", maintain_order="left", suffix="_held")
    is_record = pl.col("offset_held") == pl.coalesce("offset", "offset_held")
    records = of_value.group_by(key).agg(has_record=is_record.any())
    is_dated = all(each.is_dated for each in boundaries)
    at_offset = candidates.join(held, on=["generation", "offset"], suffix="_held")
    others = at_offset.filter((pl.col("value") != pl.col("value_held")) & pl.lit(is_dated)).unique(key)
    records = records.join(others.select(*key, other="value_held"), on=key, how="left")
    is_chosen = pl.when(pl.col("has_record").any()).then("has_record").otherwise(pl.col("other").is_null())
    chosen = records.filter(is_chosen.over("row")).group_by("row").agg(pl.len(), decided=pl.col("generation").first())
    return chosen.filter(len=1).select("row", "decided")


def _assign_sends(sends: pl.DataFrame) -> pl.DataFrame:
    """One row for each possible generation of a send. With several, its outcome and offset are unknown in each."""
    decided = pl.when(_IN_ONE).then("lowest").otherwise("decided")
    first, last = pl.coalesce(decided, "lowest"), pl.coalesce(decided, "highest")
    is_ambiguous = decided.is_null() & (pl.col("outcome") != "fail")
    return (
        sends.with_columns(
            generation=pl.int_ranges(first, last + 1, dtype=pl.Int32),
            ambiguous=is_ambiguous,
            was_acknowledged="acknowledged",
            offset=pl.when(is_ambiguous).then(None).otherwise("offset"),
            outcome=pl.when(is_ambiguous).then(pl.lit("info").cast(OUTCOME)).otherwise("outcome"),
            acknowledged=pl.col("acknowledged") & ~is_ambiguous,
        )
        .explode("generation")
        .sort("row", "generation")
    )


def _assign_by_value(
    rows: pl.DataFrame, sent: pl.DataFrame, held: pl.DataFrame, boundaries: Sequence[Boundary]
) -> pl.DataFrame:
    """The rows with `generation`: the only possible one; else the one in which the value was sent; else the one with
    the record; else the last one, if it was created before the operation began; else null.
    """
    only_one = pl.when(pl.col("generation").n_unique() == 1).then(pl.col("generation").first())
    senders = sent.drop_nulls("value").group_by("value").agg(sent_in=only_one)
    found = rows.join(senders, on="value", how="left", maintain_order="left")
    is_possible = pl.col("sent_in").is_between("lowest", "highest")
    found = found.with_columns(sent_in=pl.when(is_possible).then("sent_in"))
    decided = _decide_by_record(found.filter(pl.col("sent_in").is_null()), held, boundaries)
    only = pl.when(_IN_ONE).then("lowest")
    newest = _count(pl.col("invoked") >= boundary.created.latest for boundary in boundaries)
    last = pl.when(newest == pl.col("highest")).then("highest")
    generation = pl.coalesce(only, "sent_in", "decided", last).cast(pl.Int32)
    return found.join(decided, on="row", how="left", maintain_order="left").with_columns(generation=generation)


def _assign_marks(
    marks: pl.DataFrame, reads: pl.DataFrame, sent: pl.DataFrame, held: pl.DataFrame, boundaries: Sequence[Boundary]
) -> pl.DataFrame:
    rows = possible_generations(marks, boundaries).with_row_index("row")
    handled = rows.filter(kind="handle").with_columns(lowest=pl.lit(0, pl.Int32))
    handled = _assign_by_value(handled, sent, held, boundaries)
    rest = rows.filter(pl.col("kind") != "handle")
    # A log end during a deletion belongs to neither generation for certain.
    unclear = rest.filter(pl.col("kind").is_in(["end_offsets", "delete-records"]) & ~_IN_ONE)["row"]
    rest = rest.filter(~pl.col("row").is_in(unclear.implode())).with_columns(generation="lowest")
    rest = _assign_commits(rest, reads)
    both = pl.concat([handled.select(rest.columns), rest]).sort("row")
    return both.filter(pl.col("generation").is_not_null())


def _assign_commits(marks: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """Assigns commits to the generation of their process's position: it may not have noticed the deletion."""
    commit = pl.col("kind") == "commit"
    commits = marks.filter(commit & (pl.col("highest") > 0))
    if not len(commits):
        return marks
    positions = pl.concat(
        [
            reads.filter(pl.col("generation").is_not_null()).select("process", "completed", "generation"),
            marks.filter(pl.col("kind").is_in(_POSITIONS)).select("process", "completed", "generation"),
        ]
    )
    positions = positions.drop_nulls("completed").sort("completed", maintain_order=True)
    invocations = commits.select("row", "process", "invoked").sort("invoked")
    before = invocations.join_asof(
        positions, left_on="invoked", right_on="completed", by="process", check_sortedness=False
    )
    position = before.select("row", position="generation")
    out = marks.join(position, on="row", how="left", maintain_order="left")
    possible = pl.min_horizontal("position", "highest")
    return out.with_columns(generation=pl.coalesce(possible, "generation")).drop("position")


def copy_positions(
    copies: Sequence[TopicCopy], held: pl.DataFrame, generations: Sequence[TopicGeneration], times: Mapping[str, int]
) -> pl.DataFrame:
    """Columns snapshot, broker and generation (a position; null: not known) of the collected copies, by topic id, else
    by time. `held`: snapshot and broker.
    """
    rows = []
    ids = {(copy.snapshot, copy.broker): copy.topic_id for copy in copies}
    for snapshot, broker in held.unique().sort("snapshot", "broker").iter_rows():
        id_ = ids.get((snapshot, broker))
        with_id = (i for i, one in enumerate(generations) if id_ and one.topic_id and same_id(one.topic_id, id_))
        known = next(with_id, None)
        if known is None:
            if snapshot == FINAL:
                known = len(generations) - 1
            elif snapshot in times:
                known = existing_at(generations, times[snapshot])
            if id_ is not None and known is not None and generations[known].topic_id is not None:
                known = None  # the id belongs to no known generation
        rows.append((snapshot, broker, known))
    schema = {"snapshot": pl.String, "broker": pl.String, "generation": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def positions_of_records(
    metadata: pl.DataFrame, generations: Sequence[TopicGeneration], at: pl.Expr, topic_id: pl.Expr
) -> pl.Series:
    """The generation (a position) of each metadata record or log line: by its topic id, else by its time `at`.

    Null: it has no id, and the times of deletions are not known.
    """
    position: pl.Expr = pl.lit(None, pl.Int32)
    for number, one in enumerate(generations):
        if one.topic_id:
            position = pl.coalesce(position, pl.when(topic_id == one.topic_id).then(pl.lit(number, pl.Int32)))
    if any(one.deleted == ANY_TIME for one in generations):
        return metadata.select(generation=position).to_series()
    by_time = _count(at >= boundary.created.earliest for boundary in boundaries_of(generations))
    latest = pl.lit(len(generations) - 1, pl.Int32)
    return metadata.select(generation=pl.coalesce(position, by_time, latest)).to_series()
