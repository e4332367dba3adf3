"""Drives the compiled search: calls the model for requested steps, and enlarges full arrays."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from . import search_kernel as kernel
from . import search_state as arrays
from .history import History
from .layout import lay_out, trace
from .machine import NO_MACHINE, with_room
from .search_state import FRONT
from .steps import MAX_PATHS, MAX_STATES, Budget, SearchResult, Steps
from .trie import COLUMNS, rehash

FUEL = 10_000  # candidates between two checks of the clock: a millisecond, or half a second if contents are long
WHOLE_ROW = 96  # with at most so many actions, a request for one step of a state computes all steps of that state


class CompiledSearch:
    """One search over one history, from its start to a verdict or the end of a budget."""

    def __init__(self, history: History, steps: Steps, budget: Budget, by_calls: bool = False) -> None:
        self.steps, self.budget = steps, budget
        self.reason = ""
        self.has_memory, self.held = True, 0
        action_of, observes, events = history
        machine, initial = NO_MACHINE, 0
        if steps.encoding is not None:
            machine, initial = with_room(steps.encoding.machine, len(events) + 64), steps.encoding.initial
        class_of = np.full(len(observes), -1, np.int32)
        self.layout = lay_out(events, action_of, np.empty(len(action_of), np.int32), class_of)
        self.search = arrays.new_search(self.layout, machine, observes, initial, class_of)
        self.search.registers[arrays.BY_CALLS] = by_calls
        if steps.encoding is None:
            self.actions: list[int] = np.unique(action_of[events[events >= 0]]).tolist()
            known = [(*divmod(key, steps.width), after) for key, after in steps.table.items()]
            self.has_memory = self._add_steps(known)

    def run(self, fuel: float = float("inf")) -> Literal["ok", "illegal", None]:
        """Search until there is a verdict; None if `fuel` candidates were tried or a budget is used up."""
        registers = self.search.registers
        while self.has_memory and fuel > 0:
            if self.budget.is_late():
                self.reason = "the time ran out"
                break
            given = registers[arrays.FUEL] = int(min(FUEL, fuel, self.budget.work))
            outcome = kernel.search(self.search)
            spent = given - int(registers[arrays.FUEL])
            fuel -= spent
            self.budget.work -= spent
            if outcome == kernel.FOUND:
                return "ok"
            if outcome == kernel.EXHAUSTED:
                return "illegal"
            if outcome == kernel.MISSING:
                self.has_memory = self._provide_steps()
            elif outcome == kernel.FULL:
                self.has_memory = self._enlarge()
        return None

    def _provide_steps(self) -> bool:
        """Compute the steps that the search requested; False if there is no memory left."""
        steps, search = self.steps, self.search
        requests: list[list[int]] = search.requests[: search.registers[arrays.REQUESTS]].tolist()
        state, few = requests[0][0], len(self.actions) <= WHOLE_ROW
        wanted = self.actions if few else dict.fromkeys(pair[1] for pair in requests)
        known, row = steps.table, state * steps.width
        unknown = [action for action in wanted if row + action not in known]
        return self._add_steps([(state, action, steps.compute(state, action)) for action in unknown])

    def _add_steps(self, new: list[tuple[int, int, int]]) -> bool:
        """Add steps (state, action, state after) to the search's table; False if there is no memory left."""
        search = self.search
        needed = 2 * (int(search.registers[arrays.STEPS]) + len(new))
        size = len(search.step_keys)
        if needed > size:
            size = 1 << (2 * needed - 1).bit_length()
            if not self._has_memory_for(12 * size):
                return False
            keys, values = np.zeros(size, np.int64), np.empty(size, np.int32)
            rehash(search.step_keys, search.step_values, keys, values)
            self.search = search = search._replace(step_keys=keys, step_values=values)
        arrays.add_steps(search, np.array(new, np.int64).reshape(-1, 3))
        return self._has_memory_for(0)

    def _enlarge(self) -> bool:
        """Double the room for what is full; False if there is no memory left."""
        row = 4 * max(self.search.configs.shape[1], COLUMNS) + 28  # bytes, with its part of the hash table and others
        if not self._has_memory_for(2 * row * arrays.full_rows(self.search)):
            return False
        self.search = arrays.enlarge(self.search)
        return True

    def _has_memory_for(self, more: int) -> bool:
        """Whether the budget has `more` bytes; the old arrays remain until the new ones are filled."""
        search, machine = self.search, self.search.machine
        parts: list[Any] = [*search[: arrays.AT_BAGS], *search.bags, search.requests, *machine[:-1], *machine.trie]
        held = sum(array.nbytes for array in parts) + self.steps.nbytes
        self.budget.held += held - self.held
        self.held = held
        if self.budget.held + more <= self.budget.memory:
            return True
        self.reason = "the memory ran out"
        return False

    def result(self, verdict: Literal["ok", "illegal", None]) -> SearchResult:
        """The result after `run` returned this verdict."""
        search = self.search
        count, best = int(search.registers[arrays.COUNT]), int(search.registers[arrays.BEST])
        front = int(search.configs[best, FRONT])
        rows: list[int] = [best]
        states: list[int] = []
        if verdict != "ok":
            rows, states = self._furthest(count, front)
        return SearchResult(
            verdict, front, list(map(self._path, rows)), [self.state(i) for i in states], count, self.reason
        )

    def state(self, number: int) -> Any:
        """A state as the model in Python has it."""
        if self.steps.encoding is None:
            return self.steps.states[number]
        return self.steps.encoding.state(self.search.machine, number)

    def _path(self, row: int) -> list[int]:
        """The operations on the path to a configuration, in order."""
        layout = self.layout
        path = trace(self.search.configs, row, layout.number, layout.class_start, layout.member)
        operations: list[int] = path.tolist()
        return operations

    def release(self) -> None:
        """Return the memory to the budget."""
        self.budget.held -= self.held

    def reached(self, front: int) -> list[tuple[Any, list[int]]]:
        """The configurations in which the search first reached a front > 0: their states, and operations in order.

        After an illegal verdict, these are all possible starts of the rest of the history.
        """
        configs = self.search.configs[: self.search.registers[arrays.COUNT]]
        came = configs[:, FRONT] >= front
        rows = np.flatnonzero(came & ~came[configs[:, arrays.PARENT]])
        return [(self.state(configs[row, arrays.STATE]), self._path(row)) for row in rows.tolist()]

    def _furthest(self, count: int, front: int) -> tuple[list[int], list[int]]:
        """The configurations with the furthest front, the deepest of each state; and the first of their states."""
        configs = self.search.configs[:count]
        rows = np.flatnonzero(configs[:, FRONT] == front)
        rows = rows[np.argsort(-configs[rows, arrays.DEPTH], kind="stable")]
        states, first = np.unique(configs[rows, arrays.STATE], return_index=True)
        return rows[np.sort(first)[:MAX_PATHS]].tolist(), states[:MAX_STATES].tolist()


