"""The compiled search for a linearization: Wing and Gong's, with Lowe's memo and an explicit undo stack.

Completed operations are numbered by the order of their ends, so that a **configuration** is small however
long the history is. Let `front` be the first operation, by end, that is not linearized. All before it are;
none that was called after its end can be. So the set of linearized operations is `front`, plus those that
are linearized among the few that overlap its end: a bit each, in a slot that an operation holds from its
call to its end. With the state and the operations of unknown outcome that were used, that is the whole
configuration. The memo keeps configurations whole and compares them whole: a collision of hashes costs time
and is never an answer.

Operations of unknown outcome are grouped in classes of equal actions. Their members are interchangeable, but
for their calls, so the earliest-called is used first, and a multiset of classes says which were used.
Multisets are nodes of a trie (`bags`), reached by their classes in ascending order: one number each, equal
when they are.

Six rules leave out configurations that cannot change the verdict:
- an observation (an action that the model declares never to change a state, such as a read) that fits comes
  next at once: in any linearization of the rest it may be moved to the front. This holds of no other action
  that happens to leave the present state as it is: its place may be later, where it does change one;
- an operation of unknown outcome that leaves the state as it is is not used: it may as well never happen;
- after one of unknown outcome comes one that it makes a difference to: otherwise the same is reached without
  it. So no linearization with the fewest such operations is lost;
- of two configurations that differ in the used operations of unknown outcome alone, one of which used none,
  the other is left out: what it leads to the first leads to as well, as it has all of them left to use;
- of operations that may be next and have equal actions the first to end is next, and one of unknown outcome is the
  last: they may change places in any linearization;
- a configuration is expanded once.

There are two orders. By ends: operations of unknown outcome are tried late; the configurations in which they may be
used wait until the stack has nothing left within PATIENCE fronts of them. The furthest front is tried first, because it
is what stopped the search. By calls, as Go Porcupine: what was called first is tried first, and operations of unknown
outcome as soon as they were called. Each order is quick on histories on which the other one is not.

Nothing here calls Python. Where the step of a (state, action) pair is not in the table, or an array is full,
or the fuel is burnt, `search` returns, its caller (compiled_search.py) provides, and it resumes at the same
place.
"""

from __future__ import annotations

from ..compiled import compiled_in_place, inner_in_place
from .machine import IMPOSSIBLE, NOT_KNOWN
from .search_state import (
    AT,
    BAG,
    BAGS,
    BEST,
    BY_CALLS,
    COUNT,
    DEPTH,
    DISTANCE,
    FUEL,
    HELD,
    LATEST,
    PARENT,
    PROGRESS,
    REQUESTS,
    ROOM,
    SLOTS,
    STACKED,
    STATE,
    TAKEN,
    Search,
    bag_with,
    is_dominated,
    remember,
    step_of,
)  # fmt: skip
from .search_ways import find_ways, request_step, target_of, urgency
from .tables import FRONT

FOUND, EXHAUSTED, MISSING, FULL, PAUSED = range(5)

STILL, MAX_DISTANCE = 32, 256  # configurations without progress before a jump back, of so many fronts at most
PATIENCE = 24  # fronts; measured on histories of a million operations, of which any value of 8 to 100 does well


@inner_in_place
def push(s: Search, parent: int, taken: int, state: int) -> None:
    """Stack what an operation (0..n-1) or a class of unknown outcome (-1 - class) leads to, if new."""
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
            s.registers[PROGRESS], s.registers[DISTANCE] = row, 1
        if front > configs[best, FRONT] or (
            front == configs[best, FRONT] and configs[row, DEPTH] > configs[best, DEPTH]
        ):
            s.registers[BEST] = row


@inner_in_place
def unlink(s: Search, node: int) -> None:
    """Take a node out of the list; it keeps its neighbours for `relink`."""
    s.after[s.before[node]] = s.after[node]
    s.before[s.after[node]] = s.before[node]


@inner_in_place
def relink(s: Search, node: int) -> None:
    """Put back the node that was taken out last."""
    s.after[s.before[node]] = node
    s.before[s.after[node]] = node


