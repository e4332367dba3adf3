"""The process of a group's member: it is paused and resumed, and a supervisor starts it again after a fatal error."""

from __future__ import annotations

from ..config import MS
from ..event_loop import PausableTimer
from .consumer import Consumer, ConsumerParts

RESTART = 1000 * MS  # after which a supervisor starts a process again that ended


class MemberProcess(Consumer):
    """A consumer with a clock of its own, which stands still while the process is paused."""

    def __init__(self, parts: ConsumerParts) -> None:
        super().__init__(parts)
        self.loop = self._timer = PausableTimer(self.loop)

    def pause(self) -> None:
        """SIGSTOP, or a long garbage collection: the process does nothing, and its kernel keeps what arrives."""
        self._timer.pause()
        self.network.pause(self.node)

    def resume(self) -> None:
        """The process continues as if no time had passed."""
        self._timer.resume()
        self.network.resume(self.node)

    def _restart_later(self) -> None:
        self.loop.after(RESTART, self._restart, self.incarnation)

    def _restart(self, incarnation: int) -> None:
        if not self.alive and incarnation == self.incarnation:
            self.start()
