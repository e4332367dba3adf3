"""Numbers for states and actions, and the table of steps between them, shared by the searches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from operator import itemgetter, le
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..operations import Action, Model, ModelError, Operation

if TYPE_CHECKING:
    from .encoding import Encoding

IMPOSSIBLE = -1  # instead of a state: the action cannot have this result here
FURTHEST = 8  # partial linearizations that are reported at most
# About what CPython takes for an entry of the table, and for a state in addition to the state itself.
STEP_BYTES, STATE_BYTES = 100, 150


class Found(NamedTuple):
    """The result of a search: its verdict (None: it gave up), and how far it came.

    Operations are indices into the list that was searched.
    """

    verdict: Literal["ok", "illegal", None]
    front: int  # how many completed operations were linearized, by their ends
    paths: list[list[int]]  # ok: the linearization; else the longest partial ones among the furthest
    states: list[Any]  # possible at the furthest front
    configurations: int
    reason: str = ""  # why it gave up


class History(NamedTuple):
    """Operations in columns, with numbered actions. An end of None is an unknown outcome (the operation is pending)."""

    calls: Sequence[float]
    ends: Sequence[float | None]
    action_of: Sequence[int]

    def part(self, indices: Sequence[int]) -> History:
        """Some of the operations."""
        return History(*[picked(column, indices) for column in self])


def picked(values: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    """The values at these places."""
    return itemgetter(*places)(values) if len(places) > 1 else [values[i] for i in places]


class Budget:
    """The remaining time (`timeout` is in seconds from now), memory (in bytes) and work.

    Work is counted in candidates of the compiled search, so a search that it ends has the same result on any machine.
    """

    def __init__(self, timeout: float | None, memory: int, work: float = float("inf")) -> None:
        self.deadline = float("inf") if timeout is None else time.perf_counter() + timeout
        self.memory, self.work = memory, work
        self.held = 0  # bytes that unreleased searches hold

    def is_late(self) -> bool:
        """Whether the time or the work ran out."""
        return self.work <= 0 or time.perf_counter() >= self.deadline


class Steps:
    """The steps that a search needs: the model is called once for each pair of a state and an action."""

    def __init__(
        self,
        model: Model[Any],
        actions: Sequence[Action],
        observes: Sequence[bool],
        encoding: Encoding | None = None,
    ) -> None:
        self.model, self.actions, self.observes = model, actions, observes
        self.encoding = encoding  # if given, the steps are compiled, and the model is never called
        self.states: list[Any] = [model.initial]
        self.numbers: dict[Any, int] = {model.initial: 0}
        self.width = len(actions)
        self.table: dict[int, int] = {}  # state * width + action → the state after it, or IMPOSSIBLE
        # Calls the model for a pair that is not in the table, and adds the result; a new state gets the next number.
        self.compute = self._make_compute()
        self._measured_states, self._state_bytes = 0, 0

    @property
    def nbytes(self) -> int:
        """The approximate memory of states and table."""
        self._state_bytes += sum(map(sys.getsizeof, self.states[self._measured_states :]))
        self._measured_states = len(self.states)
        return self._state_bytes + STATE_BYTES * len(self.states) + STEP_BYTES * len(self.table)

    def after(self, state: int, action: int) -> int:
        """The state after the action, or IMPOSSIBLE."""
        known = self.table.get(state * self.width + action)
        return self.compute(state, action) if known is None else known

    def _make_compute(self) -> Callable[[int, int], int]:
        """The function `compute`: a closure, because attribute look-ups would cost more than most steps."""
        step, actions, states, numbers = self.model.step, self.actions, self.states, self.numbers
        observes, table, width = self.observes, self.table, self.width

        def compute(state: int, action: int) -> int:
            before = states[state]
            try:
                after = step(before, actions[action])
                if after is before:
                    table[state * width + action] = state
                    return state
                if after is None:
                    table[state * width + action] = IMPOSSIBLE
                    return IMPOSSIBLE
                number = numbers.setdefault(after, len(states))
            except Exception as error:
                raise ModelError(
                    f"model {self.model.name}: step({before!r}, {actions[action]!r}) "
                    f"raised {type(error).__name__}: {error}"
                ) from error
            if number == len(states):
                states.append(after)
            if observes[action] and number != state:
                raise ModelError(
                    f"model {self.model.name}: {actions[action]!r} is declared an observation "
                    f"but changes {before!r} to {after!r}"
                )
            table[state * width + action] = number
            return number

        return compute


def number_actions(model: Model[Any], operations: Sequence[Operation]) -> tuple[list[Action], list[bool], History]:
    """The distinct actions, which of them are observations, and the operations in columns, with their actions' numbers.

    Raises ModelError for an action that does not belong to the model, and for an operation that ends before its call.
    """
    numbers: dict[Action, int] = {}
    try:
        action_of = [numbers.setdefault(operation[0], len(numbers)) for operation in operations]
    except TypeError:
        for index, operation in enumerate(operations):
            try:
                hash(operation.action)
            except TypeError as error:
                raise ModelError(f"{operation.action!r}, which cannot be hashed ({error})", index) from error
        raise
    for action, number in numbers.items():
        if model.functions and action.f not in model.functions:
            problem: str | None = f"the operation {action.f!r}, expected one of {', '.join(model.functions)}"
        else:
            problem = model.problem(action)
        if problem:
            raise ModelError(problem, action_of.index(number))
    _, calls, ends, _ = zip(*operations, strict=True)
    latest = ends
    if None in ends:
        latest = tuple([call if end is None else end for call, end in zip(calls, ends, strict=True)])
    if not all(map(le, calls, latest)):
        index = next(i for i, (call, end) in enumerate(zip(calls, latest, strict=True)) if not call <= end)
        raise ModelError(f"an operation that ends at {ends[index]!r}, called at {calls[index]!r}", index)
    return list(numbers), list(map(model.observes, numbers)), History(calls, ends, action_of)
