"""Cycles of dependencies, classified as Elle does (elle.txn), with the shortest one of each component.

A component is one of all dependencies, with the order in time of operations that these and processes connect. Its
types, unless a worse one implies them:

    G0                   of ww alone
    G1c                  of ww and wr, at least one wr
    G-single-item        with exactly one rw
    G-nonadjacent-item   with several rw, but no two in a row
    G2-item              with several rw
    …-process            the same with process order
    …-realtime           the same with real-time order

Each implies those below it, and each plain type implies its -process, and that its -realtime. As in Elle, a step that
several orders explain is named by the first of ww, wr, rw, process, realtime, and the names of its steps give the type
of a cycle. Only transactions on lists and registers have rw dependencies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import polars as pl

from ...histories.tables import MAX_INT64
from .graph import Edges, Graph, Ints, Mask, Order

BUDGET = 200_000  # steps of the search for the shortest cycle of a component; then the shortest so far is taken
MAX_TRIED = 1000  # components that are searched for G-single-item; the others count as G-nonadjacent-item
KINDS = ("ww", "wr", "rw")
Base = Literal["G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item"]
_BASES: tuple[Base, ...] = ("G0", "G1c", "G-single-item", "G-nonadjacent-item", "G2-item")
_ORDERS: tuple[Order, ...] = ("", "process", "realtime")
_TYPES = {f"{base}-{order}".removesuffix("-"): (base, order) for order in _ORDERS for base in _BASES}
TYPES = tuple(_TYPES)


def implies(one: str, other: str) -> bool:
    """Whether a type of cycle implies another one, or is it."""
    (base, order), (weaker, later) = _TYPES[one], _TYPES[other]
    return _BASES.index(base) <= _BASES.index(weaker) and _ORDERS.index(order) <= _ORDERS.index(later)


@dataclass(frozen=True)
class Step:
    """Why one operation comes before the next of its cycle: ww, wr, rw, process or realtime."""

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


def join_cycles(found: Iterable[Mapping[str, Cycles]], max_components: int) -> dict[str, Cycles]:
    """Joins the cycles of separate parts of a graph by type, at most `max_components` of each type."""
    parts = list(found)
    joined = {}
    for name in TYPES:
        shortest = [cycle for part in parts if name in part for cycle in part[name].shortest]
        count = sum(part[name].count for part in parts if name in part)
        if count:
            joined[name] = Cycles(count, tuple(sorted(shortest, key=lambda cycle: cycle.component)[:max_components]))
    return joined


def cycles_in(record: Mapping[str, Any]) -> dict[str, Cycles]:
    """The cycles by type from their JSON, as orjson writes dataclasses."""
    found = {}
    for name, cycles in record.items():
        shortest = (
            Cycle(one["type"], tuple(Step(**step) for step in one["steps"]), tuple(one["component"]))
            for one in cycles["shortest"]
        )
        found[name] = Cycles(cycles["count"], tuple(shortest))
    return found


def cycles_of(
    dependencies: pl.DataFrame, max_components: int, as_elle: bool = False, exact: bool = False
) -> dict[str, Cycles]:
    """The cycles of dependencies in windows, by type: the shortest cycles of at most `max_components` of each type.

    `as_elle`: only real time orders operations, as in Elle's search for strict serializability; it also joins
    otherwise unrelated operations into one component. `exact`: a step that is both a dependency and an order in time
    counts as the one that the type of the cycle needs, so no type is missed.
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
    for name, cycles, count in _by_type(cyclic, max_components, as_elle, exact):
        more[name] += count - len(cycles)
        for cycle in cycles:
            found[cycle.type].setdefault(cycle.operations, cycle)
    return {
        name: Cycles(len(found[name]) + more[name], tuple(found[name].values()))
        for name in TYPES
        if found[name] or more[name]
    }


