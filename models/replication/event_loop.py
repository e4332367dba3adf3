"""The event loop: a heap of (time, order, action, argument), independent of Kafka.

Time is in whole microseconds since the start of the run. Events at the same time run in the order in which they were
scheduled, so a run depends only on its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[[Any], None]


class PausableTimer:
    """The event loop as a process sees it that may be paused: what is due meanwhile happens when it goes on."""

    def __init__(self, loop: Timer) -> None:
        self._loop = loop
        self._is_paused = False
        self._waiting: list[tuple[Action, Any]] = []

    @property
    def now(self) -> int:
        """The simulated clock."""
        return self._loop.now

    def at(self, time: int, action: Action, argument: Any = None) -> None:
        """Run `action(argument)` at `time`, or when the process goes on after it."""
        self._loop.at(time, self._run, (action, argument))

    def after(self, delay: int, action: Action, argument: Any = None) -> None:
        """Run `action(argument)` after `delay`, or when the process goes on after that."""
        self._loop.after(delay, self._run, (action, argument))

    def _run(self, due: tuple[Action, Any]) -> None:
        if self._is_paused:
            self._waiting.append(due)
        else:
            due[0](due[1])

    def pause(self) -> None:
        """Let what is due wait."""
        self._is_paused = True

    def resume(self) -> None:
        """Run what has waited, in order."""
        self._is_paused = False
        waiting, self._waiting = self._waiting, []
        for action, argument in waiting:
            self._loop.after(0, self._run, (action, argument))


class EventLoop:
    """Schedules actions and runs them in order; `now` is the simulated clock."""

    def __init__(self) -> None:
        self.now = 0
        self.stopped = False
        self._order = 0
        self._heap: list[tuple[int, int, Action, Any]] = []

    @property
    def processed(self) -> int:
        """How many events were processed."""
        return self._order - len(self._heap)

    def at(self, time: int, action: Action, argument: Any = None) -> None:
        """Run `action(argument)` at `time`, which is now or later."""
        order = self._order
        self._order = order + 1
        heappush(self._heap, (time, order, action, argument))

    def after(self, delay: int, action: Action, argument: Any = None) -> None:
        """Run `action(argument)` after `delay`."""
        order = self._order
        self._order = order + 1
        heappush(self._heap, (self.now + delay, order, action, argument))

    def stop(self) -> None:
        """End the run after the current event."""
        self.stopped = True

    def run(self, until: int) -> None:
        """Process events up to and including `until`, or until the loop is stopped."""
        heap, pop = self._heap, heappop
        while True:  # CPython 3.11 only specializes loops that jump back unconditionally
            if not heap or self.stopped:
                break
            time, order, action, argument = pop(heap)
            if time > until:
                heappush(heap, (time, order, action, argument))
                break
            self.now = time
            action(argument)


Timer = EventLoop | PausableTimer  # the clock of a process
