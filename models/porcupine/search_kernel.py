"""The compiled search for a linearization: Wing and Gong's, with Lowe's memo and an explicit undo stack.

Completed operations are numbered by their ends. `front` is the first one that is not linearized: all before it are, and
none that was called after its end can be. So the set of linearized operations is `front` and one bit for each operation
that overlaps its end. The bit is in a slot, which the operation holds from its call to its end. A **configuration** is
this set, the state, and the pending operations that were used. Its size does not depend on the length of the history.
The memo compares whole configurations, so a hash collision costs time but cannot change the verdict.

An operation is **pending** if its outcome is unknown. Pending operations are grouped in classes of equal actions. Only
their calls differ, so the earliest-called of a class is used first, and a multiset of classes identifies the used ones.
Multisets (`bags`) are nodes of a trie whose paths list the classes in ascending order, so equal multisets have the same
number.

Six rules leave out configurations that cannot change the verdict:
- An observation (an action that the model declares never to change a state, such as a read) that fits is linearized at
  once: any linearization of the rest stays legal with it moved to the front. Other actions that leave the present
  state unchanged do not qualify, because they may have to change a later state.
- A pending operation that leaves the state unchanged is not used: it may as well never happen.
- A pending operation must make a difference to the next one. Otherwise the same configuration is reached without it.
  A linearization with the fewest pending operations has none without such a difference.
- If the same configuration is known without used pending operations, one that used some is left out: the known one can
  still use all of them.
- Of candidates with equal actions the first to end comes next, and a pending one comes last: equal actions may swap
  places in any linearization.
- A configuration is expanded once.

There are two orders; each is fast on histories on which the other is slow. By ends: a configuration that could use a
pending operation waits until the stack has nothing left within PENDING_DELAY fronts of it; the furthest front is tried
first, because that is where the search got stuck. By calls, as in Go Porcupine: the first to be called is tried first,
and pending operations as soon as they were called.

Nothing here calls Python. `search` returns if a step is not in the table, an array is full, or the fuel is used up. Its
caller (compiled_search.py) adds what is missing, and `search` resumes where it stopped.
"""

from __future__ import annotations

from ..compiled import compiled_inner_without_refcounts, compiled_without_refcounts
from .machine import IMPOSSIBLE
from .search_candidates import find_candidates, priority, request_step, target_of
from .search_state import (
    BAG,
    BEST,
    BY_CALLS,
    COUNT,
    DEPTH,
    FRONT,
    FUEL,
    FURTHEST_WAITING,
    JUMP_DISTANCE,
    LAST_PROGRESS,
    PARENT,
    REQUESTS,
    SLOTS,
    STACKED,
    STATE,
    TAKEN,
    USED_PENDING,
    Search,
    go_to,
    is_dominated,
    lacks_configs,
    remember,
    step_of,
)  # fmt: skip
from .trie import NOT_KNOWN, inserted

FOUND, EXHAUSTED, MISSING, FULL, PAUSED = range(5)

MAX_STALLED = 32  # configurations without progress before a jump back
MAX_JUMP = 256  # fronts
PENDING_DELAY = 24  # fronts; on histories of a million operations any value from 8 to 100 is about as fast


@compiled_inner_without_refcounts
def set_linearized(s: Search, row: int, taken: int) -> None:
    """Add an operation to the linearized ones of a row; those that have no gap before them advance the front."""
    configs, n = s.configs, len(s.action)
    front = configs[row, FRONT]
    if taken != front:
        configs[row, SLOTS + (s.slot[taken] >> 5)] |= 1 << (s.slot[taken] & 31)
        return
    front += 1
    while front < n:
        column, bit = SLOTS + (s.slot[front] >> 5), 1 << (s.slot[front] & 31)
        if not configs[row, column] & bit:
            break
        configs[row, column] &= ~bit
        front += 1
    configs[row, FRONT] = front


@compiled_inner_without_refcounts
def push(s: Search, parent: int, taken: int, state: int) -> None:
    """Stack the configuration after an operation (0..n-1) or a member of a pending class (-1 - class), if it is new."""
    row = s.registers[COUNT]
    configs = s.configs
    for column in range(FRONT, configs.shape[1]):
        configs[row, column] = configs[parent, column]
    if taken < 0:
        configs[row, BAG] = inserted(s.bags, configs[parent, BAG], -1 - taken)
    else:
        set_linearized(s, row, taken)
    configs[row, STATE] = state
    configs[row, PARENT] = parent
    configs[row, TAKEN] = taken
    configs[row, DEPTH] = configs[parent, DEPTH] + 1
    if not is_dominated(s, row) and remember(s, row):
        s.registers[COUNT] = row + 1
        s.stack[s.registers[STACKED]] = row
        s.registers[STACKED] += 1
        keep_best(s, row)


