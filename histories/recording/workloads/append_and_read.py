"""Producers append; consumers with assigned partitions read everything."""

from __future__ import annotations

from ..session import Client, Session
from .reading import readers
from .sending import senders


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, … and consumers c0, c1, …"""
    return [*senders(session), *readers(session)]
