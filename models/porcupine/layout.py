"""Lays a history out for the compiled search: its events in order, its operations numbered by their ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..compiled import Ints, Longs, compiled
from .steps import History


class Layout(NamedTuple):
    """One history of n completed operations and others of unknown outcome, as search_kernel wants it."""

    number: Ints  # the index in the given list of each completed operation, by its end
    action: Ints
    slot: Ints
    end_rank: Ints
    after: Ints
    before: Ints
    class_action: Ints
    class_start: Ints
    member: Ints  # the index in the given list of each operation of unknown outcome, by class and call
    member_rank: Ints
    slots: int  # how many slots are in use at most: the greatest number of completed operations at once


def ranks(history: History) -> tuple[Ints, Ints]:
    """The places of the calls and of the ends (-1 for none) among all events; equal times put calls first."""
    count = len(history.calls)
    known = [i for i, end in enumerate(history.ends) if end is not None]
    times = [*history.calls, *(end for end in history.ends if end is not None)]
    array = np.array(times)
    if array.dtype == np.int64:
        # Stable, and the calls come first: so do they among equal times.
        order = np.argsort(array, kind="stable")
    else:
        # Python compares ints and floats exactly, whatever their size; numpy would round them.
        order = np.array(sorted(range(len(times)), key=times.__getitem__), dtype=np.int64)
    rank = np.empty(len(times), np.int32)
    rank[order] = np.arange(len(times), dtype=np.int32)
    end_rank = np.full(count, -1, np.int32)
    end_rank[known] = rank[count:]
    return rank[:count], end_rank


@compiled
def _number(owner: Ints, call_rank: Ints, end_rank: Ints) -> tuple[Ints, Ints]:
    """Completed operations in the order of their ends, and each operation's number in it (-1 for none)."""
    number = np.empty(len(owner), np.int32)
    number_of = np.full(len(call_rank), -1, np.int32)
    n = 0
    for rank in range(len(owner)):
        if end_rank[owner[rank]] == rank:
            number[n] = owner[rank]
            number_of[owner[rank]] = n
            n += 1
    return number[:n].copy(), number_of


@compiled
def _link(owner: Ints, number_of: Ints, end_rank: Ints, n: int) -> tuple[Ints, Ints, Ints, int]:
    """The linked list of the events of completed operations, and their slots."""
    after = np.empty(2 * n + 1, np.int32)
    before = np.empty(2 * n + 1, np.int32)
    slot = np.empty(n, np.int32)
    free = np.empty(n + 1, np.int32)
    freed = 0
    slots = 0
    last = 2 * n
    for rank in range(len(owner)):
        i = number_of[owner[rank]]
        if i < 0:
            continue
        node = i
        if end_rank[owner[rank]] == rank:
            node = n + i
            free[freed] = slot[i]
            freed += 1
        elif freed > 0:
            freed -= 1
            slot[i] = free[freed]
        else:
            slot[i] = slots
            slots += 1
        after[last] = node
        before[node] = last
        last = node
    after[last] = 2 * n
    before[2 * n] = last
    return after, before, slot, slots


@compiled
def _classify(
    owner: Ints, call_rank: Ints, end_rank: Ints, action: Ints, actions: int
) -> tuple[Ints, Ints, Ints, Ints]:
    """The operations of unknown outcome by action: classes in the order of first calls, members of calls."""
    class_of = np.full(actions, -1, np.int32)
    pending = np.empty(len(owner), np.int32)
    waiting = 0
    for rank in range(len(owner)):
        if end_rank[owner[rank]] < 0:
            pending[waiting] = owner[rank]
            waiting += 1
    class_action = np.empty(waiting, np.int32)
    size = np.zeros(waiting + 1, np.int32)
    kinds = 0
    for operation in pending[:waiting]:
        kind = class_of[action[operation]]
        if kind < 0:
            kind = kinds
            class_of[action[operation]] = kinds
            class_action[kinds] = action[operation]
            kinds += 1
        size[kind + 1] += 1
    class_start = np.cumsum(size[: kinds + 1]).astype(np.int32)
    member = np.empty(waiting, np.int32)
    filled = class_start.copy()
    for operation in pending[:waiting]:
        kind = class_of[action[operation]]
        member[filled[kind]] = operation
        filled[kind] += 1
    return class_action[:kinds].copy(), class_start, member, call_rank[member]


@compiled
def _lay_out(call_rank: Ints, end_rank: Ints, action: Ints, actions: int, events: int):  # type: ignore[no-untyped-def]
    owner = np.empty(events, np.int32)
    for i in range(len(call_rank)):
        owner[call_rank[i]] = i
        if end_rank[i] >= 0:
            owner[end_rank[i]] = i
    number, number_of = _number(owner, call_rank, end_rank)
    after, before, slot, slots = _link(owner, number_of, end_rank, len(number))
    class_action, class_start, member, member_rank = _classify(owner, call_rank, end_rank, action, actions)
    return (
        number, action[number], slot, end_rank[number], after, before,
        class_action, class_start, member, member_rank, slots,
    )  # fmt: skip


def lay_out(history: History, action: Ints, actions: int) -> Layout:
    """Lay out operations whose actions are these numbers, below `actions`."""
    call_rank, end_rank = ranks(history)
    events = len(action) + int(np.count_nonzero(end_rank >= 0))
    return Layout(*_lay_out(call_rank, end_rank, action, actions, events))


@compiled
def trace(configs: Ints, row: int, number: Ints, class_start: Ints, member: Ints) -> Longs:
    """The operations on the path to a configuration, in the order of their linearization."""
    depth = configs[row, 2]
    taken = np.empty(depth, np.int64)
    while depth > 0:
        depth -= 1
        taken[depth] = configs[row, 1]
        row = configs[row, 0]
    used = class_start.copy()
    for i in range(len(taken)):
        if taken[i] >= 0:
            taken[i] = number[taken[i]]
        else:
            kind = -1 - taken[i]
            taken[i] = member[used[kind]]
            used[kind] += 1
    return taken
