"""The state of a compiled search: its arrays, the memo of configurations, and the path to the present one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s, Ints
from ..compiled import compiled, compiled_inner, compiled_inner_without_refcounts, compiled_without_refcounts
from .layout import Layout
from .machine import Machine, step, with_trie
from .trie import NOT_KNOWN, Trie, copy_into, grown, new_trie, place_of

# Columns of a configuration. Its key starts at FRONT; the bits of the slots fill as many columns as they need.
PARENT, TAKEN, DEPTH, FRONT, STATE, BAG, SLOTS = range(7)

# The registers of a search, kept between its pauses (terms: search_kernel.py).
(
    COUNT,  # of configurations
    STACKED,  # of them, not expanded yet
    FURTHEST_WAITING,  # a front
    CURRENT_DEPTH,
    USED_PENDING,  # the number of pending operations on the path
    STEPS,  # steps of the model that are known
    BEST,  # the row of the configuration with the greatest front
    REQUESTS,  # for steps that are not known yet
    FUEL,  # candidates until the next pause
    EXPANSION_ROOM,  # rows that one expansion may add
    LAST_PROGRESS,  # a row
    JUMP_DISTANCE,  # in fronts
    BY_CALLS,  # whether candidates go in the order of their calls
    REGISTERS,
) = range(14)


class Search(NamedTuple):
    """The arrays of one search over n completed operations."""

    # The history: fixed.
    action: Int32s  # of a completed operation
    slot: Int32s
    end_rank: Int32s  # the index of its end among all events
    class_action: Int32s  # of a class of pending operations; classes are ordered by their first call
    class_start: Int32s  # where its members start in member_rank; one longer than the classes
    member_rank: Int32s  # the index of their calls among all events, ascending within the class
    # The path to the present configuration.
    after: Int32s  # linked list of calls (0..n-1) and ends (n..2n-1) not linearized; 2n is its head
    before: Int32s
    observes: Int32s  # 1 for an action that never changes a state
    path: Int32s  # configurations from the first to the present, by depth
    used: Int32s  # members used of each class
    # Scratch of one expansion.
    candidates: Int32s  # the completed operations that may be next
    candidate_states: Int32s  # the states after them
    candidate_orders: Int32s  # their sort keys
    candidate_of: Int32s  # by action: its index in candidates, -1 between expansions
    registers: Ints
    waiting_head: Int32s  # by front: the latest configuration that waits there, -1 for none
    # The configurations, and where the search goes next.
    configs: Int32s  # a row each
    memo: Int32s  # hash table: row + 1, 0 where empty; its length is a power of two
    stack: Int32s
    waiting_next: Int32s  # by waiting configuration: the one that came before it
    # The step table, a hash table, and the multisets of classes of used pending operations.
    step_keys: Ints  # state << 32 | action, plus 1; 0 where empty
    step_values: Int32s
    bags: Trie
    requests: Ints  # two columns: the pairs of state and action whose steps the caller has to add
    machine: Machine  # the compiled steps of a built-in model; then the step table stays empty


AT_CONFIGS, AT_STEPS, AT_BAGS, AT_REQUESTS = map(Search._fields.index, ("configs", "step_keys", "bags", "requests"))


@compiled
def new_search(layout: Layout, machine: Machine, observes: Int32s, initial: int, candidate_of: Int32s) -> Search:
    """A search at its start; `initial` is the number of the first state; `candidate_of` has a -1 for each action."""
    n, members, kinds = len(layout.number), len(layout.member), len(layout.class_action)
    room = layout.slots + kinds + 2
    rows = 64
    while rows < 2 * n + room + 448:
        rows *= 2
    registers = np.zeros(REGISTERS, np.int64)
    registers[COUNT] = registers[STACKED] = 1
    registers[FURTHEST_WAITING] = -1
    registers[JUMP_DISTANCE] = 1
    registers[EXPANSION_ROOM] = room
    configs = np.empty((rows, SLOTS + (layout.slots + 31) // 32), np.int32)
    configs[0] = 0
    configs[0, STATE] = initial
    stack = np.empty(rows, np.int32)
    stack[0] = 0
    path = np.empty(n + 2 * members + 2, np.int32)
    path[0] = 0
    steps, waiting, bags = 1, 0, 1
    if len(machine.code) == 0:
        steps = 1024
    if kinds > 0:
        waiting, bags = rows, 64
    search = Search(
        *layout[3:],
        observes,
        path,
        np.zeros(kinds, np.int32),
        np.empty(layout.slots, np.int32),
        np.empty(layout.slots, np.int32),
        np.empty(layout.slots, np.int32),
        candidate_of,
        registers,
        np.full(n + 1, -1, np.int32),
        configs,
        np.zeros(2 * rows, np.int32),
        stack,
        np.empty(waiting, np.int32),
        np.zeros(steps, np.int64),
        np.empty(steps, np.int32),
        new_trie(bags),
        np.empty((room, 2), np.int64),
        machine,
    )
    remember(search, 0)
    return search


@compiled_inner
def longer(array: Int32s, length: int) -> Int32s:
    """A copy of an array, lengthened."""
    copy = np.empty(length, np.int32)
    copy_into(copy, array)
    return copy


@compiled_inner_without_refcounts
def lacks_configs(s: Search) -> bool:
    """Whether there may be no room for the configurations of one expansion."""
    return bool(s.registers[COUNT] + s.registers[EXPANSION_ROOM] > len(s.configs))


@compiled_inner_without_refcounts
def lacks_states(s: Search) -> bool:
    """Whether there is no room for another state of compiled steps."""
    return bool(len(s.machine.code) > 0 and s.machine.trie.node_count[0] == len(s.machine.trie.nodes))


@compiled_inner_without_refcounts
def full_rows(s: Search) -> int:
    """The number of rows of the table that is full in a FULL search: configurations, states or bags."""
    if lacks_configs(s):
        return len(s.configs)
    return len(s.machine.trie.nodes) if lacks_states(s) else len(s.bags.nodes)


@compiled
def enlarge(s: Search) -> Search:
    """A FULL search with twice the room for what is full: configurations, states, or bags."""
    if lacks_configs(s):
        rows, count = len(s.configs), s.registers[COUNT]
        configs = np.empty((2 * rows, s.configs.shape[1]), np.int32)
        copy_into(configs.reshape(-1), s.configs[:count].reshape(-1))
        memo = np.zeros(4 * rows, np.int32)
        add_to_memo(configs, count, memo)
        waiting_next = longer(s.waiting_next, 2 * len(s.waiting_next))
        return Search(*s[:AT_CONFIGS], configs, memo, longer(s.stack, 2 * rows), waiting_next, *s[AT_STEPS:])  # type: ignore[call-arg, arg-type]
    if lacks_states(s):
        return Search(*s[:-1], with_trie(s.machine, grown(s.machine.trie)))
    return Search(*s[:AT_BAGS], grown(s.bags), *s[AT_REQUESTS:])  # type: ignore[call-arg, arg-type]


@compiled_inner_without_refcounts
def step_of(s: Search, state: int, action: int) -> int:
    """The state after the action, IMPOSSIBLE, or NOT_KNOWN."""
    if len(s.machine.code) > 0:
        return step(s.machine, state, action)
    key = ((state << 32) | action) + 1
    place = place_of(s.step_keys, key)
    return s.step_values[place] if s.step_keys[place] == key else NOT_KNOWN


@compiled_without_refcounts
def add_steps(s: Search, steps: Ints) -> None:
    """Add rows of (state, action, state after) to the step table, which must have room."""
    for i in range(len(steps)):
        key = ((steps[i, 0] << 32) | steps[i, 1]) + 1
        place = place_of(s.step_keys, key)
        s.step_keys[place] = key
        s.step_values[place] = steps[i, 2]
    s.registers[STEPS] += len(steps)


@compiled_inner_without_refcounts
def hash_of(configs: Int32s, row: int, size: int) -> int:
    """The index in a memo of this size (a power of two) at which probing for a configuration starts."""
    mixed = 0
    for column in range(FRONT, configs.shape[1]):
        mixed = (mixed ^ configs[row, column]) * 0x2545F4914F6CDD1D
        mixed ^= mixed >> 29
    return mixed & (size - 1)


@compiled_inner_without_refcounts
def add_to_memo(configs: Int32s, count: int, memo: Int32s) -> None:
    """Add the first `count` configurations, all different, to an empty memo."""
    for row in range(count):
        place = hash_of(configs, row, len(memo))
        while memo[place] != 0:
            place = (place + 1) & (len(memo) - 1)
        memo[place] = row + 1


@compiled_inner_without_refcounts
def place_in_memo(s: Search, row: int) -> int:
    """The index in the memo of an equal configuration, or the empty one where it would go."""
    place = hash_of(s.configs, row, len(s.memo))
    while s.memo[place] != 0:
        other = s.memo[place] - 1
        column = FRONT
        while column < s.configs.shape[1] and s.configs[other, column] == s.configs[row, column]:
            column += 1
        if column == s.configs.shape[1]:
            break
        place = (place + 1) & (len(s.memo) - 1)
    return place


@compiled_inner_without_refcounts
def remember(s: Search, row: int) -> bool:
    """Add the configuration of a row to the memo; False if an equal one is known."""
    place = place_in_memo(s, row)
    if s.memo[place] != 0:
        return False
    s.memo[place] = row + 1
    return True


@compiled_inner_without_refcounts
def is_dominated(s: Search, row: int) -> bool:
    """Whether the configuration used pending operations, and the same one without any is known."""
    bag = s.configs[row, BAG]
    if bag == 0:
        return False
    s.configs[row, BAG] = 0
    known: bool = s.memo[place_in_memo(s, row)] != 0
    s.configs[row, BAG] = bag
    return known


@compiled_inner_without_refcounts
def unlink(s: Search, node: int) -> None:
    """Take a node out of the linked list; it keeps its neighbours for `relink`."""
    s.after[s.before[node]] = s.after[node]
    s.before[s.after[node]] = s.before[node]


@compiled_inner_without_refcounts
def relink(s: Search, node: int) -> None:
    """Put the node that was unlinked last back."""
    s.after[s.before[node]] = node
    s.before[s.after[node]] = node


@compiled_inner_without_refcounts
def linearize(s: Search, taken: int) -> None:
    """Append an operation, or a member of a pending class, to the present path."""
    if taken < 0:
        s.used[-1 - taken] += 1
        s.registers[USED_PENDING] += 1
    else:
        unlink(s, taken)
        unlink(s, len(s.action) + taken)


@compiled_inner_without_refcounts
def undo(s: Search, taken: int) -> None:
    """Remove what was linearized last from the present path."""
    if taken < 0:
        s.used[-1 - taken] -= 1
        s.registers[USED_PENDING] -= 1
    else:
        relink(s, len(s.action) + taken)
        relink(s, taken)


@compiled_inner_without_refcounts
def go_to(s: Search, row: int) -> None:
    """Make a configuration the present one: undo back to the common ancestor, then linearize down to the row."""
    configs, path = s.configs, s.path
    depth = s.registers[CURRENT_DEPTH]
    ancestor = row
    while configs[ancestor, DEPTH] > depth or path[configs[ancestor, DEPTH]] != ancestor:
        ancestor = configs[ancestor, PARENT]
    while depth > configs[ancestor, DEPTH]:
        undo(s, configs[path[depth], TAKEN])
        depth -= 1
    below = row
    while below != ancestor:
        path[configs[below, DEPTH]] = below
        below = configs[below, PARENT]
    while depth < configs[row, DEPTH]:
        depth += 1
        linearize(s, configs[path[depth], TAKEN])
    s.registers[CURRENT_DEPTH] = depth