class AlternatingSearch:
    """Two alternating searches of one history: in the order of ends, and of calls.

    Steps in Python take most of the time, and the order of calls would need steps of other states. So without compiled
    steps there is only the order of ends.
    """

    def __init__(self, history: History, steps: Steps, budget: Budget, by_calls_first: bool) -> None:
        self.start = partial(CompiledSearch, history, steps, budget)
        self.budget = budget
        # The orders that are still searched: whether each is by calls.
        self.orders = [False] if steps.encoding is None else [by_calls_first, not by_calls_first]
        self.searches: dict[bool, CompiledSearch] = {}
        self.min_fuel = 8 * len(history.events)  # enough for most histories with few concurrent operations

    def run(self, fuel: float) -> Literal["ok", "illegal", None]:
        """Search in each order with `fuel` candidates, until one has a verdict."""
        for by_calls in self.orders:
            if by_calls not in self.searches:
                self.searches[by_calls] = self.start(by_calls=by_calls)
            search = self.searches[by_calls]
            verdict = search.run(max(fuel, self.min_fuel))
            if verdict:
                self._keep(by_calls)
                return verdict
            if search.reason and len(self.orders) == 2 and not self.budget.is_late():
                # Free the memory of the search by calls; the other one restarts if it had run out of memory.
                self.orders = [False]
                self._keep(*(order for order, each in self.searches.items() if not order and not each.reason))
                break
        return None

    def _keep(self, *orders: bool) -> None:
        """Release the searches in other orders than these."""
        for order in self.searches.keys() - orders:
            self.searches.pop(order).release()

    def release(self) -> None:
        """Return the memory to the budget."""
        self._keep()

    @property
    def reason(self) -> str:
        """The reason why the searches stopped without a verdict; empty while one can continue."""
        reasons = [search.reason for search in self.searches.values()]
        return reasons[0] if reasons and all(reasons) else ""

    def result(self, verdict: Literal["ok", "illegal", None]) -> SearchResult:
        """The result after `run` returned this verdict; without one, of the search that got further."""
        return max((search.result(verdict) for search in self.searches.values()), key=lambda result: result.front)
