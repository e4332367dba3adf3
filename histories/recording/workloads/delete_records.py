"""Producers append; every few seconds the older half of each partition is deleted on request."""

from __future__ import annotations

from ..record_deletion import delete_records
from ..session import Client, Session
from ..topics import Topic
from .plan import main_topic, per_producer
from .reading import Reader
from .sending import Sender

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


def topics(session: Session) -> list[Topic]:
    """The topics to be made."""
    return [main_topic(session)]


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, …, consumers c0, c1, …, and the deleter."""
    load = session.load
    senders = [Sender(session, f"p{n}", load.topic, per_producer(load)) for n in range(load.producers)]
    return [*senders, *(Reader(session, f"c{n}", load.topic) for n in range(load.consumers)), Deleter(session)]
