"""The cases that causes explain (lost ranges, missed records, repeated values), and their results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import polars as pl

from ...histories.evidence.tables import GROUPS, empty
from ...histories.tables import Finding, Locate
from ..partitions.ranges import union_of
from ..replicas.replica_logs import TopicPartition
from ..rules import RULES
from ..timelines.facts import Fact
from ..timelines.terms import Term
from ..timelines.timeline import UNCLEAN, Timeline
from ..wording import brokers, plural, span

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Explanation:
    """A proved cause with its facts, or the evidence that is missing to prove one."""

    cause: str  # a name of CAUSES, or UNKNOWN
    chain: tuple[Fact, ...] = ()  # the facts that prove it, in order of time
    prevented_by: tuple[str, ...] = ()  # measures that would have prevented it
    citation: str = ""
    missing: tuple[str, ...] = ()  # the evidence that an unknown cause needs
    readings: tuple[Explanation, ...] = ()  # if the evidence conflicts, every cause that it supports

    @property
    def is_known(self) -> bool:
        """Whether the cause is proved."""
        return self.cause != UNKNOWN

    def record(self) -> dict[str, Any]:
        """The explanation as in verdict.json."""
        record: dict[str, Any] = {"cause": self.cause, "chain": [fact.record() for fact in self.chain]}
        record |= {"prevented_by": list(self.prevented_by), "citation": self.citation, "missing": list(self.missing)}
        return {**record, "readings": [reading.record() for reading in self.readings]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **about: Any) -> Self:
        """The explanation from its `record`; `about` has the other fields of a subclass."""
        chain = tuple(map(Fact.from_record, record["chain"]))
        readings = tuple(map(Explanation.from_record, record["readings"]))
        prevented_by, missing = tuple(record["prevented_by"]), tuple(record["missing"])
        return cls(record["cause"], chain, prevented_by, record["citation"], missing, readings, **about)

    def located(self, locate: Locate) -> Self:
        """The explanation with the file and line of each place in the history."""
        chain = tuple(fact.located(locate) for fact in self.chain)
        return replace(self, chain=chain, readings=tuple(reading.located(locate) for reading in self.readings))


@dataclass
class Attempt:
    """The result of one cause: proved by its chain; or undecided, as evidence is `missing`; or excluded (neither)."""

    is_proved: bool = False
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


NOT_THE_CASE = Attempt()


def leader_files(timeline: Timeline) -> str:
    """The files that show which broker led a partition, and the replicas without any such log."""
    files = "__cluster_metadata, controller.log, state-change.log or the leader's server.log"
    logs = timeline.replica_logs
    known = {*logs.replicas, *logs.batches["broker"], *logs.segments["broker"]}
    silent = sorted(known - timeline.clocks.keys())
    return f"{files}; none of these was collected of {brokers(silent)}" if silent else files


def needs(*missing: str) -> Attempt:
    """An undecided attempt, for which this evidence is missing."""
    return Attempt(missing=list(missing))


def needs_start_of(epoch: int) -> Attempt:
    """An undecided attempt: the offset at which an epoch began is missing."""
    return needs(f"the offset at which epoch {epoch} began (leader-epoch-checkpoint or state-change.log)")


def needs_isr_of(election: Term) -> Attempt:
    """An undecided attempt: it is not known whether the election was clean."""
    where = "(__cluster_metadata, or the controller's log)"
    return needs(
        f"whether broker {election.leader} was in the ISR when it was elected in epoch {election.epoch} {where}"
    )


def needs_setting_of(election: Term) -> Attempt:
    """An undecided attempt: a setting is missing that decides whether the election was unclean."""
    decides = f"which decides whether broker {election.leader} was elected uncleanly in epoch {election.epoch}"
    return needs(f"{UNCLEAN} of the topic, {decides} or as the last known leader (KIP-966)")


# Rules that find losses: lost-write from the clients' view, acknowledged-absent from the brokers' logs.
LOSSES = tuple(name for name, rule in RULES.items() if rule.explained_as == "loss")
# By kind of fact: what reports to a client that its records are written.
ACKNOWLEDGEMENTS = {"acknowledged": "acknowledgement", "committed-transaction": "commit of a transaction with records"}
ACKED_BY = pl.coalesce("acked_by", "completed")  # ns, of sends with acknowledgement times


@dataclass(frozen=True)
class OffsetRange(TopicPartition):
    """Offsets of a topic-partition, inclusive; None if not known."""

    first: int | None
    last: int | None

    def overlaps(self, other: OffsetRange) -> bool:
        """Whether both may have a common offset."""
        if self.name != other.name:
            return False
        if self.first is None or self.last is None or other.first is None or other.last is None:
            return True
        return self.first <= other.last and other.first <= self.last

    def contains(self, offset: int) -> bool:
        """Whether an offset is certainly one of them."""
        return self.first is not None and self.last is not None and self.first <= offset <= self.last


def offset_count(ranges: Iterable[OffsetRange]) -> int:
    """The number of offsets in these ranges; one in several of them counts once."""
    bounds: dict[str, list[tuple[int, int]]] = {}
    for one in ranges:
        if one.first is not None and one.last is not None:
            bounds.setdefault(one.name, []).append((one.first, one.last))
    unions = [union_of(*np.array(of_partition).T) for of_partition in bounds.values()]
    return sum(int((union.last - union.first + 1).sum()) for union in unions)


@dataclass(frozen=True)
class LostRange(OffsetRange):
    """Lost records as incidents and verdict.json show them."""

    count: int
    read: int | None  # records that a consumer had read; None if not known
    first_acked: int | None = None  # ns
    last_acked: int | None = None
    copies: tuple[tuple[str, int], ...] = ()  # collected logs that still have some of them, and how many

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> LostRange:
        """The range from its record in verdict.json."""
        return LostRange(**{**record, "copies": tuple(map(tuple, record.get("copies", ())))})

    @staticmethod
    def of(finding: Finding) -> LostRange:
        """The range of a finding."""
        first, last = finding.first_offset, finding.last_offset
        last = first if last is None else last
        return LostRange(str(finding.topic), int(finding.partition or 0), first, last, finding.count, None)


FirstAndLast = tuple[int | None, int | None]  # two times (ns); None: not recorded


@dataclass(frozen=True)
class Lost(OffsetRange):
    """Adjacent acknowledged records of one topic-partition that are gone, as causes explain them."""

    first: int
    last: int
    count: int
    acks: frozenset[str] = frozenset()  # "all", "1"; empty if not recorded
    values: tuple[str, ...] = ()
    # ns: the records were acknowledged between these times. Of a transaction clients only report the end (losses.py).
    first_acked: int | None = None
    last_acked: int | None = None
    place: int | None = None  # of the first acknowledgement, or end of a transaction
    last_place: int | None = None
    read: int | None = None  # the number of them that a consumer had read
    written: int | None = None  # ns at which they were in a log, if no acknowledgement is known
    replaced: int | None = None  # ns of a later acknowledgement of another record at the first lost offset
    replaced_place: int | None = None
    earlier: tuple[tuple[str, int], ...] = ()  # records that were acknowledged at the first offset before: value, ns
    epoch: int | None = None  # their leader epoch, if a truncation shows it
    committed: FirstAndLast | None = None  # the ends of their transactions, if any

    @property
    def reported_at(self) -> FirstAndLast:
        """The times of acknowledgements, or of ends of transactions, at clients."""
        return self.committed or (self.first_acked, self.last_acked)

    def as_range(self) -> LostRange:
        """The range as incidents show it."""
        return LostRange(self.topic, self.partition, self.first, self.last, self.count, self.read, *self.reported_at)

    @property
    def stored_at(self) -> int:
        """A time (ns) at which all of them were in a log; 0 if none is recorded."""
        return self.last_acked or self.written or 0


def lost_of(finding: Finding, sends: pl.DataFrame) -> Lost | None:
    """The lost range of a finding of a rule in LOSSES; None if the finding names no offset.

    sends: those of the finding's topic-partition, with the columns of replica_logs.SENT_RECORDS.
    """
    if finding.topic is None or finding.partition is None or finding.first_offset is None:
        return None
    gone = sends.filter(pl.col("acknowledged") & pl.col("value").is_in(finding.values)).sort("completed")
    last = finding.last_offset if finding.last_offset is not None else finding.first_offset
    if gone.height:
        return _lost(finding, gone, finding.first_offset, last, finding.count, sends)
    values = tuple(finding.values)
    return Lost(finding.topic, finding.partition, finding.first_offset, last, finding.count, values=values)


def lost_part(finding: Finding, gone: pl.DataFrame, sends: pl.DataFrame) -> Lost:
    """The lost range of a part of a finding's sends, all with known offsets; `sends` as in lost_of."""
    first, last = int(gone["offset"][0]), int(gone["offset"][-1])
    return _lost(finding, gone.sort("completed"), first, last, gone.height, sends)


