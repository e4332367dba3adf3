"""Decides unambiguous histories of a stack in n log n."""

from __future__ import annotations

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner
from .monitor_buffers import Values, covering_operations
from .part_history import ILLEGAL, LINEARIZABLE, later, no_witness


@compiled_inner
def add_cover(least: Int32s, added: Int32s, low: int, high: int, by: int) -> None:
    """Add `by` to the cover of the times low..high-1, in a segment tree of sums with the least of each subtree."""
    size = len(least) // 2
    left, right = low + size, high + size
    first, last = left, right - 1
    while left < right:
        if left & 1:
            least[left] += by
            added[left] += by
            left += 1
        if right & 1:
            right -= 1
            least[right] += by
            added[right] += by
        left //= 2
        right //= 2
    for node in (first // 2, last // 2):
        while node >= 1:
            least[node] = min(least[2 * node], least[2 * node + 1]) + added[node]
            node //= 2


@compiled_inner
def is_covered(added: Int32s, time: int) -> bool:
    """Whether a time is covered."""
    node, total = time + len(added) // 2, 0
    while node >= 1:
        total += added[node]
        node //= 2
    return total > 0


@compiled_inner
def next_uncovered(least: Int32s, added: Int32s, time: int) -> int:
    """The first uncovered time at or after this one; there must be one."""
    size = len(least) // 2
    node = time + size
    above = 0
    up = node // 2
    while up >= 1:
        above += added[up]
        up //= 2
    while least[node] + above > 0:
        while node & 1:
            node //= 2
            above -= added[node]
        node += 1
    while node < size:
        above += added[node]
        node *= 2
        if least[node] + above > 0:
            node += 1
    return node - size


@compiled_inner
def set_latest(latest: Int32s, end: Int32s, place: int, k: int) -> None:
    """Set the value (or -1) at an index of a segment tree of the values that are taken last."""
    node = place + len(latest) // 2
    latest[node] = k
    node //= 2
    while node >= 1:
        latest[node] = later(end, latest[2 * node], latest[2 * node + 1])
        node //= 2


@compiled_inner
def find_latest(latest: Int32s, end: Int32s, low: int, high: int) -> int:
    """The value at the indices low..high-1 that is taken last, or -1."""
    size = len(latest) // 2
    left, right, best = low + size, high + size, -1
    while left < right:
        if left & 1:
            best = later(end, best, latest[left])
            left += 1
        if right & 1:
            right -= 1
            best = later(end, best, latest[right])
        left //= 2
        right //= 2
    return int(best)


@compiled_inner
def check_stack(v: Values, never: int) -> tuple[int, Int32s]:
    """Last in, first out: repeatedly remove the bottom value of each interval in which the stack cannot be empty.

    A time is covered if a value is certainly present. At an uncovered time the stack may be empty: each value may be
    taken before it or put after it. Throughout a covered interval the stack is not empty, so one value is at its bottom
    all the time: it can be put before, and taken after, every other value of the interval has to be. If several values
    can, any of them may be moved to the bottom; if none can, the history is illegal, and the few values that cover the
    interval are the witness. A value whose put and take overlap may come and go at one moment, so it is left out.
    """
    size = 2
    while size < never + 2:
        size *= 2
    least, added = np.zeros(2 * size, np.int32), np.zeros(2 * size, np.int32)
    latest = np.full(2 * size, -1, np.int32)
    called = np.full(never + 1, -1, np.int32)
    left = 0
    is_left = v.put_end < v.take_call
    for k in range(len(v.put)):
        if v.put_end[k] < v.take_call[k]:
            add_cover(least, added, v.put_end[k], v.take_call[k], 1)
            called[v.put_call[k]] = k
            left += 1
    start = entered = 0
    while left > 0:
        while not is_covered(added, start):
            start += 1
        stop = next_uncovered(least, added, start)
        while entered < start:
            if called[entered] >= 0:
                set_latest(latest, v.take_end, v.put_end[called[entered]], called[entered])
            entered += 1
        k = find_latest(latest, v.take_end, start, stop)
        if k < 0 or v.take_end[k] < stop:
            rest = np.flatnonzero(is_left)
            others = Values(
                v.put[rest], v.take[rest], v.put_call[rest], v.put_end[rest], v.take_call[rest], v.take_end[rest]
            )
            return ILLEGAL, covering_operations(others, -1, start, stop, never)
        set_latest(latest, v.take_end, v.put_end[k], -1)
        add_cover(least, added, v.put_end[k], v.take_call[k], -1)
        is_left[k] = False
        left -= 1
    return LINEARIZABLE, no_witness()
