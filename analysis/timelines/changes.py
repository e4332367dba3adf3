"""What facts of a timeline record: ends of logs, events of brokers, steps of reassignments, the ISR, settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from .facts import Dated, Fact


@dataclass(frozen=True)
class _Change(Dated):
    """Something that a fact records and dates."""

    fact: Fact

    @property
    def time(self) -> int | None:
        return self.fact.time


@dataclass(frozen=True)
class LogEnd(_Change):
    """The log end offset of a broker when its log was loaded, truncated, cut or copied, or when it began to follow.

    The kind "refused" is that of a leader when it refused a fetch from beyond its log, "set-aside" that of a log that
    is the broker's no more. The kind "high-watermark" has the checkpointed high watermark instead.
    """

    broker: str
    end: int
    kind: str  # loaded followed snapshot truncated corruption refused cut set-aside high-watermark
    snapshot: str | None = None
    is_noop: bool = False
    is_new: bool = False  # the broker had no log of the partition, and created one


@dataclass(frozen=True)
class HighWatermark(_Change):
    """The high watermark of a broker as it logs it: that of its last checkpoint, or a later one."""

    broker: str
    offset: int


@dataclass(frozen=True)
class BrokerEvent(_Change):
    """A broker died, started or was unfenced."""

    broker: str
    kind: str  # died (or was fenced), started, unfenced
    alive_until: int | None = None  # ns: the last line that it logged before it started


@dataclass(frozen=True)
class Move(_Change):
    """The replicas that a reassignment adds and removes from a time on; both empty when it is over (KIP-455)."""

    adding: frozenset[str]
    removing: frozenset[str]


@dataclass(frozen=True)
class IsrReport(_Change):
    """The ISR as a fact records it."""

    isr: frozenset[str]


class Deletion(NamedTuple):
    """What permitted deletions of records, by the brokers' logs or the metadata log."""

    kind: Literal["age", "size", "request"]
    value: int  # the age in ms, the size in bytes, or the offset below which a client deleted


@dataclass(frozen=True)
class Setting(_Change):
    """A value of a topic's setting."""

    name: str
    value: str  # empty: removed, so that the broker's default counts
