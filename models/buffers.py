"""The common part of queue, stack and priority queue, where values are inserted, and removed one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .operations import UNKNOWN, Action, Model, no_problem

Elements = tuple[Any, ...]


def append(state: Elements, value: Any) -> Elements:
    """The elements with a new last one."""
    return (*state, value)


def buffer_model(
    name: str,
    insert: str,
    remove: str,
    *,
    takes_last: bool = False,
    add: Callable[[Elements, Any], Elements] = append,
    problem: Callable[[Action], str | None] = no_problem,
) -> Model[Elements]:
    """The model with the functions `insert` and `remove`; the latter returns the first or last element after `add`.

    Its result is None if the object is empty.
    """
    index, rest = (-1, slice(None, -1)) if takes_last else (0, slice(1, None))

    def step(state: Elements, action: Action) -> Elements | None:
        if action.f == insert:
            return add(state, action.value)
        if not state:
            return state if action.result is UNKNOWN or action.result is None else None
        return state[rest] if action.result is UNKNOWN or action.result == state[index] else None

    def finds_nothing(action: Action) -> bool:
        return action.f == remove and action.result is None

    def problem_of(action: Action) -> str | None:
        if action.f == insert and action.value is None:
            return f"{insert} of null, expected a value (null is the result of {remove} of an empty {name})"
        return problem(action)

    return Model(
        name=name,
        initial=(),
        step=step,
        functions=(insert, remove),
        observes=finds_nothing,
        problem=problem_of,
    )
