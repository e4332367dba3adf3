"""Decides unambiguous histories of queues and priority queues in n log n; collects the values of any buffer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner
from .machine import APPEND, DEQUEUE, DEQUEUE_ANY, INSERT, LENGTH, POP, POP_ANY
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, later, no_witness


class Values(NamedTuple):
    """The values of a buffer that were certainly inserted, ascending: operations, and their times."""

    put: Int32s
    take: Int32s  # -1 if never taken
    put_call: Int32s
    put_end: Int32s
    take_call: Int32s
    take_end: Int32s


@compiled_inner
def collect(h: PartHistory):  # type: ignore[no-untyped-def]
    """A verdict (-1: not decided yet), its witness, and the values of a buffer."""
    put, take = np.full(h.values, -1, np.int32), np.full(h.values, -1, np.int32)
    witness = no_witness()
    ambiguous = open_take = False
    for i in range(len(h.call)):
        instruction, value = h.instruction[i], h.value[i]
        done = h.end[i] < h.never
        if instruction == APPEND or instruction == INSERT:  # noqa: SIM109 (numba has no `in` for these)
            ambiguous |= put[value] >= 0
            put[value] = i
        elif instruction == DEQUEUE or instruction == POP:  # noqa: SIM109
            ambiguous |= not done
            if take[value] >= 0:
                witness = np.array([take[value], i], np.int32)
            take[value] = i
        elif instruction == DEQUEUE_ANY or instruction == POP_ANY:  # noqa: SIM109
            ambiguous |= done
            open_take = True
    verdict = UNDECIDED if ambiguous else ILLEGAL if len(witness) > 0 else -1
    certain_values = np.empty(h.values, np.int32)
    count = 0
    for value in range(h.values):
        i, j = put[value], take[value]
        if verdict >= 0 or (i < 0 and j < 0) or (j < 0 and h.end[i] == h.never):
            continue
        if j < 0 and open_take:
            verdict = UNDECIDED
        elif i < 0:
            verdict, witness = ILLEGAL, np.array([j], np.int32)
        elif j >= 0 and h.end[j] < h.call[i]:
            verdict, witness = ILLEGAL, np.array([j, i], np.int32)
        certain_values[count] = value
        count += 1
    if verdict >= 0:
        count = 0
    put, take = put[certain_values[:count]], take[certain_values[:count]]
    take_call, take_end = np.full(count, h.never, np.int32), np.full(count, h.never + 1, np.int32)
    for k in range(count):
        if take[k] >= 0:
            take_call[k], take_end[k] = h.call[take[k]], h.end[take[k]]
    return verdict, witness, Values(put, take, h.call[put], h.end[put], take_call, take_end)


@compiled_inner
def certain(v: Values, never: int) -> Int32s:
    """The number of values that are certainly present from each time until the next."""
    cover = np.zeros(never + 2, np.int32)
    for k in range(len(v.put)):
        if v.put_end[k] < v.take_call[k]:
            cover[v.put_end[k]] += 1
            cover[v.take_call[k]] -= 1
    for time in range(1, len(cover)):
        cover[time] += cover[time - 1]
    return cover


@compiled_inner
def covering_operations(v: Values, above: int, low: int, high: int, never: int) -> Int32s:
    """The operations of the fewest values > `above` such that, from low to high, at least one is certainly present."""
    last = np.full(never + 1, -1, np.int32)
    for k in range(above + 1, len(v.put)):
        last[v.put_end[k]] = k
    chain = np.empty(2 * len(v.put), np.int32)
    length, time, best, reached = 0, 0, -1, low
    while reached < high and time <= reached:
        best = later(v.take_call, best, last[time])
        if time == reached and best >= 0:
            if v.take_call[best] <= reached:
                break
            chain[length] = v.put[best]
            length += 1
            if v.take[best] >= 0:
                chain[length] = v.take[best]
                length += 1
            reached = v.take_call[best]
        time += 1
    return chain[:length]


@compiled_inner
def find_never_empty(h: PartHistory, v: Values, cover: Int32s) -> Int32s:
    """The witness against an operation that found the buffer empty while values were certainly present."""
    empty = np.zeros(len(cover) + 1, np.int32)
    for time in range(len(cover)):
        empty[time + 1] = empty[time] + (cover[time] == 0)
    for i in range(len(h.call)):
        found_empty = h.instruction[i] == LENGTH and h.end[i] < h.never
        if found_empty and empty[h.end[i]] == empty[h.call[i]]:
            return np.append(covering_operations(v, -1, h.call[i], h.end[i], h.never), np.int32(i)).astype(np.int32)
    return no_witness()


@compiled_inner
def check_queue(v: Values, never: int) -> tuple[int, Int32s]:
    """First in, first out: no value is taken before another that was certainly put earlier."""
    called, ended = np.full(never + 1, -1, np.int32), np.full(never + 1, -1, np.int32)
    for k in range(len(v.put)):
        called[v.put_call[k]] = k
        ended[v.put_end[k]] = k
    slowest = -1
    for time in range(never):
        slowest = later(v.take_call, slowest, ended[time])
        k = called[time]
        if k >= 0 and slowest >= 0 and v.take_end[k] < v.take_call[slowest]:
            return ILLEGAL, np.array([v.put[slowest], v.put[k], v.take[k], v.take[slowest]], np.int32)
    return LINEARIZABLE, no_witness()


@compiled_inner
def root_of(free: Int32s, time: int) -> int:
    """The first uncovered time at or after this one (union-find with path compression)."""
    root = time
    while free[root] != root:
        root = free[root]
    while free[time] != root:
        free[time], time = root, free[time]
    return root


@compiled_inner
def check_priority_queue(v: Values, never: int) -> tuple[int, Int32s]:
    """Each take needs a moment at which no value of higher priority is certainly present.

    That suffices: at a moment when no value is certainly present, each may be moved before or after it, so the
    buffer is empty there and the rest stays legal. Values ascend with the priority. `free` links a time to the next one
    that is not covered yet.
    """
    free = np.arange(never + 2).astype(np.int32)
    for k in range(len(v.put) - 1, -1, -1):
        if v.take[k] >= 0:
            time = max(v.take_call[k], v.put_call[k])
            if root_of(free, time) >= v.take_end[k]:
                chain = covering_operations(v, k, time, v.take_end[k], never)
                return ILLEGAL, np.append(chain, np.array([v.put[k], v.take[k]], np.int32)).astype(np.int32)
        time = root_of(free, v.put_end[k])
        while time < v.take_call[k]:
            free[time] = time + 1
            time = root_of(free, time + 1)
    return LINEARIZABLE, no_witness()
