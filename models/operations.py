"""What a sequential specification is, and the words that it shares with the engine.

An `Action` is what a model sees: a function, its argument and its result. An `Operation` is an action with its interval
in time and its client, which the model never sees: whether a step is legal depends on the state alone, so the engine
can compute each pair of state and action once and remember the result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, TypeVar

State = TypeVar("State", bound=Hashable)


class Unknown(Enum):
    """The type of UNKNOWN; an enum, so that it survives copies and type checkers can narrow it."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


# The result of an operation without a completion. None is a value: many systems return null.
UNKNOWN = Unknown.UNKNOWN


class Action(NamedTuple):
    """A call of a function of one object, with its argument and its result; hashable.

    Values that Python calls equal (1, 1.0 and True) are one value here; the readers of logjudge keep them
    apart.
    """

    f: str  # the function: read, write, cas, ...
    value: Any = None  # its argument
    result: Any = UNKNOWN  # UNKNOWN if the client received none
    key: Any = None  # the object, if a history has several independent ones


class Operation(NamedTuple):
    """An action, when it was invoked and when it completed, on one clock of any unit.

    Intervals are closed: an operation that ends at the instant at which another is called is concurrent with
    it. An operation without an end (None) may take effect at any time after its call, or never.
    """

    action: Action
    call: float  # int or float
    end: float | None = None
    process: Any = None


class Event(NamedTuple):
    """One end of an operation; the order of a list of events is the order of time.

    A call carries the action (its result is ignored), a return the result. A call without return is an
    operation of unknown outcome.
    """

    kind: Literal["call", "return"]
    id: Hashable
    value: Any = None
    process: Any = None


class ModelError(Exception):
    """A history and a model that do not fit together, or a model that breaks its contract; one sentence."""

    def __init__(self, sentence: str, operation: int | None = None) -> None:
        super().__init__(sentence)
        self.operation = operation  # index in the list of operations that was checked


def describe_action(action: Action) -> str:
    """An action as a short line, such as `cas (1, 2) → True`; a result of None is left out."""
    argument = "" if action.value is None else f" {action.value!r}"
    key = "" if action.key is None else f"[{action.key!r}]"
    if action.result is UNKNOWN:
        return f"{action.f}{key}{argument} → ?"
    result = "" if argument and action.result is None else f" → {action.result!r}"
    return f"{action.f}{key}{argument}{result}"


def by_key(action: Action) -> Hashable:
    """The partition of models whose keys are independent objects."""
    key: Hashable = action.key
    return key


def observes_nothing(action: Action) -> bool:  # noqa: ARG001
    """The default of `observes`: every action may change the state."""
    return False


def no_problem(action: Action) -> str | None:  # noqa: ARG001
    """The default of `problem`: every action belongs to the model."""
    return None


@dataclass(frozen=True)
class Model(Generic[State]):
    """A sequential specification: an initial state and what each action does to a state.

    `step` returns the state after the action, or None if the action with this result is impossible in this state. It
    must be pure, and states and actions must be hashable. A result of UNKNOWN constrains nothing. `partition` returns
    the independent object of an action: each object is checked alone, which gives the same verdict (linearizability is
    compositional) much faster. `problem` returns in a few words why an action does not belong to this model, so that a
    malformed history is an error and not a verdict.
    """

    name: str
    initial: State
    step: Callable[[State, Action], State | None]
    functions: tuple[str, ...] = ()  # the functions of its actions; empty: `problem` decides alone
    about: str = ""
    partition: Callable[[Action], Hashable] | None = by_key
    observes: Callable[[Action], bool] = observes_nothing
    problem: Callable[[Action], str | None] = no_problem
    describe: Callable[[Action], str] = describe_action
    describe_state: Callable[[State], str] = repr
