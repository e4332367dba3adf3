"""Splits the observations of a topic-partition by the generation of its topic: each is a log of its own.

Time decides first: what completed before the topic was created again belongs to the deleted generation, and what began
after the deletion to the next one. A consumer may return records of a deleted topic for as long as it has fetched ones,
and a producer may send on to the new topic what it was asked to send before: there the value decides, and the record
that another observation, or a broker's log, has at the offset. A send that neither decides counts as undecided in all
generations that may hold it, so that it never becomes a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import polars as pl

from ...histories.evidence.duplicate_copies import same_id
from ...histories.tables import MAX_INT64, OUTCOME
from .topic_generations import Span, TopicCopy, TopicGeneration, existing_at

Frames = Mapping[str, pl.DataFrame]
OBSERVED = ("sends", "reads", "marks")
MAX_DELETION_NS = 60_000_000_000  # a longer span is that between two copies, not the time that a deletion took
_POSITIONS = ["assign", "seek"]
_IN_ONE = pl.col("lowest") == pl.col("highest")


class Boundary(NamedTuple):
    """Between two generations: when the one was deleted, and the next created."""

    deleted: Span
    created: Span


@dataclass
class Part:
    """The tables of one generation; and what could not be assigned to one, as what rules need and a sentence."""

    generation: TopicGeneration
    shared: Frames  # evidence of no partition
    tables: dict[str, pl.DataFrame] = field(default_factory=dict)
    ambiguous: list[tuple[str, str]] = field(default_factory=list)


def boundaries_of(generations: Sequence[TopicGeneration]) -> list[Boundary]:
    """The boundaries between adjacent generations. Without a recorded creation it may have come at once."""
    out = []
    for one, following in pairwise(generations):
        deleted = one.existed_until
        created = following.created or deleted
        out.append(Boundary(deleted, Span(max(created.earliest, deleted.earliest), created.latest)))
    return out


def possible_generations(frame: pl.DataFrame, boundaries: Sequence[Boundary]) -> pl.DataFrame:
    """The operations with `lowest` and `highest`: the positions of the generations in which they may have happened."""
    done = pl.col("completed").fill_null(MAX_INT64)
    lowest, highest = pl.lit(0), pl.lit(0)
    for boundary in boundaries:
        after = done > boundary.created.earliest
        highest = highest + after.cast(pl.Int32)
        lowest = lowest + (after & (pl.col("invoked") >= boundary.deleted.latest)).cast(pl.Int32)
    return frame.with_columns(lowest.cast(pl.Int32).alias("lowest"), highest.cast(pl.Int32).alias("highest"))


def split_observed(
    tables: Frames, generations: Sequence[TopicGeneration], records: pl.DataFrame
) -> tuple[dict[str, pl.DataFrame], int, int]:
    """Sends, reads and marks with the column `generation` (a position), and how many acknowledged sends and how many
    reads no evidence assigns. `records` are those of brokers' logs: generation, offset, value.
    """
    boundaries = boundaries_of(generations)
    sends = possible_generations(tables["sends"], boundaries).with_row_index("row")
    reads = _of_consumers(tables["reads"], tables["marks"], boundaries).with_row_index("row")
    known = ["generation", "offset", "value"]
    sure = [
        frame.filter(_IN_ONE & of_log).with_columns(pl.col("lowest").alias("generation")).select(known)
        for frame, of_log in ((sends, pl.col("acknowledged")), (reads, pl.lit(True)))
    ]
    held = pl.concat([*sure, records.select(known)]).drop_nulls().unique()
    decided = _decided(sends.filter(pl.col("acknowledged")), held, boundaries)
    sends = _spread(sends.join(decided, on="row", how="left", maintain_order="left"))
    sent = sends.filter(pl.col("outcome") != "fail").select(pl.col("generation"), "offset", "value", "ambiguous")
    reads = _of_values(reads, sent.filter(~pl.col("ambiguous")), held, boundaries)
    marks = _marks(tables["marks"], reads, sent.filter(~pl.col("ambiguous")), held, boundaries)
    lost = int(sends.filter(pl.col("ambiguous") & pl.col("was_acknowledged"))["row"].n_unique())
    left = int(reads["generation"].null_count())
    out = {"sends": sends, "reads": reads, "marks": marks}
    return {name: out[name].select("generation", *tables[name].columns) for name in OBSERVED}, lost, left


def _of_consumers(reads: pl.DataFrame, marks: pl.DataFrame, boundaries: Sequence[Boundary]) -> pl.DataFrame:
    """Reads with the generations of which they may be: a consumer may still return what it fetched before a deletion,
    unless it took up the partition since.
    """
    moves = marks.filter(pl.col("kind").is_in(_POSITIONS))
    done = pl.col("completed").fill_null(MAX_INT64)
    out, lowest, highest = reads, pl.lit(0), pl.lit(0)
    for number, boundary in enumerate(boundaries):
        after = done > boundary.created.earliest
        since = moves.filter(after & (pl.col("invoked") >= boundary.deleted.latest))
        since = since.group_by("process").agg(pl.col("invoked").min().alias(f"since_{number}"))
        out = out.join(since, on="process", how="left", maintain_order="left")
        anew = (pl.col("invoked") >= pl.col(f"since_{number}")).fill_null(False)
        highest = highest + after.cast(pl.Int32)
        lowest = lowest + (after & anew).cast(pl.Int32)
    return out.select(*reads.columns, lowest.cast(pl.Int32).alias("lowest"), highest.cast(pl.Int32).alias("highest"))


def _decided(rows: pl.DataFrame, held: pl.DataFrame, boundaries: Sequence[Boundary]) -> pl.DataFrame:
    """Columns row and `decided`: the one generation that has the record, or the only one that has no other there.

    The latter only where the deletion is dated: in a long span a record that another one replaced may be a loss.
    """
    open_ = rows.filter(~_IN_ONE & pl.col("value").is_not_null()).select("row", "offset", "value", "lowest", "highest")
    if not len(open_):
        return pl.DataFrame(schema={"row": pl.UInt32, "decided": pl.Int32})
    candidates = open_.with_columns(
        pl.int_ranges("lowest", pl.col("highest") + 1, dtype=pl.Int32).alias("generation")
    ).explode("generation")
    beside = candidates.join(held, on=["generation", "value"], how="left", maintain_order="left", suffix="_held")
    same = pl.col("offset_held").is_not_null() & (
        pl.col("offset").is_null() | (pl.col("offset") == pl.col("offset_held"))
    )
    has = beside.with_columns(same.alias("has")).group_by("row", "generation").agg(pl.col("has").any())
    dated = all(each.deleted.latest - each.deleted.earliest <= MAX_DELETION_NS for each in boundaries)
    others = candidates.join(held, on=["generation", "offset"], how="inner", suffix="_held")
    others = (
        others.filter((pl.col("value") != pl.col("value_held")) & pl.lit(dated)).select("row", "generation").unique()
    )
    others = others.with_columns(pl.lit(True).alias("has_other"))
    judged = has.join(others, on=["row", "generation"], how="left").with_columns(pl.col("has_other").fill_null(False))
    chosen = pl.when(pl.col("has").any()).then(pl.col("has")).otherwise(~pl.col("has_other"))
    possible = judged.with_columns(chosen.over("row").alias("chosen")).filter("chosen")
    return (
        possible.group_by("row")
        .agg(pl.len(), pl.col("generation").first().alias("decided"))
        .filter(pl.col("len") == 1)
        .select("row", "decided")
    )


def _spread(sends: pl.DataFrame) -> pl.DataFrame:
    """A row a generation that may hold the send; where there are several it is undecided, as its offset is."""
    one = pl.when(_IN_ONE).then("lowest").otherwise("decided")
    first, last = pl.coalesce(one, "lowest"), pl.coalesce(one, "highest")
    many = one.is_null() & (pl.col("outcome") != "fail")
    return (
        sends.with_columns(
            pl.int_ranges(first, last + 1, dtype=pl.Int32).alias("generation"),
            many.alias("ambiguous"),
            pl.col("acknowledged").alias("was_acknowledged"),
            pl.when(many).then(None).otherwise("offset").alias("offset"),
            pl.when(many).then(pl.lit("info").cast(OUTCOME)).otherwise("outcome").alias("outcome"),
            (pl.col("acknowledged") & ~many).alias("acknowledged"),
        )
        .explode("generation")
        .sort("row", "generation")
    )


def _of_values(
    rows: pl.DataFrame, sent: pl.DataFrame, held: pl.DataFrame, boundaries: Sequence[Boundary]
) -> pl.DataFrame:
    """The rows with `generation`: of several possible ones that in which their value was sent, or which has the record,
    or the last one where it was there before they began; null where none of these decides.
    """
    by_value = (
        sent.drop_nulls("value")
        .group_by("value")
        .agg(pl.col("generation").n_unique().alias("times"), pl.col("generation").first().alias("sent_in"))
        .filter(pl.col("times") == 1)
        .drop("times")
    )
    found = rows.join(by_value, on="value", how="left", maintain_order="left")
    sent_in = pl.when(pl.col("sent_in").is_between("lowest", "highest")).then("sent_in")
    found = found.with_columns(sent_in.alias("sent_in"))
    open_ = found.filter(pl.col("sent_in").is_null())
    found = found.join(_decided(open_, held, boundaries), on="row", how="left", maintain_order="left")
    there = pl.lit(0)
    for boundary in boundaries:
        there = there + (pl.col("invoked") >= boundary.created.latest).cast(pl.Int32)
    later = pl.when(there == pl.col("highest")).then("highest")
    sure = pl.when(_IN_ONE).then("lowest")
    return found.with_columns(pl.coalesce(sure, "sent_in", "decided", later).cast(pl.Int32).alias("generation"))


def _marks(
    marks: pl.DataFrame, reads: pl.DataFrame, sent: pl.DataFrame, held: pl.DataFrame, boundaries: Sequence[Boundary]
) -> pl.DataFrame:
    rows = possible_generations(marks, boundaries).with_row_index("row")
    handled = rows.filter(pl.col("kind") == "handle").with_columns(pl.lit(0, pl.Int32).alias("lowest"))
    handled = _of_values(handled, sent, held, boundaries)
    rest = rows.filter(pl.col("kind") != "handle")
    # The log end during a deletion belongs to neither generation.
    ends = rest.filter(pl.col("kind").is_in(["end_offsets", "delete-records"]) & ~_IN_ONE)["row"]
    rest = rest.filter(~pl.col("row").is_in(ends.implode())).with_columns(pl.col("lowest").alias("generation"))
    rest = _commits_of_positions(rest, reads)
    both = pl.concat([handled.select(rest.columns), rest]).sort("row")
    return both.filter(pl.col("generation").is_not_null())


def _commits_of_positions(marks: pl.DataFrame, reads: pl.DataFrame) -> pl.DataFrame:
    """A commit is of the log in which its process stands: one that has not noticed the deletion commits in the old."""
    commit = pl.col("kind") == "commit"
    commits = marks.filter(commit & (pl.col("highest") > 0))
    if not len(commits):
        return marks
    assigned = pl.concat(
        [
            reads.filter(pl.col("generation").is_not_null()).select("process", "completed", "generation"),
            marks.filter(pl.col("kind").is_in(_POSITIONS)).select("process", "completed", "generation"),
        ]
    )
    assigned = assigned.drop_nulls("completed").sort("completed", maintain_order=True)
    asked = commits.select("row", "process", "invoked").sort("invoked")
    before = asked.join_asof(assigned, left_on="invoked", right_on="completed", by="process", check_sortedness=False)
    position = before.select("row", pl.col("generation").alias("position"))
    out = marks.join(position, on="row", how="left", maintain_order="left")
    there = pl.min_horizontal("position", "highest")
    return out.with_columns(pl.coalesce(there, "generation").alias("generation")).drop("position")


def copy_positions(
    copies: Sequence[TopicCopy],
    held: pl.DataFrame,
    generations: Sequence[TopicGeneration],
    times: Mapping[str, int],
    final: str,
) -> pl.DataFrame:
    """Columns snapshot, broker and generation (a position, null where not known) of what brokers kept, by the topic id
    of the copy, else by its time. `held`: snapshot and broker.
    """
    rows = []
    ids = {(copy.snapshot, copy.broker): copy.topic_id for copy in copies}
    for snapshot, broker in held.unique().sort("snapshot", "broker").iter_rows():
        id_ = ids.get((snapshot, broker))
        known = None if id_ is None else _position_of(id_, generations)
        if known is None:
            dated = snapshot == final or snapshot in times
            at_end = len(generations) - 1
            known = at_end if snapshot == final else existing_at(generations, times[snapshot]) if dated else None
            if id_ is not None and known is not None and generations[known].topic_id is not None:
                known = None  # a third topic id
        rows.append((snapshot, broker, known))
    schema = {"snapshot": pl.String, "broker": pl.String, "generation": pl.Int32}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _position_of(id_: str, generations: Sequence[TopicGeneration]) -> int | None:
    return next((i for i, one in enumerate(generations) if one.topic_id and same_id(one.topic_id, id_)), None)


def positions_of_records(
    metadata: pl.DataFrame, generations: Sequence[TopicGeneration], at: pl.Expr, topic_id: pl.Expr
) -> pl.Series:
    """The generation (a position) of each record or log line of the brokers: by its topic id, else by its time `at`."""
    position: pl.Expr = pl.lit(None, pl.Int32)
    for number, one in enumerate(generations):
        if one.topic_id:
            position = pl.coalesce(position, pl.when(topic_id == one.topic_id).then(pl.lit(number, pl.Int32)))
    after = pl.lit(0)
    for boundary in boundaries_of(generations):
        after = after + (at >= boundary.created.earliest).cast(pl.Int32)
    latest = pl.lit(len(generations) - 1, pl.Int32)
    return metadata.select(pl.coalesce(position, after.cast(pl.Int32), latest).alias("generation")).to_series()
