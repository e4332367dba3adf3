"""A first, short search in plain Python, for the histories that are easily decided.

A check of a hundred operations spends most of its time in the model, and so does one of a long history whose
every state is new. There a compiled search only adds calls back and forth. So this search goes first: it decides
easy histories, gives up on hard ones, and leaves the steps that it learnt to search_kernel.py. Configurations and the
rules that leave some out are the same, except that dominated ones are not left out here.

A configuration is `front`, the first operation by end that is not linearized; `open`, all that were called
by its end and are not linearized; the state; and which operations of unknown outcome were used. No undo is
needed: `open` is a short tuple, and each alternative keeps its own.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from operator import itemgetter
from typing import Any, Literal

from .steps import FURTHEST, IMPOSSIBLE, Budget, Found, History, Steps, picked

# The search gives up after so many configurations, and two more for each step that it had to ask the model
# for: where most steps are known already, the compiled search is quicker.
PATIENCE = 400
# It also gives up when it has not come further for so many configurations.
STILL = 10_000
# Memo and alternatives are bounded; what is forgotten costs time, or the claim to have tried everything.
MEMO, ALTERNATIVES = 100_000, 20_000
# As many operations that overlap with nothing, less one, are placed between two looks at the budgets.
LONE = 1023
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
FRONT_OF = itemgetter(1)
# How a dive ends.
STUCK, TIRED, ARRIVED = range(3)


class QuickSearch:
    """One short search. Operations are numbered by their ends, those of unknown outcome last, by call."""

    def __init__(self, history: History, steps: Steps, budget: Budget) -> None:
        self.steps, self.budget = steps, budget
        calls, ends, action_of = history
        completed: Sequence[int] = range(len(calls))
        lost: list[int] = []
        if None in ends:
            lost = [i for i in completed if ends[i] is None]
            lost.sort(key=calls.__getitem__)
            completed = [i for i in completed if ends[i] is not None]
        done = sorted(completed, key=ends.__getitem__)  # type: ignore[arg-type] # none of these is None
        self.n = n = len(done)
        self.given = given = done + lost  # the index of each number
        # What is not completed has no end. Sentinels end the loops over them: NaN is not before
        # anything, and the time before all is found at -1, too.
        self.ends: list[float] = [*picked(ends, done), float("-inf")]
        self.calls: list[float] = [*picked(calls, done), float("nan")]
        self.lost, self.lost_calls = range(n, len(given)), picked(calls, lost)
        self.action_of = picked(action_of, given)
        self.by_call = [*sorted(range(n), key=self.calls.__getitem__), n, n]
        self.memo: set[tuple[int, Operations, Operations, int, Operations]] = set()
        self.forgot = False  # whether something was forgotten, so that not everything was tried
        self.moves: list[Configuration] = []
        # Configurations that wait for operations of unknown outcome, by front: the furthest is tried first, because it
        # is what stopped the search. Those of the present dive are not among them yet: most are never needed.
        self.late: list[Configuration] = []
        self.waiting: list[Configuration] = []
        self.cleared = 0  # configurations that are no longer in the memo
        self.path: Path = None  # where the search ended
        self.best = -1  # the furthest front of those that led nowhere
        self.furthest = self.progress = 0  # the furthest front at the last look, and the number of its configuration
        self.steps_before = len(steps.table)
        self.dead_ends: dict[int, Path] = {}  # the path to each state at the best front that leads nowhere
        self.limit = PATIENCE  # the size of the memo at which to ask again whether to go on
        # What a dive needs at hand.
        first_lost = self.lost_calls[0] if lost else float("inf")
        self.gear = (
            n, steps.width, steps.observes, self.action_of, self.calls, self.ends, self.by_call, first_lost,
            steps.table.get, steps.ask, self.memo, self.moves, self.waiting,
        )  # fmt: skip

    def run(self) -> Literal["ok", "illegal", None]:
        """Search until there is a verdict, or until it gets hard: None."""
        configuration: Configuration | None = (None, -1, 0, (), (), (), 0, -1, NEW)
        while configuration is not None:
            outcome = self._dive(configuration)
            if outcome != STUCK:
                return "ok" if outcome == ARRIVED else None
            configuration = self._back()
        return None if self.forgot else "illegal"

    def _dive(self, configuration: Configuration) -> int:
        """Go on from a configuration, the first alternative always, until it is STUCK, TIRED, or has ARRIVED."""
        n, width, observes, action_of, calls, ends, by_call, first_lost, get, ask, memo, moves, waiting = self.gear
        path, front, called, watching, changing, used, state, without, start = configuration
        upcoming, remembered = by_call[called], len(memo)
        while True:
            row, before = state * width, path
            if start == NEW:
                # All observations that fit are placed, and the front advances, -1 at first.
                for operation in watching:
                    after = get(row + action_of[operation])
                    if after == state or (after is None and ask(state, action_of[operation]) == state):
                        path = (operation, path)
                        watching = tuple([other for other in watching if other != operation])
                horizon = ends[front]
                while front not in changing and front not in watching:
                    # All that were called by the front's end are open, or placed.
                    front += 1
                    while calls[front] <= horizon and front not in watching and front not in changing:
                        front += 1
                    if front == n:
                        self.path = path
                        return ARRIVED
                    horizon = ends[front]
                    while calls[upcoming] <= horizon:
                        action = action_of[upcoming]
                        if not observes[action]:
                            # In the order of their ends: what has to be placed first is tried first.
                            late = changing and upcoming < changing[-1]
                            changing = tuple(sorted((*changing, upcoming))) if late else (*changing, upcoming)
                        else:
                            after = get(row + action)
                            if after == state or (after is None and ask(state, action) == state):
                                path = (upcoming, path)
                            else:
                                watching += (upcoming,)
                        called += 1
                        upcoming = by_call[called]
                memo.add((front, watching, changing, state, used))
                if len(memo) == remembered:  # it was there; so it is hashed once
                    return STUCK
                if len(memo) > self.limit and self._is_tired(front, path):
                    return TIRED
                remembered = len(memo)
                if path is not before:
                    # Observations came between: they may be what one of unknown outcome made possible.
                    without = -1
                if first_lost <= horizon:
                    waiting.append((path, front, called, watching, changing, used, state, without, NEW))
                start = 0
            at = start
            for operation in changing[start:] if start else changing:
                action = action_of[operation]
                after, at = get(row + action), at + 1
                if after is None:
                    after = ask(state, action)
                if after >= 0 and (without < 0 or self.steps.after(without, action) != after):
                    break
            else:
                if start == 0 and front >= self.best:
                    self._note(front, state, path)
                return STUCK
            if at < len(changing):
                moves.append((path, front, called, watching, changing, used, state, without, at))
            path = (operation, path)
            changing = changing[1:] if at == 1 else changing[: at - 1] + changing[at:]
            state, without, start = after, -1, NEW
            if not changing and not watching and calls[by_call[called + 1]] > ends[upcoming] < first_lost:
                path, front, called, state = self._follow(path, front, called, state)
                upcoming = by_call[called]

    def _follow(self, path: Path, front: int, called: int, state: int) -> tuple[Path, int, int, int]:
        """Place one after the other what overlaps with nothing: it has one place, and is not remembered."""
        _, width, _, action_of, calls, ends, by_call, first_lost, get, ask, *_ = self.gear
        upcoming = by_call[called]
        while calls[by_call[called + 1]] > ends[upcoming] < first_lost:
            action = action_of[upcoming]
            after = get(state * width + action)
            if after is None:
                after = ask(state, action)
            if after < 0:
                break
            state, front, path = after, upcoming, (upcoming, path)
            called += 1
            upcoming = by_call[called]
            if not called & LONE and self._is_over():
                self.limit = 0  # the dive asks anew
                break
        return path, front, called, state

    def _back(self) -> Configuration | None:
        """The alternative kept last, or one of unknown outcome; None if all were tried."""
        if self.waiting:
            self._sort_waiting()
        moves, late = self.moves, self.late
        while late and (not moves or moves[-1][1] + LATE < late[-1][1]):
            self._try_lost(late.pop())
        return moves.pop() if moves else None

    def _sort_waiting(self) -> None:
        """Put those of the last dive, whose fronts only grow, among those that wait."""
        late, waiting = self.late, self.waiting
        if late and late[-1][1] > waiting[0][1]:
            for configuration in waiting:
                insort(late, configuration, key=FRONT_OF)
        else:
            late += waiting
        waiting.clear()

    def _note(self, front: int, state: int, path: Path) -> None:
        """Keep the path to a configuration that leads nowhere, if none came further."""
        if front > self.best:
            self.best = front
            self.dead_ends.clear()
        self.dead_ends.setdefault(state, path)

    def _is_tired(self, front: int, path: Path) -> bool:
        """Whether to give up, here; else sets the size of the memo to ask again at. Forgets what is too much."""
        memo, moves, self.path = self.memo, self.moves, path
        visited = self.cleared + len(memo)
        if front > self.furthest:
            self.furthest, self.progress = front, visited
        new_steps = len(self.steps.table) - self.steps_before
        if visited > PATIENCE + 2 * new_steps or visited - self.progress > STILL:
            return True
        if len(memo) > MEMO:
            self.cleared += len(memo)
            memo.clear()
            self.forgot = True
        if len(moves) > ALTERNATIVES:
            del moves[: len(moves) // 2]
            self.forgot = True
        if len(self.late) + len(self.waiting) > ALTERNATIVES:
            self._sort_waiting()
            del self.late[: len(self.late) // 2]
            self.forgot = True
        self.limit = len(memo) + 16
        return self._is_over()

    def _is_over(self) -> bool:
        """Whether a budget ran out."""
        # A configuration in the memo is a tuple of four, with a tuple of operations; about 300 bytes.
        held = self.steps.nbytes + 300 * (len(self.memo) + len(self.moves))
        return held > self.budget.memory or self.budget.is_late()

    def found(self, verdict: Literal["ok", "illegal", None]) -> Found:
        """What `run` found out, with its verdict."""
        visited = self.cleared + len(self.memo)
        if verdict == "ok":
            return Found(verdict, self.n, [self._unrolled(self.path)], [], visited)
        furthest = max((key[0] for key in self.memo), default=0)
        states = dict.fromkeys(key[3] for key in self.memo if key[0] == furthest)
        ends = self.dead_ends.values() if furthest == self.best else [self.path]
        paths = sorted(map(self._unrolled, ends), key=len, reverse=True)
        return Found(verdict, furthest, paths[:FURTHEST], [self.steps.states[i] for i in sorted(states)], visited)

    def _try_lost(self, waiting: Configuration) -> None:
        """Keep as alternatives the operations of unknown outcome that may be next and make a difference.

        Of those with the same action the one that was called first stands for all.
        """
        path, front, called, watching, changing, used, state, without, _ = waiting
        steps, horizon, action_of = self.steps, self.ends[front], self.action_of
        get, row = steps.table.get, state * steps.width
        seen: set[int] = set()
        for operation, call in zip(self.lost, self.lost_calls, strict=True):
            if call > horizon:
                break
            action = action_of[operation]
            if action in seen or operation in used:
                continue
            seen.add(action)
            after = get(row + action)
            if after is None:
                after = steps.ask(state, action)
            if after in (state, IMPOSSIBLE):
                continue
            if without < 0 or steps.after(without, action) != after:
                now = tuple(sorted((*used, operation)))
                self.moves.append(((operation, path), front, called, watching, changing, now, after, state, NEW))

    def _unrolled(self, path: Path) -> list[int]:
        """The operations of a path, first to last, as they were given."""
        operations = []
        while path is not None:
            operation, path = path
            operations.append(self.given[operation])
        return operations[::-1]
