"""What a compiled search holds: its arrays, the memo of configurations, and the bags of used operations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import Ints, Longs, compiled, compiled_in_place, inner, inner_in_place
from .layout import Layout
from .machine import NOT_KNOWN, Machine, grow_trie, step
from .tables import FRONT, hash_of, place_of, rehash_memo, rehash_pairs

# Columns of a configuration. Its key is all from FRONT on, of any width: the slots' bits take what they need.
PARENT, TAKEN, DEPTH, _, STATE, BAG, SLOTS = range(7)

# The registers of a search, kept between its pauses.
COUNT, STACKED, LATEST, AT, HELD, BAGS, STEPS, BEST, REQUESTS, FUEL, ROOM, PROGRESS, DISTANCE, BY_CALLS, REGISTERS = (
    range(15)
)


class Search(NamedTuple):
    """The arrays of one search over n completed operations; int32 but where said otherwise."""

    # The history: fixed.
    action: Ints  # of a completed operation
    slot: Ints
    end_rank: Ints  # its end's place among all events
    observes: Ints  # 1 for an action that never changes a state
    class_action: Ints  # of a class of operations of unknown outcome; ordered by their first call
    class_start: Ints  # where its members start in member_rank; one longer than the classes
    member_rank: Ints  # the place of their calls among all events, ascending within the class
    # The path that the search stands on.
    after: Ints  # linked list of calls (0..n-1) and ends (n..2n-1) not linearized; 2n is its head
    before: Ints
    path: Ints  # configurations from the first to the present, by depth
    used: Ints  # members used of each class
    ways: Ints  # scratch: the completed operations that may be next,
    way_states: Ints  # the states after them,
    way_orders: Ints  # in which order they are stacked,
    way_of: Ints  # and by action its place among them, -1 between expansions
    registers: Longs  # int64
    late_head: Ints  # by front: the configuration that waits there and came last, -1 for none
    # The configurations, and where the search goes next.
    configs: Ints  # a row each
    memo: Ints  # hash table: row + 1, 0 where empty; its length a power of two
    stack: Ints
    late_next: Ints  # by configuration that waits: the one that came before it
    # The step table and the bags, hash tables from pairs to numbers.
    step_keys: Longs  # int64: state << 32 | action, plus 1; 0 where empty
    step_values: Ints
    bag_keys: Longs  # int64: bag << 32 | class, plus 1
    bag_values: Ints
    bag_parent: Ints
    bag_class: Ints
    requests: Longs  # int64, two columns: the pairs of state and action that the caller has to provide
    machine: Machine  # the model's steps, compiled, if it is built in; then the step table stays empty


AT_CONFIGS, AT_STEPS, AT_BAGS, AT_REQUESTS = map(Search._fields.index, ("configs", "step_keys", "bag_keys", "requests"))


@compiled
def new_search(layout: Layout, machine: Machine, observes: Ints, initial: int, way_of: Ints) -> Search:
    """A search at its start; `initial` is the number of the first state, `way_of` is -1 for each action."""
    n, members, kinds = len(layout.number), len(layout.member), len(layout.class_action)
    room = layout.slots + kinds + 2
    rows = 64
    while rows < 2 * n + room + 448:
        rows *= 2
    registers = np.zeros(REGISTERS, np.int64)
    registers[COUNT] = registers[STACKED] = registers[BAGS] = 1
    registers[LATEST] = -1
    registers[DISTANCE] = 1
    registers[ROOM] = room
    configs = np.empty((rows, SLOTS + (layout.slots + 31) // 32), np.int32)
    configs[0] = 0
    configs[0, STATE] = initial
    stack = np.empty(rows, np.int32)
    stack[0] = 0
    path = np.empty(n + 2 * members + 2, np.int32)
    path[0] = 0
    search = Search(
        layout.action,
        layout.slot,
        layout.end_rank,
        observes,
        layout.class_action,
        layout.class_start,
        layout.member_rank,
        layout.after,
        layout.before,
        path,
        np.zeros(kinds, np.int32),
        np.empty(layout.slots, np.int32),
        np.empty(layout.slots, np.int32),
        np.empty(layout.slots, np.int32),
        way_of,
        registers,
        np.full(n + 1, -1, np.int32),
        configs,
        np.zeros(2 * rows, np.int32),
        stack,
        np.empty(rows if kinds else 0, np.int32),
        np.zeros(1024 if len(machine.code) == 0 else 1, np.int64),
        np.empty(1024 if len(machine.code) == 0 else 1, np.int32),
        np.zeros(128 if kinds else 1, np.int64),
        np.empty(128 if kinds else 1, np.int32),
        np.zeros(64 if kinds else 1, np.int32),
        np.zeros(64 if kinds else 1, np.int32),
        np.empty((room, 2), np.int64),
        machine,
    )
    remember(search, 0)
    return search


@inner
def longer(array: Ints, length: int) -> Ints:
    """An array of this length that starts with the given one."""
    copy = np.empty(length, np.int32)
    copy[: len(array)] = array
    return copy


@compiled
def with_more_configs(s: Search) -> Search:
    """The search with room for twice as many configurations."""
    rows, count = len(s.configs), s.registers[COUNT]
    configs = np.empty((2 * rows, s.configs.shape[1]), np.int32)
    configs[:count] = s.configs[:count]
    memo = np.zeros(4 * rows, np.int32)
    rehash_memo(configs, count, memo)
    late_next = longer(s.late_next, 2 * len(s.late_next))
    return Search(*s[:AT_CONFIGS], configs, memo, longer(s.stack, 2 * rows), late_next, *s[AT_STEPS:])  # type: ignore[call-arg, arg-type]


@compiled
def with_more_bags(s: Search, size: int) -> Search:
    """The search with room for so many bags, a power of two."""
    keys, values = np.zeros(2 * size, np.int64), np.empty(2 * size, np.int32)
    rehash_pairs(s.bag_keys, s.bag_values, keys, values)
    parent, kind = longer(s.bag_parent, size), longer(s.bag_class, size)
    return Search(*s[:AT_BAGS], keys, values, parent, kind, *s[AT_REQUESTS:])  # type: ignore[call-arg, arg-type]


@compiled
def with_more_nodes(s: Search) -> Search:
    """The search with a trie of twice the room."""
    return Search(*s[:-1], grow_trie(s.machine))


@compiled
def lacks_configs(s: Search) -> bool:
    """Whether a search that is full lacks room for configurations; else it lacks room for bags."""
    return bool(s.registers[COUNT] + s.registers[ROOM] > len(s.configs))


@compiled
def bags_needed(s: Search) -> int:
    """The room for bags that a search needs which is full, a power of two."""
    size = 2 * len(s.bag_parent)
    while size < s.registers[BAGS] + len(s.used) * (s.registers[HELD] + 1):
        size *= 2
    return size


@inner_in_place
def step_of(s: Search, state: int, action: int) -> int:
    """The state after the action, IMPOSSIBLE, or NOT_KNOWN."""
    if len(s.machine.code) > 0:
        return step(s.machine, state, action)
    key = ((state << 32) | action) + 1
    place = place_of(s.step_keys, key)
    return s.step_values[place] if s.step_keys[place] == key else NOT_KNOWN


@compiled_in_place
def add_steps(s: Search, steps: Longs) -> None:
    """Put new steps into the table, which has room: rows of a state, an action, and the state after."""
    for i in range(len(steps)):
        key = ((steps[i, 0] << 32) | steps[i, 1]) + 1
        place = place_of(s.step_keys, key)
        s.step_keys[place] = key
        s.step_values[place] = steps[i, 2]
    s.registers[STEPS] += len(steps)


@inner_in_place
def child_bag(s: Search, bag: int, kind: int) -> int:
    """The bag with one more of a class not below its greatest."""
    key = ((bag << 32) | kind) + 1
    place = place_of(s.bag_keys, key)
    if s.bag_keys[place] == 0:
        made = s.registers[BAGS]
        s.registers[BAGS] += 1
        s.bag_keys[place] = key
        s.bag_values[place] = made
        s.bag_parent[made] = bag
        s.bag_class[made] = kind
    child: int = s.bag_values[place]
    return child


@inner_in_place
def bag_with(s: Search, bag: int, kind: int) -> int:
    """The bag with one more of any class: down to its place in the ascending order, and up again."""
    base = bag
    while base != 0 and s.bag_class[base] > kind:
        base = s.bag_parent[base]
    made = child_bag(s, base, kind)
    # The greater ones again, in ascending order. Walking from the root for each would be simpler and
    # quadratic; the slots of the path beyond its end are free, so they hold them meanwhile.
    top = len(s.path) - 1
    free = top
    while bag != base:
        s.path[free] = s.bag_class[bag]
        free -= 1
        bag = s.bag_parent[bag]
    while free < top:
        free += 1
        made = child_bag(s, made, s.path[free])
    return made


@inner_in_place
def place_in_memo(s: Search, row: int) -> int:
    """The place of the row's configuration in the memo, whichever row it came with, or the empty one for it."""
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


@inner_in_place
def remember(s: Search, row: int) -> bool:
    """Enter the configuration of a new row into the memo; False if it is known."""
    place = place_in_memo(s, row)
    if s.memo[place] != 0:
        return False
    s.memo[place] = row + 1
    return True


@inner_in_place
def is_dominated(s: Search, row: int) -> bool:
    """Whether the same configuration is known that has used none of unknown outcome."""
    bag = s.configs[row, BAG]
    if bag == 0:
        return False
    s.configs[row, BAG] = 0
    known: bool = s.memo[place_in_memo(s, row)] != 0
    s.configs[row, BAG] = bag
    return known
