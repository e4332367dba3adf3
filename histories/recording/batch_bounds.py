"""Reads where the batches of a segment begin and end, from their headers alone (evidence/segments.py decodes them)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEAD = struct.Struct(">qi")  # base offset, and the number of bytes after these twelve
_LAST_OFFSET_DELTA = slice(23, 27)  # of a batch of format 2
_MAGIC = 16
_FORMAT_2_BYTES = 61  # its header


class Batch(NamedTuple):
    """A batch of a segment: its place in the file and its offsets."""

    start: int
    end: int
    base_offset: int
    last_offset: int


def batches(segment: Path) -> Iterator[Batch]:
    """The whole batches at the head of a segment, without an incomplete one at its end and preallocated space."""
    size = segment.stat().st_size
    with segment.open("rb") as file:
        start = 0
        while start + _HEAD.size < size:
            file.seek(start)
            head = file.read(_FORMAT_2_BYTES)
            base, length = _HEAD.unpack_from(head)
            end = start + _HEAD.size + length
            if length <= 0 or end > size or len(head) <= _MAGIC:
                return
            is_format_2 = head[_MAGIC] >= 2 and len(head) == _FORMAT_2_BYTES
            delta = int.from_bytes(head[_LAST_OFFSET_DELTA], "big") if is_format_2 else 0
            yield Batch(start, end, base, base + delta)
            start = end


def cut_to_whole_batches(segment: Path) -> None:
    """Cut off what follows the last whole batch of a copied segment."""
    whole = max((batch.end for batch in batches(segment)), default=0)
    with segment.open("r+b") as copy:
        copy.truncate(whole)