def _by_type(graph: Graph, max_components: int, as_elle: bool, exact: bool) -> Iterator[tuple[str, list[Cycle], int]]:
    """Each type with the cycles of some components, the smallest first, and the number of components that have it."""
    label, _ = graph.components(np.ones(len(graph.rows), bool), graph.real_time)
    whole, size = label[graph.edges.source], np.bincount(label)
    first_of = np.full(len(size), len(graph))
    np.minimum.at(first_of, label, np.arange(len(graph)))
    implied: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in TYPES}
    has_rw = bool(graph.is_rw.any())
    for name, (base, order) in _TYPES.items():
        if (order == "process" and as_elle) or (base not in ("G0", "G1c") and not has_rw):
            continue
        on_cycle = _on_cycle(graph, base, order)
        having = np.unique(whole[on_cycle])
        having = having[~np.isin(having, np.concatenate(implied[name]))]
        smallest = np.lexsort((first_of[having], size[having]))
        cycles, found = [], []
        for one in smallest[: MAX_TRIED if base == "G-single-item" else max_components].tolist():
            edges = np.flatnonzero(on_cycle & (whole == having[one]))
            begin = first_of[having[one]]
            component = int(size[having[one]]), int(graph.start[begin]), int(graph.end[begin])
            cycle = _Search(graph, edges, base, order, component, exact).shortest()
            if cycle is not None:
                cycles.append(cycle)
                found.append(having[one])
        if base == "G-single-item":  # the remaining components count as G-nonadjacent-item
            having = np.array(found, np.int64)
        for other in TYPES:
            if other != name and implies(name, other):
                implied[other].append(having)
        yield name, cycles[:max_components], len(having)


def _on_cycle(graph: Graph, base: Base, order: Order) -> Mask:
    """The dependencies on cycles of a type, or of one that implies it."""
    if base in ("G-single-item", "G-nonadjacent-item"):
        return graph.on_nonadjacent_cycles(graph.order(order))
    mask = graph.is_ww if base == "G0" else ~graph.is_rw if base == "G1c" else np.ones(len(graph.rows), bool)
    part, part_size = graph.components(mask, graph.order(order))
    return _inside(graph.edges, part) & mask & (part_size[graph.edges.source] > 1)


def _inside(edges: Edges, label: Ints) -> Mask:
    return np.asarray(label[edges.source] == label[edges.target])


