"""The cycles of dependencies by type (cycle_types.py), with the shortest one of each component.

A component is one of all dependencies, with the order in time of operations that these and processes connect. Its
types are those of its cycles, unless a worse one implies them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...models.arrays import Ints, Mask
from .cycle_types import PARTS, TYPES, Base, implies
from .graph import Graph, Order
from .shortest_cycle import Component, Cycle, CycleSearch, Step

MAX_TRIED = 1000  # components that are searched for G-single-item; the others count as G-nonadjacent-item


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
            Cycle(one["type"], tuple(Step(**step) for step in one["steps"]), Component(**one["component"]))
            for one in cycles["shortest"]
        )
        found[name] = Cycles(cycles["count"], tuple(shortest))
    return found


def cycles_of(
    dependencies: pl.DataFrame, max_components: int, as_elle: bool = False, is_exact: bool = False
) -> dict[str, Cycles]:
    """The cycles of dependencies in windows, by type: the shortest cycles of at most `max_components` of each type.

    `as_elle`: only real time orders operations, as in Elle's search for strict serializability. It also joins otherwise
    unrelated operations into one component. `is_exact`: a step may be both a dependency and an order in time; it counts
    as what the type of the cycle needs, so no type is missed.
    """
    if not len(dependencies):
        return {}
    graph = Graph.of(dependencies, as_elle)
    return _cycles_among(graph, graph.on_cycles(), max_components, is_exact)


def cycles_of_slices(
    slices: Iterable[tuple[int, pl.DataFrame]], max_components: int, as_elle: bool = False
) -> dict[str, Cycles]:
    """The cycles of dependencies as in `cycles_of`, with only a slice of them in memory at a time.

    A slice has the moment of its end, and all dependencies with an earlier moment that are in no slice before. Those
    that may be on a cycle with a later one are carried on to the next slice; they are few if transactions are short.
    """
    found: list[dict[str, Cycles]] = []
    carried = None
    for end, rows in slices:
        dependencies = rows if carried is None else pl.concat([carried, rows])
        if not len(dependencies):
            continue
        graph = Graph.of(dependencies, as_elle)
        may_continue = graph.reaching_beyond(end)
        found.append(_cycles_among(graph, graph.on_cycles() & ~may_continue, max_components, is_exact=False))
        carried = graph.rows.filter(pl.Series(may_continue))
    return found[0] if len(found) == 1 else join_cycles(found, max_components)


def _cycles_among(graph: Graph, inside: Mask, max_components: int, is_exact: bool) -> dict[str, Cycles]:
    """The cycles of the dependencies of a mask, which are whole components."""
    if not inside.any():
        return {}
    cyclic = graph.only(inside)
    found: dict[str, dict[tuple[int, ...], Cycle]] = {name: {} for name in TYPES}
    more = dict.fromkeys(TYPES, 0)  # components of each type whose cycles are not returned
    for name, cycles, count in _by_type(cyclic, max_components, is_exact):
        more[name] += count - len(cycles)
        for cycle in cycles:
            found[cycle.type].setdefault(cycle.operations, cycle)
    return {
        name: Cycles(len(found[name]) + more[name], tuple(found[name].values()))
        for name in TYPES
        if found[name] or more[name]
    }


def _by_type(graph: Graph, max_components: int, is_exact: bool) -> Iterator[tuple[str, list[Cycle], int]]:
    """Each type with the cycles of some components, the smallest first, and the number of components that have it."""
    label, _ = graph.components(graph.all_rows, graph.real_time)
    whole, size = label[graph.edges.source], np.bincount(label)
    first_of = np.full(len(size), len(graph))
    np.minimum.at(first_of, label, np.arange(len(graph)))
    implied: dict[str, list[Ints]] = {name: [np.empty(0, np.int64)] for name in TYPES}
    has_rw = bool(graph.is_rw.any())
    for name, (base, order) in PARTS.items():
        if (order == "process" and graph.as_elle) or (base not in ("G0", "G1c") and not has_rw):
            continue
        on_cycle = _on_cycle(graph, base, order)
        having = np.unique(whole[on_cycle])
        having = having[~np.isin(having, np.concatenate(implied[name]))]
        smallest = np.lexsort((first_of[having], size[having]))
        cycles, found = [], []
        for one in smallest[: MAX_TRIED if base == "G-single-item" else max_components].tolist():
            edges = np.flatnonzero(on_cycle & (whole == having[one]))
            begin = first_of[having[one]]
            component = Component(int(size[having[one]]), int(graph.start[begin]), int(graph.end[begin]))
            cycle = CycleSearch(graph, edges, base, order, component, is_exact).shortest()
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
    masks = {"G0": graph.is_ww, "G1c": ~graph.is_rw}
    mask = masks.get(base, graph.all_rows)
    part, part_size = graph.components(mask, graph.order(order))
    return graph.inside(part) & mask & (part_size[graph.edges.source] > 1)
