"""The path to the present configuration of a compiled search: its linked list and used members, and how they move."""

from __future__ import annotations

from ..compiled import compiled_inner_without_refcounts
from .search_state import CURRENT_DEPTH, DEPTH, PARENT, TAKEN, USED_PENDING, Search


@compiled_inner_without_refcounts
def unlink(s: Search, node: int) -> None:
    """Take a node out of the linked list; it keeps its neighbours for `relink`."""
    s.after[s.before[node]] = s.after[node]
    s.before[s.after[node]] = s.before[node]


@compiled_inner_without_refcounts
def relink(s: Search, node: int) -> None:
    """Put the node that was unlinked last back."""
    s.after[s.before[node]] = node
    s.before[s.after[node]] = node


@compiled_inner_without_refcounts
def linearize(s: Search, taken: int) -> None:
    """Append an operation, or a member of a pending class, to the present path."""
    if taken < 0:
        s.used[-1 - taken] += 1
        s.registers[USED_PENDING] += 1
    else:
        unlink(s, taken)
        unlink(s, len(s.action) + taken)


@compiled_inner_without_refcounts
def undo(s: Search, taken: int) -> None:
    """Remove what was linearized last from the present path."""
    if taken < 0:
        s.used[-1 - taken] -= 1
        s.registers[USED_PENDING] -= 1
    else:
        relink(s, len(s.action) + taken)
        relink(s, taken)


@compiled_inner_without_refcounts
def go_to(s: Search, row: int) -> None:
    """Make a configuration the present one: undo back to the common ancestor, then linearize down to the row."""
    configs, path = s.configs, s.path
    depth = s.registers[CURRENT_DEPTH]
    ancestor = row
    while configs[ancestor, DEPTH] > depth or path[configs[ancestor, DEPTH]] != ancestor:
        ancestor = configs[ancestor, PARENT]
    while depth > configs[ancestor, DEPTH]:
        undo(s, configs[path[depth], TAKEN])
        depth -= 1
    below = row
    while below != ancestor:
        path[configs[below, DEPTH]] = below
        below = configs[below, PARENT]
    while depth < configs[row, DEPTH]:
        depth += 1
        linearize(s, configs[path[depth], TAKEN])
    s.registers[CURRENT_DEPTH] = depth
