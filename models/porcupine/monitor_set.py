"""Decides unambiguous histories of a set in n log n.

Operations on different values are independent, except reads of all elements. Without such reads each value is decided
alone. With them, the reads of a set that only grows are ordered by their size. If there are removals too, a read counts
as one `contains` of each value: a value whose operations contradict each other proves the history illegal, and without
one it is UNDECIDED. All follows from the model; the tests compare it with the search and with all permutations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner, compiled_inner_without_refcounts
from .machine import CONTAINS, INCLUDE, IS, LACKS, NEVER, PASS, REMOVE
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, earlier, later, no_witness

MAX_PROJECTED = 50_000_000  # values times operations


class Members(NamedTuple):
    """The operations that bound the add and the remove of each value (-1: none), and the time when it is present."""

    add: Int32s
    remove: Int32s
    seen: Int32s  # the first to end of those that found the value
    seen_last: Int32s  # the last to be called of those
    missed: Int32s  # the last to be called of those that did not find it
    low: Int32s  # the add takes effect after the call of this operation
    high: Int32s  # and before the end of this one
    # If it has to be removed after its add: it is certainly present from `until`, the latest time of the add, to
    # `since`, the earliest of the remove. -1 otherwise.
    until: Int32s
    since: Int32s
    twice: Int32s  # an operation that adds or removes the value again: it is not checked
    within: Int32s  # the read of all elements that was looked at last and has the value


class Words(NamedTuple):
    """The elements of reads."""

    units: Int32s  # the concatenated elements, by the encoding's numbers
    start: Int32s  # where those of each read start
    local_of: Int32s  # by the encoding's number: its number in this part; -1: no add, remove or contains has it


@compiled_inner
def new_members(values: int) -> Members:
    """Members without operations."""
    m = np.full((11, values), -1, np.int32)
    return Members(m[0], m[1], m[2], m[3], m[4], m[5], m[6], m[7], m[8], m[9], m[10])


@compiled_inner_without_refcounts
def is_read(h: PartHistory, i: int) -> bool:
    """Whether an operation is a completed read of all elements."""
    return bool(h.end[i] < h.never and (h.instruction[i] == IS or h.instruction[i] == NEVER))


@compiled_inner_without_refcounts
def observe(h: PartHistory, m: Members, i: int, value: int, is_present: bool) -> None:
    """Note that a completed operation found a value, or did not."""
    if is_present:
        m.seen[value] = earlier(h.end, m.seen[value], i)
        m.seen_last[value] = later(h.call, m.seen_last[value], i)
    else:
        m.missed[value] = later(h.call, m.missed[value], i)


@compiled_inner_without_refcounts
def collect_members(h: PartHistory, m: Members) -> tuple[bool, bool, bool]:
    """Note all operations but reads. Returns whether there are reads, removals, and values that are ambiguous."""
    reads = removes = twice = False
    for i in range(len(h.call)):
        instruction, value = h.instruction[i], h.value[i]
        if instruction == INCLUDE or instruction == REMOVE:  # noqa: SIM109 (numba has no `in` for these)
            changes = m.add if instruction == INCLUDE else m.remove
            if changes[value] >= 0:
                m.twice[value] = i
                twice = True
            changes[value] = i
            removes |= instruction == REMOVE
        elif h.end[i] == h.never or instruction == PASS:
            continue
        elif instruction == CONTAINS or instruction == LACKS:  # noqa: SIM109
            observe(h, m, i, value, instruction == CONTAINS)
        else:
            reads = True
    return reads, removes, twice


@compiled_inner_without_refcounts
def mark_elements(h: PartHistory, m: Members, words: Words, i: int) -> bool:
    """Mark the values that a read has; False if no set can have its elements."""
    if h.instruction[i] == NEVER:
        return False
    for place in range(words.start[h.value[i]], words.start[h.value[i] + 1]):
        value = words.local_of[words.units[place]]
        if value < 0:
            return False
        m.within[value] = i
    return True


@compiled_inner_without_refcounts
def project_reads(h: PartHistory, m: Members, words: Words) -> int:
    """Note each read as one `contains` of each value; returns a read that no set can have, or -1."""
    for i in range(len(h.call)):
        if is_read(h, i):
            if not mark_elements(h, m, words, i):
                return i
            for value in range(h.values):
                observe(h, m, i, value, m.within[value] == i)
    return -1


@compiled_inner_without_refcounts
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


@compiled_inner_without_refcounts
def is_missed(h: PartHistory, m: Members, value: int, i: int) -> bool:
    """Whether a value is certainly present during an operation that did not find it."""
    return bool(m.twice[value] < 0 <= m.until[value] < h.call[i] and h.end[i] < m.since[value])


@compiled_inner_without_refcounts
def find_contradiction(h: PartHistory, m: Members, words: Words, projected: bool) -> tuple[int, int]:
    """A value with operations that contradict each other, and one that missed it while present; -1 for none."""
    for value in range(h.values):
        if m.twice[value] < 0 and not bound_member(h, m, value):
            return value, -1
    for i in range(len(h.call)):
        if h.instruction[i] == LACKS and h.end[i] < h.never and is_missed(h, m, h.value[i], i):
            return h.value[i], i
        if projected and is_read(h, i):
            mark_elements(h, m, words, i)
            for value in range(h.values):
                if m.within[value] != i and is_missed(h, m, value, i):
                    return value, i
    return -1, -1


@compiled_inner
def sort_reads(h: PartHistory, words: Words) -> tuple[Int32s, int]:
    """The completed reads by the number of their elements, then by their calls; and one that no set can have, or -1."""
    count, operations = 0, len(h.call)
    keys = np.empty(operations, np.int64)
    for i in range(len(h.call)):
        if not is_read(h, i):
            continue
        if h.instruction[i] == NEVER:
            return np.empty(0, np.int32), i
        size = words.start[h.value[i] + 1] - words.start[h.value[i]]
        keys[count] = np.int64(size) * operations + i
        count += 1
    return (np.sort(keys[:count]) % operations).astype(np.int32), -1


@compiled_inner
def check_times(h: PartHistory, reads: Int32s, lower: Int32s, upper: Int32s) -> tuple[int, Int32s]:
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


@compiled_inner
def check_reads(h: PartHistory, m: Members, words: Words) -> tuple[int, Int32s]:
    """Check reads of all elements of a set that only grows: they come in the order of their sizes.

    A read comes after its own call, the adds of its elements, and everything that must precede the reads before it. It
    comes before the add of every element that it lacks.
    """
    reads, impossible = sort_reads(h, words)
    if impossible >= 0:
        return ILLEGAL, np.array([impossible], np.int32)
    count, size_before = len(reads), 0
    first = np.full(h.values, count, np.int32)  # by value: the first read that has it
    lower, upper = reads.copy(), reads.copy()  # the operations that bound the time of the read
    for rank in range(count):
        read = reads[rank]
        word = words.units[words.start[h.value[read]] : words.start[h.value[read] + 1]]
        added = 0
        for unit in word:
            value = words.local_of[unit]
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


@compiled_inner
def check_set(h: PartHistory, words: Words) -> tuple[int, Int32s]:
    """Check each value alone, then the reads of all elements."""
    m = new_members(h.values)
    reads, removes, twice = collect_members(h, m)
    projected = reads and (removes or twice)
    if projected:
        if h.values * len(h.call) > MAX_PROJECTED:
            return UNDECIDED, no_witness()
        impossible = project_reads(h, m, words)
        if impossible >= 0:
            return ILLEGAL, np.array([impossible], np.int32)
    value, missing = find_contradiction(h, m, words, projected)
    if value < 0:
        if projected or twice:
            return UNDECIDED, no_witness()
        if reads:
            return check_reads(h, m, words)
        return LINEARIZABLE, no_witness()
    if m.add[value] < 0:
        return ILLEGAL, np.array([m.seen[value]], np.int32)
    own = [m.add[value], m.remove[value], m.seen[value], m.seen_last[value], m.missed[value], missing]
    return ILLEGAL, np.array(own, np.int32)
