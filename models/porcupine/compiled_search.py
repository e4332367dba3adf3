"""Drives the compiled search: calls the model for requested steps, and enlarges full arrays."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import numpy as np

from . import search_kernel as kernel
from . import search_state as arrays
from .layout import events_of, lay_out, trace
from .machine import NO_MACHINE, new_trie
from .steps import FURTHEST, Budget, Found, History, Steps
from .tables import FRONT, rehash_pairs

FUEL = 10_000  # candidates between two checks of the clock: a millisecond, or half a second if contents are long
WHOLE_ROW = 96  # with at most so many actions, a request for one step of a state computes all steps of that state


class CompiledSearch:
    """One search over one history, from its start to a verdict or the end of a budget."""

    def __init__(self, history: History, steps: Steps, budget: Budget, by_calls: bool = False) -> None:
        self.steps, self.budget = steps, budget
        self.reason = ""
        self.has_memory, self.held = True, 0
        action_of = np.array(history.action_of, np.int32)
        if steps.encoding is not None:
            self.actions = list(range(len(steps.actions)))
            machine, initial = steps.encoding.machine, steps.encoding.initial
        else:
            # Renumber the actions of this history: the model may have many others.
            used, positions = np.unique(action_of, return_inverse=True)
            action_of = positions.astype(np.int32)
            self.actions, machine, initial = used.tolist(), NO_MACHINE, 0
        machine = new_trie(machine, 2 * len(action_of) + 64)
        scratch = np.empty(len(action_of), np.int32), np.full(len(self.actions), -1, np.int32)
        self.layout = lay_out(events_of(history), action_of, *scratch)
        observes = np.array([steps.observes[i] for i in self.actions], np.int32)
        self.search = arrays.new_search(self.layout, machine, observes, initial, scratch[1])
        self.search.registers[arrays.BY_CALLS] = by_calls
        if steps.encoding is None:
            number = {action: i for i, action in enumerate(self.actions)}
            known = [(divmod(key, steps.width), after) for key, after in steps.table.items()]
            self.has_memory = self._add_steps([(state, number[action], after) for (state, action), after in known])

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
                self.has_memory = self._grow()
        return None

    def _provide_steps(self) -> bool:
        """Compute the steps that the search requested; False if there is no memory left.

        With compiled steps, only room for a new state is missing.
        """
        steps, search = self.steps, self.search
        if steps.encoding is not None:
            machine = search.machine
            if not self._has_memory_for(2 * machine.nodes.nbytes + 24 * len(machine.node_keys)):
                return False
            self.search = arrays.with_more_nodes(search)
            return True
        requests: list[list[int]] = search.requests[: search.registers[arrays.REQUESTS]].tolist()
        state, few = requests[0][0], len(self.actions) <= WHOLE_ROW
        wanted = range(len(self.actions)) if few else dict.fromkeys(pair[1] for pair in requests)
        known, row = steps.table, state * steps.width
        unknown = [action for action in wanted if row + self.actions[action] not in known]
        return self._add_steps([(state, action, steps.compute(state, self.actions[action])) for action in unknown])

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
            rehash_pairs(search.step_keys, search.step_values, keys, values)
            self.search = search = search._replace(step_keys=keys, step_values=values)
        arrays.add_steps(search, np.array(new, np.int64).reshape(-1, 3))
        return self._has_memory_for(0)

    def _grow(self) -> bool:
        """Enlarge the arrays of configurations or bags, whichever are full; False if there is no memory left."""
        search = self.search
        if arrays.lacks_configs(search):
            rows, width = search.configs.shape
            if not self._has_memory_for(2 * rows * (4 * width + 8 + 8)):
                return False
            self.search = arrays.with_more_configs(search)
            return True
        size = arrays.bags_needed(search)
        if not self._has_memory_for(size * (2 * 12 + 8)):
            return False
        self.search = arrays.with_more_bags(search, size)
        return True

    def _has_memory_for(self, more: int) -> bool:
        """Whether the budget has `more` bytes; the old arrays remain until the new ones are filled."""
        machine = self.search.machine
        held = sum(array.nbytes for array in (*self.search[:-1], *machine)) + self.steps.nbytes
        self.budget.held += held - self.held
        self.held = held
        if self.budget.held + more <= self.budget.memory:
            return True
        self.reason = "the memory ran out"
        return False

    def found(self, verdict: Literal["ok", "illegal", None]) -> Found:
        """The result after `run` returned this verdict."""
        search = self.search
        count, best = int(search.registers[arrays.COUNT]), int(search.registers[arrays.BEST])
        front = int(search.configs[best, FRONT])
        rows: list[int] = [best]
        states: list[int] = []
        if verdict != "ok":
            rows, states = self._furthest(count, front)
        return Found(verdict, front, list(map(self._path, rows)), [self.state(i) for i in states], count, self.reason)

    def state(self, number: int) -> Any:
        """A state as the model in Python has it."""
        if self.steps.encoding is None:
            return self.steps.states[number]
        return self.steps.encoding.decode(self.search.machine, number)

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
        """The configurations with the furthest front, the deepest of each state; and all their states."""
        configs = self.search.configs[:count]
        rows = np.flatnonzero(configs[:, FRONT] == front)
        rows = rows[np.argsort(-configs[rows, arrays.DEPTH], kind="stable")]
        states, first = np.unique(configs[rows, arrays.STATE], return_index=True)
        return rows[np.sort(first)[:FURTHEST]].tolist(), states.tolist()


class AlternatingSearch:
    """Two searches of one history in turns: in the order of ends, and of calls.

    Steps in Python take most of the time, and the order of calls would need steps of other states. So without compiled
    steps there is only the order of ends.
    """

    def __init__(self, history: History, steps: Steps, budget: Budget, by_calls_first: bool) -> None:
        self.start = partial(CompiledSearch, history, steps, budget)
        self.budget = budget
        # The orders that are still searched: whether each is by calls.
        self.orders = [False] if steps.encoding is None else [by_calls_first, not by_calls_first]
        self.searches: dict[bool, CompiledSearch] = {}
        self.min_fuel = 16 * len(history.calls)  # enough for most histories with few concurrent operations

    def run(self, fuel: float) -> Literal["ok", "illegal", None]:
        """Search in each order with `fuel` candidates, until one has a verdict."""
        for by_calls in self.orders[:]:
            if by_calls not in self.orders:
                continue
            if by_calls not in self.searches:
                self.searches[by_calls] = self.start(by_calls=by_calls)
            search = self.searches[by_calls]
            verdict = search.run(max(fuel, self.min_fuel))
            if verdict:
                other = self.searches.pop(not by_calls, None)
                if other:
                    other.release()
                return verdict
            if search.reason and not self.budget.is_late() and len(self.orders) == 2:
                self._stop_search_by_calls()
        return None

    def _stop_search_by_calls(self) -> None:
        """Free the memory of the search by calls; restart the other one if it had run out of memory."""
        self.orders = [False]
        if True in self.searches:
            self.searches.pop(True).release()
            if False in self.searches and self.searches[False].reason:
                self.searches.pop(False).release()

    @property
    def reason(self) -> str:
        """The reason why the searches stopped without a verdict; empty while one can continue."""
        reasons = [search.reason for search in self.searches.values()]
        return reasons[0] if reasons and all(reasons) else ""

    def found(self, verdict: Literal["ok", "illegal", None]) -> Found:
        """The result after `run` returned this verdict; without one, of the search that got further."""
        return max((search.found(verdict) for search in self.searches.values()), key=lambda found: found.front)

    def release(self) -> None:
        """Return the memory to the budget."""
        for search in self.searches.values():
            search.release()
