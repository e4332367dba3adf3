"""Sequences of labels as the nodes of a trie, so that equal sequences have equal numbers and need no comparison.

The labels on the path from the root, node 0, to a node are its content. An append costs one look-up in a hash table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s, Ints
from ..compiled import compiled, compiled_inner, compiled_inner_without_refcounts, compiled_without_refcounts

NOT_KNOWN = -2  # instead of a node: there is no room for it

# Columns of a node. SIZE counts units (of one label or more each); JUMP is an ancestor; LINK is the node without the
# first label, -1 if it was not needed yet.
PARENT, LABEL, SIZE, DEPTH, JUMP, FIRST, LINK, COLUMNS = range(8)


class Trie(NamedTuple):
    """The nodes, and a hash table of their children."""

    nodes: Int32s  # a row each
    keys: Ints  # node << 32 | label, plus 1; 0 where empty
    values: Int32s  # the child
    node_count: Int32s  # [number of nodes]
    scratch: Int32s  # room for the labels of a node


@compiled_without_refcounts
def copy_into(target: Int32s, source: Int32s) -> None:
    """Copy an array to the start of another. A slice assignment would also compile the text of its error message."""
    for i in range(len(source)):
        target[i] = source[i]


@compiled_inner_without_refcounts
def place_of(keys: Ints, key: int) -> int:
    """The index of a key in a hash table with open addressing, or the empty one where it would go."""
    size = len(keys) - 1
    mixed = key * 0x9E3779B97F4A7C1
    place = (mixed ^ (mixed >> 31)) & size
    while keys[place] != 0 and keys[place] != key:
        place = (place + 1) & size
    return place


@compiled_without_refcounts
def rehash(keys: Ints, values: Int32s, new_keys: Ints, new_values: Int32s) -> None:
    """Copy a hash table into a larger, empty one."""
    for i in range(len(keys)):
        if keys[i] != 0:
            place = place_of(new_keys, keys[i])
            new_keys[place] = keys[i]
            new_values[place] = values[i]


ROOT = Trie(  # without room for any other node
    np.zeros((1, COLUMNS), np.int32), np.zeros(1, np.int64), np.empty(1, np.int32), np.ones(1, np.int32),
    np.empty(1, np.int32),
)  # fmt: skip


@compiled
def new_trie(room: int) -> Trie:
    """A trie of the root alone, with room for `room` nodes."""
    size = 32
    while size < 2 * room:
        size *= 2
    nodes, keys, values = np.zeros((room, COLUMNS), np.int32), np.zeros(size, np.int64), np.empty(size, np.int32)
    return Trie(nodes, keys, values, np.ones(1, np.int32), np.empty(room, np.int32))


@compiled_inner
def grown(t: Trie) -> Trie:
    """The trie with room for twice as many nodes."""
    larger = new_trie(2 * len(t.nodes))
    copy_into(larger.nodes.reshape(-1), t.nodes.reshape(-1))
    rehash(t.keys, t.values, larger.keys, larger.values)
    larger.node_count[0] = t.node_count[0]
    return larger


@compiled_inner_without_refcounts
def child(t: Trie, node: int, label: int, size: int) -> int:
    """The node with one more label, of `size` units; NOT_KNOWN if there is no room for it."""
    key = ((node << 32) | label) + 1
    place = place_of(t.keys, key)
    if t.keys[place] == key:
        known: int = t.values[place]
        return known
    new: int = t.node_count[0]
    if new == len(t.nodes):
        return NOT_KNOWN
    t.node_count[0] = new + 1
    t.keys[place] = key
    t.values[place] = new
    row, above = t.nodes[new], t.nodes[node]
    row[PARENT], row[LABEL], row[DEPTH], row[SIZE] = node, label, above[DEPTH] + 1, above[SIZE] + size
    row[FIRST] = label if node == 0 else above[FIRST]
    row[LINK] = 0 if node == 0 else -1
    # Myers's skip pointers: any ancestor is O(log depth) away.
    far = t.nodes[above[JUMP]]
    even = above[DEPTH] - far[DEPTH] == far[DEPTH] - t.nodes[far[JUMP], DEPTH]
    row[JUMP] = far[JUMP] if even else node
    return new


@compiled_inner_without_refcounts
def ancestor(t: Trie, node: int, depth: int) -> int:
    """The ancestor of a node at this depth."""
    while t.nodes[node, DEPTH] > depth:
        jump = t.nodes[node, JUMP]
        node = jump if t.nodes[jump, DEPTH] >= depth else t.nodes[node, PARENT]
    return node


@compiled_inner_without_refcounts
def without_first(t: Trie, node: int) -> int:
    """The node without the first label; the labels have one unit each."""
    base, steps = node, 0
    while t.nodes[base, LINK] < 0:
        base = t.nodes[base, PARENT]
        steps += 1
    chain = t.scratch[:steps]
    while node != base:
        steps -= 1
        chain[steps] = node
        node = t.nodes[node, PARENT]
    link = t.nodes[base, LINK]
    for each in chain:
        link = child(t, link, t.nodes[each, LABEL], 1)
        if link < 0:
            return NOT_KNOWN
        t.nodes[each, LINK] = link
    return int(link)


@compiled_inner_without_refcounts
def last_up_to(t: Trie, node: int, label: int) -> int:
    """The deepest ancestor whose last label is at most this one; the labels ascend."""
    while node != 0 and t.nodes[node, LABEL] > label:
        node = t.nodes[node, PARENT]
    return node


@compiled_inner_without_refcounts
def with_rest(t: Trie, start: int, base: int, node: int) -> int:
    """The node `start` with the labels that `node` has after its ancestor `base`."""
    rest = t.scratch[: t.nodes[node, DEPTH] - t.nodes[base, DEPTH]]
    for i in range(len(rest)):
        rest[len(rest) - 1 - i] = t.nodes[node, LABEL]
        node = t.nodes[node, PARENT]
    for each in rest:
        if start < 0:
            break
        start = child(t, start, int(each), 1)
    return start


@compiled_inner_without_refcounts
def inserted(t: Trie, node: int, label: int) -> int:
    """The node of ascending labels with one more, which may repeat a label: a multiset with one more element."""
    base = last_up_to(t, node, label)
    return with_rest(t, child(t, base, label, 1), base, node)
