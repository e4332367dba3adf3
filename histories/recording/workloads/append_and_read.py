"""Producers append; consumers with assigned partitions read everything."""

from __future__ import annotations

from ..session import Client, Session
from ..topics import Topic
from .reading import readers
from .sending import senders


def topics(session: Session) -> list[Topic]:
    """The topics to be made."""
    return [session.load.main_topic()]


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, … and consumers c0, c1, …"""
    return [*senders(session), *readers(session)]