@compiled_inner_without_refcounts
def keep_best(s: Search, row: int) -> None:
    """Note the configuration if it is the furthest, and of these the one with the most operations."""
    best = s.registers[BEST]
    ahead = s.configs[row, FRONT] - s.configs[best, FRONT]
    if ahead > 0:
        s.registers[LAST_PROGRESS], s.registers[JUMP_DISTANCE] = row, 1
    if ahead > 0 or (ahead == 0 and s.configs[row, DEPTH] > s.configs[best, DEPTH]):
        s.registers[BEST] = row


@compiled_inner_without_refcounts
def state_without(s: Search, row: int) -> int:
    """The state before the pending operation that led to a row; IMPOSSIBLE if none did."""
    if row == 0 or s.configs[row, TAKEN] >= 0:
        return IMPOSSIBLE
    state: int = s.configs[s.configs[row, PARENT], STATE]
    return state


@compiled_inner_without_refcounts
def defer(s: Search, row: int) -> None:
    """Let a configuration wait before its pending operations are tried."""
    front = s.configs[row, FRONT]
    s.waiting_next[row] = s.waiting_head[front]
    s.waiting_head[front] = row
    s.registers[FURTHEST_WAITING] = max(s.registers[FURTHEST_WAITING], front)


@compiled_inner_without_refcounts
def sort_candidates(s: Search, candidates: int, front: int) -> None:
    """Sort the candidates for the stack: the one to try first comes last."""
    target, front_fits = target_of(s, candidates), False
    for node in s.candidates[:candidates]:
        front_fits |= node == front
    for candidate in range(candidates):
        node, stepped = s.candidates[candidate], s.candidate_states[candidate]
        order = node - len(s.action) * priority(s, node, stepped, front, front_fits, target)
        place = candidate
        while place > 0 and s.candidate_orders[place - 1] < order:
            s.candidates[place], s.candidate_states[place] = s.candidates[place - 1], s.candidate_states[place - 1]
            s.candidate_orders[place] = s.candidate_orders[place - 1]
            place -= 1
        s.candidates[place], s.candidate_states[place], s.candidate_orders[place] = node, stepped, order


@compiled_inner_without_refcounts
def may_use_pending(s: Search, row: int) -> bool:
    """Whether a pending operation was called by the end of the front."""
    return bool(len(s.used) > 0 and s.member_rank[s.class_start[0]] < s.end_rank[s.configs[row, FRONT]])


@compiled_inner_without_refcounts
def keep_possible(s: Search, row: int, candidates: int) -> int:
    """Keep the candidates that fit the state and need the pending operation before them, if any; their number."""
    without, possible = state_without(s, row), 0
    for candidate in range(candidates):
        node, stepped = s.candidates[candidate], s.candidate_states[candidate]
        if stepped != IMPOSSIBLE and (without == IMPOSSIBLE or step_of(s, without, s.action[node]) != stepped):
            s.candidates[possible], s.candidate_states[possible] = node, stepped
            possible += 1
    return possible


@compiled_inner_without_refcounts
def expand(s: Search, row: int) -> bool:
    """Stack the configurations after the present one; False if a step is not known.

    By calls, those after pending operations are stacked at once; by ends, the configuration waits for them.
    """
    by_calls = s.registers[BY_CALLS] > 0
    candidates = find_candidates(s, row)
    if candidates < -1:
        push(s, row, -2 - candidates, s.configs[row, STATE])
        return True
    if candidates < 0 or (by_calls and not has_pending_steps(s, row)):
        return False
    possible = keep_possible(s, row, candidates)
    if by_calls:
        for candidate in range(possible - 1, -1, -1):
            push(s, row, s.candidates[candidate], s.candidate_states[candidate])
        if may_use_pending(s, row):
            push_pending(s, row)
        return True
    sort_candidates(s, possible, s.configs[row, FRONT])
    for candidate in range(possible):
        push(s, row, s.candidates[candidate], s.candidate_states[candidate])
    if may_use_pending(s, row):
        defer(s, row)
    return True


@compiled_inner_without_refcounts
def has_pending_steps(s: Search, row: int) -> bool:
    """Whether the steps of the pending operations that may be next are known; requests those that are not."""
    limit = s.end_rank[s.configs[row, FRONT]]
    for kind in range(len(s.used)):
        if s.member_rank[s.class_start[kind]] >= limit:
            break
        if step_of(s, s.configs[row, STATE], s.class_action[kind]) == NOT_KNOWN:
            request_step(s, s.configs[row, STATE], s.class_action[kind])
    return bool(s.registers[REQUESTS] == 0)


@compiled_inner_without_refcounts
def mark_open_actions(s: Search, mark: int) -> None:
    """Set `candidate_of` for the actions of the completed operations that are not linearized."""
    n = len(s.action)
    node = s.after[2 * n]
    while node < n:
        s.candidate_of[s.action[node]] = mark
        node = s.after[node]