class _Search:
    """A search for the shortest cycle of dependencies that are all on cycles, breadth first from each operation.

    A shortest cycle takes at most one step in real time: of several, one leads from an end to a start that the steps
    between reach again, as ends of a cycle cannot all grow.

    A state of the search is an operation with a number: of G-single-item that of the rw steps so far, of
    G-nonadjacent-item 1 if the last step was one.
    """

    def __init__(
        self, graph: Graph, edges: Ints, base: Base, order: Order, component: tuple[int, int, int], exact: bool
    ) -> None:
        self.graph, self.base, self.order, self.component, self.exact = graph, base, order, component, exact
        self.next: dict[int, list[tuple[int, bool]]] = {}
        sources, targets = graph.edges.source[edges].tolist(), graph.edges.target[edges].tolist()
        for source, target, is_rw in zip(sources, targets, graph.is_rw[edges].tolist(), strict=True):
            self.next.setdefault(source, []).append((target, is_rw))
        self.nodes = sorted({*sources, *targets})
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
                    self.next.setdefault(node, []).append((later, False))

    def shortest(self) -> Cycle | None:
        """The shortest cycle that BUDGET allows to find; None only for G-single-item."""
        best: list[tuple[int, int]] | None = None  # the first operation is also the last
        budget = BUDGET
        # In real time the operation that started last is certainly on a cycle: only dependencies lead on from it.
        starts = sorted(self.nodes, key=lambda node: -int(self.graph.start[node])) if self.order == "realtime" else None
        for first in starts or self.nodes:
            found, steps = self._from(first, len(best) - 1 if best else len(self.nodes) + 1)
            best = found or best
            budget -= steps
            if budget < 0 and (best is not None or self.base == "G-single-item"):
                break
            if best is not None and len(best) == 3:
                break
        if best is None and self.base != "G-single-item":
            raise AssertionError("a strongly connected component without a cycle")
        return self._cycle(best) if best else None

    def _from(self, first: int, shorter_than: int) -> tuple[list[tuple[int, int]] | None, int]:
        """The shortest cycle through an operation, if it has fewer operations than that, and the number of steps taken.

        The cycle is a list of states, from the first one back to the same operation.
        """
        # No rw step may follow another one, so the search begins behind one: a cycle also has a step that is not rw.
        start = first, int(self.base == "G-nonadjacent-item" and self.order != "realtime")
        before: dict[tuple[int, int], tuple[int, int] | None] = {start: None}
        waiting = deque([(start, 1)])
        begin, steps = int(self.graph.start[first]), 0
        while waiting:
            state, length = waiting.popleft()
            if length >= shorter_than:
                break
            for after, is_rw in self.next.get(state[0], ()):
                steps += 1
                number = self._after(state[1], is_rw)
                if number < 0:
                    continue
                closes = self.base != "G-single-item" or number == 1
                if after == first and self.order != "realtime" and closes:
                    return [*_path(before, state), (after, number)], steps
                if (after, number) in before:
                    continue
                before[after, number] = state
                ends_before = self.order == "realtime" and closes and self.graph.end[after] < begin
                if ends_before and length + 1 < shorter_than:
                    last = number if self.base == "G-single-item" else 0
                    return [*_path(before, (after, number)), (first, last)], steps
                waiting.append(((after, number), length + 1))
        return None, steps

    def _after(self, number: int, is_rw: bool) -> int:
        """The number of the state after a step; negative: the step is not allowed."""
        if self.base == "G-single-item":
            return number + is_rw if number + is_rw < 2 else -1
        if self.base == "G-nonadjacent-item":
            return -1 if number and is_rw else int(is_rw)
        return 0

    def _cycle(self, states: list[tuple[int, int]]) -> Cycle:
        steps = []
        for (one, number), (other, later) in pairwise(states):
            is_rw = later > number if self.base == "G-single-item" else later == 1
            kinds = ("rw",) if is_rw else ("ww",) if self.base == "G0" else ("ww", "wr")
            steps.append(self._step(one, other, KINDS if self.base == "G2-item" or not self.exact else kinds))
        nodes = [node for node, _ in states[:-1]]
        earliest = nodes.index(min(nodes))
        steps = steps[earliest:] + steps[:earliest]
        return Cycle(_type_of([step.kind for step in steps]), tuple(steps), self.component)

    def _step(self, one: int, other: int, kinds: Sequence[str]) -> Step:
        """The step between two operations, by the first of these kinds, else by an order in time."""
        graph = self.graph
        low, high = np.searchsorted(graph.edges.source, [one, one + 1])
        found = np.flatnonzero(graph.edges.target[low:high] == other) + low
        for edge in found.tolist():  # sorted: ww, wr, rw
            row = graph.rows.row(edge, named=True)
            if row["kind"] in kinds:
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


def _type_of(kinds: list[str]) -> str:
    """The type of a cycle with these steps."""
    number = kinds.count("rw")
    if number > 1:
        is_adjacent = any(one == other == "rw" for one, other in pairwise([*kinds, kinds[0]]))
        base = "G2-item" if is_adjacent else "G-nonadjacent-item"
    else:
        base = "G-single-item" if number else "G1c" if "wr" in kinds else "G0"
    return base + ("-realtime" if "realtime" in kinds else "-process" if "process" in kinds else "")


def _path(
    before: dict[tuple[int, int], tuple[int, int] | None], state: tuple[int, int] | None
) -> list[tuple[int, int]]:
    """The states from the first of a search to this one."""
    path = []
    while state is not None:
        path.append(state)
        state = before[state]
    return path[::-1]
