"""The graph of some dependencies as arrays, its orders in time, and its strongly connected components.

Components come from scipy.sparse.csgraph, which takes and returns arrays. python-igraph and rustworkx return a Python
object for each operation, and networkx is pure Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from ...models.arrays import Ints, Mask
from ..cached import cached_property
from .windows import moment

Order = Literal["", "process", "realtime"]
_OPERATION = ("at", "start", "end", "process")


class Edges(NamedTuple):
    """Edges as arrays of the numbers of their nodes."""

    source: Ints
    target: Ints

    def where(self, mask: Mask) -> Edges:
        """The edges of a mask."""
        return Edges(self.source[mask], self.target[mask])


@dataclass(frozen=True, eq=False)
class Graph:
    """Operations and their dependencies, row by row of `rows`: sorted by source and target."""

    rows: pl.DataFrame  # DEPENDENCIES
    at: Ints
    start: Ints
    end: Ints  # MAX_INT64: the operation is not acknowledged
    process: Ints  # the number of its process in its window
    edges: Edges
    is_ww: Mask
    is_rw: Mask
    as_elle: bool  # only real time orders operations; it also joins unrelated ones into one component

    @staticmethod
    def of(dependencies: pl.DataFrame, as_elle: bool) -> Graph:
        """The graph of rows of DEPENDENCIES in windows. Operations are numbered in time, whatever their files."""
        ends = [
            dependencies.select("window", *(pl.col(f"{end}_{name}").alias(name) for name in _OPERATION))
            for end in ("source", "target")
        ]
        # A partition's brokers' log may decide an outcome that other partitions do not know.
        operations = (
            pl.concat(ends)
            .group_by("at")
            .agg(pl.col("start").max(), pl.col("end").min(), pl.col("process", "window").first())
            .sort("start", "end", "process", "at")
            .with_row_index("number")
        )
        for end in ("source", "target"):
            numbers = operations.select(pl.col("at").alias(f"{end}_at"), pl.col("number").alias(end))
            dependencies = dependencies.join(numbers, on=f"{end}_at", how="left")
        rows = dependencies.sort("source", "target", "kind", "topic", "partition", "source_offset", "target_offset")
        edges = Edges(*(rows[end].cast(pl.Int64).to_numpy() for end in ("source", "target")))
        at, start, done = (operations[name].to_numpy() for name in ("at", "start", "end"))
        process = operations.select(pl.struct("window", "process").rank("dense")).to_series().cast(pl.Int64).to_numpy()
        is_ww, is_rw = ((rows["kind"] == kind).to_numpy() for kind in ("ww", "rw"))
        return Graph(rows.drop("source", "target"), at, start, done, process, edges, is_ww, is_rw, as_elle)

    def __len__(self) -> int:
        return len(self.at)

    def only(self, mask: Mask) -> Graph:
        """The graph with the dependencies of a mask alone."""
        return Graph.of(self.rows.filter(pl.Series(mask)), self.as_elle)

    @cached_property
    def real_time(self) -> Edges:
        """Real-time order (see `order_in_time`), of operations that dependencies and processes connect, or of all.

        A shortest cycle never needs operations that they do not connect (see `shortest_cycle.CycleSearch`).
        """
        group = np.zeros(len(self), np.int64)
        if not self.as_elle:
            group = components_of(2 * len(self), _join_edges(self.edges, self.process_order), "weak")[: len(self)]
        return order_in_time(self.start, self.end, group)

    @cached_property
    def process_order(self) -> Edges:
        """The order of the operations of each process (see `order_in_time`)."""
        return order_in_time(self.start, self.end, self.process)

    def order(self, name: Order) -> Edges | None:
        """The edges of process order or real-time order; None: of neither."""
        if name == "process":
            return self.process_order
        return self.real_time if name else None

    def components(self, mask: Mask, order: Edges | None) -> tuple[Ints, Ints]:
        """The component of each operation and the number of operations in it: by edges of a mask, and an order."""
        chosen = self.edges.where(mask)
        if order is not None:
            chosen = _join_edges(chosen, order)
        label = components_of(2 * len(self), chosen, "strong")[: len(self)]
        return label, np.bincount(label)[label] if len(label) else label

    @property
    def all_rows(self) -> Mask:
        """The mask of all dependencies."""
        return np.ones(len(self.rows), bool)

    def inside(self, label: Ints) -> Mask:
        """The dependencies within a component of these labels."""
        return np.asarray(label[self.edges.source] == label[self.edges.target])

    def on_cycles(self) -> Mask:
        """The dependencies on cycles with real-time order."""
        label, size = self.components(self.all_rows, self.real_time)
        return self.inside(label) & (size[self.edges.source] > 1)

    def reaching_beyond(self, after: int) -> Mask:
        """The dependencies that may be on a cycle with a dependency after a moment; the graph has those before it.

        Such a cycle leads back across the moment, so its earlier operations are reachable from the edge across.
        """
        moments = self.rows.select(source=moment("source"), target=moment("target"))
        source, target = ((moments[end] > after).to_numpy() for end in ("source", "target"))
        entered = np.unique(self.edges.target[source & ~target])
        if not len(entered):
            return source
        order = order_in_time(self.start, self.end, np.zeros(len(self), np.int64))
        root = np.full(len(entered), 2 * len(self))  # a node that leads to all of them
        edges = _join_edges(self.edges, order, Edges(root, entered))
        reached = reachable(2 * len(self) + 1, edges, 2 * len(self))
        return np.asarray(source | reached[self.edges.source])

    def on_nonadjacent_cycles(self, order: Edges | None) -> Mask:
        """The dependencies on cycles in which no two rw dependencies follow each other, with an order or without.

        Each operation has a second node, which rw dependencies lead to and only the other edges leave.
        """
        source, target, second = *self.edges, 2 * len(self)
        others = self.edges.where(~self.is_rw)
        chosen = [others, Edges(others.source + second, others.target)]
        chosen.append(Edges(source[self.is_rw], target[self.is_rw] + second))
        if order is not None:
            leaving = order.where(order.source < len(self))
            chosen += [order, Edges(leaving.source + second, leaving.target)]
        label = components_of(3 * len(self), _join_edges(*chosen), "strong")
        arrives = label[np.where(self.is_rw, target + second, target)]
        leaves_second: Mask = ~self.is_rw & (label[source + second] == arrives)
        return np.asarray((label[source] == arrives) | leaves_second)


def order_in_time(start: Ints, end: Ints, group: Ints) -> Edges:
    """Edges by which an operation reaches those of its group that start after its end, and no others.

    Elle links each completion to the invocations until the next one completes, which is quadratic where many operations
    overlap. Here each end is a node of its own (from len(start) on), linked to the next one: three edges an operation.
    """
    count = len(start)
    order = np.lexsort((end, group))
    order = order[end[order] < MAX_INT64]
    ends = count + np.arange(len(order))  # nodes in the order of groups and ends
    same = group[order][1:] == group[order][:-1]
    times, key = np.unique(np.concatenate([start, end]), return_inverse=True)
    starts = group * (len(times) + 1) + key[:count]
    before = np.searchsorted((group * (len(times) + 1) + key[count:])[order], starts, "left") - 1
    has_one = before >= 0
    has_one[has_one] = group[order][before[has_one]] == group[has_one]
    return Edges(
        np.concatenate([order, ends[:-1][same], ends[before[has_one]]]),
        np.concatenate([ends, ends[1:][same], np.flatnonzero(has_one)]),
    )


def next_in_time(starts: Sequence[int], ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of operations where one ends before the other starts, and none lies between them; sorted by starts."""
    for one, end in enumerate(ends):
        first_end = MAX_INT64  # of the later ones so far
        for later in range(bisect_right(starts, end), len(starts)):
            if starts[later] > first_end:
                break
            first_end = min(first_end, ends[later])
            yield one, later


def _join_edges(*parts: Edges) -> Edges:
    return Edges(*map(np.concatenate, zip(*parts, strict=True)))


def components_of(count: int, edges: Edges, connection: Literal["strong", "weak"]) -> Ints:
    """The number of each node's component."""
    from scipy.sparse.csgraph import connected_components  # it takes a while to load, and most histories need none

    label: Ints = connected_components(_matrix(count, edges), connection=connection)[1].astype(np.int64)
    return label


def reachable(count: int, edges: Edges, first: int) -> Mask:
    """Which of `count` nodes can be reached from the first one."""
    from scipy.sparse.csgraph import breadth_first_order

    reached = np.zeros(count, bool)
    reached[breadth_first_order(_matrix(count, edges), first, return_predecessors=False)] = True
    return reached


def _matrix(count: int, edges: Edges) -> Any:
    from scipy.sparse import coo_array  # it takes a while to load, and most histories need none

    ones = np.ones(len(edges.source), np.float32)
    return coo_array((ones, (edges.source, edges.target)), shape=(count, count)).tocsr()
