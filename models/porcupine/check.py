"""Checks a history: splits it into independent objects, searches each, and collects the evidence.

The verdict is `ok`, `illegal`, or `unknown` where a budget of time or memory ran out first: never a guess. A
history is first given to a short search in plain Python (quick_search.py), then, if it is not easy, to
the compiled one (search_kernel.py), where the reasons stand why each shortcut keeps the verdict.

Why numba: with the steps known, a configuration costs the compiled search 1.0 to 1.7 us and the plain Python one,
its limits lifted, 4.5 to 5 us, or 16 us where outcomes are unknown (histories of 80 and of 20,000 operations, one
core). Compiling takes 12 s once, kept on disk; loading it takes 0.5 s, which is why easy histories do without.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal

from ..operations import UNKNOWN, Action, Event, Model, ModelError, Operation, State, by_key
from .quick_search import QuickSearch
from .steps import Budget, Found, History, Steps, number_actions

Verdict = Literal["ok", "illegal", "unknown"]

DEFAULT_MEMORY = 2 << 30  # bytes
STATES = 100  # states that a result keeps at most
# What both searches lay out of a history before they begin takes so many bytes for each operation, as measured by
# benchmarks/linearize.py --long.
OPERATION_BYTES = 300


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

    The parts after an illegal one are not looked at. `seconds` is the search alone, to the verdict, with all
    steps of the model: not the check, numbering and telling apart of the actions before it, nor the collection of
    evidence after it, nor compilation where `warm_up` came before.
    """

    verdict: Verdict
    seconds: float
    parts: list[Part]

    @property
    def worst(self) -> Part | None:
        """The part that decides the verdict: the illegal one, or the first unknown, or else the first."""
        return next((part for part in self.parts if part.verdict == self.verdict), None)


def _search(history: History, steps: Steps, budget: Budget) -> tuple[Found, float]:
    """Search one independent object: shortly first, then as long as the budget lasts. Gives seconds, too."""
    # A short search asks for neither by itself, and there may be millions of objects, or of operations in one.
    if budget.is_late():
        return Found(None, 0, [[]], [0], 0, "the time ran out"), 0.0
    if OPERATION_BYTES * len(history.calls) > budget.memory:
        return Found(None, 0, [[]], [0], 0, "the memory ran out"), 0.0
    start = time.perf_counter()
    quick = QuickSearch(history, steps, budget)
    verdict = quick.run()
    seconds = time.perf_counter() - start
    first = quick.found(verdict)
    if verdict is not None:
        return first, seconds
    # Compiled code is imported where it is needed: it takes longer to load than most histories to decide.
    from .compiled_search import CompiledSearch

    start = time.perf_counter()
    search = CompiledSearch(history, steps, budget)
    verdict = search.run()
    seconds += time.perf_counter() - start
    found = search.found(verdict)
    if verdict is None and found.front < first.front:
        found = first._replace(reason=found.reason)
    return found, seconds


def _part(model: Model[Any], indices: list[int], history: History, steps: Steps, found: Found) -> Part:
    """What a search found, in the words of the caller."""
    blocked = None
    ends = [(end, place) for place, end in enumerate(history.ends) if end is not None]
    if found.verdict != "ok" and ends:
        blocked = indices[sorted(ends)[found.front][1]]
    return Part(
        key=model.partition(steps.actions[history.action_of[0]]) if model.partition else None,
        verdict=found.verdict or "unknown",
        operations=indices,
        completed=len(ends),
        placed=found.front,
        configurations=found.configurations,
        linearizations=[[indices[i] for i in path] for path in found.paths],
        blocked=blocked,
        states=[steps.states[i] for i in found.states[:STATES]],
        reason=found.reason,
    )


def _split(model: Model[Any], actions: list[Action], action_of: Sequence[int]) -> list[list[int]]:
    """The indices of the operations on each independent object, in the order of first appearance."""
    everything = [list(range(len(action_of)))]
    if model.partition is None:
        return everything
    keys = list(map(itemgetter(3) if model.partition is by_key else model.partition, actions))
    try:
        distinct = dict.fromkeys(keys)
    except TypeError as error:
        raise ModelError(f"a key that cannot be hashed ({error})") from error
    if len(distinct) == 1:
        return everything
    parts: dict[Hashable, list[int]] = {key: [] for key in distinct}
    part_of = [parts[key] for key in keys]
    for index, action in enumerate(action_of):
        part_of[action].append(index)
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
    # The search makes millions of small tuples and no cycles: the collector of cycles would only walk them,
    # again and again, for a third of the time and more.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _check(model, operations, timeout, DEFAULT_MEMORY if memory is None else memory)
    finally:
        if collecting:
            gc.enable()


def _check(model: Model[State], operations: Sequence[Operation], timeout: float | None, memory: int) -> Result:
    """`check_operations`, with its budgets."""
    if not operations:
        return Result("ok", 0.0, [])
    budget = Budget(timeout, memory)
    actions, observes, history = number_actions(model, operations)
    start = time.perf_counter()
    split = _split(model, actions, history.action_of)
    seconds = time.perf_counter() - start
    verdict: Verdict = "ok"
    parts: list[Part] = []
    for indices in split:
        start = time.perf_counter()
        chosen = history if len(split) == 1 else history.part(indices)
        steps = Steps(model, actions, observes)
        seconds += time.perf_counter() - start
        found, searched = _search(chosen, steps, budget)
        seconds += searched
        parts.append(_part(model, indices, chosen, steps, found))
        if found.verdict == "illegal":
            verdict = "illegal"
            break
        if found.verdict is None:
            verdict = "unknown"
    return Result(verdict, seconds, parts)


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

    model = Model("warm-up", initial=0, step=lambda state, action: state + action.value or None, partition=None)
    operations = [Operation(Action("add", i % 3 - 1), i, i + 9 if i % 7 else None) for i in range(300)]
    actions, observes, history = number_actions(model, operations)
    steps = Steps(model, actions, observes)
    CompiledSearch(history, steps, Budget(None, DEFAULT_MEMORY)).run()
    check_operations(model, operations)
