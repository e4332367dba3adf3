"""Is a history linearizable with respect to a sequential specification? The engine's interface, after Go Porcupine.

    from logjudge.models.porcupine import Action, Operation, check_operations
    from logjudge.models.register import REGISTER
    result = check_operations(REGISTER, [Operation(Action("write", 1), 0, 10), Operation(Action("read", None, 1), 5, 12)])

The verdict is `ok`, `illegal`, or `unknown` where a budget of time or memory ran out first: never a guess.
The algorithm is in linearize_search.py, with the reason why each shortcut keeps the verdict.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from . import linearize_layout as layouts
from . import linearize_search as searches
from .operations import UNKNOWN, Action, Event, Model, ModelError, Operation, State

__all__ = [
    "UNKNOWN",
    "Action",
    "Event",
    "Model",
    "ModelError",
    "Operation",
    "Part",
    "Result",
    "check_events",
    "check_operations",
    "warm_up",
]

Verdict = Literal["ok", "illegal", "unknown"]

DEFAULT_MEMORY = 2 << 30  # bytes
FUEL = 100_000  # candidates between two looks at the clock: a few milliseconds
WHOLE_ROW = 96  # up to so many actions, a state that is met is stepped with all of them at once
PARTIALS = 8  # partial linearizations and states that a result keeps at most


@dataclass(frozen=True)
class Part:
    """What was found out about one independent object (all of the history where the model has no partition).

    Operations are given as indices into the list that was checked.
    """

    key: Hashable
    verdict: Verdict
    operations: list[int] = field(repr=False)
    completed: int  # how many of them completed
    placed: int  # how many of those, by the order of their ends, some linearization places: how far it came
    configurations: int  # how many were looked at
    # ok: one complete linearization. Else the longest partial ones, one for each state that they end in.
    linearizations: list[list[int]] = field(repr=False)
    # The operation that could not be placed (the first to complete that no linearization reaches), and the
    # states possible before it; None and empty where the verdict is ok.
    blocked: int | None = None
    states: list[Any] = field(default_factory=list)
    reason: str = ""  # why it is unknown


@dataclass(frozen=True)
class Result:
    """The verdict on a history, and what was found out about each part that was looked at.

    The parts after an illegal one are not looked at. `seconds` is all that the check took, with the numbering of
    operations and the calls of the model, and without compilation where `warm_up` came before.
    """

    verdict: Verdict
    seconds: float
    parts: list[Part]

    @property
    def worst(self) -> Part | None:
        """The part that decides the verdict: the illegal one, or the first unknown, or else the first."""
        return next((part for part in self.parts if part.verdict == self.verdict), None)


class _Budget:
    """What is left of time (seconds of the monotonic clock) and memory (bytes)."""

    def __init__(self, timeout: float | None, memory: int | None) -> None:
        self.deadline = None if timeout is None else time.perf_counter() + timeout
        self.memory = DEFAULT_MEMORY if memory is None else memory

    def late(self) -> bool:
        return self.deadline is not None and time.perf_counter() >= self.deadline


class _Checker:
    """One search over one part: interns states, answers the search's questions, and lets its arrays grow."""

    def __init__(
        self, model: Model[Any], operations: Sequence[Operation], indices: list[int], budget: _Budget
    ) -> None:
        self.model, self.budget = model, budget
        self.operations = operations if len(indices) == len(operations) else [operations[i] for i in indices]
        self.indices = indices
        numbers: dict[Action, int] = {}
        self._intern_actions(numbers)
        self.actions = list(numbers)
        self.layout = layouts.lay_out(self.operations, self.numbers, len(self.actions))
        self.states: list[Any] = [model.initial]
        self.state_numbers: dict[Any, int] = {model.initial: 0}
        self.state_bytes = sys.getsizeof(model.initial)
        self.reason = ""
        self.search = self._new_search()

    def _intern_actions(self, numbers: dict[Action, int]) -> None:
        """Number the actions, equal ones alike, and refuse those that the model does not know."""
        try:
            self.numbers = np.array(
                [numbers.setdefault(operation[0], len(numbers)) for operation in self.operations], np.int32
            )
        except TypeError:
            self._blame(lambda action: hash(action) and None, "an action that cannot be hashed")
            raise
        problem = self.model.problem
        if any(map(problem, numbers)):
            self._blame(problem, "")

    def _blame(self, problem: Any, what: str) -> None:
        """Raise an error that names the first operation with a problem."""
        for index, operation in zip(self.indices, self.operations, strict=True):
            try:
                found = problem(operation.action)
            except TypeError as error:
                raise ModelError(f"{what}: {operation.action!r} ({error})", index) from error
            if found:
                raise ModelError(found, index)

    def _new_search(self) -> searches.Search:
        layout = self.layout
        n, members, kinds = len(layout.number), len(layout.member), len(layout.class_action)
        self.room = layout.slots + kinds + 2
        rows = _power_of_two(2 * n + self.room + 64)
        width = searches.SLOTS + (layout.slots + 31) // 32
        registers = np.zeros(searches.REGISTERS, np.int64)
        registers[searches.COUNT] = registers[searches.STACKED] = registers[searches.BAGS] = 1
        configs = np.empty((rows, width), np.int32)
        configs[0] = 0
        memo = np.zeros(2 * rows, np.int32)
        stack = np.empty(rows, np.int32)
        stack[0] = 0
        path = np.empty(n + 2 * members + 2, np.int32)
        path[0] = 0
        search = searches.Search(
            action=layout.action,
            slot=layout.slot,
            end_rank=layout.end_rank,
            class_action=layout.class_action,
            class_start=layout.class_start,
            member_rank=layout.member_rank,
            after=layout.after,
            before=layout.before,
            path=path,
            used=np.zeros(kinds, np.int32),
            registers=registers,
            configs=configs,
            memo=memo,
            stack=stack,
            late=np.empty(rows if kinds else 0, np.int32),
            step_keys=np.zeros(1024, np.int64),
            step_values=np.empty(1024, np.int32),
            bag_keys=np.zeros(128 if kinds else 1, np.int64),
            bag_values=np.empty(128 if kinds else 1, np.int32),
            bag_parent=np.zeros(64 if kinds else 1, np.int32),
            bag_class=np.zeros(64 if kinds else 1, np.int32),
            asked=np.empty((self.room, 2), np.int64),
        )
        searches.remember(search, 0)
        return search

    def run(self) -> Part:
        """Search until there is a verdict or a budget is gone."""
        verdict: Verdict = "unknown"
        if self._has_memory_for(0):
            while True:
                if self.budget.late():
                    self.reason = "the time ran out"
                    break
                self.search.registers[searches.FUEL] = FUEL
                said = searches.search(self.search, self.room)
                if said == searches.FOUND:
                    verdict = "ok"
                    break
                if said == searches.EXHAUSTED:
                    verdict = "illegal"
                    break
                if said == searches.MISSING and not self._provide_steps():
                    break
                if said == searches.FULL and not self._grow():
                    break
        return self._part(verdict)

    def _provide_steps(self) -> bool:
        """Call the model for the pairs that the search asked for; False if there is no memory for the answers."""
        search = self.search
        pairs = search.asked[: search.registers[searches.ASKED]]
        if len(self.actions) <= WHOLE_ROW:
            state = int(pairs[0, 0])
            row = self._steps(state, range(len(self.actions)))
            pairs = np.empty((len(row), 2), np.int64)
            pairs[:, 0] = state
            pairs[:, 1] = np.arange(len(row))
            values = row
        else:
            asked = dict.fromkeys(pairs[:, 1].tolist())
            state = int(pairs[0, 0])
            values = self._steps(state, asked)
            pairs = np.empty((len(values), 2), np.int64)
            pairs[:, 0] = state
            pairs[:, 1] = list(asked)
        size = len(search.step_keys)
        if 2 * (int(search.registers[searches.STEPS]) + len(pairs)) > size:
            while 2 * (int(search.registers[searches.STEPS]) + len(pairs)) > size:
                size *= 2
            if not self._has_memory_for(12 * size):
                return False
            keys, table = np.zeros(size, np.int64), np.empty(size, np.int32)
            searches.rehash_pairs(search.step_keys, search.step_values, keys, table)
            self.search = search = search._replace(step_keys=keys, step_values=table)
        searches.add_steps(search, pairs, np.array(values, np.int32))
        return self._has_memory_for(0)

    def _steps(self, number: int, actions: Iterable[int]) -> list[int]:
        """The numbers of the states after each of the actions; a new state gets the next number."""
        step, states, state_numbers, names = self.model.step, self.states, self.state_numbers, self.actions
        state = states[number]
        found = []
        action: int | None = None
        try:
            for action in actions:
                stepped = step(state, names[action])
                if stepped is None:
                    found.append(searches.IMPOSSIBLE)
                    continue
                known = state_numbers.get(stepped)
                if known is None:
                    known = state_numbers[stepped] = len(states)
                    states.append(stepped)
                    # What dictionary and list hold of it besides is about a hundred bytes.
                    self.state_bytes += sys.getsizeof(stepped) + 100
                found.append(known)
        except Exception as error:
            asked = names[action] if action is not None else None
            raise ModelError(
                f"model {self.model.name}: step({state!r}, {asked!r}) raised {type(error).__name__}: {error}"
            ) from error
        return found

    def _grow(self) -> bool:
        """Double the arrays of configurations or bags, whichever is full; False if there is no memory for it."""
        search = self.search
        count, bags = int(search.registers[searches.COUNT]), int(search.registers[searches.BAGS])
        rows, width = search.configs.shape
        if count + self.room > rows:
            if not self._has_memory_for(2 * rows * (4 * width + 8 + 8)):
                return False
            memo = np.zeros(4 * rows, np.int32)
            searches.rehash_memo(search.configs, count, memo)
            self.search = search._replace(
                configs=_longer(search.configs, count),
                memo=memo,
                stack=_longer(search.stack, len(search.stack)),
                late=_longer(search.late, len(search.late)),
            )
            return True
        size = 2 * len(search.bag_parent)
        while size < bags + len(search.used) * (int(search.registers[searches.HELD]) + 1):
            size *= 2
        if not self._has_memory_for(size * (2 * 12 + 8)):
            return False
        keys, values = np.zeros(2 * size, np.int64), np.empty(2 * size, np.int32)
        searches.rehash_pairs(search.bag_keys, search.bag_values, keys, values)
        parent, kind = np.zeros(size, np.int32), np.zeros(size, np.int32)
        parent[:bags], kind[:bags] = search.bag_parent[:bags], search.bag_class[:bags]
        self.search = search._replace(bag_keys=keys, bag_values=values, bag_parent=parent, bag_class=kind)
        return True

    def _has_memory_for(self, more: int) -> bool:
        """Whether the budget bears so many bytes more; the old arrays stand until the new ones are filled."""
        held = sum(array.nbytes for array in self.search) + self.state_bytes
        if held + more <= self.budget.memory:
            return True
        self.reason = "the memory ran out"
        return False

    def _part(self, verdict: Verdict) -> Part:
        """What the search has to say for itself."""
        search, layout = self.search, self.layout
        count, best = int(search.registers[searches.COUNT]), int(search.registers[searches.BEST])
        front = int(search.configs[best, searches.FRONT])
        rows, states = [best], []
        blocked = None
        if verdict != "ok":
            blocked = self.indices[int(layout.number[front])]
            rows, states = self._furthest(count, front)
        linearizations = []
        for row in rows:
            taken = layouts.trace(search.configs, row, layout.number, layout.class_start, layout.member)
            linearizations.append([self.indices[i] for i in taken.tolist()])
        return Part(
            key=self.model.partition(self.actions[0]) if self.model.partition and self.actions else None,
            verdict=verdict,
            operations=self.indices,
            completed=len(layout.number),
            placed=front,
            configurations=count,
            linearizations=linearizations,
            blocked=blocked,
            states=states,
            reason=self.reason,
        )

    def _furthest(self, count: int, front: int) -> tuple[list[int], list[Any]]:
        """Of the configurations that came furthest, the deepest for each state; and those states."""
        configs = self.search.configs[:count]
        rows = np.flatnonzero(configs[:, searches.FRONT] == front)
        rows = rows[np.argsort(-configs[rows, searches.DEPTH], kind="stable")]
        numbers, first = np.unique(configs[rows, searches.STATE], return_index=True)
        by_depth = np.argsort(first, kind="stable")[:PARTIALS]
        return rows[first[by_depth]].tolist(), [self.states[i] for i in numbers[by_depth].tolist()]


