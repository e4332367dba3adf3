"""The timeline of one topic-partition, and the Builder that collects it from every kind of evidence (building.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...histories.evidence.clock import Clock, Fault
from ..replicas.replica_logs import ReplicaLogs
from .facts import SECOND, Fact
from .terms import BrokerEvent, LogEnd, Move, Term

DEATHS = {"kill": "was killed", "power-loss": "lost power"}  # faults that end a process at once

# Faults that change files of a broker at once.
DISK_FAULTS = {
    "truncate": "the tail of {} was cut off on {}",
    "restore": "{} on {} was replaced by an older copy",
    "restore-backup": "{} on {} was replaced by an older copy",
    "corrupt": "{} was damaged on {}",
    "bit-flip": "{} was damaged on {}",
}

OF_ADMINISTRATORS = {
    "reassignment": "an administrator began to move a partition to {}",
    "cancel-reassignment": "an administrator cancelled a reassignment",
    "init-transactions": "an administrator initialised the transactional ids again, which aborts open transactions",
}


@dataclass
class Timeline:
    """The events of one topic-partition: leader epochs, log ends, brokers' events, ISR and faults.

    Times are ns since the start of the run. Lists are in order of time; undated entries come last.
    """

    replica_logs: ReplicaLogs
    clocks: Mapping[str, Clock]  # broker -> the correction of its times
    faults: Sequence[Fault] = ()
    fault_facts: list[Fact] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)  # the topic's configuration, by Kafka's names
    terms: dict[int, Term] = field(default_factory=dict)
    ends: list[LogEnd] = field(default_factory=list)
    events: list[BrokerEvent] = field(default_factory=list)
    isr: list[tuple[int | None, frozenset[str], Fact]] = field(default_factory=list)
    overruled: list[Fact] = field(default_factory=list)  # reports of the ISR by leaders that had been replaced
    version: str | None = None
    version_fact: Fact | None = None
    topic_changes: list[Fact] = field(default_factory=list)  # deletions and creations of the topic
    log_starts: list[Fact] = field(default_factory=list)
    cleanings: list[Fact] = field(default_factory=list)
    clean_starts: list[Fact] = field(default_factory=list)  # of brokers that had been shut down in order
    disk_errors: list[Fact] = field(default_factory=list)  # failed log directories, and damage that followers fetched
    moves: list[Move] = field(default_factory=list)  # steps of reassignments
    refused_fetches: list[Fact] = field(default_factory=list)  # of followers, from offsets that their leader lacked
    merged: Mapping[Fact, Fact] = field(default_factory=dict)  # fact -> the fact of the same event with all sources
    memo: dict[Any, Any] = field(default_factory=dict)  # what several causes derive from it

    def ends_of(self, broker: str | None, *kinds: str) -> list[LogEnd]:
        """The log ends of a broker that have one of these kinds, in order of time."""
        return [e for e in self.ends if e.broker == broker and e.kind in kinds]

    def faults_on(self, broker: str, kinds: Collection[str]) -> list[tuple[Fault, Fact]]:
        """The faults of these kinds that hit a broker, each with its fact."""
        both = zip(self.faults, self.fault_facts, strict=True)
        return [(f, fact) for f, fact in both if f.type == "fault" and f.kind in kinds and broker in f.nodes]

    def died(self, broker: str | None) -> list[BrokerEvent]:
        """The events in which a broker died, lost power or was fenced, in order of time."""
        return [e for e in self.events if e.broker == broker and e.kind == "died"]

    def life_of(self, broker: str | None) -> list[tuple[int, BrokerEvent]]:
        """The dated starts and deaths of a broker, each with its time (ns), in order of time."""
        return [(e.time, e) for e in self.events if e.broker == broker and e.time is not None]

    def release(self) -> tuple[int, ...] | None:
        """The Kafka version as numbers, or None."""
        if self.version is None:
            return None
        parts = [p for p in self.version.split("-")[0].split(".") if p.isdecimal()]
        return tuple(int(p) for p in parts) or None


@dataclass
class Builder(Timeline):
    """A timeline to which facts are added from one source after the other."""

    started: int | None = None  # ms since the epoch
    # The ISR as leaders report it, each with the leader and the time of its report.
    reported: list[tuple[str, int | None, frozenset[str], Fact]] = field(default_factory=list)
    stated: dict[int, tuple[frozenset[str], Fact]] = field(default_factory=dict)  # partition epoch -> ISR, from logs
    # Leader epoch, leader and ISR of elections and requests -> the files that record them.
    decisions: dict[tuple[int, str, frozenset[str]], set[str]] = field(default_factory=dict)
    outsiders: list[tuple[int | None, str, Fact]] = field(default_factory=list)  # elected from outside the ISR

    def term(self, epoch: int) -> Term:
        """The term of a leader epoch, which is made if it is new."""
        return self.terms.setdefault(epoch, Term(epoch))

    def facts(self) -> list[Fact]:
        """All facts so far."""
        of_terms = [fact for term in self.terms.values() for fact in (*term.facts, *term.start_facts)]
        happened = [*(event.fact for event in self.events), *(end.fact for end in self.ends)]
        in_sync = [*(fact for _, _, fact in self.isr), *(fact for *_, fact in self.reported)]
        of_logs = [*(move.fact for move in self.moves), *self.refused_fetches, *self.log_starts]
        return [*of_terms, *happened, *in_sync, *self.topic_changes, *of_logs, *self.cleanings, *self.disk_errors]

    def is_overruled(self, broker: str, time: int | None) -> bool:
        """Whether another broker led at the time (ns) of this one's report as leader, and also a second later.

        False without a time.
        """
        if time is None:
            return False
        led = sorted((t.time, t.leader) for t in self.terms.values() if t.time is not None and t.leader is not None)
        last = [[leader for since, leader in led if since <= at][-1:] for at in (time, time + SECOND)]
        return all(leaders not in ([], [broker]) for leaders in last)

    def at(self, ms: int | None, broker: str | None = None) -> int | None:
        """A wall-clock time (ms) in ns since the start of the run.

        None if the start is unknown or the sources disagree on the broker's clock.
        """
        clock = self.clocks.get(broker) if broker is not None else None
        if ms is None or self.started is None or (clock is not None and clock.conflict):
            return None
        return (ms - (clock.offset if clock else 0) - self.started) * 1_000_000
