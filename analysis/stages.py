"""The steps of the pipeline as pure functions of frames; engines/local.py and engines/spark/ combine them.

read_split, read_block, read_evidence -> Parts: observations by partition, events without a counterpart, quarantine
pair_across_splits, pair_at_end -> Parts of the operations with invocation and completion in different splits
choose_batches, decode_batches -> Parts of the batches of large logs that are needed

kernel.py judges their result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import polars as pl

from ..histories.evidence.part_blocks import read_part
from ..histories.evidence.parts import Part
from ..histories.evidence.tables import LOOKUPS
from ..histories.files import Block, Split
from ..histories.observations import count_indeterminate_failures, observe
from ..histories.pairing import LONE_COMPLETION, PLACED_EVENTS, pair, pair_remaining
from ..histories.parsing import Parsed, parse_blocks, parse_split
from ..histories.settings import Settings
from ..histories.tables import CONTEXT, OPERATIONS, PLACES_OF_SPLIT, complete, no_rows
from ..models.internal_topics import TRANSACTIONS_TOPIC
from .batches import WHOLE, Unit, by_unit, split_small
from .partitions.generation_parts import DELETION_LINES
from .replicas.identical_batches import decode, jobs, split_identical_batches
from .timelines.log_facts import HANDLERS

QUARANTINED = {"place": pl.Int64, "reason": pl.String}
REFERRING_TABLES = ("sends", "reads", "marks", "checkpoints")  # their rows refer to records of a log
Progress = Callable[..., None]  # what, done, of how many, unit
DAMAGED = ("line", "byte", "reason", "kind")
MAX_DAMAGE = 100  # places of a broker's file that are listed one by one; all are counted


@dataclass
class Parts:
    """The results of a task, in small tables: observations by unit and table, all else by kind."""

    observations: list[tuple[Unit, str, pl.DataFrame]] = field(default_factory=list)
    small: list[tuple[int, str, pl.DataFrame]] = field(default_factory=list)  # by batch: with columns topic, partition
    context: list[pl.DataFrame] = field(default_factory=list)
    unplaced: list[pl.DataFrame] = field(default_factory=list)
    shared: list[tuple[str, pl.DataFrame]] = field(default_factory=list)  # evidence without a partition, by table
    unpaired: list[pl.DataFrame] = field(default_factory=list)  # events without a counterpart so far
    quarantine: list[pl.DataFrame] = field(default_factory=list)
    headers: list[tuple[Unit, pl.DataFrame]] = field(default_factory=list)  # of large logs, not decoded yet
    jobs: list[tuple[Unit, pl.DataFrame]] = field(default_factory=list)  # batches of large logs to decode
    damage: list[pl.DataFrame] = field(default_factory=list)  # in brokers' files without a partition
    counts: Counter[str] = field(default_factory=Counter)
    # Rows for `_context`: kinds of facts about the whole run (CONTEXT), and the process or topic.
    recorded: set[tuple[str, str]] = field(default_factory=set)

    def add(self, name: str, number: int) -> None:
        """Adds a number to the count of that name."""
        self.counts[name] += number

    def leave_out(self, rows: pl.DataFrame, may_be_of_clients: bool = True) -> None:
        """Adds lines that could not be read: users see which (quarantine), rules see that there are some (context)."""
        if len(rows):
            self.quarantine.append(rows)
            if may_be_of_clients:
                self.context.append(_context([("left out", "")]))


def read_split(split: Split, settings: Settings) -> Iterator[Parts]:
    """Reads and pairs one split: one Parts for each block, and a last one with events without a counterpart."""
    return pair_and_observe(split.number, parse_split(split), settings)


def read_block(split: Split, block: Block, settings: Settings) -> Iterator[Parts]:
    """The same as `read_split` for one block of the split; events of other blocks wait for each other."""
    parsed = parse_blocks(split.reader, split.path, [block])
    return pair_and_observe(split.number, parsed, settings, block.first_line)


def pair_and_observe(number: int, blocks: Iterable[Parsed], settings: Settings, first_line: int = 0) -> Iterator[Parts]:
    """The same as `read_split` for parsed blocks of the split with that number, from line `first_line` on."""
    base = number * PLACES_OF_SPLIT
    # Sends are paired separately: their table is narrow, and most events are sends.
    unpaired: list[pl.DataFrame] = [pl.DataFrame(), pl.DataFrame()]
    lines = first_line
    recorded: set[tuple[str, str]] = set()
    for parsed in blocks:
        parts = Parts()
        lines += parsed.lines
        for table, events in enumerate((parsed.sends, parsed.others)):
            parts.add("events", len(events))
            placed = events.with_columns(place=pl.col("line") + base).drop("line")
            to_pair = pl.concat([unpaired[table], placed], how="diagonal") if len(unpaired[table]) else placed
            if not len(to_pair):
                _observe(no_rows(OPERATIONS), settings, parts)
                continue
            paired = pair(to_pair, settings.dialect)
            unpaired[table] = paired.unpaired
            _observe(complete(paired.operations, OPERATIONS), settings, parts)
            parts.leave_out(paired.malformed)
        if len(parsed.quarantine):
            _leave_out_unreadable(parts, parsed.quarantine.with_columns(place=pl.col("line") + base))
        if parsed.damage:
            row = {"place": [base + max(lines - 1, 0)], "reason": [parsed.damage]}
            parts.leave_out(pl.DataFrame(row, schema=QUARANTINED))
        recorded |= parts.recorded
        yield parts
    last = Parts(unpaired=[complete(frame, PLACED_EVENTS) for frame in unpaired if len(frame)], recorded=recorded)
    last.add("lines", lines - first_line)
    yield _with_recorded(last)


def _leave_out_unreadable(parts: Parts, quarantine: pl.DataFrame) -> None:
    of_nemesis = pl.col("of_nemesis").fill_null(False)
    unreadable = quarantine.filter(~of_nemesis).select("place", "reason")
    parts.leave_out(quarantine.filter(of_nemesis).select("place", "reason"), may_be_of_clients=False)
    parts.leave_out(unreadable)
    if len(unreadable):
        row = {"kind": "unreadable", "at": unreadable["place"].min(), "detail": str(len(unreadable))}
        parts.context.append(complete(pl.DataFrame([row]), CONTEXT))


def read_evidence(part: Part) -> Parts:
    """Reads a part of a broker's files. Its tables are added to the observations of their topic-partition."""
    parts = Parts()
    parts.add("evidence files", 1 if part.start == 0 else 0)
    for block in read_part(part):
        if block.table == "damage" and (block.topic is None or block.partition is None):
            parts.add("damaged places", len(block.frame))
            parts.damage.append(block.frame.select(pl.col("file").alias("source"), *DAMAGED).head(MAX_DAMAGE))
        elif block.topic is None or block.partition is None:
            frame = block.frame
            if block.table == "log_events":  # every partition gets these: without lines that none of them uses
                frame = frame.filter(pl.col("kind").is_in([*HANDLERS, *DELETION_LINES]))
            if block.table not in ("properties", "groups"):
                parts.shared.append((block.table, frame))
        elif block.table == "headers":
            parts.headers.append((Unit(block.topic, block.partition), block.frame))
        else:
            parts.observations.append((Unit(block.topic, block.partition), block.table, block.frame))
            if (block.table, block.topic) == ("metadata", TRANSACTIONS_TOPIC):
                parts.shared.append(("state_metadata", block.frame))
    return parts


