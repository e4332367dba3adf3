"""The timeline of one topic-partition, what causes ask of it, and its Builder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...histories.evidence.clock import Clock, Fault
from ...histories.tables import MAX_INT64, MIN_INT64
from ..replicas.replica_logs import ReplicaLogs
from .changes import BrokerEvent, Deletion, HighWatermark, IsrReport, LogEnd, Move, Setting
from .facts import MS, SECOND, Fact, dated, is_end_of_process
from .terms import Term

UNCLEAN, LEAST = "unclean.leader.election.enable", "min.insync.replicas"


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
    acks: frozenset[str] = frozenset()  # of the producers in run.json, without a history
    started: int | None = None  # the start of the run, ms since the epoch
    settings: list[Setting] = field(default_factory=list)  # of the topic, as the metadata log sets them
    terms: dict[int, Term] = field(default_factory=dict)
    ends: list[LogEnd] = field(default_factory=list)
    high_watermarks: list[HighWatermark] = field(default_factory=list)  # as brokers log them
    events: list[BrokerEvent] = field(default_factory=list)
    isr_reports: list[Fact] = field(default_factory=list)  # facts with `isr`
    overruled: list[Fact] = field(default_factory=list)  # reports of the ISR by leaders that had been replaced
    version: str | None = None
    version_fact: Fact | None = None
    topic_changes: list[Fact] = field(default_factory=list)  # deletions and creations of the topic
    formatted: Fact | None = None  # the first record of the cluster's metadata log at the end of the run
    log_starts: list[Fact] = field(default_factory=list)
    deletions: list[Deletion] = field(default_factory=list)
    cleanings: list[Fact] = field(default_factory=list)  # each up to an offset
    cleaned_from: dict[str, int] = field(default_factory=dict)  # broker -> the lowest offset at which one began
    clean_starts: list[Fact] = field(default_factory=list)  # of brokers that had been shut down cleanly
    unclean_starts: list[Fact] = field(default_factory=list)  # of brokers that had not
    new_disks: list[Fact] = field(default_factory=list)  # registrations without the replica's log.dir
    disk_errors: list[Fact] = field(default_factory=list)  # failed log directories, and damage that followers fetched
    moves: list[Move] = field(default_factory=list)  # steps of reassignments
    controllers: list[Fact] = field(default_factory=list)  # changes of the active controller
    leaderless_epochs: set[int] = field(default_factory=set)  # by brokers' logs
    led_by_two: Collection[int] = ()  # the leader epochs that two brokers led, by their own lines
    refused_fetches: list[Fact] = field(default_factory=list)  # of followers, from offsets that their leader lacked
    merged: Mapping[Fact, Fact] = field(default_factory=dict)  # fact -> the fact of the same event with all sources
    memo: dict[Any, Any] = field(default_factory=dict)  # what several causes derive from it

    @property
    def was_deleted(self) -> bool:
        """Whether the topic was deleted: another one of its name begins at offset 0 and in epoch 0 again."""
        return any(fact.kind == "topic-deleted" for fact in self.topic_changes)

    @property
    def led_terms(self) -> list[Term]:
        """The terms with a known leader, in order of epoch."""
        return [term for term in self.terms.values() if term.leader is not None]

    @property
    def dated_terms(self) -> list[Term]:
        """The terms with a known leader and time, in order of epoch."""
        return dated(self.led_terms)

    def terms_after(self, epoch: int) -> list[Term]:
        """The terms of later epochs, in order."""
        return [term for term in self.terms.values() if term.epoch > epoch]

    def ends_of(self, broker: str | None, *kinds: str) -> list[LogEnd]:
        """The log ends of a broker that have one of these kinds, in order of time."""
        return [e for e in self.ends if e.broker == broker and e.kind in kinds]

    def dated_ends(
        self, broker: str | None, *kinds: str, since: int = MIN_INT64, until: int = MAX_INT64
    ) -> list[LogEnd]:
        """The log ends of `ends_of` after one time and up to another (ns)."""
        return dated(self.ends_of(broker, *kinds), since, until)

    def isr_between(self, since: int = MIN_INT64, until: int = MAX_INT64) -> list[IsrReport]:
        """The reports of the ISR after one time and up to another (ns)."""
        return [IsrReport(fact, fact.isr or frozenset()) for fact in dated(self.isr_reports, since, until)]

    def isr_until_next_term(self, since: int) -> list[IsrReport]:
        """The reports of an ISR with members after a time (ns), before the next leader was elected."""
        elected = (term.when for term in dated(self.terms.values(), since))
        return [one for one in self.isr_between(since, min(elected, default=MAX_INT64) - 1) if one.isr]

    def faults_and_heals(self, broker: str | None) -> list[tuple[Fault, Fact]]:
        """The faults of a broker and their ends, each with its fact."""
        both = zip(self.faults, self.fault_facts, strict=True)
        return [(f, fact) for f, fact in both if broker in f.nodes]

    def faults_on(self, broker: str, kinds: Collection[str]) -> list[tuple[Fault, Fact]]:
        """The faults of these kinds that hit a broker, each with its fact."""
        return [(f, fact) for f, fact in self.faults_and_heals(broker) if f.type == "fault" and f.kind in kinds]

    def deaths_of(self, broker: str | None) -> list[BrokerEvent]:
        """The events in which a broker died, lost power or was fenced, in order of time."""
        return [e for e in self.events if e.broker == broker and e.kind == "died"]

    def ends_of_process(self, broker: str) -> list[int]:
        """The times (ns) at which a broker's process ended, in order; 0 for one without a time."""
        return [event.time or 0 for event in self.deaths_of(broker) if is_end_of_process(event.fact)]

    def life_of(self, broker: str | None, since: int = MIN_INT64, until: int = MAX_INT64) -> list[BrokerEvent]:
        """The starts and deaths of a broker after one time and up to another (ns), in order of time."""
        return dated((e for e in self.events if e.broker == broker), since, until)

    def starts_of(self, broker: str | None, since: int = MIN_INT64, until: int = MAX_INT64) -> list[BrokerEvent]:
        """The starts of a broker after one time and up to another (ns), in order of time."""
        return [e for e in self.life_of(broker, since, until) if e.kind == "started"]

    def starts_and_loads(self, broker: str | None, since: int = MIN_INT64, until: int = MAX_INT64) -> list[int]:
        """The times (ns) after one and up to another at which a broker started or loaded the log, in order."""
        loads = self.dated_ends(broker, "loaded", since=since, until=until)
        return sorted(one.when for one in (*self.starts_of(broker, since, until), *loads))

    def starts_once(self, broker: str | None, since: int, until: int) -> bool:
        """Whether no source has two starts of a broker after one time and up to another (ns)."""
        sources = [start.fact.source for start in self.starts_of(broker, since, until)]
        return len(sources) == len({*sources})

    def settings_between(self, name: str, since: int | None, until: int | None) -> list[Setting]:
        """The values of a topic's setting from one time to another (ns; None: unbounded); empty if not recorded.

        What the metadata log records by a time overrules run.json, which has the value of one moment.
        """
        named = [setting for setting in self.settings if setting.name == name]
        first, last = MIN_INT64 if since is None else since, MAX_INT64 if until is None else until
        before, later = dated(named, until=first)[-1:], dated(named, first, last)
        if len(dated(named)) < len(named):
            before, later = [], named
        if not before and self.config.get(name) is not None:
            value = str(self.config[name]).lower()
            before = [Setting(Fact(f"{name}={value} for the topic", "configured", source="run.json"), name, value)]
        return [*before, *later]

    def allows_only_clean_elections(self, at: int | None) -> bool | None:
        """Whether the topic permits no unclean election at a time (ns; None: at any time); None if not recorded."""
        values = [setting.value for setting in self.settings_between(UNCLEAN, at, at)]
        return all(value == "false" for value in values) if values else None

    @property
    def changed_settings(self) -> list[Setting]:
        """The settings that the metadata log records with another value than before."""
        values = {name: str(value).lower() for name, value in self.config.items()}
        changed = []
        for setting in self.settings:
            if values.get(setting.name) != setting.value:
                changed.append(setting)
            values[setting.name] = setting.value
        return changed

    @property
    def members(self) -> set[str]:
        """The brokers that have a replica, or were in the ISR."""
        return {*self.replica_logs.replicas, *(broker for fact in self.isr_reports for broker in fact.isr or ())}

    def release(self) -> tuple[int, ...] | None:
        """The Kafka version as numbers, or None."""
        if self.version is None:
            return None
        parts = [p for p in self.version.split("-")[0].split(".") if p.isdecimal()]
        return tuple(int(p) for p in parts) or None


