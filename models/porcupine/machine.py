"""The compiled steps of the built-in models: an action is an instruction, a state is a number.

The state of a register, a counter or a lock is a value's number. Sequences and sets are nodes of a trie: the labels on
the path from the root are the content. So equal states have equal numbers, and an append costs one look-up. A queue's
`LINK` points to the node without the first label. Sets and priority queues have their labels in ascending order.
encoding.py writes the instructions. Tests compare each step with the model in Python, which is the definition.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import Ints, Longs, compiled, compiled_in_place, inner, inner_in_place
from .tables import copy_into, place_of, rehash_pairs

IMPOSSIBLE, NOT_KNOWN = -1, -2  # instead of a state: the result does not fit; not computed yet, or no room for it

# Instructions, with their arguments a and b.
PASS, NEVER, READ, WRITE, ADD = range(5)  # of values: READ a, WRITE a, ADD a
CAS, CAS_FAILED, CAS_ANY = range(5, 8)  # from a to b
APPEND, SPELL, REPLACE, RESPELL = range(8, 12)  # label a (where the length is b, if b >= 0); all labels of word a
IS, SLICE, LENGTH, LENGTH_MAX = range(12, 16)  # the content is word a; word a stands at b; its length; at most a
DEQUEUE, DEQUEUE_ANY, POP, POP_ANY = range(16, 20)  # label a, first or last
INSERT, INCLUDE, REMOVE, CONTAINS, LACKS = range(20, 25)  # label a; INSERT may repeat it

# Which of monitors.py knows the model.
NO_MONITOR, REGISTER, LOG, QUEUE, STACK, PRIORITY_QUEUE, SET, LOCK = range(8)

# Columns of a node.
PARENT, LABEL, SIZE, DEPTH, JUMP, FIRST, LINK, COLUMNS = range(8)


class Machine(NamedTuple):
    """Instructions, and the trie of the states that they have reached."""

    code: Ints  # by action: instruction, a, b; empty if the model exists in Python only
    units: Ints  # the concatenated words: labels, or characters
    word_start: Ints  # where each word starts; one longer than the words
    spelled: Ints  # [1] if a label is a word of characters, [0] if a label is a unit
    matched: Ints  # by action: the deepest node known to be a prefix of the word that the action reads
    nodes: Ints  # a row each; the root is 0
    node_keys: Longs  # node << 32 | label, plus 1; 0 where empty
    node_values: Ints
    node_count: Ints  # [number of nodes]
    scratch: Ints  # room for the labels of a node


NO_MACHINE = Machine(  # of a model without compiled steps
    code=np.empty((0, 3), np.int32),
    units=np.empty(0, np.int32),
    word_start=np.empty(0, np.int32),
    spelled=np.empty(1, np.int32),
    matched=np.empty(0, np.int32),
    nodes=np.empty((0, COLUMNS), np.int32),
    node_keys=np.empty(0, np.int64),
    node_values=np.empty(0, np.int32),
    node_count=np.ones(1, np.int32),
    scratch=np.empty(0, np.int32),
)


@compiled
def new_trie(machine: Machine, room: int) -> Machine:
    """The machine with an empty trie that has room for `room` nodes."""
    size = 32
    while size < 2 * room:
        size *= 2
    return Machine(
        machine.code,
        machine.units,
        machine.word_start,
        machine.spelled,
        np.zeros(len(machine.code), np.int32),
        np.zeros((room, COLUMNS), np.int32),
        np.zeros(size, np.int64),
        np.empty(size, np.int32),
        np.ones(1, np.int32),
        np.empty(room, np.int32),
    )


@inner
def grow_trie(machine: Machine) -> Machine:
    """The machine with room for twice as many nodes."""
    grown = new_trie(machine, 2 * len(machine.nodes))
    copy_into(grown.nodes.reshape(-1), machine.nodes.reshape(-1))
    rehash_pairs(machine.node_keys, machine.node_values, grown.node_keys, grown.node_values)
    grown.node_count[0] = machine.node_count[0]
    copy_into(grown.matched, machine.matched)
    return grown


@inner_in_place
def child(m: Machine, node: int, label: int) -> int:
    """The node with one more label; NOT_KNOWN if there is no room for it."""
    key = ((node << 32) | label) + 1
    place = place_of(m.node_keys, key)
    if m.node_keys[place] == key:
        known: int = m.node_values[place]
        return known
    made: int = m.node_count[0]
    if made == len(m.nodes):
        return NOT_KNOWN
    m.node_count[0] = made + 1
    m.node_keys[place] = key
    m.node_values[place] = made
    row, above = m.nodes[made], m.nodes[node]
    row[PARENT], row[LABEL], row[DEPTH] = node, label, above[DEPTH] + 1
    row[SIZE] = above[SIZE] + (m.word_start[label + 1] - m.word_start[label] if m.spelled[0] else 1)
    row[FIRST] = label if node == 0 else above[FIRST]
    row[LINK] = 0 if node == 0 else -1
    # Myers's skip pointers: any ancestor is O(log depth) away.
    far = m.nodes[above[JUMP]]
    even = above[DEPTH] - far[DEPTH] == far[DEPTH] - m.nodes[far[JUMP], DEPTH]
    row[JUMP] = far[JUMP] if even else node
    return made


@inner_in_place
def spell(m: Machine, node: int, word: int) -> int:
    """The node with all units of a word appended."""
    for i in range(m.word_start[word], m.word_start[word + 1]):
        node = child(m, node, m.units[i])
        if node < 0:
            break
    return node


@inner_in_place
def ends_with(m: Machine, node: int, low: int, high: int) -> bool:
    """Whether the content ends with the units low..high-1."""
    while high > low:
        label = m.nodes[node, LABEL]
        if m.spelled[0]:
            stop = m.word_start[label + 1]
            size = stop - m.word_start[label]
            if size > high - low:
                return False
            for i in range(1, size + 1):
                if m.units[high - i] != m.units[stop - i]:
                    return False
            high -= size
        else:
            high -= 1
            if m.units[high] != label:
                return False
        node = m.nodes[node, PARENT]
    return True


@inner_in_place
def ancestor(m: Machine, node: int, depth: int) -> int:
    """The ancestor of a node at this depth."""
    while m.nodes[node, DEPTH] > depth:
        jump = m.nodes[node, JUMP]
        node = jump if m.nodes[jump, DEPTH] >= depth else m.nodes[node, PARENT]
    return node


@inner_in_place
def begins(m: Machine, node: int, action: int) -> bool:
    """Whether the content is a prefix of the word that the action reads; `matched` caches the longest one."""
    low = m.word_start[m.code[action, 1]]
    if m.nodes[node, SIZE] > m.word_start[m.code[action, 1] + 1] - low:
        return False
    known = m.matched[action]
    if m.nodes[node, DEPTH] <= m.nodes[known, DEPTH]:
        return ancestor(m, known, m.nodes[node, DEPTH]) == node
    if ancestor(m, node, m.nodes[known, DEPTH]) != known:
        return False
    if not ends_with(m, node, low + m.nodes[known, SIZE], low + m.nodes[node, SIZE]):
        return False
    m.matched[action] = node
    return True


@inner_in_place
def reads(m: Machine, node: int, action: int) -> bool:
    """Whether the content is what the action reads."""
    word = m.code[action, 1]
    return m.nodes[node, SIZE] == m.word_start[word + 1] - m.word_start[word] and begins(m, node, action)


@inner_in_place
def has_slice(m: Machine, node: int, word: int, start: int) -> bool:
    """Whether the labels from `start` on begin with those of the word."""
    low, high = m.word_start[word], m.word_start[word + 1]
    depth = start + high - low
    return m.nodes[node, DEPTH] >= depth and ends_with(m, ancestor(m, node, depth), low, high)


@inner_in_place
def without_first(m: Machine, node: int) -> int:
    """The node without the first label."""
    steps = 0
    base = node
    while m.nodes[base, LINK] < 0:
        base = m.nodes[base, PARENT]
        steps += 1
    if steps == 0:
        known: int = m.nodes[node, LINK]
        return known
    chain = m.scratch[:steps]
    while node != base:
        steps -= 1
        chain[steps] = node
        node = m.nodes[node, PARENT]
    link = m.nodes[base, LINK]
    for each in chain:
        link = child(m, link, m.nodes[each, LABEL])
        if link < 0:
            return NOT_KNOWN
        m.nodes[each, LINK] = link
    return int(link)


@inner_in_place
def changed_set(m: Machine, node: int, label: int, instruction: int) -> int:
    """The step of INSERT, INCLUDE, REMOVE, CONTAINS or LACKS on ascending labels."""
    base = node
    above = 0
    while base != 0 and m.nodes[base, LABEL] > label:
        base = m.nodes[base, PARENT]
        above += 1
    present = base != 0 and m.nodes[base, LABEL] == label
    if instruction == CONTAINS or instruction == LACKS:  # noqa: SIM109 (numba has no `in` for these)
        return node if present == (instruction == CONTAINS) else IMPOSSIBLE
    if instruction != INSERT and present == (instruction == INCLUDE):
        return node
    greater = m.scratch[:above]
    for i in range(above):
        greater[above - 1 - i] = m.nodes[node, LABEL]
        node = m.nodes[node, PARENT]
    made = m.nodes[base, PARENT] if instruction == REMOVE else child(m, base, label)
    for each in greater:
        if made < 0:
            break
        made = child(m, made, int(each))
    return int(made)


@inner_in_place
def step_value(instruction: int, a: int, b: int, state: int) -> int:
    """The step of an instruction on a value."""
    if instruction == READ:
        return state if state == a else IMPOSSIBLE
    if instruction == WRITE:
        return a
    if instruction == ADD:
        return state + a
    if state == a:
        return b if instruction != CAS_FAILED else IMPOSSIBLE
    return state if instruction != CAS else IMPOSSIBLE


@inner_in_place
def step_observation(m: Machine, instruction: int, action: int, state: int) -> bool:
    """Whether the result of an observation of a sequence fits."""
    a, b = m.code[action, 1], m.code[action, 2]
    if instruction == IS:
        return reads(m, state, action)
    if instruction == SLICE:
        return has_slice(m, state, a, b)
    if instruction == LENGTH:
        return bool(m.nodes[state, DEPTH] == a)
    return bool(m.nodes[state, DEPTH] <= a)


@compiled_in_place
def step(m: Machine, state: int, action: int) -> int:
    """The state after the action, IMPOSSIBLE, or NOT_KNOWN if the trie is full."""
    instruction, a, b = m.code[action, 0], m.code[action, 1], m.code[action, 2]
    if instruction == PASS:
        return state
    if instruction == NEVER:
        return IMPOSSIBLE
    if instruction < APPEND:
        return step_value(instruction, a, b, state)
    if instruction == APPEND:
        return child(m, state, a) if b < 0 or m.nodes[state, DEPTH] == b else IMPOSSIBLE
    if instruction < IS:
        if instruction == REPLACE:
            return child(m, 0, a)
        return spell(m, state if instruction == SPELL else 0, a)
    if instruction < DEQUEUE:
        return state if step_observation(m, instruction, action, state) else IMPOSSIBLE
    if instruction >= INSERT:
        return changed_set(m, state, a, instruction)
    if state == 0:
        return 0 if instruction == DEQUEUE_ANY or instruction == POP_ANY else IMPOSSIBLE  # noqa: SIM109
    if instruction == DEQUEUE or instruction == DEQUEUE_ANY:  # noqa: SIM109
        fits = instruction == DEQUEUE_ANY or m.nodes[state, FIRST] == a
        return without_first(m, state) if fits else IMPOSSIBLE
    fits = instruction == POP_ANY or m.nodes[state, LABEL] == a
    return int(m.nodes[state, PARENT]) if fits else IMPOSSIBLE
