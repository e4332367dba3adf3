"""Reads each part of the brokers' files into blocks: tables of tables.py, by topic-partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from .checkpoints import read_epoch_checkpoint, read_offset_checkpoint, read_properties
from .cluster_metadata import read_cluster_metadata
from .dump_text import read_dump
from .group_log import read_group_log
from .parts import Part
from .producer_files import read_aborted_index, read_producer_snapshot
from .server_log import read_server_log
from .tables import DAMAGE, SEGMENTS, Block, damage_row, located
from .transaction_log import read_transaction_log

if TYPE_CHECKING:
    from .segments import Segment

# segments.py is imported where a segment is read: its compiled loops and codecs take a third of a second to load.


def read_part(part: Part) -> list[Block]:
    """The blocks of a part, by topic-partition: tables of tables.py with their location."""
    return list(_READERS[part.kind](part))


def _block(table: str, part: Part, frame: pl.DataFrame) -> Iterator[Block]:
    if frame.height:
        frame = located(frame, part.snapshot, part.broker, part.name)
        yield Block(table, part.topic, part.partition, frame)


def _grouped(table: str, part: Part, frame: pl.DataFrame) -> Iterator[Block]:
    """A frame with columns topic and partition, as blocks of one topic-partition each."""
    if not frame.height:
        return
    if "file" in frame.columns:
        frame = frame.with_columns(pl.concat_str(pl.lit(part.name + "/"), "file").alias("file"))
        order = ["snapshot", "broker", "file", *(c for c in frame.columns if c != "file")]
        located_ = frame.with_columns(snapshot=pl.lit(part.snapshot), broker=pl.lit(part.broker))
        frame = located_.select(order)
    else:
        frame = located(frame, part.snapshot, part.broker, part.name)
    for group in frame.partition_by("topic", "partition", maintain_order=True):
        yield Block(table, group["topic"][0], group["partition"][0], group)


def _read_segment(part: Part) -> Iterator[Block]:
    from .segments import read_segment

    segment = read_segment(part.path, part.start, part.end)
    yield from _empty_segment(part, segment)
    yield from _block("batches", part, segment.batches)
    yield from _block("records", part, segment.records)
    yield from _block("damage", part, segment.damage)


def _empty_segment(part: Part, segment: Segment) -> Iterator[Block]:
    if not segment.batches.height and not segment.damage.height and part.start == 0:
        yield from _block("segments", part, pl.DataFrame({"base_offset": [int(part.path.stem)]}, schema=SEGMENTS))


def _read_headers(part: Part) -> Iterator[Block]:
    from .segments import read_headers

    segment = read_headers(part.path, part.start, part.end)
    yield from _empty_segment(part, segment)
    yield from _block("headers", part, segment.batches.with_columns(pl.lit(str(part.path)).alias("path")))
    yield from _block("damage", part, segment.damage)


def _read_metadata(part: Part) -> Iterator[Block]:
    yield from _of_folder("metadata", part, *read_cluster_metadata(part.path))


def _read_groups(part: Part) -> Iterator[Block]:
    yield from _of_folder("groups", part, *read_group_log(part.path))


def _read_transactions(part: Part) -> Iterator[Block]:
    yield from _of_folder("transactions", part, *read_transaction_log(part.path))


def _read_producer_file(part: Part) -> Iterator[Block]:
    """An index of aborted transactions, or a producer snapshot. A broker rebuilds both from its log."""
    is_index = part.kind == "txnindex"
    table, read = ("aborted", read_aborted_index) if is_index else ("producers", read_producer_snapshot)
    frame, damage = read(part.path)
    yield from _block(table, part, frame)
    yield from _block("damage", replace(part, topic=None, partition=None), damage)


def _of_folder(table: str, part: Part, frame: pl.DataFrame, damage: pl.DataFrame) -> Iterator[Block]:
    """The blocks of a part that is a folder: its frames name the file of each row."""
    yield from _grouped(table, part, frame)
    if damage.height:
        named = pl.concat_str(pl.lit(part.name + "/"), pl.col("file").fill_null("")).alias("file")
        located_ = located(damage.drop("file"), part.snapshot, part.broker, part.name)
        yield Block("damage", None, None, located_.with_columns(damage.select(named)["file"]))


def _read_offsets(part: Part) -> Iterator[Block]:
    frame, damage = read_offset_checkpoint(part.path)
    yield from _grouped("checkpoints", part, frame)
    yield from _block("damage", part, damage)


def _read_epochs(part: Part) -> Iterator[Block]:
    frame, damage = read_epoch_checkpoint(part.path)
    yield from _block("epochs", part, frame)
    yield from _block("damage", part, damage)


def _read_properties(part: Part) -> Iterator[Block]:
    frame, damage = read_properties(part.path)
    yield from _block("properties", part, frame)
    yield from _block("damage", part, damage)


def _read_log(part: Part) -> Iterator[Block]:
    frame, damage = read_server_log(part.path, part.start, part.end, part.first_line)
    yield from _grouped("log_events", part, frame)
    yield from _block("damage", part, damage)


def _read_dump(part: Part) -> Iterator[Block]:
    for dump in read_dump(part.path):
        topic, partition = dump.topic or part.topic, dump.partition
        here = replace(part, topic=topic, partition=part.partition if partition is None else partition)
        yield from _block("batches", here, dump.batches)
        yield from _block("records", here, dump.records)
        yield from _grouped("metadata", part, dump.metadata)
        yield from _block("damage", here, dump.damage)


def _read_nothing(part: Part) -> Iterator[Block]:
    """The reason of a part that is left out or unreadable, as damage."""
    yield from _block("damage", part, pl.DataFrame([damage_row(part.kind, part.reason)], schema=DAMAGE))


_READERS = {
    "segment": _read_segment,
    "headers": _read_headers,
    "metadata": _read_metadata,
    "groups": _read_groups,
    "transactions": _read_transactions,
    "txnindex": _read_producer_file,
    "snapshot": _read_producer_file,
    "offsets": _read_offsets,
    "epochs": _read_epochs,
    "properties": _read_properties,
    "log": _read_log,
    "dump": _read_dump,
    "left-out": _read_nothing,
    "unreadable": _read_nothing,
}
