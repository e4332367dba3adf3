"""Cycles of dependencies, classified as Elle does (elle.txn), with the shortest one of each component.

A component is one of all dependencies, with the order in time of operations that these and processes connect. Its
types, unless a worse one implies them:

    G0            of ww alone
    G1c           of ww and wr, at least one wr
    …-process     the same with process order
    …-realtime    the same with real-time order

G0 implies all others; each plain type implies its -process, and that its -realtime; G0-process and G0-realtime imply
the same of G1c. As in Elle, a step that several orders explain is named by the first of ww, wr, process, realtime, and
the names of its steps give the type of a cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from .graph import Edges, Graph, Ints, Mask, Order

BUDGET = 200_000  # steps of the search for the shortest cycle of a component; then the shortest so far is taken
_TYPES: tuple[tuple[str, Order], ...] = (
    ("G0", ""),
    ("G1c", ""),
    ("G0", "process"),
    ("G1c", "process"),
    ("G0", "realtime"),
    ("G1c", "realtime"),
)
_IMPLIED = {  # by each type
    "G0": {"G1c", "G0-process", "G1c-process", "G0-realtime", "G1c-realtime"},
    "G1c": {"G1c-process", "G1c-realtime"},
    "G0-process": {"G1c-process", "G0-realtime", "G1c-realtime"},
    "G1c-process": {"G1c-realtime"},
    "G0-realtime": {"G1c-realtime"},
    "G1c-realtime": set[str](),
}
TYPES = tuple(_IMPLIED)


class Step(NamedTuple):
    """Why one operation comes before the next of its cycle: ww, wr, process or realtime."""

    kind: str
    row: dict[str, Any]  # of DEPENDENCIES; of process and realtime: source_… and target_… of at, start, end, process


@dataclass(frozen=True)
class Cycle:
    """A cycle of operations, in the order of its steps, from its earliest operation on."""

    type: str  # of TYPES
    steps: tuple[Step, ...]
    component: tuple[int, int, int]  # its size, and start and end of its first operation

    @property
    def operations(self) -> tuple[int, ...]:
        """The places of its operations, in its order."""
        return tuple(step.row["source_at"] for step in self.steps)


@dataclass(frozen=True)
class Cycles:
    """The components with cycles of a type: how many, and the shortest cycles of the smallest ones."""

    count: int
    shortest: tuple[Cycle, ...]


def join_cycles(found: Iterable[Mapping[str, Cycles]], most: int) -> dict[str, Cycles]:
    """The cycles by type of separate parts of a graph, at most `most` of each type."""
    parts = list(found)
    joined = {}
    for name in TYPES:
        shortest = [cycle for part in parts if name in part for cycle in part[name].shortest]
        count = sum(part[name].count for part in parts if name in part)
        if count:
            joined[name] = Cycles(count, tuple(sorted(shortest, key=lambda cycle: cycle.component)[:most]))
    return joined


def to_record(found: Mapping[str, Cycles]) -> dict[str, Any]:
    """The cycles by type as JSON-able values."""
    return {
        name: {
            "count": cycles.count,
            "shortest": [
                {"type": cycle.type, "component": cycle.component, "steps": [[*step] for step in cycle.steps]}
                for cycle in cycles.shortest
            ],
        }
        for name, cycles in found.items()
    }


def from_record(record: Mapping[str, Any]) -> dict[str, Cycles]:
    """The cycles of `to_record`."""
    return {
        name: Cycles(
            cycles["count"],
            tuple(
                Cycle(one["type"], tuple(Step(*step) for step in one["steps"]), tuple(one["component"]))
                for one in cycles["shortest"]
            ),
        )
        for name, cycles in record.items()
    }


def cycles_of(dependencies: pl.DataFrame, most: int, as_elle: bool = False) -> dict[str, Cycles]:
    """The cycles of dependencies in windows by their type, of at most `most` components of each.

    `as_elle`: real time alone orders operations, as Elle searches for strict serializability, and it makes one
    component of unrelated operations, too.
    """
    if not len(dependencies):
        return {}
    graph = Graph.of(dependencies, as_elle)
    everything = np.ones(len(dependencies), bool)
    label, size = graph.components(everything, graph.real_time)
    inside = _inside(graph.edges, label) & (size[graph.edges.source] > 1)
    if not inside.any():
        return {}
    cyclic = graph.only(inside)
    found: dict[str, dict[tuple[int, ...], Cycle]] = {name: {} for name in TYPES}
    more = dict.fromkeys(TYPES, 0)  # components of each type whose cycles are not returned
    for name, cycles, count in _by_type(cyclic, most, as_elle):
        more[name] += count - len(cycles)
        for cycle in cycles:
            found[cycle.type].setdefault(cycle.operations, cycle)
    return {
        name: Cycles(len(found[name]) + more[name], tuple(found[name].values()))
        for name in TYPES
        if found[name] or more[name]
    }


def _by_type(graph: Graph, most: int, as_elle: bool) -> Iterator[tuple[str, list[Cycle], int]]:
    """Each type with the cycles of some components, the smallest first, and the number of components that have it."""
    label, _ = graph.components(np.ones(len(graph.rows), bool), graph.real_time)
    whole, size = label[graph.edges.source], np.bincount(label)
    first_of = np.full(len(size), len(graph))
    np.minimum.at(first_of, label, np.arange(len(graph)))
    excused: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in TYPES}
    for base, order in _TYPES:
        if order == "process" and as_elle:
            continue
        name = f"{base}-{order}" if order else base
        mask = graph.is_ww if base == "G0" else np.ones(len(graph.rows), bool)
        part, part_size = graph.components(mask, graph.order(order))
        on_cycle = _inside(graph.edges, part) & mask & (part_size[graph.edges.source] > 1)
        having = np.unique(whole[on_cycle])
        having = having[~np.isin(having, np.concatenate(excused[name]))]
        for implied in _IMPLIED[name]:
            excused[implied].append(having)
        cycles = []
        for one in np.lexsort((first_of[having], size[having]))[:most].tolist():
            edges = np.flatnonzero(on_cycle & (whole == having[one]))
            begin = first_of[having[one]]
            component = int(size[having[one]]), int(graph.start[begin]), int(graph.end[begin])
            cycles.append(_Search(graph, edges, order, component).shortest())
        yield name, cycles, len(having)


def _inside(edges: Edges, label: Ints) -> Mask:
    return np.asarray(label[edges.source] == label[edges.target])


class _Search:
    """A search for the shortest cycle of dependencies that are all on cycles, breadth first from each operation.

    A shortest cycle takes at most one step in real time: of several, one leads from an end to a start that the steps
    between reach again, as ends of a cycle cannot all grow.
    """

    def __init__(self, graph: Graph, edges: Ints, order: Order, component: tuple[int, int, int]) -> None:
        self.graph, self.order, self.component = graph, order, component
        self.next: dict[int, list[int]] = {}
        for edge in edges.tolist():
            self.next.setdefault(int(graph.edges.source[edge]), []).append(int(graph.edges.target[edge]))
        self.nodes = sorted({*self.next, *(int(graph.edges.target[edge]) for edge in edges.tolist())})
        if order == "process":
            self._link_processes()

    def _link_processes(self) -> None:
        by_process: dict[int, list[int]] = {}
        for node in sorted(self.nodes, key=lambda node: (int(self.graph.start[node]), node)):
            by_process.setdefault(int(self.graph.process[node]), []).append(node)
        for nodes in by_process.values():
            starts = self.graph.start[nodes]
            for node in nodes:
                covered = MAX_INT64
                for later in nodes[int(np.searchsorted(starts, self.graph.end[node], "right")) :]:
                    if self.graph.start[later] > covered:
                        break
                    covered = min(covered, int(self.graph.end[later]))
                    self.next.setdefault(node, []).append(later)

    def shortest(self) -> Cycle:
        """The shortest cycle, or the shortest that BUDGET allows to find."""
        best: list[int] | None = None
        budget = BUDGET
        # In real time the last to start is on a cycle for certain: only dependencies lead on from it.
        starts = sorted(self.nodes, key=lambda node: -int(self.graph.start[node])) if self.order == "realtime" else None
        for first in starts or self.nodes:
            found, steps = self._from(first, len(best) if best else len(self.nodes) + 1)
            best = found or best
            budget -= steps
            if best is not None and (len(best) == 2 or budget < 0):
                break
        if best is None:
            raise AssertionError("a strongly connected component without a cycle")
        return self._cycle(best)

    def _from(self, first: int, shorter_than: int) -> tuple[list[int] | None, int]:
        """The shortest cycle through an operation with fewer operations than that, and the number of steps taken."""
        before: dict[int, int] = {first: -1}
        waiting = deque([(first, 1)])
        begin, steps = int(self.graph.start[first]), 0
        while waiting:
            node, length = waiting.popleft()
            if length >= shorter_than:
                break
            for after in self.next.get(node, ()):
                steps += 1
                if after == first and self.order != "realtime":
                    return _path(before, node), steps
                if after in before:
                    continue
                before[after] = node
                if self.order == "realtime" and length + 1 < shorter_than and self.graph.end[after] < begin:
                    return _path(before, after), steps
                waiting.append((after, length + 1))
        return None, steps

    def _cycle(self, nodes: list[int]) -> Cycle:
        earliest = nodes.index(min(nodes))
        nodes = nodes[earliest:] + nodes[:earliest]
        steps = tuple(self._step(one, other) for one, other in pairwise([*nodes, nodes[0]]))
        kinds = {step.kind for step in steps}
        base = "G1c" if "wr" in kinds else "G0"
        suffix = "-realtime" if "realtime" in kinds else "-process" if "process" in kinds else ""
        return Cycle(base + suffix, steps, self.component)

    def _step(self, one: int, other: int) -> Step:
        graph = self.graph
        low, high = np.searchsorted(graph.edges.source, [one, one + 1])
        found = np.flatnonzero(graph.edges.target[low:high] == other) + low
        if len(found):  # ww is sorted before wr
            row = graph.rows.row(int(found[0]), named=True)
            return Step(row["kind"], row)
        kind = "process" if graph.process[one] == graph.process[other] and self.order == "process" else "realtime"
        return Step(kind, {**self._end("source", one), **self._end("target", other)})

    def _end(self, name: str, node: int) -> dict[str, Any]:
        graph = self.graph
        low = int(np.flatnonzero((graph.edges.source == node) | (graph.edges.target == node))[0])
        row = graph.rows.row(low, named=True)
        process = row["source_process" if graph.edges.source[low] == node else "target_process"]
        times = {"at": graph.at, "start": graph.start, "end": graph.end}
        return {f"{name}_process": process, **{f"{name}_{key}": int(value[node]) for key, value in times.items()}}


def _path(before: dict[int, int], node: int) -> list[int]:
    """The operations from the first of a search to this one."""
    path = []
    while node >= 0:
        path.append(node)
        node = before[node]
    return path[::-1]
