"""The compiled search for a linearization: Wing and Gong's, with Lowe's memo and an explicit undo stack.

Completed operations are numbered by their ends. `front` is the first one that is not linearized: all before it are,
and none that was called after its end can be. So the set of linearized operations is `front` and one bit for each
operation that overlaps its end, in a slot that an operation holds from its call to its end. A **configuration** is this
set, the state, and the pending operations that were used. Its size does not depend on the length of the history. The
memo compares whole configurations, so a hash collision costs time but cannot change the verdict.

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

from ..compiled import compiled_in_place
from .machine import IMPOSSIBLE, NOT_KNOWN
from .search_candidates import find_candidates, request_step, target_of, urgency
from .search_state import (
    BAG,
    BAGS,
    BEST,
    BY_CALLS,
    COUNT,
    CURRENT_DEPTH,
    DEPTH,
    EXPANSION_ROOM,
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
    bag_with,
    is_dominated,
    remember,
    step_of,
)  # fmt: skip
from .tables import FRONT

FOUND, EXHAUSTED, MISSING, FULL, PAUSED = range(5)

MAX_STALLED = 32  # configurations without progress before a jump back
MAX_JUMP = 256  # fronts
PENDING_DELAY = 24  # fronts; on histories of a million operations any value from 8 to 100 is about as fast


@compiled_in_place
def push(s: Search, parent: int, taken: int, state: int) -> None:
    """Stack the configuration after an operation (0..n-1) or a member of a pending class (-1 - class), if it is new."""
    row = s.registers[COUNT]
    configs = s.configs
    n = len(s.action)
    for column in range(BAG, configs.shape[1]):
        configs[row, column] = configs[parent, column]
    front = configs[parent, FRONT]
    if taken < 0:
        configs[row, BAG] = bag_with(s, configs[parent, BAG], -1 - taken)
    elif taken != front:
        configs[row, SLOTS + (s.slot[taken] >> 5)] |= 1 << (s.slot[taken] & 31)
    else:
        front += 1
        while front < n:
            column, bit = SLOTS + (s.slot[front] >> 5), 1 << (s.slot[front] & 31)
            if not configs[row, column] & bit:
                break
            configs[row, column] &= ~bit
            front += 1
    configs[row, FRONT] = front
    configs[row, STATE] = state
    configs[row, PARENT] = parent
    configs[row, TAKEN] = taken
    configs[row, DEPTH] = configs[parent, DEPTH] + 1
    if not is_dominated(s, row) and remember(s, row):
        s.registers[COUNT] = row + 1
        s.stack[s.registers[STACKED]] = row
        s.registers[STACKED] += 1
        best = s.registers[BEST]
        if front > configs[best, FRONT]:
            s.registers[LAST_PROGRESS], s.registers[JUMP_DISTANCE] = row, 1
        if front > configs[best, FRONT] or (
            front == configs[best, FRONT] and configs[row, DEPTH] > configs[best, DEPTH]
        ):
            s.registers[BEST] = row


@compiled_in_place
def unlink(s: Search, node: int) -> None:
    """Take a node out of the linked list; it keeps its neighbours for `relink`."""
    s.after[s.before[node]] = s.after[node]
    s.before[s.after[node]] = s.before[node]


@compiled_in_place
def relink(s: Search, node: int) -> None:
    """Put the node that was unlinked last back."""
    s.after[s.before[node]] = node
    s.before[s.after[node]] = node


@compiled_in_place
def go_to(s: Search, row: int) -> None:
    """Move path, list and used members to another configuration: undo back to their common ancestor, then redo."""
    n = len(s.action)
    configs = s.configs
    meeting = row
    depth = s.registers[CURRENT_DEPTH]
    while configs[meeting, DEPTH] > depth or s.path[configs[meeting, DEPTH]] != meeting:
        meeting = configs[meeting, PARENT]
    while depth > configs[meeting, DEPTH]:
        taken = configs[s.path[depth], TAKEN]
        if taken < 0:
            s.used[-1 - taken] -= 1
            s.registers[USED_PENDING] -= 1
        else:
            relink(s, n + taken)
            relink(s, taken)
        depth -= 1
    below = row
    while below != meeting:
        s.path[configs[below, DEPTH]] = below
        below = configs[below, PARENT]
    while depth < configs[row, DEPTH]:
        depth += 1
        taken = configs[s.path[depth], TAKEN]
        if taken < 0:
            s.used[-1 - taken] += 1
            s.registers[USED_PENDING] += 1
        else:
            unlink(s, taken)
            unlink(s, n + taken)
    s.registers[CURRENT_DEPTH] = depth


@compiled_in_place
def state_without(s: Search, row: int) -> int:
    """The state before the pending operation that led to a row; IMPOSSIBLE if none did."""
    if row == 0 or s.configs[row, TAKEN] >= 0:
        return IMPOSSIBLE
    state: int = s.configs[s.configs[row, PARENT], STATE]
    return state


@compiled_in_place
def defer(s: Search, row: int) -> None:
    """Let a configuration wait before its pending operations are tried."""
    front = s.configs[row, FRONT]
    s.waiting_next[row] = s.waiting_head[front]
    s.waiting_head[front] = row
    s.registers[FURTHEST_WAITING] = max(s.registers[FURTHEST_WAITING], front)


@compiled_in_place
def sort_candidates(s: Search, candidates: int, front: int) -> None:
    """Sort the candidates for the stack: the one to try first comes last."""
    target, front_fits = target_of(s, candidates), False
    for node in s.candidates[:candidates]:
        front_fits |= node == front
    for candidate in range(candidates):
        node, stepped = s.candidates[candidate], s.candidate_states[candidate]
        order = node - len(s.action) * urgency(s, node, stepped, front, front_fits, target)
        place = candidate
        while place > 0 and s.candidate_orders[place - 1] < order:
            s.candidates[place], s.candidate_states[place] = s.candidates[place - 1], s.candidate_states[place - 1]
            s.candidate_orders[place] = s.candidate_orders[place - 1]
            place -= 1
        s.candidates[place], s.candidate_states[place], s.candidate_orders[place] = node, stepped, order


@compiled_in_place
def may_use_pending(s: Search, row: int) -> bool:
    """Whether a pending operation was called by the end of the front."""
    return bool(len(s.used) > 0 and s.member_rank[s.class_start[0]] < s.end_rank[s.configs[row, FRONT]])


@compiled_in_place
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
    without, possible = state_without(s, row), 0
    for candidate in range(candidates):
        node, stepped = s.candidates[candidate], s.candidate_states[candidate]
        if stepped != IMPOSSIBLE and (without == IMPOSSIBLE or step_of(s, without, s.action[node]) != stepped):
            s.candidates[possible], s.candidate_states[possible] = node, stepped
            possible += 1
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


@compiled_in_place
def has_pending_steps(s: Search, row: int) -> bool:
    """Whether the steps of the pending operations that may be next are known; requests those that are not."""
    limit = s.end_rank[s.configs[row, FRONT]]
    for kind in range(len(s.used)):
        if s.member_rank[s.class_start[kind]] >= limit:
            break
        if step_of(s, s.configs[row, STATE], s.class_action[kind]) == NOT_KNOWN:
            request_step(s, s.configs[row, STATE], s.class_action[kind])
    return bool(s.registers[REQUESTS] == 0)


@compiled_in_place
def push_pending(s: Search, row: int) -> None:
    """Stack the configurations after pending operations."""
    n, state = len(s.action), s.configs[row, STATE]
    limit = s.end_rank[s.configs[row, FRONT]]
    without = state_without(s, row)
    node = s.after[2 * n]
    while node < n:
        s.candidate_of[s.action[node]] = 0
        node = s.after[node]
    for kind in range(len(s.used)):
        if s.member_rank[s.class_start[kind]] >= limit:
            break
        s.registers[FUEL] -= 1
        member = s.class_start[kind] + s.used[kind]
        if (
            member == s.class_start[kind + 1]
            or s.member_rank[member] >= limit
            or s.candidate_of[s.class_action[kind]] == 0
        ):
            continue
        stepped = step_of(s, state, s.class_action[kind])
        if stepped == state or stepped == IMPOSSIBLE:  # noqa: SIM109 (numba has no `in` for these)
            continue
        if without == IMPOSSIBLE or step_of(s, without, s.class_action[kind]) != stepped:
            push(s, row, -1 - kind, stepped)
    node = s.after[2 * n]
    while node < n:
        s.candidate_of[s.action[node]] = -1
        node = s.after[node]


@compiled_in_place
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


@compiled_in_place
def search(s: Search) -> int:
    """Search from where it stopped until a verdict (FOUND, EXHAUSTED) or a need: MISSING steps, FULL arrays, no fuel.

    The arrays are FULL when less room is left than one expansion may need.
    """
    n = len(s.action)
    registers = s.registers
    registers[REQUESTS] = 0
    by_calls = registers[BY_CALLS] > 0
    jumps = len(s.machine.code) > 0 and not by_calls
    while True:
        while registers[FURTHEST_WAITING] >= 0 and s.waiting_head[registers[FURTHEST_WAITING]] < 0:
            registers[FURTHEST_WAITING] -= 1
        top = s.stack[registers[STACKED] - 1]
        late = registers[STACKED] == 0 or s.configs[top, FRONT] + PENDING_DELAY < registers[FURTHEST_WAITING]
        if late:
            if registers[FURTHEST_WAITING] < 0:
                registers[FURTHEST_WAITING] = n
                while registers[FURTHEST_WAITING] >= 0 and s.waiting_head[registers[FURTHEST_WAITING]] < 0:
                    registers[FURTHEST_WAITING] -= 1
                if registers[FURTHEST_WAITING] < 0:
                    return EXHAUSTED
            top = s.waiting_head[registers[FURTHEST_WAITING]]
        elif registers[COUNT] - registers[LAST_PROGRESS] > MAX_STALLED and jumps and s.machine.node_count[0] == 1:
            jump_back(s)
            continue
        elif s.configs[top, FRONT] == n:
            registers[BEST] = top
            return FOUND
        if registers[FUEL] <= 0:
            return PAUSED
        go_to(s, top)
        # One expansion may add a bag for each class, and each may need a new node for each of its members.
        bags = len(s.used) * (registers[USED_PENDING] + 1) if late or by_calls else 0
        if registers[COUNT] + registers[EXPANSION_ROOM] > len(s.configs) or registers[BAGS] + bags > len(s.bag_parent):
            return FULL
        # Remove it before its successors are stacked in its place; put it back if a step is missing.
        if late:
            s.waiting_head[s.configs[top, FRONT]] = s.waiting_next[top]
            if not has_pending_steps(s, top):
                defer(s, top)
                return MISSING
            push_pending(s, top)
        else:
            registers[STACKED] -= 1
            if not expand(s, top):
                registers[STACKED] += 1
                return MISSING