def lookups_of(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The records of large logs that a table of REFERRING_TABLES refers to (LOOKUPS)."""
    from ..histories.evidence import record_filter  # its compiled loops take a while to load

    return record_filter.lookups_of(table, frame)


def choose_batches(
    unit: Unit, headers: Iterable[pl.DataFrame], lookups: Iterable[pl.DataFrame] | None, settings: Settings
) -> Parts:
    """The jobs that decode the batches of a large log that are needed, and its tables batches and identical.

    `headers` are those of all its replicas; `lookups` are frames of LOOKUPS, None without a history.
    """
    from ..histories.evidence.record_filter import record_filter_of

    batches = pl.concat(list(headers))
    chosen, identical = split_identical_batches(batches, lookups is not None)
    policy = settings.topic(unit.topic).get("cleanup.policy")
    all_lookups = pl.concat([pl.DataFrame(schema=LOOKUPS), *(lookups or ())])
    record_filter = record_filter_of(all_lookups, None if policy is None else "compact" in str(policy))
    parts = Parts(jobs=[(unit, job) for job in jobs(chosen, record_filter)])
    parts.observations += [(unit, "batches", batches.drop("path")), (unit, "identical", identical)]
    return parts


def decode_batches(unit: Unit, job: pl.DataFrame) -> Parts:
    """The tables records, damage and identical of one job of `choose_batches`; empty ones are left out."""
    found = zip(("records", "damage", "identical"), decode(job), strict=True)
    return Parts(observations=[(unit, table, frame) for table, frame in found if len(frame)])


def pair_across_splits(unpaired: pl.DataFrame, settings: Settings) -> tuple[Parts, pl.DataFrame]:
    """Pairs the remaining events of all splits read so far, and returns those that are still without a counterpart."""
    parts = Parts()
    paired = pair(unpaired.sort("place", maintain_order=True), settings.dialect)
    _observe(complete(paired.operations, OPERATIONS), settings, parts)
    parts.leave_out(paired.malformed)
    return _with_recorded(parts), complete(paired.unpaired, PLACED_EVENTS)


def pair_at_end(unpaired: pl.DataFrame, settings: Settings) -> Parts:
    """Pairs the remaining events of all splits. What stays open never completed, or is malformed."""
    parts = Parts()
    if not len(unpaired):
        parts.add("never completed", 0)
        _observe(no_rows(OPERATIONS), settings, parts)
        return parts
    paired = pair_remaining(unpaired, settings.dialect)
    parts.add("never completed", int(paired.operations["completed"].null_count()))
    _observe(paired.operations, settings, parts)
    parts.leave_out(paired.malformed)
    if lone := int((paired.malformed["reason"] == LONE_COMPLETION).sum()):
        row = {"kind": "lone completions", "detail": str(lone)}
        parts.context.append(complete(pl.DataFrame([row]), CONTEXT))
    return _with_recorded(parts)


def _with_recorded(parts: Parts) -> Parts:
    if parts.recorded:
        parts.context.append(_context(parts.recorded))
    return parts


def _context(rows: Iterable[tuple[str, str]]) -> pl.DataFrame:
    return complete(pl.DataFrame(sorted(rows), schema=["kind", "process"], orient="row"), CONTEXT)


def _count(operations: pl.DataFrame, settings: Settings, parts: Parts) -> None:
    """Adds the numbers of operations: all, by outcome, with an impossible outcome, and with impossible times."""
    parts.add("operations", len(operations))
    for outcome, number in operations["outcome"].value_counts().iter_rows():
        parts.add(str(outcome), number)
    if settings.dialect == "native":
        misreported = count_indeterminate_failures(operations)
        parts.add("called failed", misreported)
        if misreported:  # judged as info, so counted as info
            parts.add("fail", -misreported)
            parts.add("info", misreported)
    backwards = operations.select((pl.col("completed") < pl.col("invoked")).sum()).item()
    parts.add("completed before invoked", int(backwards or 0))


def _recorded(operations: pl.DataFrame, settings: Settings) -> set[tuple[str, str]]:
    """Rows for `_context` about processes: which have events, sends, and acknowledgements with and without offsets."""
    is_acknowledged, has_offset = (pl.col("outcome") == "ok") & (pl.col("f") == "send"), pl.col("offset").is_not_null()
    by_process = operations.group_by("process").agg(
        pl.lit(True).alias("events"),
        pl.col("f").is_in(["send", "txn"]).any().alias("sends"),
        (is_acknowledged & has_offset).any().alias("sends with offsets"),
        (is_acknowledged & ~has_offset & pl.col("acks").is_null()).any().alias("sends without offsets"),
    )
    _, *kinds = by_process.columns
    rows = {
        (kind, process)
        for process, *found in by_process.iter_rows()
        for kind, is_found in zip(kinds, found, strict=True)
        if is_found and (process in settings.processes or kind not in ("events", "sends"))
    }
    return rows - {("sends without offsets", process) for process in settings.with_acks()}


def _observe(operations: pl.DataFrame, settings: Settings, parts: Parts) -> None:
    """Adds the observations of operations, by topic-partition, and which processes and topics they concern."""
    _count(operations, settings, parts)
    if not len(operations):
        return
    if settings.processes or settings.dialect == "native":
        parts.recorded |= _recorded(operations, settings)
    seen = observe(operations, settings)
    if settings.dialect == "native":
        parts.recorded |= {("sends to", topic) for topic in seen.sends["topic"].unique().drop_nulls()}
    for table in ("sends", "reads", "marks"):
        frame: pl.DataFrame = getattr(seen, table)
        if not len(frame):
            continue
        placed = frame.filter(pl.col("partition").is_not_null() & pl.col("topic").is_not_null())
        if settings.dialect == "jepsen":
            parts.observations += [(WHOLE, table, placed)] if len(placed) else []
            continue
        small, large = split_small(placed, settings.batches)
        parts.small += [(batch, table, rows) for batch, rows in small]
        parts.observations += [(unit, table, rows) for unit, rows in by_unit(large)]
    if len(seen.context):
        parts.context.append(seen.context)
    unplaced = seen.sends.filter(pl.col("partition").is_null())
    if len(unplaced):
        parts.unplaced.append(unplaced)
        parts.add("acknowledged nowhere", int(unplaced["acknowledged"].sum()))
