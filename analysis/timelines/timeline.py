"""The timeline of one topic-partition: terms of leadership, log ends, brokers' events; and its Builder."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ...histories.evidence.clock import Clock, Fault
from ...histories.tables import MAX_INT64, MIN_INT64
from ..replicas.replica_logs import ReplicaLogs
from .facts import MS, SECOND, Fact, is_end_of_process, listed


class Election(NamedTuple):
    """The record of an election."""

    electable: frozenset[str]  # in-sync and eligible replicas just before it
    fact: Fact


@dataclass
class Term:
    """One leader epoch: its leader, its first offset, and the replicas that could have been elected."""

    epoch: int
    leader: str | None = None
    start: int | None = None  # the first offset of the epoch
    time: int | None = None  # ns, when it was elected or began to lead
    ended: int | None = None  # ns, when the controller recorded that there was no leader
    isr: frozenset[str] | None = None  # at its beginning
    electable: frozenset[str] | None = None  # in-sync and eligible replicas just before the election
    electable_fact: Fact | None = None  # the source of `electable`, if it is not among the facts of this term
    elections: list[Election] = field(default_factory=list)
    chosen_outside_isr: Fact | None = None  # the controller's report of it
    was_last_known: bool | None = False  # it was elected as the last known leader (KIP-966); None: not known
    has_conflict: bool = False
    claims: dict[str, int | None] = field(default_factory=dict)  # broker -> time of its first report that it leads (ns)
    facts: list[Fact] = field(default_factory=list)
    start_facts: list[Fact] = field(default_factory=list)
    partition_epochs: list[int] = field(default_factory=list)  # recorded during the term

    def name_leader(self, leader: str) -> None:
        """Sets the leader. A second, different leader puts the term in conflict."""
        if self.leader is not None and self.leader != leader:
            self.has_conflict = True
        self.leader = leader

    def begin(self, time: int | None, isr: frozenset[str] | None = None) -> None:
        """Sets the time and the ISR of its beginning, unless an earlier source did."""
        self.time = time if self.time is None else self.time
        self.isr = isr if self.isr is None else self.isr

    @property
    def elected_uncleanly(self) -> bool | None:
        """Whether the leader was out of sync when it was elected; None if not known.

        The last known leader that KIP-966 elects again is not out of sync, although Kafka calls its election
        unclean: it has all records that it acknowledged, unless its disk lost them.
        """
        if self.leader is None or self.has_conflict or self.was_last_known is None:
            return None
        if self.electable:
            return self.leader not in self.electable
        return None if self.chosen_outside_isr is None else True

    @property
    def how_elected(self) -> str:
        """A clause on how the leader was elected, or that it is unknown; empty for epoch 0 without a known election."""
        if self.has_conflict:
            return "sources name different leaders of this epoch"
        unclean = self.elected_uncleanly
        if unclean is None:
            return "" if self.epoch == 0 else "whether it was clean is not known"
        if unclean:
            return "unclean election"
        return "election of the last known leader" if self.was_last_known else "clean election"


@dataclass(frozen=True)
class _Dated:
    """Something that a fact records."""

    fact: Fact

    @property
    def time(self) -> int | None:
        """The time of the event (ns); None if not known."""
        return self.fact.time


@dataclass(frozen=True)
class LogEnd(_Dated):
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
class BrokerEvent(_Dated):
    """A broker died, started or was unfenced."""

    broker: str
    kind: str  # died (or was fenced), started, unfenced
    alive_until: int | None = None  # ns: the last line that it logged before it started


@dataclass(frozen=True)
class Move(_Dated):
    """The replicas that a reassignment adds and removes from a time on; both empty when it is over (KIP-455)."""

    adding: frozenset[str]
    removing: frozenset[str]


def isr_clause(isr: frozenset[str]) -> str:
    """A clause on the ISR before an election."""
    return f"; the ISR had been {listed(isr)}" if isr else "; the ISR had been empty"


def last_known_clause(is_last_known: bool | None) -> str:
    """A clause on the election of the last known leader; empty for other elections, or if it is not known."""
    clause = "; it was the last known leader, which Kafka elects again although no broker is in sync (KIP-966)"
    return clause if is_last_known else ""


def is_last_known_leader(
    clean_only: bool | None, leader: str, sync: frozenset[str], elr: frozenset[str], known: frozenset[str]
) -> bool | None:
    """Whether a leader outside of ISR (`sync`) and ELR was elected as the last known leader (KIP-966).

    Kafka requires that both are empty (PartitionChangeBuilder.canElectLastKnownLeader). The record of the election may
    have emptied the ELR: its last member returned from an unclean shutdown. If unclean elections are disabled
    (`clean_only`), this is the only explanation; if that setting is not recorded (None), neither is known.
    """
    if leader not in known or leader in elr or sync:
        return False
    return True if not elr else clean_only


def broker_names(values: Any) -> frozenset[str]:
    """The names of brokers: their ids as text."""
    return frozenset(str(v) for v in values or ())


class DatedIsr(NamedTuple):
    """The ISR as a dated fact records it."""

    time: int  # ns
    isr: frozenset[str]
    fact: Fact


class Deletion(NamedTuple):
    """What permitted deletions of records, by the brokers' logs or the metadata log."""

    kind: Literal["age", "size", "request"]
    value: int  # the age in ms, the size in bytes, or the offset below which a client deleted


