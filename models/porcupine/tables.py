"""Open-addressing hash tables of the compiled search: from pairs to numbers, and of configurations."""

from __future__ import annotations

from ..compiled import Ints, Longs, compiled_in_place, inner_in_place

FRONT = 3  # the first column of a configuration's key; search_state.py has the other columns


@compiled_in_place
def copy_into(target: Ints, source: Ints) -> None:
    """Copy an array to the start of another. An assignment to a slice would compile the sentence of its error, too."""
    for i in range(len(source)):
        target[i] = source[i]


@inner_in_place
def place_of(keys: Longs, key: int) -> int:
    """The index of a key in the table, or the empty one where it would go."""
    size = len(keys) - 1
    mixed = key * 0x9E3779B97F4A7C1
    place = (mixed ^ (mixed >> 31)) & size
    while keys[place] != 0 and keys[place] != key:
        place = (place + 1) & size
    return place


@compiled_in_place
def rehash_pairs(keys: Longs, values: Ints, new_keys: Longs, new_values: Ints) -> None:
    """Copy a table of pairs into a larger, empty one."""
    for i in range(len(keys)):
        if keys[i] != 0:
            place = place_of(new_keys, keys[i])
            new_keys[place] = keys[i]
            new_values[place] = values[i]


@inner_in_place
def hash_of(configs: Ints, row: int, size: int) -> int:
    """The index in a memo of this size (a power of two) at which probing for a configuration starts."""
    mixed = 0
    for column in range(FRONT, configs.shape[1]):
        mixed = (mixed ^ configs[row, column]) * 0x2545F4914F6CDD1D
        mixed ^= mixed >> 29
    return mixed & (size - 1)


@compiled_in_place
def rehash_memo(configs: Ints, count: int, memo: Ints) -> None:
    """Add the first `count` configurations, all different, to an empty memo."""
    for row in range(count):
        place = hash_of(configs, row, len(memo))
        while memo[place] != 0:
            place = (place + 1) & (len(memo) - 1)
        memo[place] = row + 1