@inner_in_place
def go_to(s: Search, row: int) -> None:
    """Move path, list and used members from the present configuration to another: undo, then redo."""
    n = len(s.action)
    configs = s.configs
    meeting = row
    depth = s.registers[AT]
    while configs[meeting, DEPTH] > depth or s.path[configs[meeting, DEPTH]] != meeting:
        meeting = configs[meeting, PARENT]
    while depth > configs[meeting, DEPTH]:
        taken = configs[s.path[depth], TAKEN]
        if taken < 0:
            s.used[-1 - taken] -= 1
            s.registers[HELD] -= 1
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
            s.registers[HELD] += 1
        else:
            unlink(s, taken)
            unlink(s, n + taken)
    s.registers[AT] = depth


@inner_in_place
def state_without(s: Search, row: int) -> int:
    """The state before the operation of unknown outcome that led to a row; else IMPOSSIBLE."""
    if row == 0 or s.configs[row, TAKEN] >= 0:
        return IMPOSSIBLE
    state: int = s.configs[s.configs[row, PARENT], STATE]
    return state


@inner_in_place
def wait(s: Search, row: int) -> None:
    """Let a configuration wait; LATEST is the furthest front where any waits."""
    front = s.configs[row, FRONT]
    s.late_next[row] = s.late_head[front]
    s.late_head[front] = row
    s.registers[LATEST] = max(s.registers[LATEST], front)


@inner_in_place
def sort_ways(s: Search, ways: int, front: int) -> None:
    """Put the ways in the order in which they are stacked: what is to be tried first comes last."""
    target, front_fits = target_of(s, ways), False
    for node in s.ways[:ways]:
        front_fits |= node == front
    for way in range(ways):
        node, stepped = s.ways[way], s.way_states[way]
        order = node - len(s.action) * urgency(s, node, stepped, front, front_fits, target)
        place = way
        while place > 0 and s.way_orders[place - 1] < order:
            s.ways[place], s.way_states[place] = s.ways[place - 1], s.way_states[place - 1]
            s.way_orders[place] = s.way_orders[place - 1]
            place -= 1
        s.ways[place], s.way_states[place], s.way_orders[place] = node, stepped, order


@inner_in_place
def may_use_lost(s: Search, row: int) -> bool:
    """Whether some operation of unknown outcome was called by the end of the front."""
    return bool(len(s.used) > 0 and s.member_rank[s.class_start[0]] < s.end_rank[s.configs[row, FRONT]])


@inner_in_place
def expand(s: Search, row: int) -> bool:
    """Stack what may come next in the present configuration; False if steps lack.

    By calls, operations of unknown outcome are stacked at once; else they wait.
    """
    by_calls = s.registers[BY_CALLS] > 0
    ways = find_ways(s, row)
    if ways < -1:
        push(s, row, -2 - ways, s.configs[row, STATE])
        return True
    if ways < 0 or (by_calls and not knows_lost(s, row)):
        return False
    without, possible = state_without(s, row), 0
    for way in range(ways):
        node, stepped = s.ways[way], s.way_states[way]
        if stepped != IMPOSSIBLE and (without == IMPOSSIBLE or step_of(s, without, s.action[node]) != stepped):
            s.ways[possible], s.way_states[possible] = node, stepped
            possible += 1
    if by_calls:
        for way in range(possible - 1, -1, -1):
            push(s, row, s.ways[way], s.way_states[way])
        if may_use_lost(s, row):
            push_lost(s, row)
        return True
    sort_ways(s, possible, s.configs[row, FRONT])
    for way in range(possible):
        push(s, row, s.ways[way], s.way_states[way])
    if may_use_lost(s, row):
        wait(s, row)
    return True


@inner_in_place
def knows_lost(s: Search, row: int) -> bool:
    """Whether the steps of the operations of unknown outcome that may be next are known; else they are requested."""
    limit = s.end_rank[s.configs[row, FRONT]]
    for kind in range(len(s.used)):
        if s.member_rank[s.class_start[kind]] >= limit:
            break
        if step_of(s, s.configs[row, STATE], s.class_action[kind]) == NOT_KNOWN:
            request_step(s, s.configs[row, STATE], s.class_action[kind])
    return bool(s.registers[REQUESTS] == 0)