def _lost(finding: Finding, gone: pl.DataFrame, first: int, last: int, count: int, sends: pl.DataFrame) -> Lost:
    times = gone.select(first=pl.coalesce("acked_from", "completed").min(), last=ACKED_BY.max())
    first_acked, last_acked = times.row(0)
    earliest_ack = pl.when(pl.col("txn").fill_null(False)).then("invoked").otherwise("completed")
    is_other = pl.col("acknowledged") & (pl.col("offset") == first) & ~pl.col("value").is_in(finding.values)
    later = sends.filter(is_other & (earliest_ack > last_acked)).sort("completed")
    earlier = sends.filter(is_other & (pl.col("completed") < first_acked)).select("value", "completed")
    return Lost(
        str(finding.topic),
        int(finding.partition or 0),
        first,
        last,
        count,
        acks=frozenset(gone["acks"].drop_nulls()),
        values=tuple(finding.values) if count == finding.count else tuple(gone.sort("offset")["value"]),
        first_acked=first_acked,
        last_acked=last_acked,
        place=gone["place"][0],
        last_place=gone["place"][-1],
        read=int(gone["read"].sum()) if gone["read"].null_count() == 0 else None,
        replaced=later["completed"][0] if later.height else None,
        replaced_place=later["place"][0] if later.height else None,
        earlier=tuple(earlier.sort("completed").rows()),
        committed=(gone["completed"][0], gone["completed"][-1]) if gone["txn"].any() else None,
    )


