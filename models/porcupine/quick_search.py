"""A short search in plain Python, for easy histories of models without compiled steps.

If there are few operations, or every step leads to a new state, most time is spent in the model, and a compiled search
only adds calls back and forth. So this search comes first. It decides easy histories, gives up on hard ones, and leaves
the computed steps to the compiled search. search_kernel.py explains configurations and the rules that leave some out;
only dominated configurations are not left out here.

A configuration is `front`, the first operation by end that is not linearized; the open operations (called by its end
and not linearized); the state; and the used pending operations. Open operations are short tuples, and each alternative
has its own, so there is nothing to undo.

A dive follows the first alternative from a configuration on. A round of it linearizes the observations that fit,
advances the front, and looks the configuration up in the memo. Then it linearizes the first operation that the state
allows; the ones after it become an alternative.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Literal

from .steps import FURTHEST, IMPOSSIBLE, Budget, Found, History, Steps, picked

# The search gives up after so many configurations, and two more for each step that it computed: where most steps are
# known already, the compiled search is faster.
MAX_CONFIGURATIONS = 400
MAX_STALLED = 10_000  # it also gives up after so many configurations without progress
# Bounds of memo and alternatives. After forgetting some, the search cannot conclude that it tried everything.
MAX_MEMO, MAX_ALTERNATIVES = 100_000, 20_000
BUDGET_CHECK_MASK = 1023  # sequential operations between two checks of the budgets, less one
PENDING_DELAY = 16  # pending operations are tried when nothing else is left within so many fronts

Operations = tuple[int, ...]
Path = tuple[int, Any] | None  # the last operation, and the path before it
# The path to a configuration; its front; how many operations were called by then; the open observations, the other
# open operations, and the used pending ones; its state; the state before a pending operation that led to it (-1: none
# did); and the first of the other open operations that was not tried next (NEW: the configuration was not visited).
# It is a plain tuple, because thousands are made in a millisecond.
Configuration = tuple[Path, int, int, Operations, Operations, Operations, int, int, int]
Advance = Callable[[Path, int, int, Operations, Operations, int], tuple[Path, int, int, Operations, Operations]]
NEW = -1
FRONT_OF = itemgetter(1)
DEAD_END, GAVE_UP, LINEARIZED = range(3)  # how a dive ends


class QuickSearch:
    """One short search. Operations are numbered by their ends, pending ones last, by their calls."""

    def __init__(self, history: History, steps: Steps, budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        calls, ends, action_of = history
        completed: Sequence[int] = range(len(calls))
        pending: list[int] = []
        if None in ends:
            pending = [i for i in completed if ends[i] is None]
            pending.sort(key=calls.__getitem__)
            completed = [i for i in completed if ends[i] is not None]
        done = sorted(completed, key=ends.__getitem__)  # type: ignore[arg-type] # none of these is None
        self.n = n = len(done)
        self.given = given = done + pending  # by number: the index in the history
        # Sentinels end the loops: no comparison with NaN is true, and -inf is also the end of front -1.
        self.ends: list[float] = [*picked(ends, done), float("-inf")]
        self.calls: list[float] = [*picked(calls, done), float("nan")]
        self.pending, self.pending_calls = range(n, len(given)), picked(calls, pending)
        self.action_of = picked(action_of, given)
        self.by_call = [*sorted(range(n), key=self.calls.__getitem__), n, n]
        self.memo: set[tuple[int, Operations, Operations, int, Operations]] = set()
        self.forgot = False  # whether the memo or alternatives were cut, so that not everything was tried
        self.alternatives: list[Configuration] = []
        # Configurations whose pending operations were not tried yet, by front: the furthest is tried first, because
        # that is where the search got stuck. Those of the present dive are apart, as most are never needed.
        self.waiting: list[Configuration] = []
        self.waiting_in_dive: list[Configuration] = []
        self.cleared = 0  # configurations that are no longer in the memo
        self.path: Path = None  # where the search ended
        self.best = -1  # the furthest front of a dead end
        self.furthest = self.progress = 0  # the furthest front at the last check, and how many were visited then
        self.steps_before = len(steps.table)
        self.dead_ends: dict[int, Path] = {}  # by state: the path to a dead end at the best front
        self.limit = MAX_CONFIGURATIONS  # the size of the memo at which to check again whether to give up
        first_pending = self.pending_calls[0] if pending else float("inf")
        # The locals of the inner loop, which attribute look-ups would slow.
        self.history_locals = (
            n, steps.width, steps.observes, self.action_of, self.calls, self.ends, self.by_call, first_pending,
        )  # fmt: skip
        self.advance = self._make_advance(steps)
        self.search_locals = (steps.table.get, steps.compute, self.memo, self.alternatives, self.waiting_in_dive)

    def run(self) -> Literal["ok", "illegal", None]:
        """Search until there is a verdict; None if the search gave up."""
        configuration: Configuration | None = (None, -1, 0, (), (), (), 0, -1, NEW)
        while configuration is not None:
            outcome = self._dive(configuration)
            if outcome != DEAD_END:
                return "ok" if outcome == LINEARIZED else None
            configuration = self._next_alternative()
        return None if self.forgot else "illegal"

    def _dive(self, configuration: Configuration) -> int:
        """Follow the first alternative from a configuration on, until DEAD_END, GAVE_UP or LINEARIZED."""
        n, width, _, action_of, calls, ends, by_call, first_pending = self.history_locals
        get, compute, memo, alternatives, waiting = self.search_locals
        path, front, called, observations, updates, used, state, state_without, start = configuration
        advance = self.advance
        while True:
            if start == NEW:
                before, remembered = path, len(memo)
                path, front, called, observations, updates = advance(path, front, called, observations, updates, state)
                if front == n:
                    self.path = path
                    return LINEARIZED
                memo.add((front, observations, updates, state, used))
                if len(memo) == remembered:  # it was known (sizes are compared to hash it only once)
                    return DEAD_END
                if len(memo) > self.limit and self._gives_up(front, path):
                    return GAVE_UP
                if path is not before:
                    # The pending operation may have made one of these observations possible.
                    state_without = -1
                if first_pending <= ends[front]:
                    waiting.append((path, front, called, observations, updates, used, state, state_without, NEW))
                start = 0
            for place in range(start, len(updates)):
                operation = updates[place]
                action = action_of[operation]
                after = get(state * width + action)
                if after is None:
                    after = compute(state, action)
                if after >= 0 and (state_without < 0 or self.steps.after(state_without, action) != after):
                    break
            else:
                if start == 0 and front >= self.best:
                    self._keep_dead_end(front, state, path)
                return DEAD_END
            if place + 1 < len(updates):
                alternatives.append((path, front, called, observations, updates, used, state, state_without, place + 1))
            path = (operation, path)
            updates = updates[:place] + updates[place + 1 :]
            state, state_without, start = after, -1, NEW
            if not updates and not observations and calls[by_call[called + 1]] > ends[by_call[called]] < first_pending:
                path, front, called, state = self._place_sequential(path, front, called, state)

    def _make_advance(self, steps: Steps) -> Advance:
        """The function `advance`: a closure, because attribute look-ups would cost more than most of its steps."""
        n, calls, ends, by_call, action_of = self.n, self.calls, self.ends, self.by_call, self.action_of
        width, observes, get, compute = steps.width, steps.observes, steps.table.get, steps.compute

        def advance(
            path: Path, front: int, called: int, observations: Operations, updates: Operations, state: int
        ) -> tuple[Path, int, int, Operations, Operations]:
            """Linearize the observations that fit the state, and advance the front over what is linearized.

            With each step of the front (which starts at -1, before all operations) the operations open that were called
            by its end. Until then, all of those are open or linearized.
            """
            upcoming, row = by_call[called], state * width
            unchecked, observations = observations, ()
            while True:
                for operation in unchecked:
                    after = get(row + action_of[operation])
                    if after == state or (after is None and compute(state, action_of[operation]) == state):
                        path = (operation, path)
                    else:
                        observations += (operation,)
                if front in updates or front in observations:
                    break
                horizon = ends[front]
                front += 1
                while calls[front] <= horizon and front not in observations and front not in updates:
                    front += 1
                if front == n:
                    break
                unchecked, horizon = (), ends[front]
                while calls[upcoming] <= horizon:
                    if observes[action_of[upcoming]]:
                        unchecked += (upcoming,)
                    else:
                        # In the order of their ends: the first to end is tried first.
                        is_late = updates and upcoming < updates[-1]
                        updates = tuple(sorted((*updates, upcoming))) if is_late else (*updates, upcoming)
                    called += 1
                    upcoming = by_call[called]
            return path, front, called, observations, updates

        return advance

    def _place_sequential(self, path: Path, front: int, called: int, state: int) -> tuple[Path, int, int, int]:
        """Linearize operations that overlap with no other in order, without memo: there is no other choice."""
        _, width, _, action_of, calls, ends, by_call, first_pending = self.history_locals
        get, compute, *_ = self.search_locals
        upcoming = by_call[called]
        while calls[by_call[called + 1]] > ends[upcoming] < first_pending:
            action = action_of[upcoming]
            after = get(state * width + action)
            if after is None:
                after = compute(state, action)
            if after < 0:
                break
            state, front, path = after, upcoming, (upcoming, path)
            called += 1
            upcoming = by_call[called]
            if not called & BUDGET_CHECK_MASK and self._is_over():
                self.limit = 0  # makes the dive check the budgets
                break
        return path, front, called, state

    def _next_alternative(self) -> Configuration | None:
        """The newest alternative, or one with a pending operation; None if all were tried."""
        if self.waiting_in_dive:
            self._merge_waiting()
        alternatives, waiting = self.alternatives, self.waiting
        while waiting and (not alternatives or alternatives[-1][1] + PENDING_DELAY < waiting[-1][1]):
            self._try_pending(waiting.pop())
        return alternatives.pop() if alternatives else None

    def _merge_waiting(self) -> None:
        """Merge the waiting configurations of the last dive, whose fronts ascend, into `waiting`."""
        waiting, in_dive = self.waiting, self.waiting_in_dive
        if waiting and waiting[-1][1] > in_dive[0][1]:
            for configuration in in_dive:
                insort(waiting, configuration, key=FRONT_OF)
        else:
            waiting += in_dive
        in_dive.clear()

    def _keep_dead_end(self, front: int, state: int, path: Path) -> None:
        """Keep the path to a dead end at the furthest front."""
        if front > self.best:
            self.best = front
            self.dead_ends.clear()
        self.dead_ends.setdefault(state, path)

    def _gives_up(self, front: int, path: Path) -> bool:
        """Whether to give up. If not, cuts memo and alternatives, and sets the size of the memo for the next check."""
        memo, alternatives, self.path = self.memo, self.alternatives, path
        visited = self.cleared + len(memo)
        if front > self.furthest:
            self.furthest, self.progress = front, visited
        new_steps = len(self.steps.table) - self.steps_before
        if visited > MAX_CONFIGURATIONS + 2 * new_steps or visited - self.progress > MAX_STALLED:
            return True
        if len(memo) > MAX_MEMO:
            self.cleared += len(memo)
            memo.clear()
            self.forgot = True
        if len(alternatives) > MAX_ALTERNATIVES:
            del alternatives[: len(alternatives) // 2]
            self.forgot = True
        if len(self.waiting) + len(self.waiting_in_dive) > MAX_ALTERNATIVES:
            self._merge_waiting()
            del self.waiting[: len(self.waiting) // 2]
            self.forgot = True
        self.limit = len(memo) + 16
        return self._is_over()

    def _is_over(self) -> bool:
        """Whether a budget ran out."""
        # A configuration in the memo is a tuple with tuples of operations, about 300 bytes.
        held = self.steps.nbytes + 300 * (len(self.memo) + len(self.alternatives))
        return held > self.budget.memory or self.budget.is_late()

    def found(self, verdict: Literal["ok", "illegal", None]) -> Found:
        """The result after `run` returned this verdict."""
        visited = self.cleared + len(self.memo)
        if verdict == "ok":
            return Found(verdict, self.n, [self._unrolled(self.path)], [], visited)
        furthest = max((key[0] for key in self.memo), default=0)
        states = dict.fromkeys(key[3] for key in self.memo if key[0] == furthest)
        ends = self.dead_ends.values() if furthest == self.best else [self.path]
        paths = sorted(map(self._unrolled, ends), key=len, reverse=True)
        return Found(verdict, furthest, paths[:FURTHEST], [self.steps.states[i] for i in sorted(states)], visited)

    def _try_pending(self, configuration: Configuration) -> None:
        """Add alternatives: the pending operations that may be next and make a difference.

        Of several with the same action, the first to be called represents all.
        """
        path, front, called, observations, updates, used, state, state_without, _ = configuration
        steps, horizon, action_of = self.steps, self.ends[front], self.action_of
        get, row = steps.table.get, state * steps.width
        seen: set[int] = set()
        for operation, call in zip(self.pending, self.pending_calls, strict=True):
            if call > horizon:
                break
            action = action_of[operation]
            if action in seen or operation in used:
                continue
            seen.add(action)
            after = get(row + action)
            if after is None:
                after = steps.compute(state, action)
            if after in (state, IMPOSSIBLE):
                continue
            if state_without < 0 or steps.after(state_without, action) != after:
                now = tuple(sorted((*used, operation)))
                self.alternatives.append(
                    ((operation, path), front, called, observations, updates, now, after, state, NEW)
                )

    def _unrolled(self, path: Path) -> list[int]:
        """The operations of a path in order, as indices into the history."""
        operations = []
        while path is not None:
            operation, path = path
            operations.append(self.given[operation])
        return operations[::-1]
