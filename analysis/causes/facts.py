"""What a cause is told, and what it answers: facts with their source, a lost range, an explanation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from ...histories.tables import BEYOND_ALL, Evidence, Finding
from ..wording import plural, span

SECOND = 1_000_000_000  # ns


@dataclass(frozen=True)
class Fact:
    """One dated thing that happened, and where it is written. Undated facts come from files."""

    says: str
    time: int | None = None  # ns since the start of the run, on the history's clock
    source: str | None = None
    line: int | None = None
    byte: int | None = None
    place: int | None = None
    about: tuple[Any, ...] | None = None  # what happened, alike in all sources that tell of it (telling.py)
    also: tuple[Fact, ...] = ()  # the same as other files tell it

    def evidence(self) -> Evidence:
        return Evidence(self.says, self.place, self.source, self.line, self.byte)

    def record(self) -> dict[str, Any]:
        told = {name: getattr(self, name) for name in ("says", "time", "source", "line", "byte", "place")}
        return {**told, "also": [fact.record() for fact in self.also]} if self.also else told


@dataclass(frozen=True)
class Lost:
    """Acknowledged records that are gone, of one topic-partition, neighbours in offset."""

    topic: str
    partition: int
    first: int
    last: int
    count: int
    acks: frozenset[str] = frozenset()  # "all", "1"; empty where nobody says
    values: tuple[str, ...] = ()
    first_acked: int | None = None  # ns
    last_acked: int | None = None
    place: int | None = None  # of the first acknowledgement
    last_place: int | None = None
    read: int | None = None  # how many of them a consumer had read
    written: int | None = None  # ns by which they were written, where no acknowledgement is known
    replaced: int | None = None  # ns at which another record was acknowledged at the first lost offset, later
    replaced_place: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass
class Explanation:
    """A cause with its chain, or why there is none.

    cause: a name of CAUSES, or "unknown". chain: the facts that carry it, in order of time. prevented_by:
    what would have prevented it. missing: for "unknown", the evidence that would be needed.
    readings: where the evidence conflicts, the causes that it supports, each with its own chain.
    """

    cause: str
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    citation: str = ""
    missing: list[str] = field(default_factory=list)
    readings: list[Explanation] = field(default_factory=list)


@dataclass
class Attempt:
    """What a cause makes of the evidence: proved with a chain, or in want of `missing`, or not the case."""

    proved: bool = False
    chain: list[Fact] = field(default_factory=list)
    prevented_by: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


NOT_THE_CASE = Attempt()


def explained(attempts: Mapping[str, tuple[Attempt, str]], otherwise: str) -> Explanation:
    """What attempts of causes, each by its name and with its citation, come to: one proof is the cause, two are a
    conflict, and without any it is unknown for what they lack, or else `otherwise`."""
    proved = [
        Explanation(name, attempt.chain, attempt.prevented_by, citation)
        for name, (attempt, citation) in attempts.items()
        if attempt.proved
    ]
    if len(proved) == 1:
        return proved[0]
    if proved:
        conflict = "the evidence conflicts: it supports " + " and ".join(each.cause for each in proved)
        return Explanation("unknown", missing=[conflict], readings=proved)
    missing = dict.fromkeys(lacking for attempt, _ in attempts.values() for lacking in attempt.missing)
    return Explanation("unknown", missing=list(missing) or [otherwise])


def lacks(*missing: str) -> Attempt:
    """An attempt that this evidence neither proves nor excludes."""
    return Attempt(missing=list(missing))


def lost_of(finding: Finding, sends: pl.DataFrame) -> Lost | None:
    """The lost range of a finding (acknowledged-absent, or lost-write of the client's view).

    Sends are those of the finding's topic-partition, with columns as in replicas.SENDS.
    """
    if finding.topic is None or finding.partition is None or finding.first_offset is None:
        return None
    gone = gone_of(finding, sends).sort("completed")
    last = finding.last_offset if finding.last_offset is not None else finding.first_offset
    if gone.height:
        return _lost(finding, gone, finding.first_offset, last, finding.count, sends)
    span = (finding.first_offset, last, finding.count)
    return Lost(finding.topic, finding.partition, *span, values=tuple(finding.values))


def gone_of(finding: Finding, sends: pl.DataFrame) -> pl.DataFrame:
    """The acknowledged sends of a finding's values."""
    return sends.filter(pl.col("acknowledged") & pl.col("value").is_in(finding.values))


def lost_part(finding: Finding, gone: pl.DataFrame, sends: pl.DataFrame) -> Lost:
    """The lost range of some of a finding's sends, whose offsets are known; `sends` as in lost_of."""
    first, last = int(gone["offset"][0]), int(gone["offset"][-1])
    return _lost(finding, gone.sort("completed"), first, last, gone.height, sends)


def _lost(finding: Finding, gone: pl.DataFrame, first: int, last: int, count: int, sends: pl.DataFrame) -> Lost:
    others = sends.filter(pl.col("acknowledged") & (pl.col("offset") == first) & ~pl.col("value").is_in(finding.values))
    later = others.filter(pl.col("completed") > gone["completed"][-1]).sort("completed")
    return Lost(
        str(finding.topic),
        int(finding.partition or 0),
        first,
        last,
        count,
        frozenset(gone["acks"].drop_nulls()),
        tuple(finding.values) if count == finding.count else tuple(gone.sort("offset")["value"]),
        gone["completed"][0],
        gone["completed"][-1],
        gone["place"][0],
        gone["place"][-1],
        int(gone["read"].sum()) if gone["read"].null_count() == 0 else None,
        replaced=later["completed"][0] if later.height else None,
        replaced_place=later["place"][0] if later.height else None,
    )


def ordered(facts: list[Fact]) -> list[Fact]:
    """Facts in order of time, each once; undated ones keep their place after the fact before them."""
    keyed: list[tuple[int, Fact]] = []
    latest = -BEYOND_ALL
    for fact in dict.fromkeys(facts):
        latest = fact.time if fact.time is not None else latest
        keyed.append((latest, fact))
    return [fact for _, fact in sorted(keyed, key=lambda item: item[0])]


def acknowledgement(lost: Lost) -> list[Fact]:
    """The facts that the lost records were acknowledged, the first and the last; none where nobody recorded it."""
    if lost.written is not None:
        return []
    acks = f" under acks={next(iter(lost.acks))}" if len(lost.acks) == 1 else ""
    read = f"; consumers had read {'all' if lost.read == lost.count else lost.read} of them" if lost.read else ""
    lost_ones = f"{span(lost.first, lost.last)} of {lost.name}"
    says = f"{lost_ones} ({plural(lost.count, 'record')}) began to be acknowledged{acks}{read}"
    facts = [Fact(says, lost.first_acked, place=lost.place)]
    if lost.last_acked is not None and lost.last_acked != lost.first_acked:
        says = f"the last of {lost_ones} was acknowledged"
        facts.append(Fact(says, lost.last_acked, place=lost.last_place))
    return facts


def chain(*parts: list[Fact]) -> list[Fact]:
    """The facts of all parts in order of time."""
    return ordered([fact for part in parts for fact in part])
