"""A lock: acquire when it is free, release when it is held; free at first.

The value of an operation is the owner. Without one (null) any holder is as good as another: the plain mutex
of Jepsen's histories. The state is a tuple: empty where free, else the owner.
"""

from __future__ import annotations

from typing import Any

from .operations import Action, Model

Holder = tuple[Any, ...]


def step(state: Holder, action: Action) -> Holder | None:
    """The lock after the action, whatever the result: an acquire that was refused is no operation."""
    if action.f == "acquire":
        return None if state else (action.value,)
    return () if state and state[0] == action.value else None


def describe_state(state: Holder) -> str:
    """Free, or who holds it."""
    if not state:
        return "free"
    return "held" if state[0] is None else f"held by {state[0]!r}"


LOCK: Model[Holder] = Model(
    name="lock",
    initial=(),
    step=step,
    functions=("acquire", "release"),
    about="acquire and release; the value is the owner, or null for a mutex without owners",
    describe_state=describe_state,
)
