"""A register: read, write, and compare-and-set; its value is initially null (None).

The state is a tuple of one, because `step` returns None for an impossible action.
"""

from __future__ import annotations

from typing import Any

from .operations import UNKNOWN, Action, Model

Register = tuple[Any]


def step(state: Register, action: Action) -> Register | None:
    """The register after the action.

    read: the result is the value. write: any result. cas of (old, new): the result is whether it swapped; with UNKNOWN,
    it swaps if the value is `old`.
    """
    if action.f == "read":
        return state if action.result is UNKNOWN or action.result == state[0] else None
    if action.f == "write":
        return (action.value,)
    old, new = action.value
    matches = old == state[0]
    if action.result is not UNKNOWN and action.result is not matches:
        return None
    return (new,) if matches else state


def observes(action: Action) -> bool:
    """A read, or a cas that did not swap."""
    return action.f == "read" or (action.f == "cas" and action.result is False)


def problem(action: Action) -> str | None:
    """The reason why an action is invalid for a register; None if it is valid."""
    if action.f == "cas":
        if not isinstance(action.value, tuple) or len(action.value) != 2:
            return f"cas of {action.value!r}, expected a pair of the old and the new value"
        if action.result is not UNKNOWN and not isinstance(action.result, bool):
            return f"cas with the result {action.result!r}, expected whether it was swapped"
    return None


def describe_state(state: Register) -> str:
    """The value alone."""
    return repr(state[0])


REGISTER: Model[Register] = Model(
    name="register",
    initial=(None,),
    step=step,
    functions=("read", "write", "cas"),
    observes=observes,
    problem=problem,
    describe_state=describe_state,
)