class Setting(NamedTuple):
    """A value of a topic's setting, and the fact that records it."""

    name: str
    value: str  # empty: removed, so that the broker's default counts
    fact: Fact


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
    settings: list[Setting] = field(default_factory=list)  # of the topic, as the metadata log sets them
    terms: dict[int, Term] = field(default_factory=dict)
    ends: list[LogEnd] = field(default_factory=list)
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
    clean_starts: list[Fact] = field(default_factory=list)  # of brokers that had been shut down in order
    new_disks: list[Fact] = field(default_factory=list)  # registrations without the replica's log.dir
    disk_errors: list[Fact] = field(default_factory=list)  # failed log directories, and damage that followers fetched
    moves: list[Move] = field(default_factory=list)  # steps of reassignments
    controllers: list[Fact] = field(default_factory=list)  # changes of the active controller
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
    def dated_terms(self) -> list[tuple[int, Term]]:
        """The terms with a known leader and time, each with the time (ns), in order of epoch."""
        return [(term.time, term) for term in self.led_terms if term.time is not None]

    def terms_after(self, epoch: int) -> list[Term]:
        """The terms of later epochs, in order."""
        return [term for term in self.terms.values() if term.epoch > epoch]

    def ends_of(self, broker: str | None, *kinds: str) -> list[LogEnd]:
        """The log ends of a broker that have one of these kinds, in order of time."""
        return [e for e in self.ends if e.broker == broker and e.kind in kinds]

    def dated_ends(self, broker: str | None, *kinds: str) -> list[tuple[int, LogEnd]]:
        """The log ends of `ends_of` that have a time, each with it (ns)."""
        return [(e.time, e) for e in self.ends_of(broker, *kinds) if e.time is not None]

    def isr_between(self, since: int = MIN_INT64, until: int = MAX_INT64) -> list[DatedIsr]:
        """The dated reports of the ISR after one time and up to another (ns)."""
        return [
            DatedIsr(fact.time, fact.isr or frozenset(), fact)
            for fact in self.isr_reports
            if fact.time is not None and since < fact.time <= until
        ]

    def isr_until_next_term(self, since: int) -> list[DatedIsr]:
        """The reports of an ISR with members after a time (ns), before the next leader was elected."""
        elected = (term.time for term in self.terms.values() if term.time is not None and term.time > since)
        return [one for one in self.isr_between(since, min(elected, default=MAX_INT64) - 1) if one.isr]

    def faults_and_heals(self, broker: str | None) -> list[tuple[Fault, Fact]]:
        """The faults of a broker and their ends, each with its fact."""
        both = zip(self.faults, self.fault_facts, strict=True)
        return [(f, fact) for f, fact in both if broker in f.nodes]

    def faults_on(self, broker: str, kinds: Collection[str]) -> list[tuple[Fault, Fact]]:
        """The faults of these kinds that hit a broker, each with its fact."""
        return [(f, fact) for f, fact in self.faults_and_heals(broker) if f.type == "fault" and f.kind in kinds]

    def died(self, broker: str | None) -> list[BrokerEvent]:
        """The events in which a broker died, lost power or was fenced, in order of time."""
        return [e for e in self.events if e.broker == broker and e.kind == "died"]

    def ends_of_process(self, broker: str) -> list[int]:
        """The times (ns) at which a broker's process ended, in order; 0 for one without a time."""
        return [event.time or 0 for event in self.died(broker) if is_end_of_process(event.fact)]

    def life_of(self, broker: str | None) -> list[tuple[int, BrokerEvent]]:
        """The dated starts and deaths of a broker, each with its time (ns), in order of time."""
        return [(e.time, e) for e in self.events if e.broker == broker and e.time is not None]

    def starts_of(self, broker: str | None) -> list[tuple[int, BrokerEvent]]:
        """The dated starts of a broker, each with its time (ns), in order of time."""
        return [(time, e) for time, e in self.life_of(broker) if e.kind == "started"]

    def records_restarts_in(self, term: Term) -> bool:
        """Whether restarts of a term's leader would be recorded, as a start of it before the term is."""
        return any(term.time is not None and time <= term.time for time, _ in self.starts_of(term.leader))

    def starts_and_loads(self, broker: str | None) -> list[int]:
        """The times (ns) at which a broker started or loaded the log."""
        return [time for time, _ in (*self.starts_of(broker), *self.dated_ends(broker, "loaded"))]

    def settings_between(self, name: str, since: int | None, until: int | None) -> list[Setting]:
        """The values of a topic's setting from one time to another (ns; None: unbounded); empty if not recorded.

        What the metadata log records by a time overrules run.json, which has the value of one moment.
        """
        first, last = MIN_INT64 if since is None else since, MAX_INT64 if until is None else until
        dated = [(setting.fact.time, setting) for setting in self.settings if setting.name == name]
        if any(time is None for time, _ in dated):
            first, last = MIN_INT64, MAX_INT64
        set_ = [(time or 0, setting) for time, setting in dated if (time or 0) <= last]
        before = [setting for time, setting in set_ if time <= first][-1:]
        if not before and self.config.get(name) is not None:
            value = str(self.config[name]).lower()
            before = [Setting(name, value, Fact(f"{name}={value} for the topic", "configured", source="run.json"))]
        return [*before, *(setting for time, setting in set_ if time > first)]

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

    started: int | None = None  # ms since the epoch
    last_electable: frozenset[str] = frozenset()  # the last replicas in the ISR or the ELR, by the metadata log
    reported_by_leaders: list[Fact] = field(default_factory=list)  # the ISR as a leader reports it
    isr_by_partition_epoch: dict[int, Fact] = field(default_factory=dict)  # from logs
    decisions: dict[Decision, set[str]] = field(default_factory=dict)  # -> the files that record it
    logged_settings: dict[str, list[str]] = field(default_factory=dict)  # of the topic: name -> its values in order
    logged_positions: dict[tuple[str, str], int] = field(default_factory=dict)  # (broker, name) -> its last one's index
    elected_outside_isr: list[Fact] = field(default_factory=list)  # by ZooKeeper's controller, which logs no epoch
    # Broker and file -> line and offset. A snapshot's copy of a log has the same lines as the log at the end.
    truncated_copies: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

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
        led = sorted((time, term.leader or "") for time, term in self.dated_terms)
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