@inner_in_place
def push_lost(s: Search, row: int) -> None:
    """Stack what operations of unknown outcome lead to."""
    n, state = len(s.action), s.configs[row, STATE]
    limit = s.end_rank[s.configs[row, FRONT]]
    without = state_without(s, row)
    node = s.after[2 * n]
    while node < n:
        s.way_of[s.action[node]] = 0
        node = s.after[node]
    for kind in range(len(s.used)):
        if s.member_rank[s.class_start[kind]] >= limit:
            break
        s.registers[FUEL] -= 1
        member = s.class_start[kind] + s.used[kind]
        if member == s.class_start[kind + 1] or s.member_rank[member] >= limit or s.way_of[s.class_action[kind]] == 0:
            continue
        stepped = step_of(s, state, s.class_action[kind])
        if stepped == state or stepped == IMPOSSIBLE:  # noqa: SIM109 (numba has no `in` for these)
            continue
        if without == IMPOSSIBLE or step_of(s, without, s.class_action[kind]) != stepped:
            push(s, row, -1 - kind, stepped)
    node = s.after[2 * n]
    while node < n:
        s.way_of[s.action[node]] = -1
        node = s.after[node]


@inner_in_place
def jump_back(s: Search) -> None:
    """Go on from an alternative further back: what stops a search was often chosen long before.

    The distance doubles with each jump, and starts anew with progress. Nothing is left out: what is passed over stays
    stacked, or waits. Only states that are values gain by it; where they are nodes of the trie, the search jumps away
    from what it is about to find.
    """
    registers = s.registers
    last = registers[STACKED] - 1
    place = last
    limit = s.configs[registers[BEST], FRONT] - registers[DISTANCE]
    while place > 0 and s.configs[s.stack[place], FRONT] > limit:
        place -= 1
    row = s.stack[place]
    while place < last:
        s.stack[place] = s.stack[place + 1]
        place += 1
    s.stack[last] = row
    registers[LATEST] = min(registers[LATEST], s.configs[row, FRONT])
    registers[DISTANCE] = 2 * registers[DISTANCE] if registers[DISTANCE] < MAX_DISTANCE else 1
    registers[PROGRESS] = registers[COUNT]


@compiled_in_place
def search(s: Search) -> int:
    """Search on, from where it was left, until there is something to say.

    The arrays are FULL when less room is left than one expansion may need.
    """
    n = len(s.action)
    registers = s.registers
    registers[REQUESTS] = 0
    by_calls = registers[BY_CALLS] > 0
    jumps = len(s.machine.code) > 0 and not by_calls
    while True:
        while registers[LATEST] >= 0 and s.late_head[registers[LATEST]] < 0:
            registers[LATEST] -= 1
        top = s.stack[registers[STACKED] - 1]
        late = registers[STACKED] == 0 or s.configs[top, FRONT] + PATIENCE < registers[LATEST]
        if late:
            if registers[LATEST] < 0:
                registers[LATEST] = n
                while registers[LATEST] >= 0 and s.late_head[registers[LATEST]] < 0:
                    registers[LATEST] -= 1
                if registers[LATEST] < 0:
                    return EXHAUSTED
            top = s.late_head[registers[LATEST]]
        elif registers[COUNT] - registers[PROGRESS] > STILL and jumps and s.machine.node_count[0] == 1:
            jump_back(s)
            continue
        elif s.configs[top, FRONT] == n:
            registers[BEST] = top
            return FOUND
        if registers[FUEL] <= 0:
            return PAUSED
        go_to(s, top)
        # A bag may need a new node for each of its members, in each of the bags that one expansion adds.
        bags = len(s.used) * (registers[HELD] + 1) if late or by_calls else 0
        if registers[COUNT] + registers[ROOM] > len(s.configs) or registers[BAGS] + bags > len(s.bag_parent):
            return FULL
        # Taken off before it is expanded, since what follows is stacked in its place; put back if steps lack.
        if late:
            s.late_head[s.configs[top, FRONT]] = s.late_next[top]
            if not knows_lost(s, top):
                wait(s, top)
                return MISSING
            push_lost(s, top)
        else:
            registers[STACKED] -= 1
            if not expand(s, top):
                registers[STACKED] += 1
                return MISSING
