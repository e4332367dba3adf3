"""Dependencies and cycles once more, naively: all pairs of operations, and all simple cycles of a small graph.

An operation is (start, end, process), with end None if it is not acknowledged; an edge is (kind, source, target).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations

Operation = tuple[int, int | None, str]
Edge = tuple[str, int, int]

IMPLIED = {
    "G0": ["G1c", "G0-process", "G1c-process", "G0-realtime", "G1c-realtime"],
    "G1c": ["G1c-process", "G1c-realtime"],
    "G0-process": ["G1c-process", "G0-realtime", "G1c-realtime"],
    "G1c-process": ["G1c-realtime"],
    "G0-realtime": ["G1c-realtime"],
    "G1c-realtime": [],
}


def reasons(operations: list[Operation], edges: list[Edge], one: int, other: int) -> set[str]:
    """The reasons why one operation comes before the other."""
    found = {kind for kind, source, target in edges if (source, target) == (one, other)}
    (_, end, process), (start, _, other_process) = operations[one], operations[other]
    if end is not None and end < start:
        found |= {"realtime"} | ({"process"} if process == other_process else set())
    return found


def named(operations: list[Operation], edges: list[Edge], cycle: tuple[int, ...], allowed: set[str]) -> str | None:
    """The type of a cycle whose steps have only allowed reasons; None if a step has none of them."""
    kinds = set()
    for one, other in zip(cycle, cycle[1:] + cycle[:1], strict=True):
        why = reasons(operations, edges, one, other)
        if not why & allowed:
            return None
        named_by = (("ww", "wr", "process") if "process" in allowed else ("ww", "wr")) + ("realtime",)
        kinds.add(next(kind for kind in named_by if kind in why))
    suffix = "-realtime" if "realtime" in kinds else "-process" if "process" in kinds else ""
    return ("G1c" if "wr" in kinds else "G0") + suffix


def simple_cycles(nodes: list[int]) -> Iterator[tuple[int, ...]]:
    for length in range(2, len(nodes) + 1):
        for chosen in permutations(nodes, length):
            if chosen[0] == min(chosen):
                yield chosen


def cycles(operations: list[Operation], edges: list[Edge]) -> list[list[tuple[int, set[str]]]]:
    """The least length and the names of cycles, for each type of each component in Elle's sense."""
    numbers = range(len(operations))
    reach = {
        one: {other for other in numbers if one != other and reasons(operations, edges, one, other)} for one in numbers
    }
    for _ in numbers:
        reach = {one: others.union(*(reach[other] for other in others)) for one, others in reach.items()}
    components = {tuple(other for other in numbers if other in reach[one] and one in reach[other]) for one in numbers}
    return [
        types for nodes in sorted(components) if len(nodes) > 1 and (types := _types(operations, edges, list(nodes)))
    ]


def _types(operations: list[Operation], edges: list[Edge], nodes: list[int]) -> list[tuple[int, set[str]]]:
    implied: set[str] = set()
    found = []
    for name, weaker in IMPLIED.items():
        base, _, order = name.partition("-")
        if name in implied or order == "process":
            continue
        allowed = {"ww"} | ({"wr"} if base == "G1c" else set()) | ({order} if order else set())
        names: dict[int, set[str]] = {}
        for cycle in simple_cycles(nodes):
            if (called := named(operations, edges, cycle, allowed)) is not None:
                names.setdefault(len(cycle), set()).add(called)
        if names:
            implied.update(weaker)
            found.append((min(names), names[min(names)]))
    return found
