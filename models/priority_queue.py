"""A priority queue of numbers: insert, delete-min; initially empty."""

from __future__ import annotations

from bisect import bisect

from .buffers import Elements, buffer_model
from .operations import UNKNOWN, Action


def insert_in_order(state: Elements, value: float) -> Elements:
    """The ascending elements with one more."""
    at = bisect(state, value)
    return (*state[:at], value, *state[at:])


def problem(action: Action) -> str | None:
    """The reason why an action is invalid for a priority queue; None if it is valid."""
    number = action.value if action.f == "insert" else action.result
    is_number = isinstance(number, int | float) and not isinstance(number, bool) and number == number
    if is_number or (action.f != "insert" and (number is None or number is UNKNOWN)):
        return None
    return f"{action.f} of {number!r}, expected a number"


PRIORITY_QUEUE = buffer_model("priority-queue", "insert", "delete-min", add=insert_in_order, problem=problem)
