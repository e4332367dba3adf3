"""A priority queue of numbers: insert, delete-min; empty at first."""

from __future__ import annotations

from bisect import bisect

from .operations import UNKNOWN, Action, Model

Elements = tuple[float, ...]


def step(state: Elements, action: Action) -> Elements | None:
    """The elements, ascending, after the action; a delete-min's result is the least element, or None where empty."""
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
    """Why the action is none of a priority queue's."""
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
    about="insert of numbers, and delete-min, which answers the least (null where empty)",
    observes=observes,
    problem=problem,
)
