"""The input of a monitor, the operations of one independent object in columns; and its verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner, compiled_inner_without_refcounts
from .machine import APPEND, CAS, DEQUEUE, DEQUEUE_ANY, POP_ANY, READ

LINEARIZABLE, ILLEGAL, UNDECIDED = range(3)


class PartHistory(NamedTuple):
    """Operations in the order of their calls. Times are indices into the part's events, so no two are equal."""

    instruction: Int32s  # of machine.py
    # The value's number in this part, in the order of the encoding's numbers; the argument if it is not a value.
    value: Int32s
    extra: Int32s  # the second argument
    call: Int32s
    end: Int32s  # `never`: the operation is pending
    origin: Int32s  # the index in the whole history
    never: int
    values: int  # the number of values
    initial: int  # the number of the initial value, -1 if no operation has it


@compiled_inner
def no_witness() -> Int32s:
    """An empty witness, of a history that is not illegal."""
    return np.empty(0, np.int32)


@compiled_inner_without_refcounts
def later(times: Int32s, i: int, j: int) -> int:
    """Whichever of i and j (-1: none) has the later time; i if both are equal."""
    return j if i < 0 or (j >= 0 and times[j] > times[i]) else i


@compiled_inner_without_refcounts
def earlier(times: Int32s, i: int, j: int) -> int:
    """Whichever of i and j (-1: none) has the earlier time; i if both are equal."""
    return j if i < 0 or (j >= 0 and times[j] < times[i]) else i


@compiled_inner
def has_value(instruction: int) -> bool:
    """Whether the first argument of an instruction is a value."""
    takes = instruction >= DEQUEUE and instruction != DEQUEUE_ANY and instruction != POP_ANY
    return bool(READ <= instruction <= APPEND or takes)


@compiled_inner
def select_part(
    events: Int32s, action_of: Int32s, code: Int32s, initial: int, local_of: Int32s, number_of: Int32s
) -> PartHistory:
    """One part of a history. Sets `local_of` of each value (-1 before) to the value's number in this part."""
    never, count = len(events), 0
    for event in events:
        count += event >= 0
    instruction, value, extra = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32)
    call, end = np.empty(count, np.int32), np.full(count, never, np.int32)
    origin, held = np.empty(count, np.int32), np.empty(count, np.int64)
    i = values = 0
    for place in range(never):
        event = events[place]
        if event < 0:
            end[number_of[-1 - event]] = place
            continue
        number_of[event] = i
        origin[i], call[i] = event, place
        action = action_of[event]
        instruction[i], value[i], extra[i] = code[action, 0], code[action, 1], code[action, 2]
        if instruction[i] == CAS:  # of a lock, between its owner and 0, which is free
            value[i] = max(value[i], extra[i])
        if has_value(instruction[i]) and local_of[value[i]] < 0:
            local_of[value[i]] = 0
            held[values] = value[i]
            values += 1
        i += 1
    if values == len(local_of):
        for number in range(values):
            local_of[number] = number
    else:
        ascending = np.sort(held[:values])
        for number in range(values):
            local_of[ascending[number]] = number
    for i in range(count):
        if has_value(instruction[i]):
            value[i] = local_of[value[i]]
    first = local_of[initial] if initial < len(local_of) else -1
    return PartHistory(instruction, value, extra, call, end, origin, never, values, first)
