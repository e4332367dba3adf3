"""A sequential specification (`Model`), and the types that it shares with the engine.

A model sees only an `Action`: a function, its argument and its result. An `Operation` adds the interval in time and the
client. So whether a step is legal depends on the state and the action alone, and the engine computes each pair once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, Literal, NamedTuple, TypeVar

State = TypeVar("State", bound=Hashable)


class Unknown(Enum):
    """The type of UNKNOWN: an enum, so that copies stay identical and type checkers can narrow it."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


# The result of an operation without a completion. (None is a result: many systems return null.)
UNKNOWN = Unknown.UNKNOWN


class Action(NamedTuple):
    """A call of a function of one object, with its argument and its result; hashable.

    Values that are equal in Python (1, 1.0 and True) are one value here. logjudge's readers keep them apart.
    """

    f: str  # the function: read, write, cas, ...
    value: Any = None  # its argument
    result: Any = UNKNOWN  # UNKNOWN if the client received none
    key: Any = None  # the object, if the history has several independent ones


class Operation(NamedTuple):
    """An action with the times of its invocation and completion, on one clock in any unit.

    Intervals are closed: an operation that ends when another is called is concurrent with it. An operation without an
    end (None) is pending: it may take effect at any time after its call, or never.
    """

    action: Action
    call: float
    end: float | None = None
    process: Any = None


class Event(NamedTuple):
    """The call or the return of an operation; a list of events is in the order of time.

    The value of a call is the action (its result is ignored), that of a return is the result. An operation without a
    return is pending.
    """

    kind: Literal["call", "return"]
    id: Hashable
    value: Any = None
    process: Any = None


class ModelError(Exception):
    """The history does not fit the model, or the model breaks its contract. The message is one sentence."""

    def __init__(self, sentence: str, operation: int | None = None) -> None:
        super().__init__(sentence)
        self.operation = operation  # its index in the checked list


def describe_action(action: Action) -> str:
    """An action as text, such as `cas (1, 2) → True`; a result of None is left out."""
    argument = "" if action.value is None else f" {action.value!r}"
    key = "" if action.key is None else f"[{action.key!r}]"
    if action.result is UNKNOWN:
        return f"{action.f}{key}{argument} → ?"
    result = "" if argument and action.result is None else f" → {action.result!r}"
    return f"{action.f}{key}{argument}{result}"


def by_key(action: Action) -> Hashable:
    """The `partition` of models whose keys are independent objects."""
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

    `step` returns the state after the action, or None if the action cannot have this result in this state; UNKNOWN fits
    any state. It must be pure, and states and actions must be hashable. `partition` returns the independent object of
    an action. Each object is checked alone, which is much faster and gives the same verdict (linearizability is
    compositional). `observes` returns whether an action never changes a state. `problem` returns why an action does not
    belong to this model, so that a malformed history is an error and not a verdict.
    """

    name: str
    initial: State
    step: Callable[[State, Action], State | None]
    functions: tuple[str, ...] = ()  # the functions of its actions; empty: only `problem` decides
    partition: Callable[[Action], Hashable] | None = by_key
    observes: Callable[[Action], bool] = observes_nothing
    problem: Callable[[Action], str | None] = no_problem
    describe: Callable[[Action], str] = describe_action
    describe_state: Callable[[State], str] = repr
