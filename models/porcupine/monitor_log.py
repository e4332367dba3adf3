"""Decides histories of an append-only log whose offsets are known, in linear time."""

from __future__ import annotations

from typing import NamedTuple

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


class _Placement(NamedTuple):
    """What operations show of the log. -1: nothing."""

    position: Int32s  # by operation: the offset of an append, the length that a slice shows
    source: Int32s  # by append: the operation that shows its position
    owner: Int32s  # by offset: the append that returned it
    appender: Int32s  # by value: its append, if that returned no offset
    value_at: Int32s  # by offset; UNSEEN: nothing shows it
    shown_by: Int32s  # by offset: the first operation that shows its value


@compiled_inner
def check_log(h: PartHistory, units: Int32s, word_start: Int32s, local_of: Int32s) -> tuple[int, Int32s]:
    """Place each append at the offset that it returned, or at which its value was read; then compare the order."""
    count, appends = len(h.call), int(np.count_nonzero(h.instruction == APPEND))
    by_operation, by_offset = np.full(count, -1, np.int32), np.full(appends + 1, -1, np.int32)
    unseen, by_value = np.full(appends + 1, UNSEEN, np.int32), np.full(h.values, -1, np.int32)
    placed = _Placement(by_operation, by_operation.copy(), by_offset, by_value, unseen, by_offset.copy())
    verdict, appended, witness = _place_appends(h, placed, appends)
    if verdict == ILLEGAL:
        return ILLEGAL, witness
    shown, contradiction = _place_slices(h, placed, appends, units, word_start, local_of)
    if len(contradiction) > 0:
        return ILLEGAL, contradiction
    if verdict == UNDECIDED:
        return UNDECIDED, no_witness()
    length = max(appended, shown)
    verdict, witness = _place_other_appends(h, placed, length)
    return (verdict, witness) if verdict != LINEARIZABLE else check_order(h, placed.position, placed.source, length)


@compiled_inner
def _place_appends(h: PartHistory, placed: _Placement, appends: int) -> tuple[int, int, Int32s]:
    """Place the appends that returned their offset: a verdict, the length of the log, and the witness if it is illegal.

    Undecided if a pending append returned an offset, or if two appends of a value returned none.
    """
    verdict, length = LINEARIZABLE, 0
    for i in range(len(h.call)):
        if h.instruction[i] != APPEND:
            continue
        value, offset = h.value[i], h.extra[i]
        if offset < 0:
            verdict = UNDECIDED if placed.appender[value] >= 0 else verdict
            placed.appender[value] = i
        elif h.end[i] == h.never:
            verdict = UNDECIDED
        elif offset >= appends:
            return ILLEGAL, length, np.array([i], np.int32)
        elif placed.owner[offset] >= 0:
            return ILLEGAL, length, np.array([placed.owner[offset], i], np.int32)
        else:
            placed.owner[offset], placed.shown_by[offset], placed.value_at[offset] = i, i, value
            placed.position[i], placed.source[i] = offset, i
            length = max(length, offset + 1)
    return verdict, length, no_witness()


@compiled_inner
def _place_slices(
    h: PartHistory, placed: _Placement, appends: int, units: Int32s, word_start: Int32s, local_of: Int32s
) -> tuple[int, Int32s]:
    """Place the values of slices: the least length that slices and lengths show, and operations that contradict."""
    length = 0
    for i in range(len(h.call)):
        is_slice = h.instruction[i] == SLICE
        if h.end[i] == h.never or not (is_slice or h.instruction[i] == LENGTH):
            continue
        known, first, end = h.value[i], 0, 0
        if is_slice:
            first, end = word_start[known], word_start[known + 1]
            placed.position[i] = known = h.extra[i] + end - first
        if known > appends:
            return length, np.array([i], np.int32)
        length = max(length, known)
        for place in range(end - first):
            value, offset = local_of[units[first + place]], h.extra[i] + place
            if placed.value_at[offset] == UNSEEN:
                placed.value_at[offset], placed.shown_by[offset] = value, i
            elif placed.value_at[offset] != value:
                return length, np.array([placed.shown_by[offset], i], np.int32)
    return length, no_witness()


@compiled_inner
def _place_other_appends(h: PartHistory, placed: _Placement, length: int) -> tuple[int, Int32s]:
    """Place the appends that returned no offset by their values: a verdict, and the witness if it is illegal.

    Undecided if nothing shows the value at an offset, or the offset of an append that completed.
    """
    for offset in range(length):
        value = placed.value_at[offset]
        if placed.owner[offset] >= 0:
            continue
        if value == UNSEEN:
            return UNDECIDED, no_witness()
        i = placed.appender[value] if value >= 0 else -1
        if i < 0 or placed.position[i] >= 0:
            return ILLEGAL, np.array([placed.shown_by[offset], placed.source[i] if i >= 0 else -1], np.int32)
        placed.position[i], placed.source[i] = offset, placed.shown_by[offset]
    for i in range(len(h.call)):
        if h.instruction[i] == APPEND and placed.position[i] < 0 and h.end[i] < h.never:
            return UNDECIDED, no_witness()
    return LINEARIZABLE, no_witness()
