"""A queue, first in first out: enqueue, dequeue; initially empty."""

from __future__ import annotations

from typing import Any

from .operations import UNKNOWN, Action, Model

Elements = tuple[Any, ...]


def step(state: Elements, action: Action) -> Elements | None:
    """The queue after the action. dequeue: the result is the oldest element, None if empty."""
    if action.f == "enqueue":
        return (*state, action.value)
    if not state:
        return state if action.result is UNKNOWN or action.result is None else None
    return state[1:] if action.result is UNKNOWN or action.result == state[0] else None


def observes(action: Action) -> bool:
    """A dequeue of an empty queue."""
    return action.f == "dequeue" and action.result is None


def problem(action: Action) -> str | None:
    """Why the action is invalid for a queue."""
    if action.f == "enqueue" and action.value is None:
        return "an enqueue of null, expected a value (null is the result of a dequeue from an empty queue)"
    return None


QUEUE: Model[Elements] = Model(
    name="queue",
    initial=(),
    step=step,
    functions=("enqueue", "dequeue"),
    about="enqueue, and dequeue of the oldest element (null if empty)",
    observes=observes,
    problem=problem,
)
