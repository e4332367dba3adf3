"""Checks a history: splits it into independent objects (parts), decides each, and collects the evidence.

The verdict is `ok`, `illegal`, or `unknown` if a budget of time or memory ran out first. A part of a built-in model is
decided by a short search (short_search.py), a monitor (monitors.py), or the long search (search_kernel.py). Any other
model first gets a short search in plain Python (quick_search.py), then the long one. Each module explains why its
shortcuts keep the verdict.

Why numba: with known steps, a configuration costs 1.0 to 1.7 us in the compiled search. In plain Python without limits
it costs 4.5 to 5 us, or 16 us with pending operations (histories of 80 and of 20,000 operations, one core). Compiling
takes some 20 s once and is cached on disk; loading takes 0.5 s, so easy histories of user models do without it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Int32s
from ..operations import UNKNOWN, Action, Event, Model, ModelError, Operation, State, by_key
from ..register import REGISTER
from ..specifications import MODELS
from .history import History, Numbered, number_actions
from .quick_search import QuickSearch
from .result import Part, Result, Verdict
from .steps import Budget, SearchResult, Steps

if TYPE_CHECKING:
    from .encoding import Encoding
    from .machine import Monitored

DEFAULT_MEMORY = 2 << 30  # bytes
OPERATION_BYTES = 300  # of a search before it begins, as measured by benchmarks/linearize.py --long
SMALL_PART = 5_000  # operations; parts of at most this size get short searches first
BATCH = 20_000  # operations of small parts in one call of a short search
# Candidates of a short search before a monitor, and after it; and of the first round of a long search.
FIRST_FUEL, SECOND_FUEL, FIRST_ROUND = 2_000, 20_000, 30_000
# If a monitor found a witness, the operation that cannot be linearized is searched for too.
MAX_EXPLAINED, EXPLANATION_FUEL = 100_000, 400_000  # operations of a part; candidates of its search
NOT_SEARCHED = SearchResult(None, 0, [[]], [], 0)
ILLEGAL = SearchResult("illegal", 0, [], [], 0)  # without evidence, which `_explain` collects


def number_objects(model: Model[Any], numbered: Numbered) -> tuple[list[Hashable], Int32s]:
    """The keys of the independent objects by first appearance, and the number of the object of each operation."""
    if model.partition is None:
        return [None], np.zeros(len(numbered.action_of), np.int32)
    keys = list(map(itemgetter(3) if model.partition is by_key else model.partition, numbered.actions))
    try:
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    except TypeError as error:
        raise ModelError(f"a key that cannot be hashed ({error})") from error
    if len(numbers) == 1:
        return list(numbers), np.zeros(len(numbered.action_of), np.int32)
    return list(numbers), np.array([numbers[key] for key in keys], np.int32)[numbered.action_of]


class _Check:
    """One check: first short searches of all parts, then long searches of the undecided parts, in turns."""

    def __init__(self, model: Model[Any], operations: Sequence[Operation], budget: Budget) -> None:
        self.model, self.budget = model, budget
        self.numbered = number_actions(model, operations)
        self.encoding: Encoding | None = None
        if any(model.step is known.step for known in MODELS.values()):
            from .encoding import encode

            self.encoding = encode(model, self.numbered)
            if self.encoding is not None and len(self.numbered.actions) <= SMALL_PART:
                _ = self._merged_actions  # cached here, because `seconds` does not count the numbering of actions
        self.stage = 0  # of `run`
        self.began = time.perf_counter()
        self.keys, self.part_of = number_objects(model, self.numbered)
        history = self.numbered.history()
        self.starts = np.array([0, len(history.events)], np.int32)
        if len(self.keys) > 1:
            if self.encoding is None:
                from .history import sort_by_part
            else:
                from .layout import sort_by_part
            events, self.starts = sort_by_part(history.events, self.part_of, len(self.keys))
            history = history._replace(events=events)
        self.history = history  # with the events sorted by part
        self.sizes = np.bincount(self.part_of, minlength=len(self.keys))
        self.results: dict[int, SearchResult] = {}
        self.short: list[tuple[Any, ...]] = []  # results of short searches, which are collected after the verdict
        self.monitored: set[int] = set()  # parts that a monitor decided
        self.witness: list[int] = []  # of the illegal part
        self.undecided: dict[int, tuple[Steps, SearchResult]] = {}  # by part: the results of a search in Python

    def run(self) -> Result:
        """Search until one part is illegal, all are decided, or the budget is used up."""
        left = list(range(len(self.keys)))
        if OPERATION_BYTES * len(self.history.action_of) > self.budget.memory:
            is_large = OPERATION_BYTES * self.sizes > self.budget.memory
            left = np.flatnonzero(~is_large).tolist()
            for part in np.flatnonzero(is_large).tolist():
                self.results[part] = NOT_SEARCHED._replace(reason="the memory ran out")
        if self.encoding is None:
            left = self._search_in_python(left)
        elif self.encoding.monitored:
            left = self._run_monitors(self._search_small_parts(left, FIRST_FUEL))
        if self.encoding is not None and left:
            self.stage += 1
            left = self._search_small_parts(left, SECOND_FUEL)
        self._search_in_rounds(left)
        seconds = time.perf_counter() - self.began
        self._collect_linearizations()
        illegal = next((part for part, result in self.results.items() if result.verdict == "illegal"), None)
        if illegal is not None and self.results[illegal] is ILLEGAL:
            self.results[illegal] = self._explain(illegal)
        verdict: Verdict = "ok" if illegal is None else "illegal"
        if illegal is None and any(result.verdict is None for result in self.results.values()):
            verdict = "unknown"
        return Result(verdict, seconds, [self._report(part) for part in sorted(self.results)], self.stage)

    def _explain(self, part: int) -> SearchResult:
        """Searches how much of an illegal part can be linearized; a long part with a witness is not searched.

        If a search decided the part, a monitor may still find a witness.
        """
        assert self.encoding is not None  # results of models without compiled steps have their evidence
        for monitored in self.encoding.monitored:
            self.witness = self.witness or self._run_monitor(monitored, [part])[1]
        is_monitored = part in self.monitored
        if is_monitored and self.sizes[part] > MAX_EXPLAINED:
            return ILLEGAL
        from .compiled_search import CompiledSearch

        search = CompiledSearch(self._part_history(part), self._steps(part), Budget(None, self.budget.memory))
        verdict = search.run(EXPLANATION_FUEL if is_monitored else float("inf"))
        result = search.result(verdict)
        return result if verdict else result._replace(verdict="illegal", front=0, states=[], reason="")

    @cached_property
    def _merged_actions(self) -> Int32s:
        """The action of each operation; actions with the same instruction and `observes` get the same number."""
        assert self.encoding is not None
        first: dict[tuple[Any, ...], int] = {}
        rows = enumerate(zip(self.encoding.machine.code.tolist(), self.numbered.observes.tolist(), strict=True))
        merged = [first.setdefault((*code, observes), number) for number, (code, observes) in rows]
        return np.array(merged, np.int32)[self.numbered.action_of]

    @cached_property
    def _operations(self) -> list[Int32s]:
        """The operations of each part."""
        return np.split(np.argsort(self.part_of, kind="stable"), np.cumsum(self.sizes[:-1]))

    def _events_of(self, part: int) -> Int32s:
        return self.history.events[self.starts[part] : self.starts[part + 1]]

    def _part_history(self, part: int) -> History:
        """The operations of a part, as a search takes them."""
        history = self.history._replace(events=self._events_of(part))
        return history if self.encoding is None else history._replace(action_of=self._merged_actions)

    def _steps(self, part: int) -> Steps:
        """The steps of a part that are known."""
        if part in self.undecided:
            return self.undecided[part][0]
        return Steps(self.model, self.numbered.actions, self.numbered.observes, self.encoding)

    def _run_monitor(self, monitored: Monitored, parts: list[int]) -> tuple[list[int], list[int]]:
        """A monitor's verdicts on parts until one is illegal, and its witness in the order of calls."""
        from .monitors import monitor_parts
        from .part_history import LINEARIZABLE, UNDECIDED

        kind, machine, initial, values, refutes_only = monitored
        chosen = np.array(parts, np.int32)
        verdicts, witness = monitor_parts(self.history, self.starts, chosen, kind, machine, initial, values)
        if refutes_only:
            verdicts[verdicts == LINEARIZABLE] = UNDECIDED
        return verdicts.tolist(), sorted(set(witness.tolist()), key=self.numbered.calls.__getitem__)

    def _run_monitors(self, parts: list[int]) -> list[int]:
        """Decide parts without a search, by the monitors that know the model; returns the undecided parts."""
        if not parts or self.budget.is_late():
            return parts
        self.stage += 1
        from .part_history import LINEARIZABLE, UNDECIDED

        assert self.encoding is not None
        for monitored in self.encoding.monitored:
            verdicts, witness = self._run_monitor(monitored, parts)
            for part, verdict in zip(parts, verdicts, strict=True):
                if verdict == UNDECIDED:
                    continue
                self.monitored.add(part)
                self.results[part] = NOT_SEARCHED._replace(verdict="ok", paths=[])
                if verdict != LINEARIZABLE:
                    self.results[part], self.witness = ILLEGAL, witness
                    return []
            parts = [part for part in parts if part not in self.results]
        return parts

    def _search_small_parts(self, parts: list[int], fuel: int) -> list[int]:
        """Search small parts in a few calls of compiled code; returns the undecided parts."""
        from .short_search import search_parts

        assert self.encoding is not None
        among = np.array(parts, np.int32)
        is_small = self.sizes[among] <= SMALL_PART
        small, left = among[is_small], among[~is_small].tolist()
        batches = [small]
        if len(self.history.action_of) > BATCH:
            batches = np.split(small, np.flatnonzero(np.diff(np.cumsum(self.sizes[small]) // BATCH)) + 1)
        for chosen in batches:
            if not chosen.size or self.budget.is_late():
                left += chosen.tolist()
                continue
            history = self.history._replace(action_of=self._merged_actions)
            illegal, is_found, *evidence = search_parts(
                history, self.starts, self.encoding.machine, self.encoding.initial, chosen, fuel
            )
            if illegal >= 0:
                self.results[illegal] = ILLEGAL
                return []
            self.short.append((chosen, is_found, *evidence))
            left += chosen[~is_found].tolist()
        return sorted(left)

    def _collect_linearizations(self) -> None:
        """Add the results of the short searches to `results`."""
        for chosen, is_found, counts, orders, starts in self.short:
            for place in np.flatnonzero(is_found).tolist():
                order = orders[starts[place] : starts[place + 1]].tolist()
                self.results[int(chosen[place])] = SearchResult("ok", 0, [order], [], int(counts[place]))

    def _search_in_python(self, parts: list[int]) -> list[int]:
        """Search each part in plain Python; returns the undecided parts."""
        left: list[int] = []
        for place, part in enumerate(parts):
            if self.budget.is_late():
                return left + parts[place:]
            steps = self._steps(part)
            search = QuickSearch(self._part_history(part), steps, self.budget)
            result = search.result(search.run())
            if result.verdict == "illegal":
                self.results[part] = result
                return []
            if result.verdict is None:
                left.append(part)
                self.undecided[part] = steps, result
            else:
                self.results[part] = result
        return left

    def _search_in_rounds(self, parts: list[int]) -> None:
        """Search the parts in rounds, each twice as long as the last, so an easy illegal part ends the check soon."""
        if not parts:
            return
        # Loading compiled code takes longer than deciding most histories, so it is imported late.
        from .compiled_search import AlternatingSearch

        searches: dict[int, AlternatingSearch] = {}
        fuel = FIRST_ROUND
        while parts:
            self.stage += 1
            for part in parts:
                known = self.undecided[part][1] if part in self.undecided else NOT_SEARCHED
                if self.budget.is_late() and part not in searches:
                    self.results[part] = known._replace(reason="the time ran out")
                    continue
                if part not in searches:
                    is_small = self.sizes[part] <= SMALL_PART  # so it was searched by ends already
                    searches[part] = AlternatingSearch(
                        self._part_history(part), self._steps(part), self.budget, is_small
                    )
                search = searches[part]
                verdict = search.run(fuel)
                if verdict is None and not search.reason:
                    continue
                result = search.result(verdict)
                if verdict is None and result.front < known.front:
                    result = known._replace(reason=result.reason)
                self.results[part] = result
                search.release()
                del searches[part]
                if verdict == "illegal":
                    return
            parts = list(searches)
            fuel *= 2

    def _report(self, part: int) -> Part:
        """The result of a search for the caller."""
        result, events = self.results[part], self._events_of(part)
        completed, blocked = len(events) - int(self.sizes[part]), None
        if completed and result.verdict != "ok" and (result.states or result.verdict is None):
            blocked = -1 - int(events[events < 0][result.front])
        return Part(
            key=self.keys[part],
            verdict=result.verdict or "unknown",
            operations=self._operations[part].tolist(),
            completed=completed,
            placed=completed if result.verdict == "ok" else result.front,
            configurations=result.configurations,
            linearizations=result.paths,
            blocked=blocked,
            states=result.states,
            reason=result.reason,
            method="monitor" if part in self.monitored else "search",
            witness=self.witness if result.verdict == "illegal" else [],
        )


def check_operations(
    model: Model[State], operations: Sequence[Operation], timeout: float | None = None, memory: int | None = None
) -> Result:
    """Decide whether the operations are linearizable with respect to the model.

    `timeout` is in seconds (None: no limit). `memory` is in bytes (None: 2 GiB), without the operations themselves.
    Raises ModelError if an operation does not belong to the model.
    """
    return check_within(model, operations, Budget(timeout, DEFAULT_MEMORY if memory is None else memory))


def check_within(model: Model[State], operations: Sequence[Operation], budget: Budget) -> Result:
    """`check_operations` with a given budget."""
    # The search makes millions of small tuples and no cycles. The garbage collector would take a third of the time or
    # more, and find nothing.
    collecting = gc.isenabled()
    gc.disable()
    try:
        if not operations:
            return Result("ok", 0.0, [])
        return _Check(model, operations, budget).run()
    finally:
        if collecting:
            gc.enable()


def check_events(
    model: Model[State], events: Sequence[Event], timeout: float | None = None, memory: int | None = None
) -> Result:
    """`check_operations` for calls and returns in the order of time; its indices number operations by their calls."""
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
    from .compiled_search import CompiledSearch

    def step(state: int, action: Action) -> int | None:
        return state + action.value or None

    operations = [Operation(Action("add", i % 3 - 1), i, i + 9 if i % 7 else None) for i in range(300)]
    model = Model("warm-up", 0, step)
    numbered = number_actions(model, operations)
    steps = Steps(model, numbered.actions, numbered.observes)
    CompiledSearch(numbered.history(), steps, Budget(None, DEFAULT_MEMORY)).run()
    # The first object is small, the other is large enough for a monitor.
    check_operations(REGISTER, [Operation(Action("write", i, key=i == 0), i, i + 9) for i in range(SMALL_PART + 2)])
