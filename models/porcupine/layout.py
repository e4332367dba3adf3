"""Prepares a history for the compiled search: its events in order, its operations numbered by their ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import Ints, compiled, inner
from .steps import History

EXACT = 2.0**53  # a whole number below this is the same as a float


class Layout(NamedTuple):
    """One history of n completed and some pending operations, as search_kernel.py takes it."""

    number: Ints  # by end: the index of the completed operation in the given list
    action: Ints
    slot: Ints
    end_rank: Ints
    after: Ints
    before: Ints
    class_action: Ints
    class_start: Ints
    member: Ints  # by class and call: the index of the pending operation in the given list
    member_rank: Ints
    slots: int  # the greatest number of concurrent completed operations


def events_of(history: History) -> Ints:
    """The calls (i) and ends (-1 - i) of the operations in the order of time; at equal times calls come first."""
    count = len(history.calls)
    ends = [end for end in history.ends if end is not None]
    known = np.arange(count, dtype=np.int32)
    if len(ends) < count:
        known = np.array([i for i, end in enumerate(history.ends) if end is not None], np.int32)
    times = np.array([*history.calls, *ends])
    exact = (
        times.dtype == np.float64 and np.abs(times, where=np.isfinite(times), out=np.zeros(len(times))).max() < EXACT
    )
    if times.dtype != np.int64 and not exact:
        # numpy would round large ints to compare them with floats. Python compares them exactly.
        times_list = [*history.calls, *ends]
        ranks = {time: rank for rank, time in enumerate(sorted(set(times_list)))}
        times = np.array([ranks[time] for time in times_list])
    return order_events(times, count, known)


def order_events(times: NDArray[Any], count: int, completed: Ints) -> Ints:
    """The events in order. `times` has the calls of all operations, then the ends of the completed ones."""
    # A stable sort keeps calls before ends at equal times.
    order = np.argsort(times, kind="stable")
    return np.concatenate([np.arange(count, dtype=np.int32), -1 - completed])[order]


def split_by_part(events: Ints, part_of: Ints, parts: int) -> tuple[Ints, Ints]:
    """The events sorted by part, and where each part starts; one longer than the parts."""
    if parts == 1:
        return events, np.array([0, len(events)], np.int32)
    return sort_by_part(events, part_of, parts)


@compiled
def sort_by_part(events: Ints, part_of: Ints, parts: int) -> tuple[Ints, Ints]:
    """`split_by_part` for several parts, by a counting sort."""
    starts = np.zeros(parts + 1, np.int32)
    for event in events:
        starts[part_of[event if event >= 0 else -1 - event] + 1] += 1
    for part in range(parts):
        starts[part + 1] += starts[part]
    split = np.empty(len(events), np.int32)
    filled = starts.copy()
    for event in events:
        part = part_of[event if event >= 0 else -1 - event]
        split[filled[part]] = event
        filled[part] += 1
    return split, starts


@inner
def _link(events: Ints, number_of: Ints, n: int):  # type: ignore[no-untyped-def]
    """The linked list of the events of completed operations, and their slots."""
    after = np.empty(2 * n + 1, np.int32)
    before = np.empty(2 * n + 1, np.int32)
    slot = np.empty(n, np.int32)
    free = np.empty(n + 1, np.int32)
    freed = 0
    slots = 0
    last = 2 * n
    for event in events:
        i = number_of[event if event >= 0 else -1 - event]
        if i < 0:
            continue
        node = i
        if event < 0:
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


@inner
def _classify(events: Ints, number_of: Ints, action_of: Ints, class_of: Ints, count: int):  # type: ignore[no-untyped-def]
    """The `count` pending operations by class: classes in the order of their first calls, members in that of calls."""
    pending = np.empty(count, np.int32)
    rank = np.empty(count, np.int32)
    class_action = np.empty(count, np.int32)
    class_start = np.zeros(count + 1, np.int32)
    kinds = 0
    found = 0
    for place in range(len(events)):
        event = events[place]
        if event < 0 or number_of[event] >= 0:
            continue
        pending[found] = event
        rank[found] = place
        found += 1
        action = action_of[event]
        if class_of[action] < 0:
            class_of[action] = kinds
            class_action[kinds] = action
            kinds += 1
        class_start[class_of[action] + 1] += 1
    for kind in range(kinds):
        class_start[kind + 1] += class_start[kind]
    member = np.empty(count, np.int32)
    member_rank = np.empty(count, np.int32)
    filled = class_start.copy()
    for i in range(count):
        kind = class_of[action_of[pending[i]]]
        member[filled[kind]] = pending[i]
        member_rank[filled[kind]] = rank[i]
        filled[kind] += 1
    for kind in range(kinds):
        class_of[class_action[kind]] = -1
    return class_action[:kinds], class_start[: kinds + 1], member, member_rank


@compiled
def lay_out(events: Ints, action_of: Ints, number_of: Ints, class_of: Ints) -> Layout:
    """Lay out one part. `number_of` is scratch by operation; `class_of` is -1 for each action, before and after."""
    n = 0
    for event in events:
        if event >= 0:
            number_of[event] = -1
        else:
            number_of[-1 - event] = n
            n += 1
    number = np.empty(n, np.int32)
    action = np.empty(n, np.int32)
    end_rank = np.empty(n, np.int32)
    ended = 0
    for rank in range(len(events)):
        if events[rank] < 0:
            number[ended] = -1 - events[rank]
            action[ended] = action_of[number[ended]]
            end_rank[ended] = rank
            ended += 1
    after, before, slot, slots = _link(events, number_of, n)
    pending = len(events) - 2 * n
    class_action, class_start, member, member_rank = _classify(events, number_of, action_of, class_of, pending)
    return Layout(number, action, slot, end_rank, after, before, class_action, class_start, member, member_rank, slots)


@compiled
def trace(configs: Ints, row: int, number: Ints, class_start: Ints, member: Ints) -> Ints:
    """The operations on the path to a configuration, in the order of their linearization."""
    depth = configs[row, 2]
    taken = np.empty(depth, np.int32)
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
