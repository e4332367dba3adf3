"""A priority queue of numbers: insert, delete-min; initially empty."""

from __future__ import annotations

from bisect import bisect

from .operations import UNKNOWN, Action, Model

Elements = tuple[float, ...]


def step(state: Elements, action: Action) -> Elements | None:
    """The ascending elements after the action. delete-min: the result is the least element, None if empty."""
    if action.f == "insert":
        at = bisect(state, action.value)
        return (*state[:at], action.value, *state[at:])
    if not state:
        return state if action.result is UNKNOWN or action.result is None else None
    return state[1:] if action.result is UNKNOWN or action.result == state[0] else None


def observes(action: Action) -> bool:
    """A delete-min of an empty queue."""
    return action.f == "delete-min" and action.result is None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def problem(action: Action) -> str | None:
    """Why the action is invalid for a priority queue."""
    if action.f == "insert" and not _is_number(action.value):
        return f"an insert of {action.value!r}, expected a number"
    if action.f == "delete-min" and action.result is not None and action.result is not UNKNOWN:
        return None if _is_number(action.result) else f"a delete-min of {action.result!r}, expected a number"
    return None


PRIORITY_QUEUE: Model[Elements] = Model(
    name="priority-queue",
    initial=(),
    step=step,
    functions=("insert", "delete-min"),
    about="insert of numbers, and delete-min, which returns the least (null if empty)",
    observes=observes,
    problem=problem,
)