def _power_of_two(least: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, least - 1).bit_length()


def _longer(array: searches.Ints, count: int) -> searches.Ints:
    """An array of twice the length that starts with the first `count` rows."""
    longer = np.empty((2 * len(array), *array.shape[1:]), np.int32)
    longer[:count] = array[:count]
    return longer


def _split(model: Model[Any], operations: Sequence[Operation]) -> list[list[int]]:
    """The indices of the operations on each independent object, in the order of first appearance."""
    if model.partition is None:
        return [list(range(len(operations)))]
    partition = model.partition
    parts: dict[Hashable, list[int]] = {}
    for index, operation in enumerate(operations):
        try:
            parts.setdefault(partition(operation[0]), []).append(index)
        except TypeError as error:
            raise ModelError(f"a key that cannot be hashed: {operation.action!r} ({error})", index) from error
    return list(parts.values())


def check_operations(
    model: Model[State],
    operations: Sequence[Operation],
    timeout: float | None = None,
    memory: int | None = None,
) -> Result:
    """Decide whether the operations are linearizable with respect to the model.

    `timeout` is in seconds (None: no limit), `memory` in bytes (None: 2 GiB) and counts what the search holds
    beside the operations themselves. Raises ModelError where the model cannot take an operation.
    """
    start = time.perf_counter()
    budget = _Budget(timeout, memory)
    verdict: Verdict = "ok"
    parts: list[Part] = []
    for indices in _split(model, operations):
        part = _Checker(model, operations, indices, budget).run()
        parts.append(part)
        if part.verdict == "illegal":
            verdict = "illegal"
            break
        if part.verdict == "unknown":
            verdict = "unknown"
    return Result(verdict, time.perf_counter() - start, parts)


