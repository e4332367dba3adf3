"""A first, short search in plain Python, for the histories that are easily decided.

Most of a check of a hundred operations, and of a long history whose every state is new, is spent in the model and
in the way to it; there a compiled search only adds the way back and forth. So the scout goes first: it decides
easy histories outright, and where the going gets hard it gives up and leaves the steps that it learnt to
linearize_search.py. The configurations are the same, and so are the four rules that leave some out.

A configuration is `front`, the first operation by end that is not linearized; `open`, all that were called by its
end and are not linearized; the state; and which operations of unknown outcome were used. No undo is needed:
`open` is a short tuple, and each alternative keeps its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Literal, NamedTuple

from .linearize_steps import IMPOSSIBLE, Budget, Found, Steps
from .operations import Operation

# The scout gives up after so many configurations, and two more for each step that it had to ask the model for:
# where most steps are known already, the compiled search is quicker.
PATIENCE = 400
# It also gives up when it has not come further for so many configurations.
STUCK = 10_000
# Memo and alternatives are bounded; what is forgotten costs time, or the claim to have tried everything.
MEMO, ALTERNATIVES = 100_000, 20_000

Used = tuple[int, ...]  # operations of unknown outcome, ascending


class _Move(NamedTuple):
    """An alternative: an operation to place next, and the configuration from which."""

    depth: int
    front: int
    called: int
    open: tuple[int, ...]
    used: Used
    operation: int
    before: int  # state
    after: int  # state


class Scout:
    """One short search. Operations are numbered as given; `steps` knows their actions."""

    def __init__(self, operations: Sequence[Operation], steps: Steps, budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        self.calls = calls = [operation[1] for operation in operations]
        self.lost: list[int] = [i for i, operation in enumerate(operations) if operation[2] is None]
        # Those of unknown outcome get an end, which is never looked at, so that all ends are numbers.
        self.ends = ends = [call if (end := operation[2]) is None else end for operation, call in zip(operations, calls, strict=True)]
        self.by_call = sorted(range(len(calls)), key=calls.__getitem__)
        self.by_end = sorted(range(len(calls)), key=ends.__getitem__)
        self.is_lost = bytearray(len(calls))
        if self.lost:
            for i in self.lost:
                self.is_lost[i] = 1
            self.lost.sort(key=calls.__getitem__)
            self.by_call = [i for i in self.by_call if not self.is_lost[i]]
            self.by_end = [i for i in self.by_end if not self.is_lost[i]]
        self.memo: set[tuple[int, tuple[int, ...], int, Used]] = set()
        self.forgot = False  # whether something was forgotten, so that not everything was tried
        self.moves: deque[_Move] = deque(maxlen=ALTERNATIVES)
        self.path: list[int] = []
        self.best = -1
        self.dead_ends: dict[int, list[int]] = {}  # by state, at the best front

    def run(self) -> Found:
        """Search until there is a verdict, or until it gets hard."""
        if not self.by_end:
            return Found("ok", 0, [[]], [], 1)
        limit = PATIENCE
        visited = progress = 0
        move: _Move | None = self._start()
        fresh = len(self.steps.table)
        while move is not None:
            configuration = self._place(move)
            if configuration is None:
                move = self._back()
                continue
            front, called, open_, used = configuration
            if front == len(self.by_end):
                return Found("ok", front, [self.path], [], visited)
            visited += 1
            if front > self.best:
                self.best, progress = front, visited
                self.dead_ends.clear()
            asked = len(self.steps.table)
            if visited > limit + 2 * (asked - fresh) or visited - progress > STUCK:
                return self._found(None, visited)
            if not visited & 255 and self._is_out_of_budget():
                return self._found(None, visited)
            move = self._next(move, front, called, open_, used)
        return self._found(None if self.forgot else "illegal", visited)

    def _is_out_of_budget(self) -> bool:
        # A configuration in the memo is a tuple of four, with a tuple of operations; about 300 bytes.
        held = self.steps.nbytes + 300 * (len(self.memo) + len(self.moves))
        return held > self.budget.memory or self.budget.is_late()

    def _found(self, verdict: Literal["illegal", None], visited: int) -> Found:
        states = dict.fromkeys(state for front, _, state, _ in self.memo if front == self.best)
        paths = sorted(self.dead_ends.values(), key=len, reverse=True)
        return Found(verdict, max(self.best, 0), paths or [list(self.path)], sorted(states), visited)

    def _start(self) -> _Move:
        """A move that places nothing (-1) and leads to the first configuration."""
        return _Move(0, 0, 0, (), (), -1, 0, 0)

    def _place(self, move: _Move) -> tuple[int, int, tuple[int, ...], Used] | None:
        """The configuration after a move, without its state; None if it was visited before."""
        calls, ends = self.calls, self.ends
        by_call, by_end = self.by_call, self.by_end
        depth, front, called, open_, used, operation, _, state = move
        del self.path[depth:]
        n = len(by_end)
        if operation < 0:
            open_, called = self._open_until(ends[by_end[0]], (), 0)
        elif self.is_lost[operation]:
            used = tuple(sorted((*used, operation)))
            self.path.append(operation)
        else:
            self.path.append(operation)
            at = open_.index(operation)
            open_ = open_[:at] + open_[at + 1 :]
            if operation == by_end[front]:
                front += 1
                if front == n:
                    return front, called, open_, used
                horizon = ends[operation]
                upcoming = by_end[front]
                while upcoming not in open_ and calls[upcoming] <= horizon:
                    front += 1
                    if front == n:
                        return front, called, open_, used
                    upcoming = by_end[front]
                horizon = ends[upcoming]
                if called < n and calls[by_call[called]] <= horizon:
                    open_, called = self._open_until(horizon, open_, called)
        key = (front, open_, state, used)
        memo = self.memo
        if key in memo:
            return None
        if len(memo) >= MEMO:
            memo.clear()
            self.forgot = True
        memo.add(key)
        return front, called, open_, used

    def _open_until(
        self, horizon: float, open_: tuple[int, ...], called: int
    ) -> tuple[tuple[int, ...], int]:
        """The open operations with those called by the horizon, and the number called."""
        calls, by_call = self.calls, self.by_call
        first = called
        while called < len(by_call) and calls[by_call[called]] <= horizon:
            called += 1
        return open_ + tuple(by_call[first:called]), called

    def _next(
        self, move: _Move, front: int, called: int, open_: tuple[int, ...], used: Used
    ) -> _Move | None:
        """The first way on from a configuration; the others are kept as alternatives."""
        steps = self.steps
        action_of, observes, get, ask = steps.action_of, steps.observes, steps.table.get, steps.ask
        state = move.after
        row = state * steps.width
        depth = len(self.path)
        ways: list[tuple[int, int]] = []
        for operation in open_:
            action = action_of[operation]
            after = get(row + action)
            if after is None:
                after = ask(state, action)
            if after == state and observes[action]:
                return _Move(depth, front, called, open_, used, operation, state, state)
            if after >= 0:
                ways.append((operation, after))
        # The state before, if an operation of unknown outcome led here: it has to make a difference.
        without = move.before if move.operation >= 0 and self.is_lost[move.operation] else None
        if without is not None:
            ways = [way for way in ways if self._after(without, way[0]) != way[1]]
        if self.lost:
            self._add_lost(ways, front, state, used, without)
        if not ways:
            if len(self.dead_ends) < 8 and front == self.best and state not in self.dead_ends:
                self.dead_ends[state] = self.path[:]
            return self._back()
        if len(ways) > 1:
            if len(self.moves) + len(ways) > ALTERNATIVES:
                self.forgot = True
            for operation, after in ways[:0:-1]:
                self.moves.append(_Move(depth, front, called, open_, used, operation, state, after))
        operation, after = ways[0]
        return _Move(depth, front, called, open_, used, operation, state, after)

    def _after(self, state: int, operation: int) -> int:
        action = self.steps.action_of[operation]
        after = self.steps.table.get(state * self.steps.width + action)
        return self.steps.ask(state, action) if after is None else after

    def _add_lost(
        self, ways: list[tuple[int, int]], front: int, state: int, used: Used, without: int | None
    ) -> None:
        """Add the operations of unknown outcome that may be next and make a difference, one for each action."""
        calls, ends = self.calls, self.ends
        horizon = ends[self.by_end[front]]
        seen: set[int] = set()
        for operation in self.lost:
            if calls[operation] > horizon:
                break
            action = self.steps.action_of[operation]
            if operation in used or action in seen:
                continue
            seen.add(action)
            after = self._after(state, operation)
            if after in (IMPOSSIBLE, state):
                continue
            if without is None or self._after(without, operation) != after:
                ways.append((operation, after))

    def _back(self) -> _Move | None:
        """The alternative that was kept last."""
        return self.moves.pop() if self.moves else None
