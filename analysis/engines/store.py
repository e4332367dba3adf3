"""The observations of a run by unit, those of large partitions by ranges of offsets, and those of small ones by batch.

They stay in memory up to a limit; later ones go to a temporary file.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Iterator, Mapping
from itertools import groupby
from threading import Lock
from typing import IO, NamedTuple

import polars as pl

from ...histories.tables import OBSERVED
from ..batches import WHOLE, Unit
from ..partitions.offset_ranges import REST, by_range
from ..partitions.unit import Tables

MAX_BYTES = 1 << 29  # of observations in memory, as polars estimates them: text takes about twice as much
_WRITING = Lock()  # never held during a query of polars: the thread may run another task meanwhile, which writes too


class _Part(NamedTuple):
    call: int  # number of the call of `add`; `_tables` joins its parts again
    table: str
    number: int  # of the range
    height: int
    rows: Held


def pack(frame: pl.DataFrame) -> bytes:
    """A table as a compressed stream of Arrow IPC, which polars writes and reads in a third of a file's time."""
    buffer = io.BytesIO()
    frame.rechunk().write_ipc_stream(buffer, compression="lz4")
    return buffer.getvalue()


def unpack(payload: bytes) -> pl.DataFrame:
    """The table of `pack`."""
    return pl.read_ipc_stream(io.BytesIO(payload))


class SpilledFrame(NamedTuple):
    """Where a table is in the temporary file."""

    position: int
    length: int


Held = pl.DataFrame | SpilledFrame


class FrameStore:
    """Tables in memory up to a limit, later ones in a temporary file. It is safe to use from several threads.

    The file has no name, so the system removes it however the process ends.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._left = max_bytes
        self._file: IO[bytes] | None = None

    def put(self, frame: pl.DataFrame) -> Held:
        """The table itself, or where it was written."""
        size = int(frame.estimated_size())
        with _WRITING:
            self._left -= size
            if self._left >= 0:
                return frame
        payload = pack(frame)
        with _WRITING:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="logjudge-")  # noqa: SIM115 - it lives as long as the store
            place = SpilledFrame(self._file.seek(0, os.SEEK_END), len(payload))
            self._file.write(payload)
            self._file.flush()
        return place

    def get(self, held: Held) -> pl.DataFrame:
        """The table that `put` returned or wrote."""
        if isinstance(held, pl.DataFrame):
            return held
        assert self._file is not None  # `put` made it
        return unpack(os.pread(self._file.fileno(), held.length, held.position))


class ObservationStore(Mapping[Unit, Tables]):
    """The tables of each unit. Reading is safe from several threads."""

    def __init__(self, range_offsets: int) -> None:
        self._range_offsets = range_offsets
        self._parts: dict[Unit, list[_Part]] = {}
        self._frames = FrameStore()

    def __getitem__(self, unit: Unit) -> Tables:
        return self._tables(self._parts[unit])

    def __iter__(self) -> Iterator[Unit]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, unit: Unit, table: str, rows: pl.DataFrame) -> None:
        """Adds rows of one table of a unit."""
        parts = by_range(table, rows, self._range_offsets) if table in OBSERVED and unit != WHOLE else [(REST, rows)]
        held = self._parts.setdefault(unit, [])
        call = held[-1].call + 1 if held else 0
        for number, part in parts:
            held.append(_Part(call, table, number, len(part), self._frames.put(part)))

    def pop(self, unit: Unit) -> Tables:
        """The tables of a unit, which the store does not hold any longer."""
        return self._tables(self._parts.pop(unit))

    def drop(self, unit: Unit) -> None:
        """Forgets a unit."""
        del self._parts[unit]

    def row_count(self, unit: Unit, number: int | None = None) -> int:
        """The number of rows of a unit, or of one range of it."""
        return sum(part.height for part in self._parts[unit] if number is None or part.number == number)

    def table_names(self, unit: Unit) -> set[str]:
        """The names of the tables of a unit."""
        return {part.table for part in self._parts[unit]}

    def range_numbers(self, unit: Unit) -> list[int]:
        """The numbers of the ranges of offsets of a unit, in order, without REST."""
        return sorted({part.number for part in self._parts[unit]} - {REST})

    def tables_in_range(self, unit: Unit, number: int) -> Tables:
        """The tables of one range."""
        return self._tables([part for part in self._parts[unit] if part.number == number])

    def _tables(self, parts: list[_Part]) -> Tables:
        tables: Tables = {}
        for (_, table), added in groupby(parts, key=lambda part: (part.call, part.table)):
            rows = [self._frames.get(part.rows) for part in added]
            # Ranges split these rows: their order is restored here, so that no caller has to sort them.
            whole = rows[0] if len(rows) == 1 else pl.concat(rows).sort("at", "index", maintain_order=True)
            tables.setdefault(table, []).append(whole)
        return tables


class BatchStore:
    """The tables of each batch of small partitions: in memory up to a limit, at which all move to a temporary file."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = self._left = max_bytes
        self._tables: dict[int, Tables] = {}
        self._moved: dict[int, list[tuple[str, Held]]] = {}
        self._file = FrameStore(0)

    def add(self, batch: int, table: str, rows: pl.DataFrame) -> None:
        """Adds rows of one table of a batch."""
        self._tables.setdefault(batch, {}).setdefault(table, []).append(rows)
        self._left -= int(rows.estimated_size())
        if self._left < 0:
            for number, tables in self._tables.items():
                moved = [(name, self._file.put(pl.concat(frames))) for name, frames in tables.items()]
                self._moved.setdefault(number, []).extend(moved)
            self._tables, self._left = {}, self._max_bytes

    def __iter__(self) -> Iterator[Tables]:
        """The tables of each batch, in the order of the batches."""
        for batch in sorted({*self._tables, *self._moved}):
            tables: Tables = {}
            for name, held in self._moved.get(batch, ()):
                tables.setdefault(name, []).append(self._file.get(held))
            for name, frames in self._tables.get(batch, {}).items():
                tables.setdefault(name, []).extend(frames)
            yield tables
