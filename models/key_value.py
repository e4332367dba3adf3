"""A map of strings: get, put, append; a key that was never written holds the empty string.

Keys are independent, so each is checked alone and the state is the value of one key.
"""

from __future__ import annotations

from .operations import UNKNOWN, Action, Model


def step(state: str, action: Action) -> str | None:
    """The value of the key after the action; a get's result is the value, a put's and an append's any."""
    if action.f == "get":
        return state if action.result is UNKNOWN or action.result == state else None
    value: str = action.value
    return value if action.f == "put" else state + value


def observes(action: Action) -> bool:
    """A get."""
    return action.f == "get"


def problem(action: Action) -> str | None:
    """Why the action is none of this map's."""
    if action.f == "get":
        if action.result is not UNKNOWN and not isinstance(action.result, str):
            return f"a get of {action.result!r}, expected a string"
    elif action.f in ("put", "append") and not isinstance(action.value, str):
        return f"{action.f} of {action.value!r}, expected a string"
    return None


KEY_VALUE: Model[str] = Model(
    name="key-value",
    initial="",
    step=step,
    functions=("get", "put", "append"),
    about="get, put and append of strings by key, empty at first; each key is checked alone",
    observes=observes,
    problem=problem,
)
