"""Decides unambiguous histories of queues and priority queues in n log n; collects the values of any buffer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import Ints, compiled
from .machine import APPEND, DEQUEUE, DEQUEUE_ANY, INSERT, LENGTH, POP, POP_ANY
from .spans import ILLEGAL, LINEARIZABLE, UNDECIDED, Spans


class Values(NamedTuple):
    """The values of a buffer that were certainly inserted, by label: operations, and their times."""

    label: Ints
    put: Ints
    take: Ints  # -1 if never taken
    put_call: Ints
    put_end: Ints
    take_call: Ints
    take_end: Ints


@compiled
def collect(events: Ints, spans: Spans, action_of: Ints, code: Ints, values: int, witness: Ints):  # type: ignore[no-untyped-def]
    """The values of a buffer, by label, and a verdict where that is known already, else -1."""
    put, take = np.full(values, -1, np.int32), np.full(values, -1, np.int32)
    ambiguous = open_take = False
    for i in events:
        if i < 0:
            continue
        instruction, value = code[action_of[i], 0], code[action_of[i], 1]
        done = spans.end[i] < spans.never
        if instruction == APPEND or instruction == INSERT:  # noqa: SIM109 (numba has no `in` for these)
            ambiguous |= put[value] >= 0
            put[value] = i
        elif instruction == DEQUEUE or instruction == POP:  # noqa: SIM109
            ambiguous |= not done
            if take[value] >= 0:
                witness[0], witness[1] = take[value], i
            take[value] = i
        elif instruction == DEQUEUE_ANY or instruction == POP_ANY:  # noqa: SIM109
            ambiguous |= done
            open_take = True
    verdict = UNDECIDED if ambiguous else ILLEGAL if witness[0] >= 0 else -1
    labels = np.empty(values, np.int32)
    count = 0
    for value in range(values):
        i, j = put[value], take[value]
        if verdict >= 0 or (i < 0 and j < 0) or (j < 0 and spans.end[i] == spans.never):
            continue
        if j < 0 and open_take:
            verdict = UNDECIDED
        elif i < 0 or (j >= 0 and spans.end[j] < spans.call[i]):
            witness[0], witness[1] = j, i
            verdict = ILLEGAL
        labels[count] = value
        count += 1
    labels = labels[:count]
    put, take = put[labels], take[labels]
    take_call, take_end = np.full(count, spans.never, np.int32), np.full(count, spans.never + 1, np.int32)
    if verdict < 0:
        for k in range(count):
            if take[k] >= 0:
                take_call[k], take_end[k] = spans.call[take[k]], spans.end[take[k]]
    return verdict, Values(labels, put, take, spans.call[put], spans.end[put], take_call, take_end)


@compiled
def certain(v: Values, never: int) -> Ints:
    """How many values are certainly present between a time and the next."""
    cover = np.zeros(never + 2, np.int32)
    for k in range(len(v.put)):
        if v.put_end[k] < v.take_call[k]:
            cover[v.put_end[k]] += 1
            cover[v.take_call[k]] -= 1
    return np.cumsum(cover).astype(np.int32)


@compiled
def find_never_empty(events: Ints, spans: Spans, action_of: Ints, code: Ints, cover: Ints) -> int:
    """An operation that found the buffer empty while a value was certainly present at every moment; else -1."""
    empty = np.zeros(len(cover) + 1, np.int32)
    for time in range(len(cover)):
        empty[time + 1] = empty[time] + (cover[time] == 0)
    for i in events:
        found_empty = i >= 0 and code[action_of[i], 0] == LENGTH and spans.end[i] < spans.never
        if found_empty and empty[spans.end[i]] == empty[spans.call[i]]:
            return int(i)
    return -1


@compiled
def check_queue(v: Values, never: int, witness: Ints) -> int:
    """First in, first out: none is taken before one that was certainly put before it is."""
    called, ended = np.full(never + 1, -1, np.int32), np.full(never + 1, -1, np.int32)
    for k in range(len(v.put)):
        called[v.put_call[k]] = k
        ended[v.put_end[k]] = k
    slowest = -1
    for time in range(never):
        k = ended[time]
        if k >= 0 and (slowest < 0 or v.take_call[k] > v.take_call[slowest]):
            slowest = k
        k = called[time]
        if k >= 0 and slowest >= 0 and v.take_end[k] < v.take_call[slowest]:
            witness[0], witness[1], witness[2], witness[3] = v.put[slowest], v.put[k], v.take[k], v.take[slowest]
            return ILLEGAL
    return LINEARIZABLE


@compiled
def check_priority_queue(v: Values, never: int, witness: Ints) -> int:
    """Each take needs a moment at which no value of higher priority is certainly present.

    That is enough: at a moment at which none is, all values may be moved before it or after it, so that the buffer is
    empty there, and what is legal stays so. Labels ascend with the priority. `free` leads from a time to the next one
    that is not covered yet.
    """
    free = np.arange(never + 2).astype(np.int32)
    for k in range(len(v.put) - 1, -1, -1):
        if v.take[k] >= 0:
            time = max(v.take_call[k], v.put_call[k])
            root = time
            while free[root] != root:
                root = free[root]
            while free[time] != root:
                free[time], time = root, free[time]
            if root >= v.take_end[k]:
                witness[0], witness[1] = v.put[k], v.take[k]
                return ILLEGAL
        time = v.put_end[k]
        while time < v.take_call[k]:
            root = time
            while free[root] != root:
                root = free[root]
            if root >= v.take_call[k]:
                break
            free[root] = root + 1
            time = root + 1
    return LINEARIZABLE
