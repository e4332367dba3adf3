"""Decides histories of gets and appends on a key of a map in n log n, also if values repeat.

The contents that gets returned must each begin the next longer one, so the longest shows the values at all positions.
What remains is to assign appends to positions: each in its interval, in the order of the positions, between the gets
that found fewer values and those that found more. Every position is filled as late as possible, when the end of an
operation requires it:

- a get requires as many values as it found,
- an append requires a position with its value, filled since its call and not yet taken by another append. The first
  such position is taken (appends in the order of their ends: Glover, "Maximum matching in a convex bipartite graph",
  1967). If there is none, it is the next one with its value, and if that does not exist, a place after the longest
  content.

Each requirement is a lower bound of the filled positions that grows with an earlier one, so no linearization has fewer
filled positions at any time. The history is illegal if and only if a position is filled too early: before the call of a
get that did not find it, or before as many appends of its value were called. Otherwise all positions have appends: the
requirements give all completed appends a position (Hall), no value has more positions than appends that were called by
then, and both together give an assignment that covers both (Mendelsohn and Dulmage, 1958).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner, compiled_inner_without_refcounts
from .machine import APPEND, IS, NEVER, REPLACE
from .monitor_buffers import root_of
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, later, no_witness

NOT_TAKEN = -1  # instead of an operation: no append has taken the position


class Positions(NamedTuple):
    """The positions of the longest content, and what is known of them.

    A slot is a position in the order of values, then of positions. The slots of a value end with one for all places
    after the longest content.
    """

    length: int
    value: Int32s  # by position; -1 if no operation appends it
    blocker: Int32s  # by position, and after all of them: the get called last that did not find it, -1 if there is none
    first_slot: Int32s  # by value
    position: Int32s  # by slot; `length` after the longest content
    filled: Int32s  # by value: how many of its positions are filled
    filled_at: Int32s  # by position: when
    required_by: Int32s  # by position: the operation that required it to be filled when it ended
    taken_by: Int32s  # by slot: the append, or NOT_TAKEN
    free: Int32s  # by slot: links to the next one that is not taken (root_of)


@compiled_inner
def find_longest(h: PartHistory) -> tuple[int, Int32s, int]:
    """A verdict (-1: not decided yet), its witness, and the get with the longest content (-1: none)."""
    longest, other = -1, -1
    for i in range(len(h.call)):
        if h.instruction[i] == REPLACE:
            return UNDECIDED, no_witness(), -1
        if h.end[i] == h.never:
            continue
        if h.instruction[i] == NEVER:
            return ILLEGAL, np.array([i], np.int32), -1
        if h.instruction[i] != IS or h.extra[i] == 0:
            continue
        if longest < 0 or h.value[i] < h.value[longest]:
            longest, other = i, longest if other < 0 else other
        elif h.value[i] > h.value[longest]:
            other = i
        elif h.extra[i] > h.extra[longest]:
            longest = i
    if other >= 0:
        return ILLEGAL, np.array([longest, other], np.int32), longest
    return -1, no_witness(), longest


@compiled_inner
def lay_out_positions(h: PartHistory, content: Int32s, local_of: Int32s) -> Positions:
    """The positions of a content, none of them filled. Gets with a shorter content block the rest of it."""
    length = len(content)
    value, blocker = np.empty(length, np.int32), np.full(length + 1, -1, np.int32)
    first_slot = np.zeros(h.values + 1, np.int32)
    for place in range(length):
        value[place] = local_of[content[place]]
        if value[place] >= 0:
            first_slot[value[place] + 1] += 1
    for each in range(h.values):
        first_slot[each + 1] += first_slot[each] + 1
    slots = first_slot[h.values]
    position, filled = np.full(slots, length, np.int32), np.zeros(h.values, np.int32)
    for place in range(length):
        if value[place] >= 0:
            position[first_slot[value[place]] + filled[value[place]]] = place
            filled[value[place]] += 1
    filled[:] = 0
    for i in range(len(h.call)):
        if h.instruction[i] == IS and h.end[i] < h.never:
            blocker[h.extra[i]] = later(h.call, blocker[h.extra[i]], i)
    for place in range(length):
        blocker[place + 1] = later(h.call, blocker[place + 1], blocker[place])
    free = np.arange(slots + 1).astype(np.int32)
    return Positions(
        length, value, blocker, first_slot, position, filled, np.empty(length, np.int32),
        np.empty(length, np.int32), np.full(slots, NOT_TAKEN, np.int32), free,
    )  # fmt: skip


@compiled_inner_without_refcounts
def first_filled_after(p: Positions, value: int, time: int) -> int:
    """The first slot of a value that was filled after a time; if there is none, its first that is not filled."""
    low = int(p.first_slot[value])
    high = low + p.filled[value]
    while low < high:
        middle = (low + high) // 2
        if p.filled_at[p.position[middle]] > time:
            high = middle
        else:
            low = middle + 1
    return low


@compiled_inner_without_refcounts
def require(h: PartHistory, p: Positions, i: int) -> int:
    """How many positions have to be filled when an operation ends; an append takes one."""
    if h.instruction[i] == IS:
        return int(h.extra[i])
    if h.instruction[i] != APPEND:
        return 0
    slot = root_of(p.free, first_filled_after(p, h.value[i], h.call[i]))
    place = int(p.position[slot])
    if place < p.length:
        p.taken_by[slot], p.free[slot] = i, slot + 1
    return place + 1


@compiled_inner
def reasons(h: PartHistory, p: Positions, i: int) -> Int32s:
    """The operations that prove that a position is filled when operation i ends.

    A get proves it alone. For an append, appends of the same value prove it: within a stretch of time there is one more
    of them than positions were filled. Other operations prove how many positions were filled before the stretch.
    """
    chosen = np.zeros(len(h.call), np.bool_)
    while i >= 0:
        chosen[i] = True
        reason = -1
        if h.instruction[i] == APPEND:
            slot, start = first_filled_after(p, h.value[i], h.end[i] - 1) - 1, h.call[i]
            while slot >= p.first_slot[h.value[i]] and p.filled_at[p.position[slot]] > start:
                chosen[p.taken_by[slot]] = True
                start = min(start, h.call[p.taken_by[slot]])
                slot -= 1
            if slot >= p.first_slot[h.value[i]]:
                reason = p.required_by[p.position[slot]]
        i = reason
    return np.flatnonzero(chosen).astype(np.int32)


@compiled_inner
def check_appends(h: PartHistory, units: Int32s, word_start: Int32s, local_of: Int32s) -> tuple[int, Int32s]:
    """Fill the positions as late as possible. UNDECIDED if the history has a put."""
    verdict, witness, longest = find_longest(h)
    if verdict >= 0:
        return verdict, witness
    content = units[:0]
    if longest >= 0:
        start = word_start[h.value[longest]]
        content = units[start : start + h.extra[longest]]
    p = lay_out_positions(h, content, local_of)
    called, operation_at = np.zeros(h.values, np.int32), np.full(h.never, -1, np.int32)  # by value; by time of an end
    for i in range(len(h.call)):
        if h.end[i] < h.never:
            operation_at[h.end[i]] = i
    next_called = full = 0  # of the operations, and of the positions
    for time in range(h.never):
        i = operation_at[time]
        if i < 0:
            if h.instruction[next_called] == APPEND:
                called[h.value[next_called]] += 1
            next_called += 1
            continue
        required = require(h, p, i)
        while full < required:
            blocker = p.blocker[full]
            is_too_early = blocker >= 0 and h.call[blocker] > time
            value = p.value[full] if full < p.length else -1
            if is_too_early or (full < p.length and (value < 0 or p.filled[value] == called[value])):
                shown = longest if h.instruction[i] == APPEND else -1  # the values at the positions
                other = np.array([blocker if is_too_early else -1, shown], np.int32)
                return ILLEGAL, np.append(reasons(h, p, i), other).astype(np.int32)
            if full == p.length:
                break
            p.filled[value] += 1
            p.filled_at[full], p.required_by[full] = time, i
            full += 1
    return LINEARIZABLE, no_witness()
