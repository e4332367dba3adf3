"""A broker's operating-system process: running, paused or dead, its clock, and the events that it reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..event_loop import Action, EventLoop
from ..events import ClusterEvent, Listener

DOWN, RUNNING, STARTING = 0, 1, 2


class Process:
    """The state of one broker's process, which all of its parts share."""

    def __init__(self, broker: int, loop: EventLoop, listener: Listener | None) -> None:
        self.id = broker
        self.loop = loop
        self.state = DOWN
        self.incarnation = 0
        self.is_paused = False
        self.host_down = False  # the machine is without power
        self.clock_skew = 0  # wall clock minus simulated time, microseconds
        self.backlog: list[tuple[Action, Any]] = []  # messages that arrived while it was paused
        self._listener = listener

    def wall_clock(self) -> int:
        """The time of this machine's clock, microseconds."""
        return self.loop.now + self.clock_skew

    def is_responsive(self) -> bool:
        """Whether the process runs and is not paused."""
        return self.state == RUNNING and not self.is_paused

    def defer(self, action: Callable[[Any], None], message: Any) -> bool:
        """Whether a message cannot be handled now. A paused process handles it when it resumes, a dead one never."""
        if not self.is_paused:
            return self.state != RUNNING
        self.backlog.append((action, message))
        return True

    def report(self, kind: str, *details: Any) -> None:
        """Report an event (events.py) to the listener, if there is one."""
        if self._listener is not None:
            self._listener(ClusterEvent(self.loop.now, self.id, kind, details))
