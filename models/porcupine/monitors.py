"""Decides unambiguous histories of common objects in n log n, without a search.

A history is unambiguous if no two operations insert the same value, so each result identifies one insertion. Of a
value, `put` is the insertion and `take` the removal; it is certainly present from the end of `put` to the call of
`take`. Appends to a map may repeat values (monitor_appends.py). A monitor returns UNDECIDED if the history is ambiguous
or pending operations leave a choice; then the search decides. For an illegal history it returns a witness: a few
operations that contradict each other, whatever the others did.

Sources: registers, Gibbons and Korach, "Testing shared memories" (1997). Queues, the four bad patterns of Henzinger,
Sezgin and Vafeiadis (CONCUR 2013). Stacks and priority queues, decrease and conquer after Lee and Mathur (OOPSLA 2025,
arXiv 2410.04581), as derived in each function. Tests compare all of them with the search on tiny histories.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled, compiled_inner
from .history import History
from .machine import CAS, CONTENTS, LOCK, LOG, PASS, QUEUE, READ, REGISTER, SET, STACK, WRITE, Machine
from .monitor_appends import check_appends
from .monitor_buffers import certain, check_priority_queue, check_queue, collect, find_never_empty
from .monitor_log import check_log
from .monitor_set import Words, check_set
from .monitor_stack import check_stack
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, earlier, later, no_witness, select_part


@compiled_inner
def check_register(h: PartHistory) -> tuple[int, Int32s]:
    """Compare zones: the zone of a write and its reads lies between their first end and their last call.

    In a forward zone (first end before last call) the register has the value throughout, so no two may overlap. The
    operations of a backward zone need one common point in time, outside of all forward zones.
    """
    nothing = no_witness()
    writer, first = np.full(h.values, -1, np.int32), np.full(h.values, -1, np.int32)
    last = np.full(h.values, -1, np.int32)
    for i in range(len(h.call)):
        instruction, value = h.instruction[i], h.value[i]
        if instruction == WRITE:
            if writer[value] >= 0 or value == h.initial:
                return UNDECIDED, nothing
            writer[value] = i
        elif instruction == READ and h.end[i] < h.never:
            first[value] = earlier(h.end, first[value], i)
            last[value] = later(h.call, last[value], i)
        elif instruction != READ and instruction != PASS:
            return UNDECIDED, nothing
    starts = np.full(h.never + 1, -1, np.int32)  # by time + 1: the value whose zone starts then; 0 is before all
    for value in range(h.values):
        write, read = writer[value], first[value]
        if read < 0 and (write < 0 or h.end[write] == h.never):
            continue
        if value == h.initial:
            starts[0] = value
            continue
        if write < 0:
            return ILLEGAL, np.array([read], np.int32)
        if read >= 0 and h.end[read] < h.call[write]:
            return ILLEGAL, np.array([read, write], np.int32)
        first[value], last[value] = earlier(h.end, read, write), later(h.call, last[value], write)
        starts[1 + min(h.end[first[value]], h.call[last[value]])] = value
    holder = -1  # the value of the forward zone that started last
    for started in starts:
        value = int(started)
        if value < 0:
            continue
        if holder >= 0 and h.call[last[holder]] > h.end[first[value]]:
            return ILLEGAL, np.array([first[holder], last[holder], first[value], last[value]], np.int32)
        if value == h.initial or h.end[first[value]] < h.call[last[value]]:
            holder = value
    return LINEARIZABLE, nothing


@compiled_inner
def check_lock(h: PartHistory) -> tuple[int, Int32s]:
    """Between the end of an acquire and the call of its release, no other owner holds the lock.

    That suffices if each owner does one operation at a time: each may acquire just before this interval and release
    just after it. Otherwise the history is UNDECIDED.
    """
    nothing = no_witness()
    last = np.full(h.values, -1, np.int32)  # by owner: the operation called last
    held = np.full(h.never + 1, -1, np.int32)  # by the end of an acquire: the acquire
    release = np.full(len(h.call), -1, np.int32)
    for i in range(len(h.call)):  # all of them before any verdict: a later operation may overlap an earlier one
        before = last[h.value[i]]
        if h.instruction[i] != CAS or (before >= 0 and h.end[before] > h.call[i]):
            return UNDECIDED, nothing
        last[h.value[i]] = i
    last[:] = -1
    for i in range(len(h.call)):
        owner = h.value[i]
        before = last[owner]
        last[owner] = i
        acquires = h.extra[i] != 0
        follows = before >= 0 and h.extra[before] != 0
        if h.end[i] < h.never and acquires and follows:
            return ILLEGAL, np.array([before, i], np.int32)
        if not acquires and follows:
            release[before] = i
        elif not acquires and h.end[i] < h.never:
            return ILLEGAL, np.array([before, i], np.int32)
        if acquires and h.end[i] < h.never:
            held[h.end[i]] = i
    holder = -1
    for acquire in held:
        if acquire < 0:
            continue
        if holder >= 0 and (release[holder] < 0 or h.call[release[holder]] > h.end[acquire]):
            return ILLEGAL, np.array([holder, release[holder], acquire], np.int32)
        holder = int(acquire)
    return LINEARIZABLE, nothing


@compiled_inner
def check_buffer(kind: int, h: PartHistory) -> tuple[int, Int32s]:
    """Check a queue, a stack or a priority queue."""
    verdict, witness, v = collect(h)
    if verdict >= 0:
        return verdict, witness
    witness = find_never_empty(h, v, certain(v, h.never))
    if len(witness) > 0:
        return ILLEGAL, witness
    if kind == QUEUE:
        return check_queue(v, h.never)
    if kind == STACK:
        return check_stack(v, h.never)
    return check_priority_queue(v, h.never)


@compiled_inner
def monitor(kind: int, h: PartHistory, machine: Machine, local_of: Int32s) -> tuple[int, Int32s]:
    """The verdict on one part, and the witness of an illegal one."""
    if kind == REGISTER:
        return check_register(h)
    if kind == LOCK:
        return check_lock(h)
    if kind == SET:
        return check_set(h, Words(machine.units, machine.word_start, local_of))
    if kind == LOG:
        return check_log(h, machine.units, machine.word_start, local_of)
    if kind == CONTENTS:
        return check_appends(h, machine.units, machine.word_start, local_of)
    return check_buffer(kind, h)


@compiled
def monitor_parts(
    history: History, starts: Int32s, chosen: Int32s, kind: int, machine: Machine, initial: int, values: int
) -> tuple[Int32s, Int32s]:
    """The verdicts on the chosen parts until one is illegal, and its witness.

    `history.events` are sorted by part, and `starts` has the first one of each. `values` is the number of values in the
    code.
    """
    verdicts = np.full(len(chosen), UNDECIDED, np.int32)
    local_of, number_of = np.full(values, -1, np.int32), np.empty(len(history.action_of), np.int32)
    witness = no_witness()
    for place in range(len(chosen)):
        part = chosen[place]
        own = history.events[starts[part] : starts[part + 1]]
        h = select_part(own, history.action_of, machine.code, initial, local_of, number_of)
        verdicts[place], found = monitor(kind, h, machine, local_of)
        if verdicts[place] == ILLEGAL:
            witness = h.origin[found[found >= 0]]
            break
        for i in h.origin if len(chosen) > 1 else h.origin[:0]:
            for column in range(1, 3):
                value = machine.code[history.action_of[i], column]
                if 0 <= value < values:
                    local_of[value] = -1
    return verdicts, witness
