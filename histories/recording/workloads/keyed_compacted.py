"""Producers update and delete keys of a compacted topic; consumers read what is left."""

from __future__ import annotations

import zlib

from ..session import Client, Session
from ..topics import Topic
from .reading import readers
from .sending import Message, Sender

TOMBSTONES = 20  # every twentieth message deletes its key
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "2000",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "3000",
    "delete.retention.ms": "1000",
}


class KeyedSender(Sender):
    """Sends values of keys; a key has always the same partition."""

    def message(self, number: int) -> Message:
        """A key of the load, its partition, and a value or a tombstone."""
        key = f"k{self.random.randrange(self.session.load.keys)}"
        value = None if number % TOMBSTONES == TOMBSTONES - 1 else self.value(number)
        return Message(key, value, zlib.crc32(key.encode()) % self.session.partitions)


def topics(session: Session) -> list[Topic]:
    """The topics to be made; they are compacted within seconds unless --topic-config sets other times."""
    return [session.load.main_topic(**COMPACTED)]


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, … and consumers c0, c1, …"""
    senders = [KeyedSender(session, f"p{n}") for n in range(session.load.producers)]
    return [*senders, *readers(session)]
