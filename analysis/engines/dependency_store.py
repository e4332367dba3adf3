"""The dependencies of a run's transactions, in memory up to a limit, and the search for cycles slice by slice of time.

A dependency takes 150 bytes, and ten million transactions have tens of millions of them. So they are kept in chunks
that are sorted by time, and the search (transactions/cycles.py) reads the chunks of one slice after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock

import polars as pl

from ...histories.settings import Settings
from ...histories.tables import MAX_INT64
from ..rules.cycles import CyclesByType, Search, searches
from ..transactions.cycles import cycles_of_slices
from ..transactions.windows import dependencies_within, join_windows, moment, windows_of
from .store import FrameStore, Held

SORTED_ROWS = 1 << 20  # rows that are sorted together
CHUNK_ROWS, SLICE_ROWS = SORTED_ROWS // 16, 1 << 20
MAX_BYTES = 1 << 28  # of dependencies in memory, as polars estimates them


@dataclass(frozen=True)
class _Chunk:
    first: int  # the earliest moment of a source or target
    last: int  # the latest one
    height: int
    rows: Held


class DependencyStore:
    """Rows of DEPENDENCIES, with their windows for each search. Several threads may add rows."""

    def __init__(self, settings: Settings) -> None:
        self._searches = searches(settings)
        self._windows: dict[str, list[pl.DataFrame]] = {name: [] for name in self._searches}
        self._frames = FrameStore(MAX_BYTES)
        self._chunks: list[_Chunk] = []
        self._unsorted: list[pl.DataFrame] = []
        # Not held during queries of polars: this thread may run another task in a query, and that task adds rows.
        self._lock = Lock()

    def __len__(self) -> int:
        return sum(chunk.height for chunk in self._chunks) + sum(map(len, self._unsorted))

    def add(self, dependencies: pl.DataFrame) -> None:
        """Adds the dependencies of a partition."""
        for rows in dependencies.iter_slices(SORTED_ROWS):
            windows = {name: windows_of(rows, search.dependencies) for name, search in self._searches.items()}
            with self._lock:
                for name, of_rows in windows.items():
                    self._windows[name].append(of_rows)
                self._unsorted.append(rows)
                waiting = self._unsorted
                if sum(map(len, waiting)) < SORTED_ROWS:
                    continue
                self._unsorted = []
            self._sort(waiting)

    def find_cycles(self) -> dict[str, CyclesByType]:
        """The cycles of all dependencies, by search and type."""
        if self._unsorted:
            self._sort(self._unsorted)
            self._unsorted = []
        self._chunks.sort(key=lambda chunk: chunk.first)
        return {
            name: cycles_of_slices(
                self._slices(search, join_windows(self._windows[name])), search.max_components, search.as_elle
            )
            for name, search in self._searches.items()
        }

    def _sort(self, frames: list[pl.DataFrame]) -> None:
        """Sorts rows by the earlier moment of their two operations, and cuts them into chunks."""
        moments = moment("source"), moment("target")
        rows = pl.concat(frames).sort(pl.min_horizontal(moments), maintain_order=True)
        for part in rows.iter_slices(CHUNK_ROWS):
            first, last = part.select(pl.min_horizontal(moments).min(), last=pl.max_horizontal(moments).max()).row(0)
            self._chunks.append(_Chunk(first, last, len(part), self._frames.put(part)))

    def _slices(self, search: Search, windows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        """The dependencies of a search in its windows, in slices as `cycles_of_slices` takes them."""
        chunks = [chunk for chunk in self._chunks if _overlaps(chunk, windows)]
        waiting: list[pl.DataFrame] = []
        for number, chunk in enumerate(chunks):
            waiting.append(dependencies_within(self._frames.get(chunk.rows), windows, search.dependencies))
            if number == len(chunks) - 1:
                yield MAX_INT64, pl.concat(waiting)
            elif sum(map(len, waiting)) >= SLICE_ROWS and chunks[number + 1].first > chunk.first:
                end = chunks[number + 1].first - 1
                rows = pl.concat(waiting)
                is_complete = pl.min_horizontal(moment("source"), moment("target")) <= end
                yield end, rows.filter(is_complete)
                waiting = [rows.filter(~is_complete)]


def _overlaps(chunk: _Chunk, windows: pl.DataFrame) -> bool:
    after = windows["high"].search_sorted(chunk.first, "left")
    return after < len(windows) and int(windows["low"][after]) <= chunk.last
