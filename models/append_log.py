"""An append-only log, as an ideal topic-partition: append, read from an offset, end offset.

Offsets are dense from 0. The model has no retention, compaction, transactions or markers; the rules in analysis/rules
allow their gaps. Its state is the whole log, so it suits histories of thousands of records, not millions.
"""

from __future__ import annotations

from typing import Any

from .operations import UNKNOWN, Action, Model

Records = tuple[Any, ...]


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def step(state: Records, action: Action) -> Records | None:
    """The log after the action.

    append: the result is the offset of the value. read: the result is a tuple of the values from the offset `value` on;
    it may stop before the end, but is empty only at or past the end. end: the result is the offset after the last
    record.
    """
    result = action.result
    if action.f == "append":
        return (*state, action.value) if result is UNKNOWN or result == len(state) else None
    if result is UNKNOWN:
        return state
    if action.f == "end":
        return state if result == len(state) else None
    start: int = action.value
    if not result:
        return state if start >= len(state) else None
    return state if state[start : start + len(result)] == result else None


def observes(action: Action) -> bool:
    """A read or an end offset."""
    return action.f != "append"


def problem(action: Action) -> str | None:
    """The reason why an action is invalid for a log; None if it is valid."""
    known = action.result is not UNKNOWN
    if action.f in ("append", "end") and known and not _is_offset(action.result):
        return f"{action.f} with the result {action.result!r}, expected an offset"
    if action.f == "read":
        if not _is_offset(action.value):
            return f"a read from {action.value!r}, expected an offset"
        if known and not isinstance(action.result, tuple):
            return f"a read of {action.result!r}, expected the values from the offset on"
    return None


APPEND_LOG: Model[Records] = Model(
    name="append-log",
    initial=(),
    step=step,
    functions=("append", "read", "end"),
    observes=observes,
    problem=problem,
)
