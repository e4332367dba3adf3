"""A short search in plain Python, for easy histories of models without compiled steps.

If there are few operations, or every step leads to a new state, most time is spent in the model, and a compiled search
only adds calls back and forth. So this search comes first. It decides easy histories, gives up on hard ones, and leaves
the computed steps to the compiled search.

It is Wing and Gong's search with Lowe's memo. Completed operations are numbered by their ends. `front` is the first one
that is not linearized: all before it are, and none that was called after its end can be. `open` has those that were
called by its end and are not linearized. search_kernel.py explains why observations that fit are linearized at once,
and why pending operations (those of unknown outcome) come last.
"""

from __future__ import annotations

from typing import Any, Literal

from .history import History
from .steps import MAX_PATHS, MAX_STATES, Budget, SearchResult, Steps

# The search gives up after so many configurations, and two more for each step that it computed: where most steps are
# known already, the compiled search is faster.
MAX_CONFIGURATIONS = 400
MAX_STALLED = 10_000  # it also gives up after so many configurations without progress
MAX_MEMO = 100_000  # after forgetting some configurations, the search cannot conclude that it tried everything
NEW = -1

Operations = tuple[int, ...]  # ascending
Path = tuple[int, Any] | None  # the last operation, and the path before it
# The path to a configuration; its front, open operations, used pending operations and state; and the first of its moves
# that was not tried (NEW: the configuration was not visited).
Configuration = tuple[Path, int, Operations, Operations, int, int]


class QuickSearch:
    """One short search. Operations are numbered by their ends, pending ones last, by their calls."""

    def __init__(self, history: History, steps: Steps, budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        events: list[int] = history.events.tolist()
        completed = [-1 - event for event in events if event < 0]
        number = {operation: place for place, operation in enumerate(completed)}
        pending = [event for event in events if event >= 0 and event not in number]
        self.n, self.indices = len(completed), completed + pending  # in the history, by number
        self.action_of: list[int] = history.action_of[self.indices].tolist()
        self.observes: list[int] = history.observes[self.action_of].tolist()
        # By front: the completed operations called since the end before it, and the number of pending ones called by
        # its end.
        self.opened: list[Operations] = []
        self.pending: list[int] = []
        called: Operations = ()
        calls = 0
        for event in events:
            if event < 0:
                self.opened.append(called)
                self.pending.append(calls)
                called = ()
            elif event in number:
                called += (number[event],)
            else:
                calls += 1
        self.opened.append(())
        self.memo: set[tuple[int, Operations, Operations, int]] = set()
        self.alternatives: list[Configuration] = []
        self.forgotten = 0  # configurations that are no longer in the memo
        self.furthest, self.progress = -1, 0  # the furthest front at the last check, and how many were visited then
        self.steps_before = len(steps.table)
        self.dead_end, self.paths = -1, dict[int, Path]()  # the furthest front of a dead end; by state, a path to it

    def run(self) -> Literal["ok", "illegal", None]:
        """Search until there is a verdict; None if the search gave up."""
        n, alternatives, memo, step = self.n, self.alternatives, self.memo, self.steps.after
        pending, action_of = self.pending, self.action_of
        alternatives.append((None, 0, self.opened[0], (), 0, NEW))
        while alternatives:
            path, front, open_now, used, state, start = alternatives.pop()
            if start == NEW:
                path, front, open_now = self._advance(path, front, open_now, state)
                if front == n:
                    self._keep_dead_end(path, front, state)
                    return "ok"
                if len(open_now) > 1 or pending[front] or alternatives:  # else nothing leads here again
                    visited = len(memo)
                    memo.add((front, open_now, used, state))
                    if len(memo) == visited:  # it was known (sizes are compared to hash it only once)
                        continue
                if not (len(memo) + front) & 15 and self._gives_up(front):
                    self._keep_dead_end(path, front, state)
                    return None
                start = 0
            moves = open_now
            if pending[front]:
                moves += tuple([i for i in range(n, n + pending[front]) if i not in used])
            for place in range(start, len(moves)):
                operation = moves[place]
                after = step(state, action_of[operation])
                if after < 0 or (after == state and operation >= n):
                    continue
                if place + 1 < len(moves):
                    alternatives.append((path, front, open_now, used, state, place + 1))
                if operation < n:
                    open_now = open_now[:place] + open_now[place + 1 :]
                else:
                    used = tuple(sorted((*used, operation)))
                alternatives.append(((operation, path), front, open_now, used, after, NEW))
                break
            else:
                if start == 0:
                    self._keep_dead_end(path, front, state)
        return None if self.forgotten else "illegal"

    def _advance(self, path: Path, front: int, open_now: Operations, state: int) -> tuple[Path, int, Operations]:
        """Linearize the observations that fit the state, and advance the front over what is linearized."""
        n, observes, action_of, opened, step = self.n, self.observes, self.action_of, self.opened, self.steps.after
        unchecked, open_now = open_now, ()
        while True:
            for operation in unchecked:
                if observes[operation] and step(state, action_of[operation]) == state:
                    path = (operation, path)
                elif open_now and operation < open_now[-1]:
                    open_now = tuple(sorted((*open_now, operation)))
                else:
                    open_now += (operation,)
            if front == n or (open_now and open_now[0] == front):
                return path, front, open_now
            front += 1
            unchecked = opened[front]

    def _keep_dead_end(self, path: Path, front: int, state: int) -> None:
        """Keep a path to each state at the furthest front from which no operation is possible."""
        if front > self.dead_end:
            self.dead_end = front
            self.paths.clear()
        if front == self.dead_end:
            self.paths.setdefault(state, path)

    def _gives_up(self, front: int) -> bool:
        """Whether to give up; bounds the memo and the alternatives."""
        memo, alternatives = self.memo, self.alternatives
        visited = self.forgotten + len(memo)
        if front > self.furthest:
            self.furthest, self.progress = front, visited
        computed = len(self.steps.table) - self.steps_before
        if visited > MAX_CONFIGURATIONS + 2 * computed or visited - self.progress > MAX_STALLED:
            return True
        if len(memo) > MAX_MEMO:
            self.forgotten = visited
            memo.clear()
            del alternatives[: len(alternatives) // 2]
        # A configuration in the memo is a tuple with tuples of operations, about 300 bytes.
        held = self.steps.nbytes + 300 * (len(memo) + len(alternatives))
        return held > self.budget.memory or self.budget.is_late()

    def result(self, verdict: Literal["ok", "illegal", None]) -> SearchResult:
        """The result after `run` returned this verdict."""
        visited = self.forgotten + len(self.memo)
        paths = sorted(map(self._unrolled, self.paths.values()), key=len, reverse=True)
        if verdict == "ok":
            return SearchResult(verdict, self.n, paths[:1], [], visited)
        states = {key[3] for key in self.memo if key[0] == self.dead_end} | set(self.paths)
        names = [self.steps.states[state] for state in sorted(states)[:MAX_STATES]]
        return SearchResult(verdict, self.dead_end, paths[:MAX_PATHS], names, visited)

    def _unrolled(self, path: Path) -> list[int]:
        """The operations of a path in order, as indices into the history."""
        operations = []
        while path is not None:
            operation, path = path
            operations.append(self.indices[operation])
        return operations[::-1]
