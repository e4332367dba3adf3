"""Shrinks a history that is not linearizable to a few operations that prove it: delta debugging.

Dropping operations proves nothing: a read of 5 fails once the write of 5 is dropped. So an operation is doubted
instead of dropped: it may have taken effect in its interval, or never. A linearizable history stays linearizable
when an operation is doubted or an observation is left out. So the operations that stay certain cannot all be placed,
whatever the others did. More certain operations never turn a failure into a success, as delta debugging requires.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...models.operations import Action, Model, Operation
from ...models.porcupine import DEFAULT_MEMORY, Part
from ...models.porcupine.check import check_within
from ...models.porcupine.history import number_actions
from ...models.porcupine.steps import Budget, Steps

# Limits of one check; a set of operations that exceeds them counts as one that does not fail. Work is counted and not
# time (candidates of the search, steps of the model, operations), so that the result is the same on any machine.
CHECK_WORK, MEMORY = 1_000_000, 256 << 20
WORK = 5_000_000  # for the initial states, and for shrinking: 5 to 20 seconds
RECENT = 200  # operations that are shrunk; those that ended earlier stay certain if they are needed
DOUBTED = 2000  # the most operations that are doubted together: with more, too many states are possible
MAYBE = "maybe"
# In unambiguous histories: functions that insert a value, and functions that return one.
INSERTS = frozenset(("write", "put", "enqueue", "push", "insert"))
ANSWERS = frozenset(("read", "get", "dequeue", "pop", "delete-min"))


@dataclass(frozen=True)
class Minimal:
    """Operations that cannot all be placed, as indices, in the order of their calls.

    They fail after `before`, the operations that ended earlier and stay certain. It is empty if the operations fail
    by themselves.
    """

    operations: list[int]
    before: list[int]


def doubting_model(model: Model[Any], budget: Budget | None = None) -> Model[frozenset[Hashable]]:
    """A model of sets of states: those that are possible if each doubted action may not have happened.

    Its steps are counted as work of the budget, and its states as memory. Once that ran out, a step changes nothing.
    """

    def step(states: frozenset[Hashable], action: Action) -> frozenset[Hashable] | None:
        if budget is not None:
            budget.work -= len(states)
            budget.memory -= len(states) * sys.getsizeof(next(iter(states)))
            if budget.memory < 0:
                budget.work = 0
                return states
        doubted = action.f == MAYBE
        performed = action.value if doubted else action
        after = {model.step(state, performed) for state in states} - {None}
        if doubted:
            after |= states
        return frozenset(after) or None

    return Model(name=f"{model.name}, doubted", initial=frozenset((model.initial,)), step=step, partition=None)


@dataclass(frozen=True)
class _Start:
    """A possible start of the operations to shrink: the states, and those of the operations that are already placed."""

    states: frozenset[Hashable]
    placed: frozenset[int]


def _starts(model: Model[Any], operations: Sequence[Operation], chosen: list[int], before: set[int]) -> list[_Start]:
    """All possible starts after the operations of `before`, which ended first; none if a budget ran out."""
    # Compiled code takes longer to load than most histories to shrink.
    from ...models.porcupine.compiled_search import CompiledSearch

    numbered = number_actions(model, [operations[i] for i in chosen])
    steps = Steps(model, numbered.actions, numbered.observes)
    search = CompiledSearch(numbered.history(), steps, Budget(None, DEFAULT_MEMORY, WORK))
    if search.run() != "illegal":
        return []
    states: dict[frozenset[int], set[Hashable]] = {}
    for state, path in search.reached(len(before)):
        placed = frozenset(chosen[i] for i in path) - before
        states.setdefault(placed, set()).add(state)
    return [_Start(frozenset(possible), placed) for placed, possible in states.items()]


class _Shrinker:
    """Finds the certain operations that show the failure while all others are doubted; operations are indices."""

    def __init__(self, model: Model[Any], operations: Sequence[Operation], starts: list[_Start]):
        self.model, self.operations, self.starts = model, operations, starts
        self.work: float = WORK

    def fails(self, certain: Sequence[int], doubted: Sequence[int]) -> bool:
        """Whether no linearization has the certain operations, whatever the doubted ones did."""
        return all(self._fails_after(start, certain, doubted) for start in self.starts)

    def _fails_after(self, start: _Start, certain: Sequence[int], doubted: Sequence[int]) -> bool:
        chosen = {*certain, *start.placed}
        history = [self.operations[i] for i in certain if i not in start.placed]
        for i in doubted:
            action = self.operations[i].action
            # An operation of unknown outcome is doubted by every model.
            if i in chosen or self.model.observes(action):
                continue
            if self.operations[i].end is not None:
                action = Action(MAYBE, action)
            history.append(self.operations[i]._replace(action=action))
        work = min(CHECK_WORK, self.work)
        budget = Budget(None, MEMORY, work)
        model = replace(doubting_model(self.model, budget), initial=start.states)
        verdict = check_within(model, history, budget).verdict
        self.work -= work - budget.work + len(history)
        return verdict == "illegal" and budget.work > 0

    def shrink(self, certain: list[int], doubted: list[int]) -> list[int]:
        """The certain operations that Zeller's ddmin leaves (complements only).

        It doubts ever smaller chunks while the remaining operations still fail.
        """
        chunk = max(1, len(certain) // 2)
        while self.work > 0:
            start, shrunk = 0, False
            while start < len(certain) and self.work > 0:
                rest = certain[:start] + certain[start + chunk :]
                if self.fails(rest, doubted):
                    certain, shrunk = rest, True
                else:
                    start += chunk
            if chunk == 1 and not shrunk:
                break
            chunk = max(1, chunk // 2)
        return certain


def minimal_failure(model: Model[Any], operations: Sequence[Operation], part: Part) -> Minimal | None:
    """A few operations that show why a part of a history is illegal.

    `part` is the engine's result; None is returned if it is not illegal. The witness of a monitor has few operations
    already; other failures are shrunk.
    """
    if part.witness:
        return _without_proved_inserts(operations, part.witness)
    if part.blocked is None or part.verdict != "illegal":
        return None
    return _shrink_to_blocked(model, operations, part, part.blocked)


def _without_proved_inserts(operations: Sequence[Operation], witness: Sequence[int]) -> Minimal:
    """A witness without its inserts if another of its operations returned the value, as that proves them."""
    actions = [operations[i].action for i in witness]
    proved = {action.result for action in actions if action.f in ANSWERS}
    named = zip(witness, actions, strict=True)
    return Minimal([i for i, action in named if action.f not in INSERTS or action.value not in proved], [])


def _shrink_to_blocked(model: Model[Any], operations: Sequence[Operation], part: Part, blocked: int) -> Minimal:
    """The operations that block `blocked`; after WORK the fewest so far."""
    last = operations[blocked].end
    assert last is not None
    # Operations that were called after the end of the blocked operation cannot affect it.
    concerned = [i for i in part.operations if operations[i].call <= last]
    completed = [i for i in concerned if operations[i].end is not None]
    completed.sort(key=lambda i: (operations[i].end or 0, i))
    upto = completed[: completed.index(blocked) + 1]
    recent, before = upto[-RECENT:], upto[:-RECENT]
    shrinker = _Shrinker(model, operations, [_Start(frozenset((model.initial,)), frozenset())])
    if len(concerned) <= DOUBTED and shrinker.fails(recent, concerned):
        before = []
    elif before:
        shrinker = _Shrinker(model, operations, _starts(model, operations, concerned, set(before)))
    early = set(before)
    others = [i for i in concerned if i not in early]
    certain = recent  # the engine has already found that they fail
    if shrinker.starts:
        windows = (recent[-size:] for size in (4, 8, 16, 32, 64, 128))
        certain = shrinker.shrink(next((few for few in windows if shrinker.fails(few, others)), recent), others)
    return Minimal(sorted(certain, key=lambda i: operations[i].call), before)
