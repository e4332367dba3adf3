"""The compiled steps of the built-in models: an action is an instruction, a state is a number.

The state of a register, a counter or a lock is a value's number. Sequences and sets are nodes of a trie (trie.py). Sets
and priority queues have their labels in ascending order. encoding.py writes the instructions. Tests compare each step
with the model in Python, which is the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner, compiled_inner_without_refcounts, compiled_without_refcounts
from .trie import (
    DEPTH,
    FIRST,
    LABEL,
    PARENT,
    ROOT,
    SIZE,
    Trie,
    ancestor,
    child,
    inserted,
    last_up_to,
    new_trie,
    with_rest,
    without_first,
)

IMPOSSIBLE = -1  # instead of a state: the result does not fit; NOT_KNOWN: not computed yet, or no room for it

# Instructions, with their arguments a and b.
PASS, NEVER, READ, WRITE, ADD = range(5)  # of values: READ a, WRITE a, ADD a
CAS, CAS_FAILED, CAS_ANY = range(5, 8)  # from a to b
APPEND, SPELL, REPLACE, RESPELL = range(8, 12)  # label a (where the length is b, if b >= 0); all labels of word a
IS, SLICE, LENGTH, LENGTH_MAX = range(12, 16)  # the content is word a; word a stands at b; its length; at most a
DEQUEUE, DEQUEUE_ANY, POP, POP_ANY = range(16, 20)  # label a, first or last
INSERT, INCLUDE, REMOVE, CONTAINS, LACKS = range(20, 25)  # label a; INSERT may repeat it

# The monitor of a model (monitors.py).
NO_MONITOR, REGISTER, LOG, QUEUE, STACK, PRIORITY_QUEUE, SET, LOCK, CONTENTS = range(9)


class Machine(NamedTuple):
    """Instructions, and the trie of the states that they have reached."""

    code: Int32s  # by action: instruction, a, b; empty if the model exists in Python only
    units: Int32s  # the concatenated words: labels, or characters
    word_start: Int32s  # where each word starts; one longer than the words
    spelled: Int32s  # [1] if a label is a word of characters, [0] if a label is a unit
    matched: Int32s  # by action: the deepest node known to be a prefix of the word that the action reads
    trie: Trie


NOTHING = np.empty(0, np.int32)
# Of a model without compiled steps.
NO_MACHINE = Machine(np.empty((0, 3), np.int32), NOTHING, NOTHING, np.zeros(1, np.int32), NOTHING, ROOT)


def machine_of(code: Sequence[tuple[int, int, int]], words: Sequence[Sequence[int] | Int32s] = ()) -> Machine:
    """A machine of these instructions, without a trie."""
    return NO_MACHINE._replace(
        code=np.array(code, np.int32).reshape(-1, 3),
        units=np.concatenate([NOTHING, *words]).astype(np.int32, copy=False),
        word_start=np.concatenate([[0], np.cumsum([len(word) for word in words])]).astype(np.int32),
    )


class Monitored(NamedTuple):
    """The actions of a history as a monitor takes them."""

    kind: int  # which monitor
    machine: Machine
    initial: int
    values: int  # how many values the code numbers
    refutes_only: bool = False  # whether the history may be illegal though the monitor finds it linearizable


@compiled_inner
def with_room(machine: Machine, room: int) -> Machine:
    """The machine with an empty trie that has room for `room` nodes."""
    machine = with_trie(machine, new_trie(room))
    return Machine(*machine[:4], np.zeros(len(machine.code), np.int32), machine.trie)


@compiled_inner
def with_trie(machine: Machine, trie: Trie) -> Machine:
    """The machine with a larger trie of the same states."""
    return Machine(machine.code, machine.units, machine.word_start, machine.spelled, machine.matched, trie)


@compiled_inner_without_refcounts
def append(m: Machine, node: int, label: int) -> int:
    """The node with one more label."""
    size = m.word_start[label + 1] - m.word_start[label] if m.spelled[0] else 1
    return child(m.trie, node, label, size)


@compiled_inner_without_refcounts
def spell(m: Machine, node: int, word: int) -> int:
    """The node with all units of a word appended."""
    for i in range(m.word_start[word], m.word_start[word + 1]):
        node = child(m.trie, node, m.units[i], 1)
        if node < 0:
            break
    return node


@compiled_inner_without_refcounts
def ends_with(m: Machine, node: int, low: int, high: int) -> bool:
    """Whether the content ends with the units low..high-1."""
    while high > low:
        label = m.trie.nodes[node, LABEL]
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
        node = m.trie.nodes[node, PARENT]
    return True


@compiled_inner_without_refcounts
def begins(m: Machine, node: int, action: int) -> bool:
    """Whether the content is a prefix of the word that the action reads; `matched` caches the longest one."""
    low = m.word_start[m.code[action, 1]]
    if m.trie.nodes[node, SIZE] > m.word_start[m.code[action, 1] + 1] - low:
        return False
    known = m.matched[action]
    if m.trie.nodes[node, DEPTH] <= m.trie.nodes[known, DEPTH]:
        return ancestor(m.trie, known, m.trie.nodes[node, DEPTH]) == node
    if ancestor(m.trie, node, m.trie.nodes[known, DEPTH]) != known:
        return False
    if not ends_with(m, node, low + m.trie.nodes[known, SIZE], low + m.trie.nodes[node, SIZE]):
        return False
    m.matched[action] = node
    return True


@compiled_inner_without_refcounts
def reads(m: Machine, node: int, action: int) -> bool:
    """Whether the content is what the action reads."""
    word = m.code[action, 1]
    return m.trie.nodes[node, SIZE] == m.word_start[word + 1] - m.word_start[word] and begins(m, node, action)


@compiled_inner_without_refcounts
def has_slice(m: Machine, node: int, word: int, start: int) -> bool:
    """Whether the labels from `start` on begin with those of the word."""
    low, high = m.word_start[word], m.word_start[word + 1]
    depth = start + high - low
    return m.trie.nodes[node, DEPTH] >= depth and ends_with(m, ancestor(m.trie, node, depth), low, high)


@compiled_inner_without_refcounts
def step_set(t: Trie, node: int, label: int, instruction: int) -> int:
    """The step of INCLUDE, REMOVE, CONTAINS or LACKS on ascending labels."""
    base = last_up_to(t, node, label)
    present = base != 0 and t.nodes[base, LABEL] == label
    if instruction == CONTAINS or instruction == LACKS:  # noqa: SIM109 (numba has no `in` for these)
        return node if present == (instruction == CONTAINS) else IMPOSSIBLE
    if present == (instruction == INCLUDE):
        return node
    return with_rest(t, int(t.nodes[base, PARENT]), base, node) if present else inserted(t, node, label)


@compiled_inner_without_refcounts
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


@compiled_inner_without_refcounts
def step_observation(m: Machine, instruction: int, action: int, state: int) -> bool:
    """Whether the result of an observation of a sequence fits."""
    a, b = m.code[action, 1], m.code[action, 2]
    if instruction == IS:
        return reads(m, state, action)
    if instruction == SLICE:
        return has_slice(m, state, a, b)
    if instruction == LENGTH:
        return bool(m.trie.nodes[state, DEPTH] == a)
    return bool(m.trie.nodes[state, DEPTH] <= a)


@compiled_without_refcounts
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
        return append(m, state, a) if b < 0 or m.trie.nodes[state, DEPTH] == b else IMPOSSIBLE
    if instruction < IS:
        if instruction == REPLACE:
            return append(m, 0, a)
        return spell(m, state if instruction == SPELL else 0, a)
    if instruction < DEQUEUE:
        return state if step_observation(m, instruction, action, state) else IMPOSSIBLE
    if instruction == INSERT:
        return inserted(m.trie, state, a)
    if instruction > INSERT:
        return step_set(m.trie, state, a, instruction)
    if state == 0:
        return 0 if instruction == DEQUEUE_ANY or instruction == POP_ANY else IMPOSSIBLE  # noqa: SIM109
    if instruction == DEQUEUE or instruction == DEQUEUE_ANY:  # noqa: SIM109
        fits = instruction == DEQUEUE_ANY or m.trie.nodes[state, FIRST] == a
        return without_first(m.trie, state) if fits else IMPOSSIBLE
    fits = instruction == POP_ANY or m.trie.nodes[state, LABEL] == a
    return int(m.trie.nodes[state, PARENT]) if fits else IMPOSSIBLE