@compiled_inner_without_refcounts
def push_pending(s: Search, row: int) -> None:
    """Stack the configurations after pending operations, except those with the action of an open completed one."""
    state, without = s.configs[row, STATE], state_without(s, row)
    limit = s.end_rank[s.configs[row, FRONT]]
    mark_open_actions(s, 0)
    for kind in range(len(s.used)):
        if s.member_rank[s.class_start[kind]] >= limit:
            break
        s.registers[FUEL] -= 1
        action, member = s.class_action[kind], s.class_start[kind] + s.used[kind]
        is_available = member < s.class_start[kind + 1] and s.member_rank[member] < limit
        if not is_available or s.candidate_of[action] == 0:
            continue
        stepped = step_of(s, state, action)
        if stepped == state or stepped == IMPOSSIBLE:  # noqa: SIM109 (numba has no `in` for these)
            continue
        if without == IMPOSSIBLE or step_of(s, without, action) != stepped:
            push(s, row, -1 - kind, stepped)
    mark_open_actions(s, -1)


@compiled_inner_without_refcounts
def jump_back(s: Search) -> None:
    """Move an alternative further back to the top of the stack: a wrong choice was often made long before.

    The distance doubles with each jump and restarts with progress. Nothing is left out: the skipped configurations stay
    stacked, or wait. It only helps where states are values; with nodes of the trie, it leaves promising paths.
    """
    registers = s.registers
    last = registers[STACKED] - 1
    place = last
    limit = s.configs[registers[BEST], FRONT] - registers[JUMP_DISTANCE]
    while place > 0 and s.configs[s.stack[place], FRONT] > limit:
        place -= 1
    row = s.stack[place]
    while place < last:
        s.stack[place] = s.stack[place + 1]
        place += 1
    s.stack[last] = row
    registers[FURTHEST_WAITING] = min(registers[FURTHEST_WAITING], s.configs[row, FRONT])
    registers[JUMP_DISTANCE] = 2 * registers[JUMP_DISTANCE] if registers[JUMP_DISTANCE] < MAX_JUMP else 1
    registers[LAST_PROGRESS] = registers[COUNT]


@compiled_inner_without_refcounts
def find_waiting(s: Search, front: int) -> bool:
    """Set FURTHEST_WAITING to the last front up to `front` at which a configuration waits; False if none waits."""
    while front >= 0 and s.waiting_head[front] < 0:
        front -= 1
    s.registers[FURTHEST_WAITING] = front
    return bool(front >= 0)


@compiled_inner_without_refcounts
def is_stalled(s: Search) -> bool:
    """Whether to jump back: by ends, where states are values, after many configurations without progress."""
    has_values = len(s.machine.code) > 0 and s.machine.trie.node_count[0] == 1
    stalled = s.registers[COUNT] - s.registers[LAST_PROGRESS] > MAX_STALLED
    return bool(stalled and has_values and s.registers[BY_CALLS] == 0)


@compiled_inner_without_refcounts
def expand_top(s: Search, row: int) -> bool:
    """Replace the top of the stack, the present configuration, by its successors; False if a step is not known."""
    s.registers[STACKED] -= 1
    if expand(s, row):
        return True
    s.registers[STACKED] += 1
    return False


@compiled_inner_without_refcounts
def expand_waiting(s: Search, row: int) -> bool:
    """Let the present configuration, which waited, use its pending operations; False if a step is not known."""
    s.waiting_head[s.configs[row, FRONT]] = s.waiting_next[row]
    if has_pending_steps(s, row):
        push_pending(s, row)
        return True
    defer(s, row)
    return False


@compiled_without_refcounts
def search(s: Search) -> int:
    """Search from where it stopped until a verdict (FOUND, EXHAUSTED) or a need: MISSING steps, FULL arrays, no fuel.

    The arrays are FULL when less room is left than one expansion may need, or none for a state of compiled steps.
    """
    n, registers = len(s.action), s.registers
    registers[REQUESTS] = 0
    while True:
        some_wait = find_waiting(s, registers[FURTHEST_WAITING])
        row = s.stack[registers[STACKED] - 1]
        waited = registers[STACKED] == 0 or s.configs[row, FRONT] + PENDING_DELAY < registers[FURTHEST_WAITING]
        if waited:
            if not some_wait and not find_waiting(s, n):  # a jump back hides those that wait further on
                return EXHAUSTED
            row = s.waiting_head[registers[FURTHEST_WAITING]]
        elif is_stalled(s):
            jump_back(s)
            continue
        elif s.configs[row, FRONT] == n:
            registers[BEST] = row
            return FOUND
        if registers[FUEL] <= 0:
            return PAUSED
        go_to(s, row)
        # One expansion may add a bag for each class, and each may need a new node for each of its members.
        uses_pending = waited or registers[BY_CALLS] > 0
        bags = len(s.used) * (registers[USED_PENDING] + 1) if uses_pending else 0
        if lacks_configs(s) or s.bags.node_count[0] + bags > len(s.bags.nodes):
            return FULL
        if not (expand_waiting(s, row) if waited else expand_top(s, row)):
            return FULL if len(s.machine.code) > 0 else MISSING
