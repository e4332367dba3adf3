"""Numbers for states and actions, and the table of steps between them, shared by the searches."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..arrays import Int32s
from ..operations import Action, Model, ModelError

if TYPE_CHECKING:
    from .encoding import Encoding

IMPOSSIBLE = -1  # instead of a state: the action cannot have this result here
MAX_PATHS = 8  # partial linearizations that are reported at most
MAX_STATES = 100  # states that are reported at most: contents may be long, and a search that is cut off has many
# About what CPython takes for an entry of the table, and for a state in addition to the state itself.
STEP_BYTES, STATE_BYTES = 100, 150


class SearchResult(NamedTuple):
    """The result of a search: its verdict (None: it gave up), and how far it came.

    Operations are indices into the whole history.
    """

    verdict: Literal["ok", "illegal", None]
    front: int  # how many completed operations were linearized, by their ends
    paths: list[list[int]]  # ok: the linearization; else the longest partial ones among the furthest
    states: list[Any]  # possible at the furthest front
    configurations: int
    reason: str = ""  # why it gave up


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
        self, model: Model[Any], actions: Sequence[Action], observes: Int32s, encoding: Encoding | None = None
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
