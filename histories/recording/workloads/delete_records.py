"""Producers append; every few seconds the older half of each partition is deleted on request."""

from __future__ import annotations

from ..record_deletion import delete_records
from ..session import Client, Session
from .reading import readers
from .sending import senders

INTERVAL_SECONDS = 5.0
SHARE = 0.5


class Deleter:
    """Deletes the older half of each partition."""

    name = "deleter"

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self) -> None:
        """Delete regularly until the session stops."""
        while not self.session.stopping.wait(INTERVAL_SECONDS):
            delete_records(self.session, SHARE)


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, …, consumers c0, c1, …, and the deleter."""
    return [*senders(session), *readers(session), Deleter(session)]
