"""Dated facts, each with its source, and functions that put them in order of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from ...histories.tables import MAX_INT64, MIN_INT64, Locate
from ..replicas.replica_logs import ReplicaLogs

SECOND, MS = 1_000_000_000, 1_000_000  # ns
HALTED = "halted"  # kind of a broker's last line: it could not write to its log directories
RESTART = "restart"  # kind of a start that the history records
OUT_OF_RANGE = "out-of-range"  # kind of a follower's line: its leader lacked the offset that it fetched
LEADERS_LOG_START = "leader-log-start"  # kind of a line in which any replica states the leader's log start
ABOUT = ("kind", "partition", "epoch", "broker", "brokers", "isr", "offset", "snapshot", "acks")


class Dated:
    """Something with a time, which may not be known."""

    @property
    def time(self) -> int | None:
        """The time (ns since the start of the run); None if not known."""

    @property
    def when(self) -> int:
        """The time, where it is known."""
        assert self.time is not None
        return self.time


SomeDated = TypeVar("SomeDated", bound=Dated)


def dated(things: Iterable[SomeDated], since: int = MIN_INT64, until: int = MAX_INT64) -> list[SomeDated]:
    """Those with a known time that is after one time and up to another (ns)."""
    return [one for one in things if one.time is not None and since < one.time <= until]


@dataclass(frozen=True)
class Fact(Dated):
    """One dated event and its source. Facts from files may have no date.

    `sentence` is for people. Code uses the fields in ABOUT; which of them are set depends on the kind.
    """

    sentence: str
    kind: str = ""  # empty in results of early versions, and for what is no event
    time: int | None = None  # ns since the start of the run, on the history's clock
    source: str | None = None
    line: int | None = None
    byte: int | None = None
    place: int | None = None
    partition: str | None = None  # topic-partition; None for events of whole brokers
    epoch: int | None = None  # leader epoch
    broker: str | None = None  # the broker that acted or was affected; for elections the leader
    brokers: frozenset[str] | None = None  # other brokers: in sync before, followed, removed, hit by a fault
    isr: frozenset[str] | None = None  # the ISR after the event
    offset: int | None = None
    snapshot: str | None = None
    acks: str | None = None  # of an acknowledgement
    also: tuple[Fact, ...] = ()  # the same event in other files

    @property
    def about(self) -> tuple[Any, ...]:
        """The key of the event: equal for all sources that record it."""
        if self.kind == "isr":
            return self.kind, self.isr
        if self.kind == "setting":  # a line may set several
            return self.kind, self.sentence
        kind = "started" if self.kind == RESTART else self.kind
        return kind, self.epoch, self.broker, self.offset, self.snapshot

    def record(self) -> dict[str, Any]:
        """The fact as JSON values: its sentence, time (ns) and source, and the fields of ABOUT that are set.

        Sets become sorted lists. `place` is there until it is located, and `also` if there are other sources.
        """
        record: dict[str, Any] = {"says": self.sentence, "time": self.time, "source": self.source, "line": self.line}
        record |= {"byte": self.byte} | ({} if self.place is None else {"place": self.place})
        about = ABOUT if self.kind else ABOUT[1:]
        known = {name: value for name in about if (value := getattr(self, name)) is not None}
        record |= {name: sorted(value) if isinstance(value, frozenset) else value for name, value in known.items()}
        return {**record, "also": [fact.record() for fact in self.also]} if self.also else record

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Fact:
        """The fact from its `record`."""
        source = (record["time"], record["source"], record["line"], record["byte"], record.get("place"))
        about: dict[str, Any] = {name: record[name] for name in ABOUT[1:] if name in record}
        about |= {name: frozenset(about[name]) for name in ("brokers", "isr") if name in about}
        also = tuple(map(Fact.from_record, record.get("also", ())))
        return Fact(record["says"], record.get("kind", ""), *source, **about, also=also)

    def located(self, locate: Locate) -> Fact:
        """The fact with the file and line of its place in the history."""
        if self.place is None and not self.also:
            return self
        source, line = (self.source, self.line) if self.place is None else locate(self.place)
        also = tuple(fact.located(locate) for fact in self.also)
        return replace(self, source=source, line=line, place=None, also=also)

    @property
    def source_text(self) -> str:
        """The source as file:line, or as the byte in the file; all files that have it."""
        where = f":{self.line}" if self.line is not None else "" if self.byte is None else f" byte {self.byte}"
        return "; ".join([f"{self.source or ''}{where}", *(fact.source_text for fact in self.also)])


def is_end_of_process(died: Fact) -> bool:
    """Whether a process ended: by a fault in the history, or by the broker's own last line. A fence ends a session."""
    return died.place is not None or died.kind == HALTED


def fact_of(logs: ReplicaLogs, sentence: str, kind: str, row: Mapping[str, Any], **about: Any) -> Fact:
    """A fact about the partition of these logs from a row of a broker's file, at the time of its snapshot."""
    source = (logs.times.get(row["snapshot"]), row["file"], row.get("line"), row.get("byte"))
    return Fact(sentence, kind, *source, partition=logs.name, **{"broker": row["broker"], **about})


def listed(brokers: Iterable[str]) -> str:
    """Brokers as Kafka writes an ISR: [1, 2]."""
    return f"[{', '.join(sorted(brokers))}]"


def ordered(facts: list[Fact]) -> list[Fact]:
    """Facts in order of time, without repetitions. An undated fact stays behind the fact that precedes it."""
    keyed: list[tuple[int, Fact]] = []
    latest = -MAX_INT64
    for fact in dict.fromkeys(facts):
        latest = fact.time if fact.time is not None else latest
        keyed.append((latest, fact))
    return [fact for _, fact in sorted(keyed, key=lambda item: item[0])]


def chain(*parts: list[Fact]) -> list[Fact]:
    """The facts of all parts in order of time."""
    return ordered([fact for part in parts for fact in part])
