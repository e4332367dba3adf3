"""Decides histories of an append-only log whose offsets are known, in linear time."""

from __future__ import annotations

import numpy as np

from ..compiled import Ints, compiled
from .machine import APPEND, LENGTH, LENGTH_MAX, SLICE
from .spans import ILLEGAL, LINEARIZABLE, UNDECIDED, Spans


@compiled
def place_appends(
    events: Ints,
    spans: Spans,
    action_of: Ints,
    code: Ints,
    values: int,
    units: Ints,
    word_start: Ints,
    position: Ints,
    witness: Ints,
) -> tuple[int, int]:
    """The offset of each append of a log (-1: none), how many offsets are known, and a verdict, else -1."""
    appends = 0
    for i in events:
        appends += i >= 0 and code[action_of[i], 0] == APPEND
    owner, value_at = np.full(appends + 1, -1, np.int32), np.full(appends + 1, -1, np.int32)
    appender, length = np.full(values, -1, np.int32), 0
    for i in events:
        if i < 0 or code[action_of[i], 0] != APPEND:
            continue
        position[i] = -1
        value, offset = code[action_of[i], 1], code[action_of[i], 2]
        if offset >= 0 and spans.end[i] == spans.never:
            return length, UNDECIDED
        if offset < 0:
            if appender[value] >= 0:
                return length, UNDECIDED
            appender[value] = i
            continue
        if offset >= appends or owner[offset] >= 0:
            witness[0] = i
            return length, ILLEGAL
        owner[offset], value_at[offset], position[i] = i, value, offset
        length = max(length, offset + 1)
    for i in events:
        if i < 0 or spans.end[i] == spans.never:
            continue
        instruction, a, b = code[action_of[i], 0], code[action_of[i], 1], code[action_of[i], 2]
        known = a if instruction == LENGTH else 0
        if instruction == SLICE:
            known = b + word_start[a + 1] - word_start[a]
        if known > appends:
            witness[0] = i
            return length, ILLEGAL
        length = max(length, known)
        if instruction != SLICE:
            continue
        position[i] = known
        for place in range(known - b):
            value = units[word_start[a] + place]
            if value_at[b + place] < 0:
                value_at[b + place] = value
            elif value_at[b + place] != value:
                witness[0] = i
                return length, ILLEGAL
    for offset in range(length):
        if owner[offset] >= 0:
            continue
        i = appender[value_at[offset]] if value_at[offset] >= 0 else -1
        if i < 0 or position[i] >= 0:
            return length, UNDECIDED
        position[i] = offset
    for i in events:
        if i >= 0 and code[action_of[i], 0] == APPEND and position[i] < 0 and spans.end[i] < spans.never:
            return length, UNDECIDED
    return length, -1


@compiled
def check_log(
    events: Ints, spans: Spans, action_of: Ints, code: Ints, position: Ints, length: int, witness: Ints
) -> int:
    """The offsets order the appends, and the reads between them: none may end before one is called that precedes it.

    An append at offset p has the rank 2p + 1; what finds the log p long stands before it at 2p. `latest` is, by rank,
    the operation called last that has to precede all that follows.
    """
    latest = np.full(2 * length + 3, -1, np.int32)
    rank = np.full(len(events), 0, np.int32)  # by place: what has to precede the operation is below it
    for place in range(len(events)):
        i = events[place]
        if i < 0:
            continue
        instruction, a = code[action_of[i], 0], code[action_of[i], 1]
        known = spans.end[i] < spans.never
        own = -1
        if instruction == APPEND and position[i] >= 0:
            own = rank[place] = 2 * position[i] + 1
        elif known and instruction == LENGTH:
            own = rank[place] = 2 * a
        elif known and instruction == LENGTH_MAX and a <= length:
            own = 2 * a
        elif known and instruction == SLICE:
            rank[place] = 2 * position[i]
        if own >= 0 and (latest[own] < 0 or spans.call[i] > spans.call[latest[own]]):
            latest[own] = i
    for each in range(1, len(latest)):
        before = latest[each - 1]
        if latest[each] < 0 or (before >= 0 and spans.call[before] > spans.call[latest[each]]):
            latest[each] = before
    for place in range(len(events)):
        if rank[place] > 0:
            before = latest[rank[place] - 1]
            if before >= 0 and spans.end[events[place]] < spans.call[before]:
                witness[0], witness[1] = events[place], before
                return ILLEGAL
    return LINEARIZABLE
