"""Prepares a history for the compiled search: sorts its events by part, and numbers its operations by their ends."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled, compiled_inner


class Layout(NamedTuple):
    """One history of n completed and some pending operations. From `action` on, the fields are those of a Search."""

    number: Int32s  # by end: the index of the completed operation in the history
    member: Int32s  # by class and call: the index of the pending operation in the history
    slots: int  # the greatest number of concurrent completed operations
    action: Int32s
    slot: Int32s
    end_rank: Int32s
    class_action: Int32s
    class_start: Int32s
    member_rank: Int32s
    after: Int32s
    before: Int32s


@compiled
def sort_by_part(events: Int32s, part_of: Int32s, parts: int) -> tuple[Int32s, Int32s]:
    """The events sorted by part, and where each part starts (one longer than the parts): a counting sort."""
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


@compiled_inner
def _link(events: Int32s, number_of: Int32s, n: int):  # type: ignore[no-untyped-def]
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


@compiled_inner
def _classify(events: Int32s, number_of: Int32s, action_of: Int32s, class_of: Int32s, count: int):  # type: ignore[no-untyped-def]
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
def lay_out(events: Int32s, action_of: Int32s, number_of: Int32s, class_of: Int32s) -> Layout:
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
    return Layout(number, member, slots, action, slot, end_rank, class_action, class_start, member_rank, after, before)


@compiled
def trace(configs: Int32s, row: int, number: Int32s, class_start: Int32s, member: Int32s) -> Int32s:
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
