"""Decides histories of an append-only log whose offsets are known, in linear time."""

from __future__ import annotations

import numpy as np

from ..arrays import Int32s
from ..compiled import compiled_inner
from .machine import APPEND, LENGTH, LENGTH_MAX, SLICE
from .part_history import ILLEGAL, LINEARIZABLE, UNDECIDED, PartHistory, later, no_witness

UNSEEN = -2  # instead of a value: no operation returned this offset; -1 is a value that no operation appends


@compiled_inner
def check_order(h: PartHistory, position: Int32s, source: Int32s, length: int) -> tuple[int, Int32s]:
    """Compare the order of offsets with real time: no operation may end before the call of one that precedes it.

    An append at offset p has the rank 2p + 1; an operation that found the log p long has the rank 2p. `latest` is, by
    rank, the operation called last that has to precede all of a higher rank.
    """
    latest = np.full(2 * length + 3, -1, np.int32)
    rank = np.zeros(len(h.call), np.int32)  # operations of a lower rank have to precede this one
    for i in range(len(h.call)):
        known = h.end[i] < h.never
        own = -1
        if h.instruction[i] == APPEND and position[i] >= 0:
            own = rank[i] = 2 * position[i] + 1
        elif known and h.instruction[i] == LENGTH:
            own = rank[i] = 2 * h.value[i]
        elif known and h.instruction[i] == LENGTH_MAX and h.value[i] <= length:
            own = 2 * h.value[i]
        elif known and h.instruction[i] == SLICE:
            rank[i] = 2 * position[i]
        if own >= 0:
            latest[own] = later(h.call, latest[own], i)
    for each in range(1, len(latest)):
        latest[each] = later(h.call, latest[each], latest[each - 1])
    for i in range(len(h.call)):
        before = latest[rank[i] - 1] if rank[i] > 0 else -1
        if before >= 0 and h.end[i] < h.call[before]:
            return ILLEGAL, np.array([i, source[i], before, source[before]], np.int32)
    return LINEARIZABLE, no_witness()


@compiled_inner
def check_log(h: PartHistory, units: Int32s, word_start: Int32s, local_of: Int32s) -> tuple[int, Int32s]:
    """Place each append at the offset that it returned, or at which its value was read; then compare the order.

    The source of an offset is the operation that returned it.
    """
    count, appends, length = len(h.call), np.count_nonzero(h.instruction == APPEND), 0
    position, source = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
    owner, appender = np.full(appends + 1, -1, np.int32), np.full(h.values, -1, np.int32)
    value_at, shown_by = np.full(appends + 1, UNSEEN, np.int32), np.full(appends + 1, -1, np.int32)
    ambiguous = False
    for i in range(count):  # appends that returned their offset
        if h.instruction[i] != APPEND:
            continue
        value, offset = h.value[i], h.extra[i]
        if offset < 0:
            ambiguous |= appender[value] >= 0
            appender[value] = i
        elif h.end[i] == h.never:
            ambiguous = True
        elif offset >= appends:
            return ILLEGAL, np.array([i], np.int32)
        elif owner[offset] >= 0:
            return ILLEGAL, np.array([owner[offset], i], np.int32)
        else:
            owner[offset], shown_by[offset], value_at[offset] = i, i, value
            position[i], source[i] = offset, i
            length = max(length, offset + 1)
    for i in range(count):  # lengths that were returned, and slices with their values
        is_slice = h.instruction[i] == SLICE
        if h.end[i] == h.never or not (is_slice or h.instruction[i] == LENGTH):
            continue
        known, first, end = h.value[i], 0, 0
        if is_slice:
            first, end = word_start[known], word_start[known + 1]
            position[i] = known = h.extra[i] + end - first
        if known > appends:
            return ILLEGAL, np.array([i], np.int32)
        length = max(length, known)
        for place in range(end - first):
            value, offset = local_of[units[first + place]], h.extra[i] + place
            if value_at[offset] == UNSEEN:
                value_at[offset], shown_by[offset] = value, i
            elif value_at[offset] != value:
                return ILLEGAL, np.array([shown_by[offset], i], np.int32)
    if ambiguous:
        return UNDECIDED, no_witness()
    for offset in range(length):  # appends that did not: their value identifies them
        if owner[offset] >= 0:
            continue
        if value_at[offset] == UNSEEN:
            return UNDECIDED, no_witness()
        i = appender[value_at[offset]] if value_at[offset] >= 0 else -1
        if i < 0 or position[i] >= 0:
            return ILLEGAL, np.array([shown_by[offset], source[i] if i >= 0 else -1], np.int32)
        position[i], source[i] = offset, shown_by[offset]
    for i in range(count):
        if h.instruction[i] == APPEND and position[i] < 0 and h.end[i] < h.never:
            return UNDECIDED, no_witness()
    return check_order(h, position, source, length)
