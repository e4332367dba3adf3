"""The candidates of the compiled search (completed operations that may be next), and which of them to try first."""

from __future__ import annotations

from ..compiled import compiled_inner_without_refcounts
from .machine import APPEND, CAS, IS, WRITE, begins
from .search_state import FUEL, REQUESTS, STATE, Search, step_of
from .trie import NOT_KNOWN


@compiled_inner_without_refcounts
def request_step(s: Search, state: int, action: int) -> None:
    """Request a step from the caller. If the requests are full, a later expansion requests it again."""
    count = s.registers[REQUESTS]
    if count < len(s.requests):
        s.requests[count, 0] = state
        s.requests[count, 1] = action
        s.registers[REQUESTS] = count + 1


@compiled_inner_without_refcounts
def find_candidates(s: Search, row: int) -> int:
    """Collect the candidates; of equal actions only the first to end.

    Returns their number; -1 if the steps of some are not known; -2 - i if observation i fits the state.
    """
    n = len(s.action)
    state = s.configs[row, STATE]
    fitting, candidates = -1, 0
    node = s.after[2 * n]
    while node < n:
        action = s.action[node]
        candidate = s.candidate_of[action]
        if candidate < 0:
            stepped = step_of(s, state, action)
            if stepped == state and s.observes[action]:
                fitting = node
                break
            if stepped == NOT_KNOWN:
                request_step(s, state, action)
            s.candidate_of[action] = candidates
            s.candidates[candidates], s.candidate_states[candidates] = node, stepped
            candidates += 1
        elif node < s.candidates[candidate]:
            s.candidates[candidate] = node
        s.registers[FUEL] -= 1
        node = s.after[node]
    for node in s.candidates[:candidates]:
        s.candidate_of[s.action[node]] = -1
    if fitting >= 0:
        s.registers[REQUESTS] = 0
        return -2 - fitting
    return -1 if s.registers[REQUESTS] > 0 else candidates


@compiled_inner_without_refcounts
def target_of(s: Search, candidates: int) -> int:
    """The action of the first candidate to end that reads a whole content; -1 if there is none."""
    first = -1
    for node in s.candidates[:candidates] if len(s.machine.code) > 0 else s.candidates[:0]:
        if s.machine.code[s.action[node], 0] == IS and (first < 0 or node < first):
            first = node
    return s.action[first] if first >= 0 else -1


@compiled_inner_without_refcounts
def priority(s: Search, node: int, stepped: int, front: int, front_fits: bool, target: int) -> int:
    """The amount by which an operation is tried before its end. It changes the order of the search, not its verdict.

    2: it leads to the content that is read next. 1: it makes the front possible, or it is a compare-and-set whose
    value the front would overwrite.
    """
    if target >= 0 and APPEND <= s.machine.code[s.action[node], 0] < IS and begins(s.machine, stepped, target):
        return 2
    if not front_fits:
        return 1 if step_of(s, stepped, s.action[front]) >= 0 else 0
    code = s.machine.code
    return 1 if len(code) > 0 and code[s.action[front], 0] == WRITE and code[s.action[node], 0] == CAS else 0
