"""A short search of many independent objects in one call of compiled code."""

from __future__ import annotations

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled, compiled_inner_without_refcounts
from .history import History
from .layout import lay_out, trace
from .machine import Machine, step, with_room
from .search_kernel import EXHAUSTED, FOUND, FULL, PAUSED, search
from .search_state import BEST, COUNT, FUEL, enlarge, full_rows, new_search
from .trie import NOT_KNOWN, copy_into

MAX_ROOM = 1 << 18  # rows of an array of a short search


@compiled_inner_without_refcounts
def place_by_ends(events: Int32s, action_of: Int32s, machine: Machine, initial: int, order: Int32s) -> int:
    """Linearize the completed operations in the order of their ends, without the pending ones.

    That order never contradicts real time, and decides most histories with few concurrent operations. Returns FOUND;
    EXHAUSTED if a result does not fit and no operations overlapped before it; PAUSED if a search has to decide.
    """
    state, placed, running, overlap = initial, 0, 0, False
    for event in events:
        if event >= 0:
            running += 1
            overlap |= running > 1
            continue
        running -= 1
        stepped = step(machine, state, action_of[-1 - event])
        if stepped < 0:
            return PAUSED if overlap or stepped == NOT_KNOWN else EXHAUSTED
        order[placed] = -1 - event
        state = stepped
        placed += 1
    return FOUND


@compiled
def search_parts(history: History, starts: Int32s, instructions: Machine, initial: int, chosen: Int32s, fuel: int):  # type: ignore[no-untyped-def]
    """Search the chosen parts of a history, each with `fuel` candidates, until one is illegal.

    `history.events` are sorted by part; `starts` has the first one of each part. Returns the illegal part (-1: none);
    by part whether a linearization was found, and the number of configurations (0 if it was not searched); and the
    concatenated linearizations, with the start of each.
    """
    action_of, observes, events = history
    illegal = -1
    is_found = np.zeros(len(chosen), np.bool_)
    configurations = np.zeros(len(chosen), np.int64)
    order_starts = np.zeros(len(chosen) + 1, np.int64)
    events_chosen = 0
    for part in chosen:
        events_chosen += starts[part + 1] - starts[part]
    orders = np.empty(events_chosen, np.int32)
    machine = with_room(instructions, 4 * events_chosen + 64)
    number_of, class_of = np.empty(len(action_of), np.int32), np.full(len(observes), -1, np.int32)
    for place in range(len(chosen)):
        part = chosen[place]
        own = events[starts[part] : starts[part + 1]]
        stop = order_starts[place]
        outcome = place_by_ends(own, action_of, machine, initial, orders[stop:])
        if outcome == FOUND:
            for event in own:
                configurations[place] += event < 0
            stop += configurations[place]
        elif outcome == PAUSED:
            layout = lay_out(own, action_of, number_of, class_of)
            s = new_search(layout, machine, observes, initial, class_of)
            s.registers[FUEL] = fuel
            outcome = search(s)
            while outcome == FULL and 2 * full_rows(s) <= MAX_ROOM:
                s = enlarge(s)
                outcome = search(s)
            machine = s.machine
            configurations[place] = s.registers[COUNT]
            if outcome == FOUND:
                order = trace(s.configs, s.registers[BEST], layout.number, layout.class_start, layout.member)
                copy_into(orders[stop:], order)
                stop += len(order)
        order_starts[place + 1] = stop
        is_found[place] = outcome == FOUND
        if outcome == EXHAUSTED:
            illegal = int(part)
            break
    return illegal, is_found, configurations, orders, order_starts
