"""Decides unambiguous histories of common objects in n log n, without a search.

A history is unambiguous if no two operations insert the same value, so that it is known which insertion each answer
speaks of. Times are places among all events, so that no two are equal. Of a value, `put` is the insertion and `take`
the removal; it is certainly present from the end of `put` to the call of `take`. Every monitor answers UNDECIDED where
the history is ambiguous, or operations of unknown outcome leave a choice; then the search decides.

Sources: registers, Gibbons and Korach, "Testing shared memories" (1997). Queues, the four bad patterns of Henzinger,
Sezgin and Vafeiadis (CONCUR 2013). Stacks and priority queues, decrease and conquer after Lee and Mathur (OOPSLA 2025,
arXiv 2410.04581), as derived in each function. Tests compare all of them with the search on tiny histories.
"""

from __future__ import annotations

import numpy as np

from ..compiled import Ints, compiled
from .machine import LOG, PASS, QUEUE, READ, REGISTER, STACK, WRITE, Machine
from .monitor_buffers import certain, check_priority_queue, check_queue, collect, find_never_empty
from .monitor_log import check_log, place_appends
from .monitor_stack import check_stack
from .spans import ILLEGAL, LINEARIZABLE, UNDECIDED, Spans


@compiled
def check_register(
    events: Ints, spans: Spans, action_of: Ints, code: Ints, values: int, initial: int, witness: Ints
) -> int:
    """A write and its reads form a zone: from their first end to their last call, or the other way round.

    A forward zone (first end before last call) has to hold its value throughout, so that two must not overlap; the
    operations of a backward one need only a point in common, outside of all forward ones.
    """
    writer, first, last = np.full(values, -1, np.int32), np.full(values, -1, np.int32), np.full(values, -1, np.int32)
    for i in events:
        if i < 0:
            continue
        instruction, value = code[action_of[i], 0], code[action_of[i], 1]
        if instruction == WRITE:
            if writer[value] >= 0 or value == initial:
                return UNDECIDED
            writer[value] = i
        elif instruction == READ:
            if spans.end[i] < spans.never:
                if first[value] < 0 or spans.end[i] < spans.end[first[value]]:
                    first[value] = i
                if last[value] < 0 or spans.call[i] > spans.call[last[value]]:
                    last[value] = i
        elif instruction != PASS:
            return UNDECIDED
    starts = np.full(len(events) + 1, -1, np.int32)  # the zone that starts at a time, by its value; 0 is before all
    for value in range(values):
        write, read = writer[value], first[value]
        if read < 0 and (write < 0 or spans.end[write] == spans.never):
            continue
        if value == initial:
            starts[0] = value
            continue
        if write < 0:
            witness[0] = read
            return ILLEGAL
        if read >= 0 and spans.end[read] < spans.call[write]:
            witness[0], witness[1] = read, write
            return ILLEGAL
        if read < 0 or spans.end[write] < spans.end[read]:
            first[value] = write
        if read < 0 or spans.call[write] > spans.call[last[value]]:
            last[value] = write
        starts[1 + min(spans.end[first[value]], spans.call[last[value]])] = value
    holder = -1  # the value of the forward zone that started last
    for started in starts:
        value = int(started)
        if value < 0:
            continue
        if holder >= 0 and spans.call[last[holder]] > spans.end[first[value]]:
            witness[0], witness[1] = first[holder], last[holder]
            witness[2], witness[3] = first[value], last[value]
            return ILLEGAL
        if value == initial or spans.end[first[value]] < spans.call[last[value]]:
            holder = value
    return LINEARIZABLE


@compiled
def check_buffer(kind: int, events: Ints, spans: Spans, action_of: Ints, code: Ints, values: int, witness: Ints) -> int:
    """A queue, a stack or a priority queue."""
    verdict, v = collect(events, spans, action_of, code, values, witness)
    if verdict >= 0:
        return int(verdict)
    witness[0] = find_never_empty(events, spans, action_of, code, certain(v, spans.never))
    if witness[0] >= 0:
        return ILLEGAL
    if kind == QUEUE:
        return check_queue(v, spans.never, witness)
    if kind == STACK:
        return check_stack(v, spans.never)
    return check_priority_queue(v, spans.never, witness)


@compiled
def monitor(
    kind: int, events: Ints, action_of: Ints, machine: Machine, values: int, initial: int, call: Ints, end: Ints
) -> tuple[int, Ints]:
    """The verdict on one part, and up to four operations that show an illegal one, filled up with -1.

    `call` and `end` are scratch by operation, `values` is how many values the machine's code numbers.
    """
    witness = np.full(4, -1, np.int32)
    code, never = machine.code, len(events)
    for place in range(never):
        i = events[place]
        if i >= 0:
            call[i], end[i] = place, never
        else:
            end[-1 - i] = place
    spans = Spans(call, end, never)
    if kind == REGISTER:
        return check_register(events, spans, action_of, code, values, initial, witness), witness
    if kind != LOG:
        return check_buffer(kind, events, spans, action_of, code, values, witness), witness
    position = np.empty(len(action_of), np.int32)
    length, verdict = place_appends(
        events, spans, action_of, code, values, machine.units, machine.word_start, position, witness
    )
    if verdict < 0:
        verdict = check_log(events, spans, action_of, code, position, length, witness)
    return verdict, witness


@compiled
def monitor_parts(
    kind: int, events: Ints, starts: Ints, chosen: Ints, action_of: Ints, machine: Machine, values: int, initial: int
) -> tuple[Ints, Ints]:
    """`monitor` for each chosen part, until one is illegal: verdicts, and the witness of the last."""
    verdicts = np.full(len(chosen), UNDECIDED, np.int32)
    call, end = np.empty(len(action_of), np.int32), np.empty(len(action_of), np.int32)
    witness = np.full(4, -1, np.int32)
    for place in range(len(chosen)):
        part = chosen[place]
        verdicts[place], witness = monitor(
            kind, events[starts[part] : starts[part + 1]], action_of, machine, values, initial, call, end
        )
        if verdicts[place] == ILLEGAL:
            break
    return verdicts, witness
