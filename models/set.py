"""A set: add, remove, contains, and read of all its elements; empty at first."""

from __future__ import annotations

from typing import Any

from .operations import UNKNOWN, Action, Model

Elements = frozenset[Any]


def step(state: Elements, action: Action) -> Elements | None:
    """The set after the action. add, remove: any result; contains: whether the element is in; read: all elements.

    The elements of a read are a tuple or a frozenset, each once, in any order.
    """
    if action.f == "add":
        return state | {action.value}
    if action.f == "remove":
        return state - {action.value}
    if action.result is UNKNOWN:
        return state
    if action.f == "contains":
        return state if action.result is (action.value in state) else None
    return state if len(action.result) == len(state) and frozenset(action.result) == state else None


def observes(action: Action) -> bool:
    """A read or a contains."""
    return action.f in ("read", "contains")


def problem(action: Action) -> str | None:
    """The reason why an action is invalid for a set; None if it is valid."""
    if action.result is not UNKNOWN:
        if action.f == "contains" and not isinstance(action.result, bool):
            return f"contains with the result {action.result!r}, expected true or false"
        if action.f == "read" and not isinstance(action.result, tuple | frozenset):
            return f"a read of {action.result!r}, expected all elements"
    return None


def describe_state(state: Elements) -> str:
    """The elements in a fixed order."""
    return "{" + ", ".join(sorted(map(repr, state))) + "}"


SET: Model[Elements] = Model(
    name="set",
    initial=frozenset(),
    step=step,
    functions=("add", "remove", "contains", "read"),
    observes=observes,
    problem=problem,
    describe_state=describe_state,
)
