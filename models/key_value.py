"""A map of strings: get, put, append; initially every key has the empty string.

Keys are independent, so each is checked alone, and the state is the value of one key.
"""

from __future__ import annotations

from typing import Any

from .operations import UNKNOWN, Action, Model


def step(state: Any, action: Action) -> Any:
    """The value of the key after the action. get: the result is the value; put and append: any result.

    A get may return null for the empty string. Only strings can be appended to.
    """
    if action.f == "get":
        result = action.result
        return state if result is UNKNOWN or result == state or (result is None and state == "") else None
    value = "" if action.value is None else action.value
    if action.f == "put":
        return value
    return state + value if isinstance(state, str) else None


def observes(action: Action) -> bool:
    """A get."""
    return action.f == "get"


def problem(action: Action) -> str | None:
    """The reason why an action is invalid for a map; None if it is valid."""
    if action.f == "append" and not isinstance(action.value, str):
        return f"append of {action.value!r}, expected a string"
    return None


KEY_VALUE: Model[Any] = Model(
    name="key-value",
    initial="",
    step=step,
    functions=("get", "put", "append"),
    observes=observes,
    problem=problem,
)
