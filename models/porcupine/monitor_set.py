"""Decides unambiguous histories of a set in n log n.

Operations on different values are independent, except reads of all elements. Without such reads each value is decided
alone. With them, histories with removals are UNDECIDED, and the reads are ordered by their size.
"""

from __future__ import annotations

import numpy as np

from ..compiled import Ints, compiled
from .machine import CONTAINS, INCLUDE, IS, LACKS, NEVER, PASS, REMOVE
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, no_witness


@compiled
def later(times: Ints, i: int, j: int) -> int:
    """Whichever of two operations (-1: none) has the later time."""
    return j if i < 0 or (j >= 0 and times[j] > times[i]) else i


@compiled
def earlier(times: Ints, i: int, j: int) -> int:
    """Whichever of two operations (-1: none) has the earlier time."""
    return j if i < 0 or (j >= 0 and times[j] < times[i]) else i


@compiled
def check_members(h: PartHistory) -> tuple[int, Ints, Ints, Ints]:
    """Check each value alone. Returns a verdict (-1: the reads of all are left to check), a witness, and `low`, `high`.

    The add of a value takes effect after the call of its `low` and before the end of its `high`. Some values must be
    removed after an operation found them: their add is best at its latest and their remove at its earliest moment. Then
    an operation that did not find the value must fit before the add or after the remove, unless both may coincide.
    """
    nothing = no_witness()
    add, remove = np.full(h.values, -1, np.int32), np.full(h.values, -1, np.int32)
    seen, seen_last = np.full(h.values, -1, np.int32), np.full(h.values, -1, np.int32)
    missed, high = np.full(h.values, -1, np.int32), np.full(h.values, -1, np.int32)
    ambiguous = removes = reads = False
    for i in range(len(h.call)):
        instruction, value = h.instruction[i], h.value[i]
        if instruction == INCLUDE:
            ambiguous |= add[value] >= 0
            add[value] = i
        elif instruction == REMOVE:
            ambiguous |= remove[value] >= 0
            remove[value] = i
            removes = True
        elif h.end[i] == h.never or instruction == PASS:
            continue
        elif instruction == CONTAINS:
            seen[value] = earlier(h.end, seen[value], i)
            seen_last[value] = later(h.call, seen_last[value], i)
        elif instruction == LACKS:
            missed[value] = later(h.call, missed[value], i)
        else:
            reads = True
    if ambiguous or (removes and reads):
        return UNDECIDED, nothing, missed, high
    # Of values that are removed after they were added: the latest time of the add, and the earliest of the remove.
    until, since = np.full(h.values, -1, np.int32), np.full(h.values, -1, np.int32)
    for value in range(h.values):
        i, j = add[value], remove[value]
        high[value] = earlier(h.end, i, seen[value])
        if i < 0:
            if seen[value] >= 0:
                return ILLEGAL, np.array([seen[value]], np.int32), missed, high
            missed[value] = -1
            continue
        if seen[value] < 0 and h.end[i] == h.never:
            missed[value] = later(h.call, i, missed[value])
            continue
        before = later(h.call, i, missed[value])
        if j >= 0 and h.end[j] < h.never:
            before = later(h.call, before, j)
        if h.call[before] < h.end[high[value]]:
            missed[value] = before
            continue
        last_add, first_remove = earlier(h.end, high[value], j), later(h.call, j, seen_last[value])
        if j < 0 or h.end[last_add] < h.call[i] or h.end[j] < h.call[first_remove]:
            return ILLEGAL, np.array([i, j, seen[value], seen_last[value], missed[value]], np.int32), missed, high
        if h.end[last_add] < h.call[first_remove]:
            until[value], since[value] = h.end[last_add], h.call[first_remove]
    for i in range(len(h.call)):
        value = h.value[i]
        if h.instruction[i] != LACKS or h.end[i] == h.never or until[value] < 0:
            continue
        if h.call[i] > until[value] and h.end[i] < since[value]:
            witness = np.array([add[value], remove[value], seen[value], seen_last[value], missed[value], i], np.int32)
            return ILLEGAL, witness, missed, high
    return -1 if reads else LINEARIZABLE, nothing, missed, high


@compiled
def check_reads(
    h: PartHistory, low: Ints, high: Ints, units: Ints, word_start: Ints, local_of: Ints
) -> tuple[int, Ints]:
    """Check reads of all elements of a set that only grows: they come in the order of their sizes.

    A read comes after its own call, the adds of its elements, and everything that must precede the reads before it. It
    comes before the add of every element that it lacks. `low` and `high` bound the adds.
    """
    count = 0
    chosen, keys = np.empty(len(h.call), np.int32), np.empty(len(h.call), np.int64)
    for i in range(len(h.call)):
        if h.end[i] == h.never or (h.instruction[i] != IS and h.instruction[i] != NEVER):
            continue
        if h.instruction[i] == NEVER:
            return ILLEGAL, np.array([i], np.int32)
        size = word_start[h.value[i] + 1] - word_start[h.value[i]]
        chosen[count], keys[count] = i, np.int64(size) * (h.never + 1) + h.call[i]
        count += 1
    reads = chosen[np.argsort(keys[:count])]
    first = np.full(h.values, count, np.int32)  # by value: the first read that has it
    lower, upper = reads.copy(), reads.copy()  # the operations that bound the time of the read
    for rank in range(count):
        read = reads[rank]
        word = units[word_start[h.value[read]] : word_start[h.value[read] + 1]]
        added = 0
        for unit in word:
            value = local_of[unit]
            if value < 0 or low[value] < 0:
                return ILLEGAL, np.array([read], np.int32)
            if first[value] == count:
                added += 1
                first[value] = rank
                lower[rank] = later(h.call, lower[rank], low[value])
        if rank > 0:
            before = reads[rank - 1]
            more = len(word) - (word_start[h.value[before] + 1] - word_start[h.value[before]])
            if added != more:
                return ILLEGAL, np.array([before, read], np.int32)
    for value in range(h.values):
        if first[value] > 0 and high[value] >= 0:
            upper[first[value] - 1] = earlier(h.end, upper[first[value] - 1], high[value])
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
