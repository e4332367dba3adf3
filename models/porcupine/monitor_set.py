"""Decides unambiguous histories of a set in n log n.

Operations on different values are independent, except reads of all elements. Without such reads each value is decided
alone. With them, histories with removals are UNDECIDED, and the reads are ordered by their size. Both follow from the
model; the tests compare them with the search and with all permutations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import Ints, inner, inner_in_place
from .machine import CONTAINS, INCLUDE, IS, LACKS, NEVER, PASS, REMOVE
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, earlier, later, no_witness


class Members(NamedTuple):
    """The operations that bound the add and the remove of each value (-1: none), and the time when it is present."""

    add: Ints
    remove: Ints
    seen: Ints  # the first to end of those that found the value
    seen_last: Ints  # the last to be called of those
    missed: Ints  # the last to be called of those that did not find it
    low: Ints  # the add takes effect after the call of this operation
    high: Ints  # and before the end of this one
    # If it has to be removed after its add: it is certainly present from `until`, the latest time of the add, to
    # `since`, the earliest of the remove. -1 otherwise.
    until: Ints
    since: Ints


@inner
def new_members(values: int) -> Members:
    """Members without operations."""
    m = np.full((9, values), -1, np.int32)
    return Members(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8])


@inner_in_place
def collect_members(h: PartHistory, m: Members) -> tuple[bool, bool]:
    """Fill the first five columns. Returns whether the monitor can decide, and whether there are reads of all."""
    twice = removes = reads = False
    for i in range(len(h.call)):
        instruction, value = h.instruction[i], h.value[i]
        if instruction == INCLUDE:
            twice |= m.add[value] >= 0
            m.add[value] = i
        elif instruction == REMOVE:
            twice |= m.remove[value] >= 0
            m.remove[value] = i
            removes = True
        elif h.end[i] == h.never or instruction == PASS:
            continue
        elif instruction == CONTAINS:
            m.seen[value] = earlier(h.end, m.seen[value], i)
            m.seen_last[value] = later(h.call, m.seen_last[value], i)
        elif instruction == LACKS:
            m.missed[value] = later(h.call, m.missed[value], i)
        else:
            reads = True
    return not (twice or (removes and reads)), reads


@inner_in_place
def bound_member(h: PartHistory, m: Members, value: int) -> bool:
    """Set the bounds of a value; False if its operations contradict each other.

    If all that missed the value, and its remove, may precede the add, nothing else is to check. Otherwise the remove
    follows: the add is best at its latest moment, and the remove at its earliest.
    """
    add, remove, seen = m.add[value], m.remove[value], m.seen[value]
    m.high[value] = high = earlier(h.end, add, seen)
    if add < 0:
        return bool(seen < 0)
    m.low[value] = low = later(h.call, add, m.missed[value])
    if seen < 0 and h.end[add] == h.never:
        return True
    if remove >= 0 and h.end[remove] < h.never:
        low = later(h.call, low, remove)
    if h.call[low] < h.end[high]:
        return True
    last_add, first_remove = earlier(h.end, high, remove), later(h.call, remove, m.seen_last[value])
    if remove < 0 or h.end[last_add] < h.call[add] or h.end[remove] < h.call[first_remove]:
        return False
    if h.end[last_add] < h.call[first_remove]:
        m.until[value], m.since[value] = h.end[last_add], h.call[first_remove]
    return True


@inner_in_place
def find_contradiction(h: PartHistory, m: Members) -> tuple[int, int]:
    """A value with operations that contradict each other, and one that missed it while present; -1 for none."""
    for value in range(h.values):
        if not bound_member(h, m, value):
            return value, -1
    for i in range(len(h.call)):
        if h.instruction[i] == LACKS and h.end[i] < h.never:
            value = h.value[i]
            if m.until[value] >= 0 and h.call[i] > m.until[value] and h.end[i] < m.since[value]:
                return value, i
    return -1, -1


@inner
def check_members(h: PartHistory) -> tuple[int, Ints, Members]:
    """Check each value alone. Returns a verdict (-1: the reads of all are left to check), a witness, and the bounds."""
    m = new_members(h.values)
    decidable, reads = collect_members(h, m)
    if not decidable:
        return UNDECIDED, no_witness(), m
    value, missing = find_contradiction(h, m)
    if value < 0:
        return -1 if reads else LINEARIZABLE, no_witness(), m
    if m.add[value] < 0:
        return ILLEGAL, np.array([m.seen[value]], np.int32), m
    own = [m.add[value], m.remove[value], m.seen[value], m.seen_last[value], m.missed[value], missing]
    return ILLEGAL, np.array(own, np.int32), m


@inner
def sort_reads(h: PartHistory, word_start: Ints) -> tuple[Ints, int]:
    """The completed reads by the number of their elements, then by their calls; and one that no set can have, or -1."""
    count, operations = 0, len(h.call)
    keys = np.empty(operations, np.int64)
    for i in range(len(h.call)):
        if h.end[i] == h.never or (h.instruction[i] != IS and h.instruction[i] != NEVER):
            continue
        if h.instruction[i] == NEVER:
            return np.empty(0, np.int32), i
        size = word_start[h.value[i] + 1] - word_start[h.value[i]]
        keys[count] = np.int64(size) * operations + i
        count += 1
    return (np.sort(keys[:count]) % operations).astype(np.int32), -1


@inner
def check_times(h: PartHistory, reads: Ints, lower: Ints, upper: Ints) -> tuple[int, Ints]:
    """Check that the reads have moments in this order, each after the call of `lower` and before the end of `upper`."""
    count = len(reads)
    lower_of, upper_of = np.arange(count), np.arange(count)  # the reads from which these bounds come
    for rank in range(1, count):
        if h.call[lower[rank - 1]] > h.call[lower[rank]]:
            lower[rank], lower_of[rank] = lower[rank - 1], lower_of[rank - 1]
    for rank in range(count - 2, -1, -1):
        if h.end[upper[rank + 1]] < h.end[upper[rank]]:
            upper[rank], upper_of[rank] = upper[rank + 1], upper_of[rank + 1]
    for rank in range(count):
        if h.call[lower[rank]] > h.end[upper[rank]]:
            own = lower[rank], reads[lower_of[rank]], upper[rank], reads[upper_of[rank]]
            return ILLEGAL, np.array(own, np.int32)
    return LINEARIZABLE, no_witness()


@inner
def check_reads(h: PartHistory, m: Members, units: Ints, word_start: Ints, local_of: Ints) -> tuple[int, Ints]:
    """Check reads of all elements of a set that only grows: they come in the order of their sizes.

    A read comes after its own call, the adds of its elements, and everything that must precede the reads before it. It
    comes before the add of every element that it lacks.
    """
    reads, impossible = sort_reads(h, word_start)
    if impossible >= 0:
        return ILLEGAL, np.array([impossible], np.int32)
    count, size_before = len(reads), 0
    first = np.full(h.values, count, np.int32)  # by value: the first read that has it
    lower, upper = reads.copy(), reads.copy()  # the operations that bound the time of the read
    for rank in range(count):
        read = reads[rank]
        word = units[word_start[h.value[read]] : word_start[h.value[read] + 1]]
        added = 0
        for unit in word:
            value = local_of[unit]
            if value < 0 or m.add[value] < 0:
                return ILLEGAL, np.array([read], np.int32)
            if first[value] == count:
                added += 1
                first[value] = rank
                lower[rank] = later(h.call, lower[rank], m.low[value])
        if rank > 0 and added != len(word) - size_before:
            return ILLEGAL, np.array([reads[rank - 1], read], np.int32)
        size_before = len(word)
    for value in range(h.values):
        if first[value] > 0 and m.high[value] >= 0:
            upper[first[value] - 1] = earlier(h.end, upper[first[value] - 1], m.high[value])
    return check_times(h, reads, lower, upper)
