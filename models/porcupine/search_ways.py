"""Which operations may be next in the compiled search, and which of them is tried first."""

from __future__ import annotations

from ..compiled import inner_in_place
from .machine import APPEND, CAS, IS, NOT_KNOWN, WRITE, begins
from .search_state import FUEL, REQUESTS, STATE, Search, step_of


@inner_in_place
def request_step(s: Search, state: int, action: int) -> None:
    """Note a pair that the caller has to provide; those beyond the room are requested the next time."""
    count = s.registers[REQUESTS]
    if count < len(s.requests):
        s.requests[count, 0] = state
        s.requests[count, 1] = action
        s.registers[REQUESTS] = count + 1


@inner_in_place
def find_ways(s: Search, row: int) -> int:
    """Collect in `ways` the completed operations that may be next, of equal actions only the first to end.

    Returns how many; -1 if steps lack; -2 - i if the observation i fits.
    """
    n = len(s.action)
    state = s.configs[row, STATE]
    fitting, ways = -1, 0
    node = s.after[2 * n]
    while node < n:
        action = s.action[node]
        way = s.way_of[action]
        if way < 0:
            stepped = step_of(s, state, action)
            if stepped == state and s.observes[action]:
                fitting = node
                break
            if stepped == NOT_KNOWN:
                request_step(s, state, action)
            s.way_of[action] = ways
            s.ways[ways], s.way_states[ways] = node, stepped
            ways += 1
        elif node < s.ways[way]:
            s.ways[way] = node
        s.registers[FUEL] -= 1
        node = s.after[node]
    for node in s.ways[:ways]:
        s.way_of[s.action[node]] = -1
    if fitting >= 0:
        s.registers[REQUESTS] = 0
        return -2 - fitting
    return -1 if s.registers[REQUESTS] > 0 else ways


@inner_in_place
def target_of(s: Search, ways: int) -> int:
    """The action of the first operation to end, of these, that reads a whole content; -1 if there is none."""
    first = -1
    for node in s.ways[:ways] if len(s.machine.code) > 0 else s.ways[:0]:
        if s.machine.code[s.action[node], 0] == IS and (first < 0 or node < first):
            first = node
    return s.action[first] if first >= 0 else -1


@inner_in_place
def urgency(s: Search, node: int, stepped: int, front: int, front_fits: bool, target: int) -> int:
    """How much sooner an operation is tried than by its end alone, which only the order of the search depends on.

    First what leads to the content that is read next; then what makes the front possible, or a compare-and-set before
    the front overwrites the value that it needs.
    """
    if target >= 0 and APPEND <= s.machine.code[s.action[node], 0] < IS and begins(s.machine, stepped, target):
        return 2
    if not front_fits:
        return 1 if step_of(s, stepped, s.action[front]) >= 0 else 0
    code = s.machine.code
    return 1 if len(code) > 0 and code[s.action[front], 0] == WRITE and code[s.action[node], 0] == CAS else 0
