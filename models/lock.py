"""A lock: acquire if it is free, release if it is held; initially free.

The value of an operation is the owner; with null as every owner it is the plain mutex of Jepsen's histories. The state
is a tuple: empty if the lock is free, otherwise its owner.
"""

from __future__ import annotations

from typing import Any

from .operations import Action, Model

Holder = tuple[Any, ...]


def step(state: Holder, action: Action) -> Holder | None:
    """The lock after the action, with any result. A refused acquire has no effect, so it is not an operation."""
    if action.f == "acquire":
        return None if state else (action.value,)
    return () if state and state[0] == action.value else None


def describe_state(state: Holder) -> str:
    """Whether the lock is free, and its owner."""
    if not state:
        return "free"
    return "held" if state[0] is None else f"held by {state[0]!r}"


LOCK: Model[Holder] = Model(
    name="lock",
    initial=(),
    step=step,
    functions=("acquire", "release"),
    describe_state=describe_state,
)