def acks_clause(acks: str | None) -> str:
    """`with acks=all`, for a sentence; empty if acks is not known."""
    return "" if acks is None else f" with acks={acks}"


def acknowledgement_facts(lost: Lost, record: str = "lost record") -> list[Fact]:
    """The facts of the first and the last acknowledgement of lost records; none if they are not recorded.

    `record` is what a sentence calls one of them.
    """
    first, last = lost.reported_at
    if lost.written is not None or first is None:
        return []
    acks = next(iter(lost.acks)) if len(lost.acks) == 1 else None
    offsets = f"{span(lost.first, lost.last)} of {lost.name}"
    kind = "acknowledged" if lost.committed is None else "committed-transaction"
    what = ACKNOWLEDGEMENTS[kind]
    which = what if last in (None, first) else f"first {what}"
    text = f"{which}{acks_clause(acks)} of {offsets} ({plural(lost.count, record)})"
    facts = [Fact(text, kind, first, place=lost.place, partition=lost.name, acks=acks)]
    if last is not None and last != first:
        facts.append(Fact(f"last {what} of {offsets}", kind, last, place=lost.last_place, partition=lost.name))
    return facts


# The events of a group's members in one topic-partition.
# f: assign (by the group), assign-own (by the application, without an offset), seek (also an assignment by the
# application to an offset), poll, handle, commit, commit-info (a commit of unknown outcome), crash (of a process,
# without a partition).
GROUP_EVENTS = {
    "time": pl.Int64,
    "place": pl.Int64,
    "process": pl.String,
    "f": pl.String,
    "first_offset": pl.Int64,  # of an assign, seek or commit its only offset; null: the group has no committed offset
    "last_offset": pl.Int64,
}
Event = Mapping[str, Any]  # a row of GROUP_EVENTS, or of GROUPS
Record = Mapping[str, Any]  # a row of RECORDS, of a broker's log
Processes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class GroupPartition(TopicPartition):
    """One topic-partition of a consumer group."""

    group: str

    def fact(self, event: Event, kind: str, text: str) -> Fact:
        """A fact from an event of the group."""
        offset = event["first_offset"]
        return Fact(text, kind, event["time"], place=event["place"], partition=self.name, offset=offset)

    def committed_fact(self, event: Event, more: str = "") -> Fact:
        """The fact that a member committed an offset, or was assigned it as the committed one; `more` follows."""
        did = "was assigned the committed" if event["f"] == "assign" else "committed"
        text = f"{event['process']} {did} offset {event['first_offset']} of {self.name}{more}"
        return self.fact(event, "committed", text)

    def assigned_fact(self, assigned: Event) -> Fact:
        """The fact that a member was assigned the group's committed offset."""
        text = f"{assigned['process']} was assigned {self.name} with the committed offset {assigned['first_offset']}"
        return self.fact(assigned, "assigned", text)

    def stored_fact(self, row: Event, kind: str, text: str) -> Fact:
        """A fact from a dated row of GROUPS, a record of `__consumer_offsets`."""
        source = {"source": row["file"], "byte": row["byte"]}
        return Fact(text, kind, row["dated"], **source, partition=self.name, offset=row["offset"])


