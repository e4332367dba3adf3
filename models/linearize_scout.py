"""A first, short search in plain Python, for the histories that are easily decided.

Most of a check of a hundred operations, and of a long history whose every state is new, is spent in the
model and in the way to it; there a compiled search only adds the way back and forth. So the scout goes
first: it decides easy histories outright, and where the going gets hard it gives up and leaves the steps
that it learnt to linearize_search.py. The configurations are the same, and so are the four rules that leave
some out.

A configuration is `front`, the first operation by end that is not linearized; `open`, all that were called
by its end and are not linearized; the state; and which operations of unknown outcome were used. No undo is
needed: `open` is a short tuple, and each alternative keeps its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush, nsmallest
from typing import Any, Literal

from .linearize_steps import FURTHEST, IMPOSSIBLE, Budget, Found, Steps
from .operations import Operation

# The scout gives up after so many configurations, and two more for each step that it had to ask the model
# for: where most steps are known already, the compiled search is quicker.
PATIENCE = 400
# It also gives up when it has not come further for so many configurations.
STUCK = 10_000
# Memo and alternatives are bounded; what is forgotten costs time, or the claim to have tried everything.
MEMO, ALTERNATIVES = 100_000, 20_000
# Operations of unknown outcome are tried when nothing else is left within so many fronts.
LATE = 16

Operations = tuple[int, ...]
Path = tuple[int, Any] | None  # the last operation, and the path before it
# A configuration, and how far it was looked at: the path to it; its front; how many operations were called by
# then, the open ones, and the used ones of unknown outcome; its state, and the state before an operation of
# unknown outcome, if one led to it, else -1; and the place in `open` from which on operations were not tried
# as the next one, NEW before anything was done. A plain tuple: thousands are made in a millisecond.
Configuration = tuple[Path, int, int, Operations, Operations, int, int, int]
NEW = -1
# Configurations that wait for operations of unknown outcome are in a heap by front and number, both negated: the
# furthest front is tried first, because it is what stopped the search.
Waiting = tuple[int, int, Configuration]


class Scout:
    """One short search. Operations are numbered as given; `steps` knows their actions."""

    def __init__(self, operations: Sequence[Operation], steps: Steps, budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        _, calls, ends, _ = zip(*operations, strict=True)
        self.calls: Sequence[float] = calls
        self.ends: Sequence[float] = ends
        self.by_call = sorted(range(len(calls)), key=calls.__getitem__)
        self.lost: list[int] = []  # of unknown outcome, by call
        completed: Sequence[int] = range(len(calls))
        if None in ends:
            self.lost = [i for i in self.by_call if ends[i] is None]
            self.by_call = [i for i in self.by_call if ends[i] is not None]
            completed = sorted(self.by_call)
        self.by_end = sorted(completed, key=ends.__getitem__)
        self.memo: set[tuple[int, Operations, int, Operations]] = set()
        self.forgot = False  # whether something was forgotten, so that not everything was tried
        self.moves: deque[Configuration] = deque(maxlen=ALTERNATIVES)
        self.late: list[Waiting] = []
        self.best = -1
        self.dead_ends: dict[int, Path] = {}  # the path to each state at the best front that leads nowhere

    def run(self) -> Found:
        """Search until there is a verdict, or until it gets hard."""
        steps, moves, memo = self.steps, self.moves, self.memo
        action_of, observes, get, width = steps.action_of, steps.observes, steps.table.get, steps.width
        n = len(self.by_end)
        if n == 0:
            return Found("ok", 0, [[]], [], 0)
        visited = progress = 0
        asked_before = len(steps.table)
        present: Configuration | None = (None, -1, 0, (), (), 0, -1, NEW)
        while present is not None:
            path, front, called, open_, used, state, without, start = present
            if start == NEW:
                before = path
                path, front, called, open_ = self._settle(path, front, called, open_, state)
                if front == n:
                    return Found("ok", front, [_unrolled(path)], [], visited)
                visited += 1
                if front > self.best:
                    self.best, progress = front, visited
                    self.dead_ends.clear()
                key = (front, open_, state, used)
                if key in memo:
                    present = self._back()
                    continue
                memo.add(key)
                if visited > PATIENCE and self._is_hard(visited, progress, len(steps.table) - asked_before):
                    return self._found(None, visited, path)
                if path is not before:
                    # Observations came between: they may be what one of unknown outcome made possible.
                    without = -1
                if self.lost and self.calls[self.lost[0]] <= self.ends[self.by_end[front]]:
                    waiting = (path, front, called, open_, used, state, without, NEW)
                    heappush(self.late, (-front, -visited, waiting))
                start = 0
            row = state * width
            for at in range(start, len(open_)):
                action = action_of[open_[at]]
                if observes[action]:
                    continue
                after = get(row + action)
                if after is None:
                    after = steps.ask(state, action)
                if after >= 0 and (without < 0 or self._after(without, action) != after):
                    break
            else:
                if start == 0 and front == self.best and state not in self.dead_ends:
                    self.dead_ends[state] = path
                present = self._back()
                continue
            if at + 1 < len(open_):
                self.forgot |= len(moves) == ALTERNATIVES
                moves.append((path, front, called, open_, used, state, without, at + 1))
            present = ((open_[at], path), front, called, open_[:at] + open_[at + 1 :], used, after, -1, NEW)
        return self._found(None if self.forgot else "illegal", visited, None)

    def _back(self) -> Configuration | None:
        """The alternative kept last, or one of unknown outcome; None if all were tried."""
        moves, late = self.moves, self.late
        while late and (not moves or moves[-1][1] + LATE < -late[0][0]):
            self._try_lost(heappop(late)[2])
        return moves.pop() if moves else None

    def _settle(
        self, path: Path, front: int, called: int, open_: Operations, state: int
    ) -> tuple[Path, int, int, Operations]:
        """Advance the front and place all observations that fit, as far as it goes.

        Gives the path, the front, the number of operations called, and the open ones. At first the front is -1.
        """
        calls, ends, by_call, by_end, steps = self.calls, self.ends, self.by_call, self.by_end, self.steps
        action_of, observes, get = steps.action_of, steps.observes, steps.table.get
        row = state * steps.width
        n = len(by_end)
        fresh = open_  # those that were not looked at yet
        while True:
            if front < 0 or by_end[front] not in open_:
                # All that were called by the front's end are open, or placed.
                horizon = ends[by_end[front]] if front >= 0 else float("-inf")
                front += 1
                while front < n and calls[by_end[front]] <= horizon and by_end[front] not in open_:
                    front += 1
                if front == n:
                    return path, front, called, open_
                horizon = ends[by_end[front]]
                first = called
                while called < n and calls[by_call[called]] <= horizon:
                    called += 1
                if called > first:
                    new = tuple(by_call[first:called])
                    open_ += new
                    fresh += new
            fits = []
            for operation in fresh:
                action = action_of[operation]
                if observes[action]:
                    after = get(row + action)
                    if after is None:
                        after = steps.ask(state, action)
                    if after == state:
                        path = (operation, path)
                        fits.append(operation)
            if not fits:
                return path, front, called, open_
            open_ = tuple([operation for operation in open_ if operation not in fits])
            if by_end[front] in open_:
                return path, front, called, open_
            fresh = ()

    def _is_hard(self, visited: int, progress: int, asked: int) -> bool:
        """Whether to give up; forgets what is too much to keep."""
        if visited > PATIENCE + 2 * asked or visited - progress > STUCK:
            return True
        if len(self.memo) > MEMO:
            self.memo.clear()
            self.forgot = True
        if len(self.late) > ALTERNATIVES:
            self.late = nsmallest(ALTERNATIVES // 2, self.late)
            self.forgot = True
        # A configuration in the memo is a tuple of four, with a tuple of operations; about 300 bytes.
        held = self.steps.nbytes + 300 * (len(self.memo) + len(self.moves))
        return held > self.budget.memory or self.budget.is_late()

    def _found(self, verdict: Literal["illegal", None], visited: int, path: Path) -> Found:
        states = dict.fromkeys(state for front, _, state, _ in self.memo if front == self.best)
        paths = sorted(map(_unrolled, self.dead_ends.values() or [path]), key=len, reverse=True)
        return Found(verdict, max(self.best, 0), paths[:FURTHEST], sorted(states), visited)

    def _after(self, state: int, action: int) -> int:
        after = self.steps.table.get(state * self.steps.width + action)
        return self.steps.ask(state, action) if after is None else after

    def _try_lost(self, waiting: Configuration) -> None:
        """Keep as alternatives the operations of unknown outcome that may be next and make a difference.

        Of those with the same action the one that was called first stands for all.
        """
        path, front, called, open_, used, state, without, _ = waiting
        horizon = self.ends[self.by_end[front]]
        seen: set[int] = set()
        for operation in self.lost:
            if self.calls[operation] > horizon:
                break
            action = self.steps.action_of[operation]
            if operation in used or action in seen:
                continue
            seen.add(action)
            after = self._after(state, action)
            if after in (IMPOSSIBLE, state):
                continue
            if without < 0 or self._after(without, action) != after:
                self.forgot |= len(self.moves) == ALTERNATIVES
                now = tuple(sorted((*used, operation)))
                self.moves.append(((operation, path), front, called, open_, now, after, state, NEW))


def _unrolled(path: Path) -> list[int]:
    """The operations of a path, first to last."""
    operations = []
    while path is not None:
        operation, path = path
        operations.append(operation)
    return operations[::-1]
