"""A counter: add or subtract a whole number, read the sum; initially zero."""

from __future__ import annotations

from .operations import UNKNOWN, Action, Model


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def step(state: int, action: Action) -> int | None:
    """The sum after the action. read: the result is the sum; add and subtract: any result."""
    if action.f == "read":
        return state if action.result is UNKNOWN or action.result == state else None
    delta: int = action.value
    return state + delta if action.f == "add" else state - delta


def observes(action: Action) -> bool:
    """A read."""
    return action.f == "read"


def problem(action: Action) -> str | None:
    """The reason why an action is invalid for a counter; None if it is valid."""
    if action.f == "read":
        if action.result is not UNKNOWN and not _is_whole(action.result):
            return f"a read of {action.result!r}, expected a whole number"
    elif action.f in ("add", "subtract") and not _is_whole(action.value):
        return f"{action.f} of {action.value!r}, expected a whole number"
    return None


COUNTER: Model[int] = Model(
    name="counter",
    initial=0,
    step=step,
    functions=("read", "add", "subtract"),
    observes=observes,
    problem=problem,
)
