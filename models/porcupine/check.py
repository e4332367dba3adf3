"""Checks a history: splits it into independent objects (parts), decides each, and collects the evidence.

The verdict is `ok`, `illegal`, or `unknown` if a budget of time or memory ran out first. A part of a built-in model is
decided by a short search (short_search.py), a monitor (monitors.py), or the long search (search_kernel.py). Any other
model first gets a short search in plain Python (quick_search.py), then the long one. Each module explains why its
shortcuts keep the verdict.

Why numba: with known steps, a configuration costs 1.0 to 1.7 us in the compiled search. In plain Python without limits
it costs 4.5 to 5 us, or 16 us with pending operations (histories of 80 and of 20,000 operations, one core). Compiling
takes 12 s once and is cached on disk; loading takes 0.5 s, so easy histories of user models do without it.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..operations import UNKNOWN, Action, Event, Model, ModelError, Operation, State, by_key
from ..register import REGISTER
from ..specifications import MODELS
from .quick_search import QuickSearch
from .result import Part, Result, Verdict
from .steps import Budget, Found, History, Steps, number_actions

if TYPE_CHECKING:
    from ..compiled import Ints
    from .encoding import Encoding

DEFAULT_MEMORY = 2 << 30  # bytes
MAX_STATES = 100  # in a result
OPERATION_BYTES = 300  # of a search before it begins, as measured by benchmarks/linearize.py --long
SMALL_PART = 5_000  # operations; parts of at most this size get short searches first
BATCH = 20_000  # operations of small parts in one call of a short search
# Candidates of a short search before a monitor, and after it; and of the first turn of a long search.
FIRST_FUEL, SECOND_FUEL, FIRST_TURN = 2_000, 20_000, 30_000
# If a monitor found a witness, the operation that cannot be linearized is searched for too.
MAX_EXPLAINED, EXPLANATION_FUEL = 100_000, 400_000  # operations of a part; candidates of its search
NOT_SEARCHED = Found(None, 0, [[]], [], 0)
ILLEGAL = Found("illegal", 0, [], [], 0)  # without evidence, which `_explain` collects


class _Parts:
    """The independent objects of a history, numbered by first appearance; operations are indices into the history."""

    def __init__(self, model: Model[Any], actions: list[Action], action_of: Ints) -> None:
        self.keys: list[Hashable] = [None]
        self.of = np.zeros(len(action_of), np.int32)  # the part of each operation
        if model.partition is not None:
            keys = list(map(itemgetter(3) if model.partition is by_key else model.partition, actions))
            try:
                numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
            except TypeError as error:
                raise ModelError(f"a key that cannot be hashed ({error})") from error
            self.keys = list(numbers)
            if len(self.keys) > 1:
                self.of = np.array([numbers[key] for key in keys], np.int32)[action_of]
        self.sizes = np.bincount(self.of, minlength=len(self.keys))

    @cached_property
    def _sorted(self) -> list[NDArray[np.int64]]:
        """The operations by part."""
        return np.split(np.argsort(self.of, kind="stable"), np.cumsum(self.sizes[:-1]))

    def operations(self, part: int) -> list[int]:
        if len(self.keys) == 1:
            return list(range(len(self.of)))
        indices: list[int] = self._sorted[part].tolist()
        return indices


class _Check:
    """One check: first short searches of all parts, then long searches of the undecided parts, in turns."""

    def __init__(self, model: Model[Any], operations: Sequence[Operation], budget: Budget) -> None:
        self.model, self.budget = model, budget
        self.actions, self.observes, self.history = number_actions(model, operations)
        self.action_of = np.array(self.history.action_of, np.int32)
        self.observes_array = np.array(self.observes, np.int32)
        self.encoding: Encoding | None = None
        if any(model.step is known.step for known in MODELS.values()):
            from .encoding import Counts, encode

            counts, completed = [0] * len(self.actions), [0] * len(self.actions)
            for action, end in zip(self.history.action_of, self.history.ends, strict=True):
                counts[action] += 1
                completed[action] += end is not None
            self.encoding = encode(model, self.actions, Counts(counts, completed))
            if self.encoding is not None and len(self.actions) <= SMALL_PART:
                _ = self._merged_actions  # cached here, because `seconds` does not count the numbering of actions
        self.stage = 0  # of `run`
        self.began = time.perf_counter()
        self.parts = _Parts(model, self.actions, self.action_of)
        self.found: dict[int, Found] = {}
        self.short: list[tuple[Any, ...]] = []  # results of short searches, which are collected after the verdict
        self.monitored: set[int] = set()  # parts that a monitor decided
        self.witness: list[int] = []  # of the illegal part
        self.undecided: dict[int, tuple[Steps, Found]] = {}  # by part: the results of a search in Python
        if OPERATION_BYTES * len(operations) > budget.memory:
            for part in np.flatnonzero(OPERATION_BYTES * self.parts.sizes > budget.memory).tolist():
                self.found[part] = NOT_SEARCHED._replace(reason="the memory ran out")

    def run(self) -> Result:
        """Search until one part is illegal, all are decided, or the budget is used up."""
        open_parts = [part for part in range(len(self.parts.keys)) if part not in self.found]
        if self.encoding is not None:
            left = open_parts
            if self.encoding.monitor:
                left = self._run_monitors(self._search_small_parts(left, FIRST_FUEL))
            if left:
                self.stage += 1
                left = self._search_small_parts(left, SECOND_FUEL)
        else:
            left = self._search_in_python(open_parts)
        if left:
            self._search_in_turns(left)
        seconds = time.perf_counter() - self.began
        self._collect_linearizations()
        illegal = [part for part, found in self.found.items() if found.verdict == "illegal"]
        if illegal and self.found[illegal[0]] is ILLEGAL:
            self.found[illegal[0]] = self._explain(illegal[0])
        verdict: Verdict = "illegal" if illegal else "ok"
        if not illegal and any(found.verdict is None for found in self.found.values()):
            verdict = "unknown"
        parts = [self._report(part, self.found[part]) for part in sorted(self.found)]
        return Result(verdict, seconds, parts, self.stage)

    def _explain(self, part: int) -> Found:
        """Searches how much of an illegal part can be linearized; a long part with a witness is not searched.

        If a search decided the part, its monitor may still know a witness.
        """
        known = part in self.monitored
        if not known and self.encoding is not None and self.encoding.monitor:
            _, self.witness = self._ask_monitor([part])
        if known and self.parts.sizes[part] > MAX_EXPLAINED:
            return ILLEGAL
        from .compiled_search import CompiledSearch

        search = CompiledSearch(*self._part_history(part), Budget(None, self.budget.memory))
        verdict = search.run(EXPLANATION_FUEL if known else float("inf"))
        found = self._in_whole_history(part, search.found(verdict))
        return found if verdict else found._replace(verdict="illegal", front=0, states=[], reason="")

    @cached_property
    def _events(self) -> tuple[Ints, Ints]:
        """The events sorted by part, and where each part starts."""
        from .layout import events_of, split_by_part

        return split_by_part(events_of(self.history), self.parts.of, len(self.parts.keys))

    @cached_property
    def _merged_actions(self) -> Ints:
        """The action of each operation; actions with the same instruction and `observes` get the same number."""
        assert self.encoding is not None
        first: dict[tuple[Any, ...], int] = {}
        rows = enumerate(zip(self.encoding.machine.code.tolist(), self.observes, strict=True))
        merged = [first.setdefault((*code, observes), number) for number, (code, observes) in rows]
        return np.array(merged, np.int32)[self.action_of]

    def _completed(self, part: int) -> int:
        starts = self._events[1]
        return int(starts[part + 1] - starts[part] - self.parts.sizes[part])

    def _ask_monitor(self, parts: list[int]) -> tuple[list[int], list[int]]:
        """The monitor's verdicts on parts until one is illegal, and its witness in the order of calls."""
        from .monitors import monitor_parts

        assert self.encoding is not None
        machine, initial, _, values, kind = self.encoding
        chosen = np.array(parts, np.int32)
        verdicts, witness = monitor_parts(kind, *self._events, chosen, self.action_of, machine, values, initial)
        return verdicts.tolist(), sorted(set(witness.tolist()), key=self.history.calls.__getitem__)

    def _run_monitors(self, parts: list[int]) -> list[int]:
        """Decide unambiguous parts without a search; returns the undecided parts."""
        if not parts or self.budget.is_late():
            return parts
        self.stage += 1
        from .part_history import LINEARIZABLE, UNDECIDED

        verdicts, witness = self._ask_monitor(parts)
        for part, verdict in zip(parts, verdicts, strict=True):
            if verdict == UNDECIDED:
                continue
            self.monitored.add(part)
            self.found[part] = Found("ok", self._completed(part), [], [], 0)
            if verdict != LINEARIZABLE:
                self.found[part], self.witness = ILLEGAL, witness
                return []
        return [part for part in parts if part not in self.found]

    def _search_small_parts(self, parts: list[int], fuel: int) -> list[int]:
        """Search small parts in a few calls of compiled code; returns the undecided parts."""
        from .short_search import search_parts

        assert self.encoding is not None
        sizes = self.parts.sizes
        small, left = np.array(parts, np.int32), []
        if len(self.action_of) > SMALL_PART:
            is_small = sizes[small] <= SMALL_PART
            small, left = small[is_small], small[~is_small].tolist()
        if not small.size or self.budget.is_late():
            return parts
        events, starts = self._events
        machine, initial = self.encoding.machine, self.encoding.initial
        batches = [small]
        if len(self.action_of) > BATCH:
            batches = np.split(small, np.flatnonzero(np.diff(np.cumsum(sizes[small]) // BATCH)) + 1)
        for chosen in batches:
            if self.budget.is_late():
                left += chosen.tolist()
                continue
            illegal, is_found, *evidence = search_parts(
                events, starts, self._merged_actions, self.observes_array, machine, initial, chosen, fuel
            )
            if illegal >= 0:
                self.found[illegal] = ILLEGAL
                return []
            self.short.append((chosen, is_found, *evidence))
            left += chosen[~is_found].tolist()
        return sorted(left)

    def _collect_linearizations(self) -> None:
        """Add the results of the short searches to `found`."""
        for chosen, is_found, counts, orders, starts in self.short:
            for place in np.flatnonzero(is_found).tolist():
                part = int(chosen[place])
                order = orders[starts[place] : starts[place + 1]].tolist()
                self.found[part] = Found("ok", self._completed(part), [order], [], int(counts[place]))

    def _search_in_python(self, parts: list[int]) -> list[int]:
        """Search each part in plain Python; returns the undecided parts."""
        left = []
        for part in parts:
            if self.budget.is_late():
                return [part for part in parts if part not in self.found]
            indices = self.parts.operations(part)
            history = self.history if len(self.parts.keys) == 1 else self.history.part(indices)
            steps = Steps(self.model, self.actions, self.observes)
            search = QuickSearch(history, steps, self.budget)
            found = search.found(search.run())
            if found.verdict is None:
                left.append(part)
                self.undecided[part] = steps, found
                continue
            self.found[part] = self._in_whole_history(part, found)
            if found.verdict == "illegal":
                return []
        return left

    def _part_history(self, part: int) -> tuple[History, Steps]:
        """The operations of a part for a long search, and its known steps."""
        steps = self.undecided[part][0] if part in self.undecided else None
        history = self.history
        if self.encoding is not None:
            history = history._replace(action_of=self._merged_actions.tolist())
        if len(self.parts.keys) > 1:
            history = history.part(self.parts.operations(part))
        return history, steps or Steps(self.model, self.actions, self.observes, self.encoding)

    def _in_whole_history(self, part: int, found: Found) -> Found:
        """The result of a search of one part, with operations as indices into the whole history."""
        indices = self.parts.operations(part)
        return found._replace(paths=[[indices[i] for i in path] for path in found.paths])

    def _search_in_turns(self, parts: list[int]) -> None:
        """Search the parts in turns, each twice as long as the last, so an easy illegal part ends the check soon."""
        # Loading compiled code takes longer than deciding most histories, so it is imported late.
        from .compiled_search import AlternatingSearch

        searches: dict[int, AlternatingSearch] = {}
        turn = FIRST_TURN
        while parts:
            self.stage += 1
            for part in parts:
                if self.budget.is_late() and part not in searches:
                    short = self.undecided[part][1] if part in self.undecided else NOT_SEARCHED
                    self.found[part] = self._in_whole_history(part, short._replace(reason="the time ran out"))
                    continue
                is_small = self.parts.sizes[part] <= SMALL_PART  # so it was searched by ends already
                search = searches.get(part) or AlternatingSearch(*self._part_history(part), self.budget, is_small)
                verdict = search.run(turn)
                searches[part] = search
                if verdict is None and not search.reason:
                    continue
                found = search.found(verdict)
                if verdict is None and part in self.undecided and found.front < self.undecided[part][1].front:
                    found = self.undecided[part][1]._replace(reason=found.reason)
                self.found[part] = self._in_whole_history(part, found)
                search.release()
                del searches[part]
                if verdict == "illegal":
                    return
            parts = list(searches)
            turn *= 2

    def _report(self, part: int, found: Found) -> Part:
        """The result of a search for the caller."""
        indices = self.parts.operations(part)
        blocked = None
        completed = found.front
        if found.verdict != "ok":
            ends = [(end, i) for i in indices if (end := self.history.ends[i]) is not None]
            completed = len(ends)
            if ends and (found.states or found.verdict is None):
                blocked = sorted(ends)[found.front][1]
        return Part(
            key=self.parts.keys[part],
            verdict=found.verdict or "unknown",
            operations=indices,
            completed=completed,
            placed=found.front,
            configurations=found.configurations,
            linearizations=found.paths,
            blocked=blocked,
            states=found.states[:MAX_STATES],
            reason=found.reason,
            method="monitor" if part in self.monitored else "search",
            witness=self.witness if found.verdict == "illegal" else [],
        )


def check_operations(
    model: Model[State],
    operations: Sequence[Operation],
    timeout: float | None = None,
    memory: int | None = None,
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
    actions, observes, history = number_actions(Model("warm-up", 0, step), operations)
    CompiledSearch(history, Steps(Model("warm-up", 0, step), actions, observes), Budget(None, DEFAULT_MEMORY)).run()
    # The first object is small, the other is large enough for a monitor.
    check_operations(REGISTER, [Operation(Action("write", i, key=i == 0), i, i + 9) for i in range(SMALL_PART + 2)])
