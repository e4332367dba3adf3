"""Rows packed into a few bytes each instead of a few hundred, because they stay until the end of a run.

Slowly growing numbers compress well. marshal is faster than differences in arrays, numpy or pickle, and Zstandard than
zlib, for as many bytes. They never leave the process, so marshal's changing format does not matter. A row takes fewer
bytes in chunks of 128 than in those of 1024, and fewer rows stay unpacked, so that more of a run fits in the caches.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator
from typing import Any

import zstandard

CHUNK = 128  # rows packed together; at least as many stay unpacked

Row = tuple[Any, ...]


def pack(rows: Iterable[Row]) -> bytes:
    """Rows of integers, or tuples of integers, as bytes."""
    packed = zstandard.compress(marshal.dumps(list(rows), 2), 1)
    return bytes(memoryview(packed))  # a copy: `packed` still occupies the most that its rows could have taken


def unpack(packed: bytes) -> list[Row]:
    """The rows that `pack` packed."""
    rows: list[Row] = marshal.loads(zstandard.decompress(packed))
    return rows


class Rows:
    """A list of rows, all but the latest packed."""

    def __init__(self) -> None:
        self._latest: list[Row] = []
        self._packed: list[bytes] = []

    def append(self, row: Row) -> None:
        """Add a row; pack the oldest unpacked ones if there are many."""
        latest = self._latest
        latest.append(row)
        if len(latest) >= 2 * CHUNK:
            self._packed.append(pack(latest[:CHUNK]))
            del latest[:CHUNK]

    def __len__(self) -> int:
        return len(self._packed) * CHUNK + len(self._latest)

    def rows(self) -> Iterator[Row]:
        """All rows, in order."""
        for packed in self._packed:
            yield from unpack(packed)
        yield from self._latest

    def cut(self, length: int) -> None:
        """Drop all from row number `length` on."""
        while len(self._packed) * CHUNK > length:
            self._latest[:0] = unpack(self._packed.pop())
        del self._latest[length - len(self._packed) * CHUNK :]
