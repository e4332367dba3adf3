"""The shortest cycle of a component, found breadth first from each of its operations."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ...models.arrays import Ints
from .cycle_types import Base, type_of
from .graph import Graph, Order, next_in_time

BUDGET = 200_000  # steps of the search for the shortest cycle of a component; then the shortest so far is taken
KINDS: tuple[str, ...] = ("ww", "wr", "rw")
State = tuple[int, int]  # an operation, and a count of rw steps before it (CycleSearch)


@dataclass(frozen=True)
class Step:
    """A dependency (ww, wr, rw) or an order in time (process, realtime) between neighbours in a cycle."""

    kind: str
    row: dict[str, Any]  # of DEPENDENCIES; of process and realtime: source_… and target_… of at, start, end, process


@dataclass(frozen=True, order=True)
class Component:
    """The component of a cycle. The smallest component comes first, then the one that starts first."""

    size: int
    start: int  # ns, of its first operation
    end: int  # ns, of its first operation


@dataclass(frozen=True)
class Cycle:
    """A cycle of operations, in the order of its steps, from its earliest operation on."""

    type: str  # of TYPES
    steps: tuple[Step, ...]
    component: Component

    @property
    def operations(self) -> tuple[int, ...]:
        """The places of its operations, in its order."""
        return tuple(step.row["source_at"] for step in self.steps)


class CycleSearch:
    """A search for the shortest cycle of dependencies that are all on cycles, breadth first from each operation.

    A shortest cycle has at most one step in real time. Of two such steps, the one that begins at the later end also
    leads to the start to which the other one leads, which gives a shorter cycle.

    A state of the search is an operation and a count: for G-single-item the rw steps so far, for G-nonadjacent-item 1
    if the last step was rw, else 0.
    """

    def __init__(
        self, graph: Graph, edges: Ints, base: Base, order: Order, component: Component, is_exact: bool
    ) -> None:
        self.graph, self.base, self.order, self.component = graph, base, order, component
        self.is_exact = is_exact
        self.successors: dict[int, list[tuple[int, bool]]] = {}  # operations, and whether the step is rw
        sources, targets = graph.edges.source[edges].tolist(), graph.edges.target[edges].tolist()
        for source, target, is_rw in zip(sources, targets, graph.is_rw[edges].tolist(), strict=True):
            self.successors.setdefault(source, []).append((target, is_rw))
        self.nodes = sorted({*sources, *targets})
        if order == "process":
            self._link_processes()

    def _link_processes(self) -> None:
        by_process: dict[int, list[int]] = {}
        for node in sorted(self.nodes, key=lambda node: (int(self.graph.start[node]), node)):
            by_process.setdefault(int(self.graph.process[node]), []).append(node)
        for nodes in by_process.values():
            for one, later in next_in_time(self.graph.start[nodes].tolist(), self.graph.end[nodes].tolist()):
                self.successors.setdefault(nodes[one], []).append((nodes[later], False))

    def shortest(self) -> Cycle | None:
        """The shortest cycle that BUDGET allows to find; None only for G-single-item."""
        best: list[State] | None = None  # the first operation is also the last
        budget = BUDGET
        # The operation that started last has no later one in real time, so only dependencies lead from it.
        starts = sorted(self.nodes, key=lambda node: -int(self.graph.start[node])) if self.order == "realtime" else None
        for first in starts or self.nodes:
            found, steps = self._shortest_through(first, len(best) - 1 if best else len(self.nodes) + 1)
            best = found or best
            budget -= steps
            if budget < 0 and (best is not None or self.base == "G-single-item"):
                break
            if best is not None and len(best) == 3:
                break
        if best is None and self.base != "G-single-item":
            raise AssertionError("a strongly connected component without a cycle")
        return self._cycle(best) if best else None

    def _shortest_through(self, first: int, shorter_than: int) -> tuple[list[State] | None, int]:
        """The shortest cycle through an operation, if it has fewer operations than that, and the number of steps taken.

        The cycle is a list of states, from the first one back to the same operation.
        """
        # No rw step may follow another one, so the search begins after one: a cycle also has a step that is not rw.
        start = first, int(self.base == "G-nonadjacent-item" and self.order != "realtime")
        previous: dict[State, State | None] = {start: None}
        queue = deque([(start, 1)])  # states, and the number of operations of their paths
        begin, steps = int(self.graph.start[first]), 0
        while queue:
            state, length = queue.popleft()
            if length >= shorter_than:
                break
            for after, is_rw in self.successors.get(state[0], ()):
                steps += 1
                count = self._count_after(state[1], is_rw)
                if count < 0:
                    continue
                closes = self.base != "G-single-item" or count == 1
                if after == first and self.order != "realtime" and closes:
                    return [*_path(previous, state), (after, count)], steps
                if (after, count) in previous:
                    continue
                previous[after, count] = state
                ends_before = self.order == "realtime" and closes and self.graph.end[after] < begin
                if ends_before and length + 1 < shorter_than:
                    last = count if self.base == "G-single-item" else 0
                    return [*_path(previous, (after, count)), (first, last)], steps
                queue.append(((after, count), length + 1))
        return None, steps

    def _count_after(self, count: int, is_rw: bool) -> int:
        """The count of a state after a step; negative: the step is not allowed."""
        if self.base == "G-single-item":
            return count + is_rw if count + is_rw < 2 else -1
        if self.base == "G-nonadjacent-item":
            return -1 if count and is_rw else int(is_rw)
        return 0

    def _cycle(self, states: list[State]) -> Cycle:
        steps = []
        for (one, count), (other, later) in pairwise(states):
            is_rw = later > count if self.base == "G-single-item" else later == 1
            kinds = KINDS
            if self.is_exact and self.base != "G2-item":
                not_rw = ("ww",) if self.base == "G0" else ("ww", "wr")
                kinds = ("rw",) if is_rw else not_rw
            steps.append(self._step(one, other, kinds))
        nodes = [node for node, _ in states[:-1]]
        earliest = nodes.index(min(nodes))
        steps = steps[earliest:] + steps[:earliest]
        return Cycle(type_of([step.kind for step in steps]), tuple(steps), self.component)

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


def _path(previous: dict[State, State | None], state: State | None) -> list[State]:
    """The states from the first of a search to this one."""
    path = []
    while state is not None:
        path.append(state)
        state = previous[state]
    return path[::-1]
