"""Producers append; consumers with assigned partitions read everything."""

from __future__ import annotations

from ..session import Client, Session
from ..topics import Topic
from .plan import main_topic, per_producer
from .reading import Reader
from .sending import Sender


def topics(session: Session) -> list[Topic]:
    """The topics to be made."""
    return [main_topic(session)]


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, … and consumers c0, c1, …"""
    load = session.load
    senders = [Sender(session, f"p{n}", load.topic, per_producer(load)) for n in range(load.producers)]
    readers = [Reader(session, f"c{n}", load.topic) for n in range(load.consumers)]
    return [*senders, *readers]