def check_events(
    model: Model[State], events: Sequence[Event], timeout: float | None = None, memory: int | None = None
) -> Result:
    """Decide whether a history given as calls and returns in the order of time is linearizable.

    The result speaks of operations by the order of their calls. Otherwise as `check_operations`.
    """
    operations: list[Operation] = []
    place: dict[Hashable, int] = {}
    for index, event in enumerate(events):
        if event.kind == "call":
            if event.id in place:
                raise ModelError(f"two calls with the id {event.id!r}")
            place[event.id] = len(operations)
            operations.append(Operation(event.value._replace(result=UNKNOWN), index, None, event.process))
        else:
            at = place.get(event.id)
            if at is None or operations[at].end is not None:
                raise ModelError(f"a return with the id {event.id!r}, which no open call has")
            called = operations[at]
            action = called.action._replace(result=event.value)
            operations[at] = called._replace(action=action, end=index)
    return check_operations(model, operations, timeout, memory)


def warm_up() -> None:
    """Compile the search, or load it from numba's cache, so that `seconds` does not count it."""
    model = Model("warm-up", initial=0, step=lambda state, action: state + action.value or None, partition=None)
    operations = [Operation(Action("add", i % 3 - 1), i, i + 9 if i % 7 else None) for i in range(300)]
    check_operations(model, operations)