@dataclass(frozen=True)
class Regression(GroupPartition):
    """A group's committed offset that went back: from `higher` to `lower`, each an assign or commit of GROUP_EVENTS."""

    offset: int  # the higher committed offset
    higher: Event
    lower: Event | None  # None: only the brokers' final copies have the lower offset
    copies: pl.DataFrame  # the group's rows of GROUPS about this partition in these copies, with `dated` (ns)
    is_automatic: bool = False  # whether `higher` is an automatic commit, recorded some time after it happened
    is_lower_automatic: bool = False  # whether `lower` is one

    @property
    def committed(self) -> Fact:
        """The fact of the higher committed offset."""
        return self.committed_fact({**self.higher, "first_offset": self.offset})


@dataclass(frozen=True)
class Missed(GroupPartition):
    """Adjacent records that no member of a group handled."""

    first: int
    last: int
    count: int
    earlier: Event | None = None  # a poll of another record at `first`: time, place, process, value
    stored: Event | None = None  # the group's last record in __consumer_offsets: dated, offset, file, byte
    copies: pl.DataFrame = field(default_factory=lambda: empty({**GROUPS, "dated": pl.Int64}, True))  # as in Regression
    truncation: Explanation | None = None  # why that other record was truncated, if a cause is proved
    deleted_since: Callable[[int], int | None] = lambda _: None  # the earliest time (ns) at which an offset was deleted

    @property
    def records_text(self) -> str:
        """The offsets and the number of the records, for a sentence."""
        return f"{span(self.first, self.last)} ({plural(self.count, 'record')})"


def events_in_range(events: pl.DataFrame, f: str, missed: Missed) -> pl.DataFrame:
    """The polls or handles (`f`) with a record within the missed range."""
    within = (pl.col("first_offset") <= missed.last) & (pl.col("last_offset") >= missed.first)
    return events.filter(within, f=f)


def after_last_return(events: pl.DataFrame, missed: Missed) -> pl.DataFrame:
    """The events since the group's last position at or below the first missed record; all of them if it had none.

    An earlier move past the records does not matter, as the group returned.
    """
    is_place = pl.col("f").is_in(["assign", "seek", "poll"]) & (pl.col("first_offset") <= missed.first)
    rows = events.with_row_index("row").filter(is_place)["row"]
    return events.slice(int(rows[-1]) + 1) if len(rows) else events
