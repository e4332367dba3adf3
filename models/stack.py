"""A stack, last in first out: push, pop; initially empty."""

from __future__ import annotations

from typing import Any

from .operations import UNKNOWN, Action, Model

Elements = tuple[Any, ...]


def step(state: Elements, action: Action) -> Elements | None:
    """The stack after the action. pop: the result is the newest element, None if empty."""
    if action.f == "push":
        return (*state, action.value)
    if not state:
        return state if action.result is UNKNOWN or action.result is None else None
    return state[:-1] if action.result is UNKNOWN or action.result == state[-1] else None


def observes(action: Action) -> bool:
    """A pop of an empty stack."""
    return action.f == "pop" and action.result is None


def problem(action: Action) -> str | None:
    """Why the action is invalid for a stack."""
    if action.f == "push" and action.value is None:
        return "a push of null, expected a value (null is the result of a pop from an empty stack)"
    return None


STACK: Model[Elements] = Model(
    name="stack",
    initial=(),
    step=step,
    functions=("push", "pop"),
    about="push, and pop of the newest element (null if empty)",
    observes=observes,
    problem=problem,
)