# A controller's decision, which elections and requests repeat: leader epoch, leader (None: no leader) and ISR.
Decision = tuple[int, str | None, frozenset[str]]


@dataclass
class Builder(Timeline):
    """A timeline to which facts are added from one source after the other."""

    last_electable: frozenset[str] = frozenset()  # the last replicas in the ISR or the ELR, by the metadata log
    reported_by_leaders: list[Fact] = field(default_factory=list)  # the ISR as a leader reports it
    isr_by_partition_epoch: dict[int, Fact] = field(default_factory=dict)  # from logs
    elr_by_partition_epoch: dict[int, frozenset[str]] = field(default_factory=dict)  # from logs since Kafka 4.2
    decisions: dict[Decision, set[str]] = field(default_factory=dict)  # -> the files that record it
    logged_settings: dict[str, list[str]] = field(default_factory=dict)  # of the topic: name -> its values in order
    logged_positions: dict[tuple[str, str], int] = field(default_factory=dict)  # (broker, name) -> its last one's index
    elected_outside_isr: list[Fact] = field(default_factory=list)  # by ZooKeeper's controller, which logs no epoch
    marked_recovering: list[Fact] = field(default_factory=list)  # by brokers in KRaft just before they lead uncleanly
    # Broker and file -> line and offset. A snapshot's copy of a log has the same lines as the log at the end.
    truncated_copies: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def may_have_eligible_replicas(self, isr: frozenset[str], at: int | None) -> bool:
        """Whether replicas outside of an ISR may have been eligible leaders at a time (ns; None: at any time).

        Kafka 4.0 or later keeps them while the ISR is smaller than min.insync.replicas (KIP-966). The decisions that
        ZooKeeper's controller logs show an earlier version.
        """
        release, least = self.release(), [setting.value for setting in self.settings_between(LEAST, at, at)]
        if self.decisions if release is None else release < (4, 0):
            return False
        return not least or not all(value.isdecimal() and int(value) <= len(isr) for value in least)

    def term(self, epoch: int) -> Term:
        """The term of a leader epoch, which is made if it is new."""
        return self.terms.setdefault(epoch, Term(epoch))

    def facts(self) -> list[Fact]:
        """All facts so far."""
        of_terms = [fact for term in self.terms.values() for fact in (*term.facts, *term.start_facts)]
        return [
            *of_terms,
            *(event.fact for event in self.events),
            *(end.fact for end in self.ends),
            *self.isr_reports,
            *self.reported_by_leaders,
            *self.topic_changes,
            *(setting.fact for setting in self.settings),
            *(move.fact for move in self.moves),
            *self.refused_fetches,
            *self.log_starts,
            *self.cleanings,
            *self.disk_errors,
            *self.controllers,
        ]

    def is_overruled(self, report: Fact) -> bool:
        """Whether another broker led when this one reported the ISR as leader, and also a second later.

        False without a time.
        """
        if report.time is None:
            return False
        led = sorted((term.when, term.leader or "") for term in self.dated_terms)
        last = [[leader for since, leader in led if since <= at][-1:] for at in (report.time, report.time + SECOND)]
        return all(leaders not in ([], [report.broker]) for leaders in last)

    def at(self, ms: int | None, broker: str | None = None) -> int | None:
        """A wall-clock time (ms) in ns since the start of the run.

        None if the start is unknown or the sources disagree on the broker's clock.
        """
        clock = self.clocks.get(broker) if broker is not None else None
        if ms is None or self.started is None or (clock is not None and clock.has_conflict):
            return None
        return (ms - (clock.offset if clock else 0) - self.started) * MS


def line_fact(builder: Builder, row: dict[str, Any], message: str, kind: str, **about: Any) -> Fact:
    """The fact of one log line, about the broker that logged it unless `about`, the fields of its kind, has another."""
    time = builder.at(row["time"], row["broker"])
    about = {
        "partition": None if row["topic"] is None else f"{row['topic']}-{row['partition']}",
        "broker": row["broker"],
        **about,
    }
    return Fact(message, kind, time, row["file"], row["line"], **about)
