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
from collections.abc import Callable, Sequence
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
# A configuration, and how far it was looked at: the path to it; its front; how many operations were called
# by then; the open observations, the other open ones, and the used ones of unknown outcome; its state, and
# the state before an operation of unknown outcome, if one led to it, else -1; and the place among the others
# from which on they were not tried as the next one, NEW before anything was done. A plain tuple: thousands
# are made in a millisecond.
Configuration = tuple[Path, int, int, Operations, Operations, Operations, int, int, int]
NEW = -1
# Configurations that wait for operations of unknown outcome are in a heap by front and number, both negated:
# the furthest front is tried first, because it is what stopped the search.
Waiting = tuple[int, int, Configuration]
# What settling gives: path, front, operations called, open observations, the other open ones.
Settled = tuple[Path, int, int, Operations, Operations]


class Scout:
    """One short search. Operations are numbered by their ends, those of unknown outcome last, by call."""

    def __init__(self, operations: Sequence[Operation], steps: Steps, budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        _, calls, ends, _ = zip(*operations, strict=True)
        completed: Sequence[int] = range(len(calls))
        lost: list[int] = []
        if None in ends:
            completed = [i for i in completed if ends[i] is not None]
            lost = sorted((i for i, end in enumerate(ends) if end is None), key=calls.__getitem__)
        self.n = len(completed)
        self.given = given = [*sorted(completed, key=ends.__getitem__), *lost]  # the index of each number
        self.calls: list[float] = [calls[i] for i in given]
        self.ends: list[float] = [ends[i] for i in given]  # what is not completed is not asked for its end
        self.action_of = [steps.action_of[i] for i in given]
        self.lost = range(self.n, len(given))
        self.by_call = sorted(range(self.n), key=self.calls.__getitem__)
        self.memo: set[tuple[int, Operations, Operations, int, Operations]] = set()
        self.forgot = False  # whether something was forgotten, so that not everything was tried
        self.moves: deque[Configuration] = deque(maxlen=ALTERNATIVES)
        self.late: list[Waiting] = []
        self.cleared = 0  # configurations that are no longer in the memo
        self.order: list[int] = []
        self.path: Path = None  # where the search ended
        self.best = -1  # the furthest front of those that led nowhere
        self.furthest = self.progress = 0  # the furthest front when last asked, and the number of its configuration
        self.asked_before = len(steps.table)
        self.dead_ends: dict[int, Path] = {}  # the path to each state at the best front that leads nowhere

    def run(self) -> Literal["ok", "illegal", None]:
        """Search until there is a verdict, or until it gets hard: None."""
        if self._is_in_order():
            self.order = self.given[: self.n]
            return "ok"
        moves, memo, settle, ask = self.moves, self.memo, self._settler(), self.steps.ask
        action_of, get, width, n = self.action_of, self.steps.table.get, self.steps.width, self.n
        first_lost = self.calls[n] if self.lost else float("inf")
        ends, visited, remembered, limit = self.ends, 0, 0, PATIENCE
        path: Path = None
        front, called, state, without, start, stuck = -1, 0, 0, -1, NEW, False
        watching: Operations = ()
        changing: Operations = ()
        used: Operations = ()
        while True:
            if stuck:
                resumed = self._back()
                if resumed is None:
                    return None if self.forgot else "illegal"
                path, front, called, watching, changing, used, state, without, start = resumed
                stuck = False
            if start == NEW:
                before = path
                path, front, called, watching, changing = settle(path, front, called, watching, changing, state)
                if front == n:
                    self.path = path
                    return "ok"
                key = (front, watching, changing, state, used)
                memo.add(key)
                if len(memo) == remembered:  # it was there; so it is hashed once
                    stuck = True
                    continue
                remembered += 1
                visited += 1
                if visited > limit:
                    limit = self._next_limit(visited, front)
                    remembered = len(memo)
                    if limit == 0:
                        self.path = path
                        return None
                if without >= 0 and path is not before:
                    # Observations came between: they may be what one of unknown outcome made possible.
                    without = -1
                if first_lost <= ends[front]:
                    waiting = (path, front, called, watching, changing, used, state, without, NEW)
                    heappush(self.late, (-front, -visited, waiting))
                start = 0
            row = state * width
            for at in range(start, len(changing)):
                action = action_of[changing[at]]
                after = get(row + action)
                if after is None:
                    after = ask(state, action)
                if after >= 0 and (without < 0 or self._after(without, action) != after):
                    break
            else:
                stuck = True
                if start == 0 and front >= self.best:
                    self._note(front, state, path)
                continue
            if at + 1 < len(changing):
                self.forgot |= len(moves) == ALTERNATIVES
                moves.append((path, front, called, watching, changing, used, state, without, at + 1))
            path = (changing[at], path)
            changing = changing[:at] + changing[at + 1 :]
            state, without, start = after, -1, NEW

    def _back(self) -> Configuration | None:
        """The alternative kept last, or one of unknown outcome; None if all were tried."""
        moves, late = self.moves, self.late
        while late and (not moves or moves[-1][1] + LATE < -late[0][0]):
            self._try_lost(heappop(late)[2])
        return moves.pop() if moves else None

    def _settler(self) -> Callable[[Path, int, int, Operations, Operations, int], Settled]:
        """The function that settles a configuration; inside it, what it needs is at hand without look-ups."""
        calls, ends, by_call, n = self.calls, self.ends, self.by_call, self.n
        observes, get, watch, width = (
            self.steps.observes,
            self.steps.table.get,
            self.steps.watch,
            self.steps.width,
        )
        action_of = self.action_of
        call_times = [calls[i] for i in by_call]

        def settle(
            path: Path, front: int, called: int, watching: Operations, changing: Operations, state: int
        ) -> Settled:
            """Advance the front, -1 at first, and place all observations that fit, as far as it goes."""
            row = state * width
            waited, watching = watching, ()
            for operation in waited:
                action = action_of[operation]
                after = get(row + action)
                if after is None:
                    after = watch(state, action)
                if after == state:
                    path = (operation, path)
                else:
                    watching += (operation,)
            while front not in changing and front not in watching:
                # All that were called by the front's end are open, or placed.
                horizon = ends[front] if front >= 0 else float("-inf")
                front += 1
                while front < n and calls[front] <= horizon and front not in watching and front not in changing:
                    front += 1
                if front == n:
                    break
                horizon = ends[front]
                while called < n and call_times[called] <= horizon:
                    operation = by_call[called]
                    called += 1
                    action = action_of[operation]
                    if observes[action]:
                        after = get(row + action)
                        if after is None:
                            after = watch(state, action)
                        if after == state:
                            path = (operation, path)
                        else:
                            watching += (operation,)
                    elif changing and operation < changing[-1]:
                        # In the order of their ends: what has to be placed first is tried first.
                        changing = tuple(sorted((*changing, operation)))
                    else:
                        changing += (operation,)
            return path, front, called, watching, changing

        return settle

    def _note(self, front: int, state: int, path: Path) -> None:
        """Keep the path to a configuration that leads nowhere, if none came further."""
        if front > self.best:
            self.best = front
            self.dead_ends.clear()
        self.dead_ends.setdefault(state, path)

    def _next_limit(self, visited: int, front: int) -> int:
        """After how many configurations to ask again; 0 to give up. Forgets what is too much to keep."""
        if front > self.furthest:
            self.furthest, self.progress = front, visited
        asked = len(self.steps.table) - self.asked_before
        if visited > PATIENCE + 2 * asked or visited - self.progress > STUCK:
            return 0
        if len(self.memo) > MEMO:
            self.cleared += len(self.memo)
            self.memo.clear()
            self.forgot = True
        if len(self.late) > ALTERNATIVES:
            self.late = nsmallest(ALTERNATIVES // 2, self.late)
            self.forgot = True
        # A configuration in the memo is a tuple of four, with a tuple of operations; about 300 bytes.
        held = self.steps.nbytes + 300 * (len(self.memo) + len(self.moves))
        return 0 if held > self.budget.memory or self.budget.is_late() else visited + 16

    def found(self, verdict: Literal["ok", "illegal", None]) -> Found:
        """What `run` found out, with its verdict."""
        visited = self.cleared + len(self.memo)
        if verdict == "ok":
            return Found(verdict, self.n, [self.order or self._unrolled(self.path)], [], visited)
        furthest = max((key[0] for key in self.memo), default=0)
        states = dict.fromkeys(key[3] for key in self.memo if key[0] == furthest)
        ends = self.dead_ends.values() if furthest == self.best else [self.path]
        paths = sorted(map(self._unrolled, ends), key=len, reverse=True)
        return Found(verdict, furthest, paths[:FURTHEST], sorted(states), visited)

    def _is_in_order(self) -> bool:
        """Whether the order of their ends is a linearization, as where no two are concurrent."""
        get, ask, width, state = self.steps.table.get, self.steps.ask, self.steps.width, 0
        for action in self.action_of[: self.n]:
            after = get(state * width + action)
            if after is None:
                after = ask(state, action)
            if after < 0:
                return False
            state = after
        return True

    def _after(self, state: int, action: int) -> int:
        after = self.steps.table.get(state * self.steps.width + action)
        return self.steps.ask(state, action) if after is None else after

    def _try_lost(self, waiting: Configuration) -> None:
        """Keep as alternatives the operations of unknown outcome that may be next and make a difference.

        Of those with the same action the one that was called first stands for all.
        """
        path, front, called, watching, changing, used, state, without, _ = waiting
        horizon = self.ends[front]
        seen: set[int] = set()
        for operation in self.lost:
            if self.calls[operation] > horizon:
                break
            action = self.action_of[operation]
            if operation in used or action in seen:
                continue
            seen.add(action)
            after = self._after(state, action)
            if after in (IMPOSSIBLE, state):
                continue
            if without < 0 or self._after(without, action) != after:
                self.forgot |= len(self.moves) == ALTERNATIVES
                now = tuple(sorted((*used, operation)))
                self.moves.append(((operation, path), front, called, watching, changing, now, after, state, NEW))

    def _unrolled(self, path: Path) -> list[int]:
        """The operations of a path, first to last, as they were given."""
        operations = []
        while path is not None:
            operation, path = path
            operations.append(self.given[operation])
        return operations[::-1]
