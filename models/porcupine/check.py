"""Checks a history: splits it into independent objects, searches each, and collects the evidence.

The verdict is `ok`, `illegal`, or `unknown` where a budget of time or memory ran out first: never a guess. A
history of a built-in model is decided by a short search (short_search.py), a monitor (monitors.py), or the long search
(search_kernel.py), where the reasons stand why each shortcut keeps the verdict. Another model first gets a short
search in plain Python (quick_search.py), then the long one.

Why numba: with the steps known, a configuration costs the compiled search 1.0 to 1.7 us and the plain Python one,
its limits lifted, 4.5 to 5 us, or 16 us where outcomes are unknown (histories of 80 and of 20,000 operations, one
core). Compiling takes 12 s once, kept on disk; loading it takes 0.5 s, which is why easy histories do without.
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
STATES = 100  # states that a result keeps at most
# What both searches lay out of a history before they begin takes so many bytes for each operation, as measured by
# benchmarks/linearize.py --long.
OPERATION_BYTES = 300
# Parts of so many operations at most are searched shortly first: so many candidates before a monitor is asked, and so
# many after it; so many operations in a call.
SMALL, EASY, SHORT, CHUNK = 5_000, 2_000, 20_000, 20_000
NEVER = float("inf")
EXPLAINED = 100_000  # operations of an illegal part with a witness that is searched for the one that cannot be placed
FIRST_TURN = 30_000  # candidates of a first turn of a long search
PLACED = 400_000  # candidates of a search for what cannot be placed, where a witness is known already
NOT_BEGUN = Found(None, 0, [[]], [], 0)
ILLEGAL = Found("illegal", 0, [], [], 0)  # without the evidence, which another search collects


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
    """One check: short searches of all parts first, then long ones of what they left, in turns."""

    def __init__(self, model: Model[Any], operations: Sequence[Operation], budget: Budget) -> None:
        self.model, self.budget = model, budget
        self.actions, self.observes, self.history = number_actions(model, operations)
        self.action_of = np.array(self.history.action_of, np.int32)
        self.observing = np.array(self.observes, np.int32)
        self.encoding: Encoding | None = None
        if any(model.step is known.step for known in MODELS.values()):
            from .encoding import Counts, encode

            counts, completed = [0] * len(self.actions), [0] * len(self.actions)
            for action, end in zip(self.history.action_of, self.history.ends, strict=True):
                counts[action] += 1
                completed[action] += end is not None
            self.encoding = encode(model, self.actions, Counts(counts, completed))
            if self.encoding is not None and len(self.actions) <= SMALL:
                _ = self._searched  # as all numbering of actions, before the search
        self.began = time.perf_counter()
        self.parts = _Parts(model, self.actions, self.action_of)
        self.found: dict[int, Found] = {}
        self.short: list[tuple[Any, ...]] = []  # what short searches found, which is collected after the verdict
        self.witness: dict[int, list[int]] = {}  # by part that a monitor decided
        self.begun: dict[int, tuple[Steps, Found]] = {}  # by part, what a short search in Python learnt
        if OPERATION_BYTES * len(operations) > budget.memory:
            for part in np.flatnonzero(OPERATION_BYTES * self.parts.sizes > budget.memory).tolist():
                self.found[part] = NOT_BEGUN._replace(reason="the memory ran out")
        self.seconds = 0.0

    def run(self) -> Result:
        """Search until one part is illegal, or all are decided, or the budget is gone."""
        open_parts = [part for part in range(len(self.parts.keys)) if part not in self.found]
        if self.encoding is not None:
            left = open_parts
            if self.encoding.monitor:
                left = self._monitor(self._short_machine(left, EASY))
            left = self._short_machine(left, SHORT)
        else:
            left = self._short_python(open_parts)
        if left:
            self._long(left)
        self.seconds = time.perf_counter() - self.began
        self._collect_short()
        illegal = [part for part, found in self.found.items() if found.verdict == "illegal"]
        if illegal and self.found[illegal[0]] is ILLEGAL:
            self.found[illegal[0]] = self._explain(illegal[0])
        verdict: Verdict = "illegal" if illegal else "ok"
        if not illegal and any(found.verdict is None for found in self.found.values()):
            verdict = "unknown"
        return Result(verdict, self.seconds, [self._part(part, self.found[part]) for part in sorted(self.found)])

    def _explain(self, part: int) -> Found:
        """How far an illegal part can be placed; a long one with a witness is not searched for it."""
        known = part in self.witness
        if known and self.parts.sizes[part] > EXPLAINED:
            return ILLEGAL
        from .compiled_search import CompiledSearch

        search = CompiledSearch(*self._searched_part(part), Budget(None, self.budget.memory))
        verdict = search.run(PLACED if known else NEVER)
        found = self._placed(part, search.found(verdict))
        return found if verdict else found._replace(verdict="illegal", front=0, states=[], reason="")

    @cached_property
    def _events(self) -> tuple[Ints, Ints]:
        """The events part by part, and where those of each part start."""
        from .layout import events_of, split_by_part

        return split_by_part(events_of(self.history), self.parts.of, len(self.parts.keys))

    @cached_property
    def _searched(self) -> Ints:
        """The actions of all operations as the search compares them: equal if instruction and observation are."""
        assert self.encoding is not None
        first: dict[tuple[Any, ...], int] = {}
        rows = enumerate(zip(self.encoding.machine.code.tolist(), self.observes, strict=True))
        merged = [first.setdefault((*code, observes), number) for number, (code, observes) in rows]
        return np.array(merged, np.int32)[self.action_of]

    def _completed(self, part: int) -> int:
        starts = self._events[1]
        return int(starts[part + 1] - starts[part] - self.parts.sizes[part])

    def _monitor(self, parts: list[int]) -> list[int]:
        """Decide those parts that are unambiguous without a search; returns the others."""
        assert self.encoding is not None
        if not parts or self.budget.is_late():
            return parts
        from .monitors import monitor_parts
        from .part_history import LINEARIZABLE, UNDECIDED

        events, starts = self._events
        _, initial, _, values, kind = self.encoding
        chosen = np.array(parts, np.int32)
        verdicts, witness = monitor_parts(
            kind, events, starts, chosen, self.action_of, self.encoding.machine, values, initial
        )
        for part, verdict in zip(parts, verdicts.tolist(), strict=True):
            if verdict == UNDECIDED:
                continue
            self.witness[part] = []
            self.found[part] = Found("ok", self._completed(part), [], [], 0)
            if verdict != LINEARIZABLE:
                self.found[part] = ILLEGAL
                self.witness[part] = sorted(set(witness.tolist()), key=self.history.calls.__getitem__)
                return []
        return [part for part in parts if part not in self.found]

    def _short_machine(self, parts: list[int], fuel: int) -> list[int]:
        """Search small parts in a few calls of compiled code; returns the parts that are not decided."""
        from .short_search import search_parts

        assert self.encoding is not None
        sizes = self.parts.sizes
        small, left = np.array(parts, np.int32), []
        if len(self.action_of) > SMALL:
            is_small = sizes[small] <= SMALL
            small, left = small[is_small], small[~is_small].tolist()
        if not small.size or self.budget.is_late():
            return parts
        events, starts = self._events
        machine, initial = self.encoding.machine, self.encoding.initial
        batches = [small]
        if len(self.action_of) > CHUNK:
            batches = np.split(small, np.flatnonzero(np.diff(np.cumsum(sizes[small]) // CHUNK)) + 1)
        for chosen in batches:
            if self.budget.is_late():
                left += chosen.tolist()
                continue
            illegal, is_found, *evidence = search_parts(
                events, starts, self._searched, self.observing, machine, initial, chosen, fuel
            )
            if illegal >= 0:
                self.found[illegal] = ILLEGAL
                return []
            self.short.append((chosen, is_found, *evidence))
            left += chosen[~is_found].tolist()
        return sorted(left)

    def _collect_short(self) -> None:
        """What the short searches found."""
        for chosen, is_found, counts, orders, starts in self.short:
            for place in np.flatnonzero(is_found).tolist():
                part = int(chosen[place])
                order = orders[starts[place] : starts[place + 1]].tolist()
                self.found[part] = Found("ok", self._completed(part), [order], [], int(counts[place]))

    def _short_python(self, parts: list[int]) -> list[int]:
        """Search each part in plain Python; returns those that are not decided."""
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
                self.begun[part] = steps, found
                continue
            self.found[part] = self._placed(part, found)
            if found.verdict == "illegal":
                return []
        return left

    def _searched_part(self, part: int) -> tuple[History, Steps]:
        """The operations of a part as a long search takes them, and the steps that are known."""
        steps = self.begun[part][0] if part in self.begun else None
        history = self.history
        if self.encoding is not None:
            history = history._replace(action_of=self._searched.tolist())
        if len(self.parts.keys) > 1:
            history = history.part(self.parts.operations(part))
        return history, steps or Steps(self.model, self.actions, self.observes, self.encoding)

    def _placed(self, part: int, found: Found) -> Found:
        """What a search of a part alone found, with operations as indices into the history."""
        indices = self.parts.operations(part)
        return found._replace(paths=[[indices[i] for i in path] for path in found.paths])

    def _long(self, parts: list[int]) -> None:
        """Search the parts in turns, each time twice as long, so that one that is soon illegal ends the check."""
        # Compiled code is imported where it is needed: it takes longer to load than most histories to decide.
        from .compiled_search import AlternatingSearch

        searches: dict[int, AlternatingSearch] = {}
        turn = FIRST_TURN
        while parts:
            for part in parts:
                if self.budget.is_late() and part not in searches:
                    short = self.begun[part][1] if part in self.begun else NOT_BEGUN
                    self.found[part] = self._placed(part, short._replace(reason="the time ran out"))
                    continue
                is_small = self.parts.sizes[part] <= SMALL  # and was searched by ends already
                search = searches.get(part) or AlternatingSearch(*self._searched_part(part), self.budget, is_small)
                verdict = search.run(turn)
                searches[part] = search
                if verdict is None and not search.reason:
                    continue
                found = search.found(verdict)
                if verdict is None and part in self.begun and found.front < self.begun[part][1].front:
                    found = self.begun[part][1]._replace(reason=found.reason)
                self.found[part] = self._placed(part, found)
                search.release()
                del searches[part]
                if verdict == "illegal":
                    return
            parts = list(searches)
            turn *= 2

    def _part(self, part: int, found: Found) -> Part:
        """What a search found, in the words of the caller."""
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
            states=found.states[:STATES],
            reason=found.reason,
            method="monitor" if part in self.witness else "search",
            witness=self.witness.get(part, []),
        )


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
    return check_within(model, operations, Budget(timeout, DEFAULT_MEMORY if memory is None else memory))


def check_within(model: Model[State], operations: Sequence[Operation], budget: Budget) -> Result:
    """`check_operations` with a budget of any kind."""
    # The search makes millions of small tuples and no cycles: the collector of cycles would only walk them,
    # again and again, for a third of the time and more.
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
    from .compiled_search import CompiledSearch

    def step(state: int, action: Action) -> int | None:
        return state + action.value or None

    operations = [Operation(Action("add", i % 3 - 1), i, i + 9 if i % 7 else None) for i in range(300)]
    actions, observes, history = number_actions(Model("warm-up", 0, step), operations)
    CompiledSearch(history, Steps(Model("warm-up", 0, step), actions, observes), Budget(None, DEFAULT_MEMORY)).run()
    # One object is short, the other is long enough for a monitor.
    check_operations(REGISTER, [Operation(Action("write", i, key=i == 0), i, i + 9) for i in range(SMALL + 2)])
