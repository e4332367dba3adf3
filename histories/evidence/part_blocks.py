"""Reads each part of the brokers' files into blocks: tables of tables.py, by topic-partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import polars as pl

from ...models.internal_topics import METADATA_TOPIC
from ..tables import MAX_OFFSET
from .checkpoints import read_epoch_checkpoint, read_offset_checkpoint, read_properties
from .cluster_metadata import read_cluster_metadata
from .dump_text import read_dump
from .group_log import read_group_log
from .missing_segments import SEGMENT
from .parts import NOT_READ, Part
from .producer_files import read_aborted_index, read_producer_snapshot
from .server_log import read_server_log
from .tables import DAMAGE, SEGMENTS, STATE_LOGS, Block, damage_row, located
from .transaction_log import count_records_from_0, read_transaction_log

# segments.py is imported where a segment is read: its compiled loops and codecs take a third of a second to load.


def read_part(part: Part) -> list[Block]:
    """The blocks of a part, by topic-partition: tables of tables.py with their location."""
    if part.kind in _READERS:
        return list(_READERS[part.kind](part))
    table, read = _TABLES[part.kind]
    frame, damage = read(part)
    if part.reason and "intact" in frame.columns:
        frame = frame.with_columns(intact=pl.lit(False))
    # Brokers rebuild their files about producers from the log: damage there, or in a whole folder, is of no partition.
    damaged = part if part.kind in ("epochs", "properties") else replace(part, topic=None, partition=None)
    blocks = [*_blocks(table, part, frame), *_blocks("damage", damaged, damage)]
    if part.kind == "transactions":
        is_intact = not part.reason and damage.is_empty()
        copy = {"state_partition": part.partition, "records": count_records_from_0(part.path), "intact": is_intact}
        blocks += _blocks("state_logs", replace(part, topic=None, partition=None), pl.DataFrame([copy], STATE_LOGS))
    return blocks


def _blocks(table: str, part: Part, frame: pl.DataFrame) -> Iterator[Block]:
    """The rows of a part with their location; if they have a topic and a partition, a block for each.

    The column `file` names the files of a part that is a folder.
    """
    if not frame.height:
        return
    named = pl.lit(part.name)
    if "file" in frame.columns:
        named = pl.concat_str(pl.lit(part.name + "/"), pl.col("file").fill_null(""))
    frame = located(frame, part.snapshot, part.broker, named)
    if "topic" not in frame.columns:
        yield Block(table, part.topic, part.partition, frame)
        return
    for group in frame.partition_by("topic", "partition", maintain_order=True):
        yield Block(table, group["topic"][0], group["partition"][0], group)


def _read_segment(part: Part) -> Iterator[Block]:
    """A segment, or of a large log only the headers of its batches, with the path from which to decode the records."""
    from .segments import read_headers, read_segment

    read = read_segment if part.kind == "segment" else read_headers
    segment = read(part.path, part.start, part.end)
    if not segment.batches.height and not segment.damage.height and part.start == 0:
        yield from _blocks("segments", part, pl.DataFrame({"base_offset": [int(part.path.stem)]}, schema=SEGMENTS))
    if part.kind == "segment":
        yield from _blocks("batches", part, segment.batches)
        yield from _blocks("records", part, segment.records)
    else:
        yield from _blocks("headers", part, segment.batches.with_columns(path=pl.lit(str(part.path))))
    yield from _blocks("damage", part, segment.damage)


def _read_aside(part: Part) -> Iterator[Block]:
    """The records of a segment that is no longer, or not yet, of the broker's log; damage there is of no log."""
    from .segments import read_segment

    yield from _blocks("leftovers", part, read_segment(part.path, part.start, part.end).records)


def _read_dump(part: Part) -> Iterator[Block]:
    for dump in read_dump(part.path):
        topic, partition = dump.topic or part.topic, dump.partition
        here = replace(part, topic=topic, partition=part.partition if partition is None else partition)
        if topic == METADATA_TOPIC:  # replayed, as its folder is, and not judged as a partition
            here = replace(part, topic=None, partition=None)
        else:
            yield from _blocks("batches", here, dump.batches)
            yield from _blocks("records", here, dump.records)
        yield from _blocks("metadata", part, dump.metadata)
        yield from _blocks("damage", here, dump.damage)


def _read_nothing(part: Part) -> Iterator[Block]:
    """The reason of a part that is only reported, as damage; of a segment, from its first offset on."""
    name = part.path.name
    is_segment = part.kind != "left-out" and part.topic and SEGMENT.match(name)  # also a packed one
    first = int(name[:20]) if is_segment and int(name[:20]) <= MAX_OFFSET else None
    row = damage_row(part.kind, part.reason, None if first is None else 0, first)
    yield from _blocks("damage", part, pl.DataFrame([row], schema=DAMAGE))


# Kinds of parts with one table of rows and one of damage.
_TABLES: dict[str, tuple[str, Callable[[Part], tuple[pl.DataFrame, pl.DataFrame]]]] = {
    "metadata": ("metadata", lambda part: read_cluster_metadata(part.path)),
    "groups": ("groups", lambda part: read_group_log(part.path, part.topics)),
    "transactions": ("transactions", lambda part: read_transaction_log(part.path)),
    "txnindex": ("aborted", lambda part: read_aborted_index(part.path)),
    "snapshot": ("producers", lambda part: read_producer_snapshot(part.path)),
    "offsets": ("checkpoints", lambda part: read_offset_checkpoint(part.path)),
    "epochs": ("epochs", lambda part: read_epoch_checkpoint(part.path)),
    "properties": ("properties", lambda part: read_properties(part.path)),
    "log": ("log_events", lambda part: read_server_log(part.path, part.start, part.end, part.first_line, part.source)),
}
_READERS = {
    "segment": _read_segment,
    "headers": _read_segment,
    "aside": _read_aside,
    "dump": _read_dump,
    **dict.fromkeys(NOT_READ, _read_nothing),
}
