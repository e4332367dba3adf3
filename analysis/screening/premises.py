"""Premises under which rules report nothing, checked for many partitions at once.

Most partitions of most runs are plainly valid. To prove that takes a few queries for all of them together, while each
rule takes dozens for each partition. A premise returns the partitions that contradict it. Where all premises of a rule
hold, the rule has neither findings nor unknowns: each docstring gives the reason. Where one fails, the rule judges the
partition as always. tests/test_screening.py compares both ways on random histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import polars as pl

from ...histories.observations import deletions_of
from ...histories.settings import Settings
from ...histories.tables import MIN_INT64
from ..partitions.marks import IS_COMMIT, IS_MOVE, POSITION
from .groups import contradicting_groups, group_of, groups_of, unhandled_records
from .many_partitions import ManyPartitions

Contradictions = Iterator[pl.DataFrame]  # frames with the column tp


class Premise(NamedTuple):
    """A premise of rules; `contradictions` has rows of the partitions in which it does not hold."""

    rules: tuple[str, ...]
    contradictions: Callable[[ManyPartitions], Contradictions]


# The rules that the premises can prove valid. Each is named, so that a new rule judges every partition.
LOSS = ("lost-write", "unseen")
UNREAD = (*LOSS, "poll-skip", "int-poll-skip", "consumer-loss", "commit-beyond-end")  # about records without a read
VALUES = ("inconsistent-offsets", "duplicate", "aborted-read", "phantom-read", "precommitted-read")
POLLS = ("nonmonotonic-poll", "poll-skip", "int-nonmonotonic-poll", "int-poll-skip")
SENDS = ("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip")
TIME = ("realtime-order", "stale-end-offset")
CYCLES = ("G0", "G1c", "G0-process", "G1c-process", "G0-realtime", "G1c-realtime")
GROUPS = ("consumer-loss", "commit-regression", "commit-beyond-end")
MEMBERS = ("ownership", "commit-fenced")
IN_LOGS = ("torn-transaction", "hanging-transaction", "producer-epoch-order", "aborted-index")
# Without findings here, as ManyPartitions have no brokers' files.
FILES = (
    *IN_LOGS,
    "replica-divergence",
    "acknowledged-absent",
    "committed-absent",
    "epoch-order",
    "checkpoint-order",
    "log-corruption",
)
PROVED = (*LOSS, *VALUES, *CYCLES, *POLLS, *SENDS, *TIME, *GROUPS, *MEMBERS, *FILES)

PREMISES: list[Premise] = []
MAX_ROWS = 10_000  # of one table of a partition: larger ones are worth their own queries


def premise_of(*rules: str) -> Callable[[Callable[[ManyPartitions], Contradictions]], None]:
    """Adds a function to PREMISES."""
    return lambda contradictions: PREMISES.append(Premise(rules, contradictions))


@premise_of(*PROVED)
def _log_only_grows_by_plain_sends(many: ManyPartitions) -> Contradictions:
    """Values are sent once, outside of transactions. Nothing is deleted or compacted: the log starts at 0.

    So a value identifies a record and its send, no record is legally absent, and isolation levels make no difference.
    """
    yield many.sends.filter(IS_ODD_SEND)
    counts = many.sends.group_by("tp").agg(pl.len(), values=pl.col("value").n_unique())
    yield counts.filter((pl.col("len") > pl.col("values")) | (pl.col("len") > MAX_ROWS))
    yield many.reads.filter(pl.col("txn") | pl.any_horizontal(pl.col("value", "offset", "completed").is_null()))
    yield many.reads.group_by("tp").len().filter(pl.col("len") > MAX_ROWS)
    yield many.marks.filter(IS_ODD_MARK)
    yield many.marks.group_by("tp").len().filter(pl.col("len") > MAX_ROWS)
    compacted = [topic for topic in many.keys["topic"].unique() if many.settings.is_compacted(topic)]
    yield many.keys.filter(pl.col("topic").is_in(compacted))
    if has_unknown_deletion(many.context):
        yield many.keys


IS_ODD_SEND = pl.col("txn") | pl.col("synthetic") | pl.col("value").is_null()
IS_ODD_MARK = pl.col("txn") | (pl.col("kind") == "delete-records") | (pl.col("start") > 0)


def has_unknown_deletion(context: pl.DataFrame) -> bool:
    """Whether a fault deleted records of a partition that it does not name."""
    faults = context.filter(pl.col("outcome") != "fail", kind="fault")["detail"].unique()
    return any(deletions_of(detail) is None for detail in faults)


@premise_of(*PROVED)
def _each_offset_has_one_record(many: ManyPartitions) -> Contradictions:
    """Each acknowledged record has an offset of its own, and each read returned a sent record at its only offset.

    So no read is of an aborted or unknown value, no offset has two values, and no value has two offsets.
    """
    acknowledged = pl.col("acknowledged")
    is_unplaced = pl.col("offset").is_null() | pl.col("completed").is_null()
    yield many.sends.filter(pl.when(acknowledged).then(is_unplaced).otherwise(pl.col("offset").is_not_null()))
    yield many.placed.filter((pl.col("outcome") == "fail") | (pl.col("first_read") < pl.col("invoked")))
    reads = many.reads.join(many.placed, on=["tp", "value"], how="left")
    yield reads.filter(pl.col("place").ne_missing(pl.col("offset")))
    counts = many.placed.group_by("tp").agg(pl.len(), places=pl.col("place").n_unique())
    yield counts.filter(pl.col("len") > pl.col("places"))


@premise_of(*LOSS, *GROUPS)
def _final_reads_are_of_final_processes(many: ManyPartitions) -> Contradictions:
    """The final reads are those of final processes, and begin at offset 0, where the log starts.

    If run.json declares final reads and no final process, the reads of any consumer may be the final ones.
    """
    if many.settings.has_final_reads and not many.settings.final_readers():
        yield many.reads
    yield many.final_reads.filter(pl.col("start") > 0)


@premise_of(*UNREAD)
def _acknowledged_records_are_read(many: ManyPartitions) -> Contradictions:
    """The final reads return all acknowledged records. Without final reads, consumers read all but the last ones.

    Then no record is lost, unless an end offset shows it (`_ends_grow_in_the_order_of_time`). Unread records at
    the end may still be gone legally, or be in a poll without a known outcome.
    """
    has_final = pl.col("tp").is_in(many.final_reads["tp"].implode())
    yield many.acknowledged.filter(has_final & ~pl.col("in_final"))
    read = many.reads.group_by("tp").agg(last=pl.col("offset").max(), until=pl.col("completed").max())
    unread = many.acknowledged.filter(~has_final & pl.col("first_read").is_null()).join(read, on="tp", how="left")
    yield unread.filter(pl.col("offset") < pl.col("last"))
    if (many.context["kind"] == "poll").any():
        yield unread
    stamped = pl.concat([frame.select("tp", "timestamp") for frame in (many.sends, many.reads)])
    stamps = stamped.filter(pl.col("timestamp") >= 0).group_by("tp").agg(pl.col("timestamp").min())
    oldest = many.acknowledged.group_by("tp").agg(pl.col("invoked").min()).join(stamps, on="tp", how="left")
    with_unread = oldest.join(many.keys, on="tp").join(unread.select("tp", "until").unique("tp"), on="tp")
    yield with_unread.filter(is_maybe_expired(many.keys["topic"].unique(), many.settings))


def is_maybe_expired(topics: Iterable[str], settings: Settings) -> pl.Expr:
    """An expression on partitions of these topics: whether retention may have removed records by the last read.

    Their columns: topic, invoked (ns, first send), timestamp (ms or null, the least), until (ns, last read).
    """
    limits = {topic: 0 if settings.limited_in_size(topic) else settings.retention_ms(topic) for topic in topics}
    limit = pl.col("topic").replace_strict(limits, return_dtype=pl.Int64).cast(pl.Float64)
    sent, until = pl.col("invoked") / 1e6, pl.col("until").fill_null(MIN_INT64) / 1e6
    started = settings.started_ms
    written = pl.min_horizontal(sent, sent if started is None else pl.col("timestamp").cast(pl.Float64) - started)
    # One millisecond of tolerance, as the times are rounded to floats.
    return limit.is_not_null() & (written - 1 <= until - limit)


@premise_of(*TIME, *UNREAD)
def _ends_grow_in_the_order_of_time(many: ManyPartitions) -> Contradictions:
    """Each later write or end offset is at or beyond the log end that was known before its invocation."""
    records = many.placed.select("tp", "invoked", offset="place")
    later = pl.concat([records, many.end_offsets.select("tp", "invoked", "offset")])
    yield _with_known_end(many, later, "invoked", allow_exact_matches=False).filter(pl.col("offset") < pl.col("end"))


def _with_known_end(many: ManyPartitions, rows: pl.DataFrame, time: str, allow_exact_matches: bool) -> pl.DataFrame:
    """Adds `end`, the greatest end of the log that was known at the `time` of each row; null: none was."""
    return rows.sort(time).join_asof(
        many.known_ends,
        left_on=time,
        right_on="completed",
        by="tp",
        allow_exact_matches=allow_exact_matches,
        check_sortedness=False,
    )


@premise_of(*SENDS)
def _offsets_grow_with_each_producers_sends(many: ManyPartitions) -> Contradictions:
    """The acknowledged offsets of a producer are in the order of its invocations."""
    ordered = many.acknowledged.sort("tp", "process", "invoked", "invoked_at", "index")
    yield ordered.filter(pl.col("offset") < pl.col("offset").shift().over("tp", "process"))


@premise_of(*POLLS)
def _consumers_read_from_their_positions(many: ManyPartitions) -> Contradictions:
    """Each polled record is at its consumer's position, if that is known: after the last record or where it was set."""
    columns = ("tp", "process", "completed", "at", "index")
    reads = many.reads.select(*columns, "offset", position=pl.col("offset") + 1)
    moves = many.marks.filter(IS_MOVE).select(*columns, position=POSITION)
    events = pl.concat([reads, moves], how="diagonal").sort(columns, nulls_last=True)
    yield events.filter(pl.col("offset") != pl.col("position").shift().over("tp", "process"))


@premise_of(*MEMBERS)
def _no_generations(many: ManyPartitions) -> Contradictions:
    """No member recorded a generation here, so there is nothing to judge."""
    yield many.marks.filter(pl.col("group_generation").is_not_null())


@premise_of(*GROUPS)
def _groups_handle_what_they_commit(many: ManyPartitions) -> Contradictions:
    """A group's commits grow, up to the end of the log that was known then. Its members handled all records below."""
    known = _with_known_end(many, many.marks.filter(IS_COMMIT), "completed", allow_exact_matches=True)
    yield known.filter(pl.col("offset") > pl.col("end").fill_null(0))
    groups, placed = groups_of(many.marks, many.settings), many.placed.select("tp", "value", offset="place")
    unhandled = unhandled_records(groups, placed, many.reads, many.marks, many.context, many.settings)
    first_read = many.reads.group_by("tp", group_of(many.settings)).agg(pl.col("offset").min())
    yield from contradicting_groups(many.marks, first_read, unhandled, many.final_reads, many.settings)
