"""What a cause is told, and what it answers: facts with their source, a lost range, an explanation."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import polars as pl

from ...histories.tables import Evidence, Finding


@dataclass(frozen=True)
class Fact:
    """One dated thing that happened, and where it is written. Undated facts come from files."""

    says: str
    time: int | None = None  # ns since the start of the run, on the history's clock
    source: str | None = None
    line: int | None = None
    byte: int | None = None
    place: int | None = None

    def evidence(self) -> Evidence:
        return Evidence(self.says, self.place, self.source, self.line, self.byte)


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


def lacks(*missing: str) -> Attempt:
    """An attempt that this evidence neither proves nor excludes."""
    return Attempt(missing=list(missing))


def lost_of(finding: Finding, sends: pl.DataFrame) -> Lost | None:
    """The lost range of a finding (acknowledged-absent, or lost-write of the client's view).

    Sends are those of the finding's topic-partition, with columns as in replicas.SENDS.
    """
    if finding.topic is None or finding.partition is None or finding.first_offset is None:
        return None
    gone = sends.filter(pl.col("acknowledged") & pl.col("value").is_in(finding.values)).sort("completed")
    last = finding.last_offset if finding.last_offset is not None else finding.first_offset
    if not gone.height:
        return Lost(
            finding.topic,
            finding.partition,
            finding.first_offset,
            last,
            finding.count,
            values=tuple(finding.values),
        )
    return Lost(
        finding.topic,
        finding.partition,
        finding.first_offset,
        last,
        finding.count,
        frozenset(gone["acks"].drop_nulls()),
        tuple(finding.values),
        gone["completed"][0],
        gone["completed"][-1],
        gone["place"][0],
        gone["place"][-1],
        int(gone["read"].sum()) if gone["read"].null_count() == 0 else None,
    )


_SAME_TIME = 2_000_000_000  # ns between what two sources tell of one thing, as clocks and their writers differ


def ordered(facts: list[Fact]) -> list[Fact]:
    """Facts in order of time, each once, with every source that tells it; undated ones keep their place after the fact
    before them.
    """
    seen: set[Fact] = set()
    keyed: list[tuple[int, int, Fact]] = []
    latest = -(2**62)
    for index, fact in enumerate(facts):
        if fact in seen:
            continue
        seen.add(fact)
        latest = fact.time if fact.time is not None else latest
        keyed.append((latest, index, fact))
    return _together([fact for _, _, fact in sorted(keyed, key=lambda item: item[:2])])


def _together(facts: list[Fact]) -> list[Fact]:
    """What a second source tells of the same thing at the same time stands with the first."""
    out: list[Fact] = []
    for fact in facts:
        thing = _thing(fact)
        twin = next((i for i, other in enumerate(out) if thing and _thing(other) == thing and _near(other, fact)), None)
        if twin is None:
            out.append(fact)
        elif fact.source and (first := out[twin].source) and _file(fact.source) != _file(first):
            also = f"{fact.source}:{fact.line}" if fact.line is not None else f"{fact.source} byte {fact.byte}"
            out[twin] = replace(out[twin], says=f"{out[twin].says} (also told by {also})")
    return out


def _file(source: str) -> str:
    """A file's name without the snapshot that it was copied in: copies of one log are one source."""
    return re.sub(r"^snapshots/[^/]+/", "", source)


def _near(one: Fact, other: Fact) -> bool:
    if one.time is None or other.time is None or one.source == other.source:
        return False
    return abs(one.time - other.time) <= _SAME_TIME


def _thing(fact: Fact) -> tuple[str, ...] | None:
    """What a fact is about, if two sources tell of such things."""
    fenced = re.search(r"broker (\S+) was fenced|the controller fenced broker (\S+)", fact.says)
    if fenced:
        return ("fenced", fenced[1] or fenced[2])
    elected = re.search(r"broker (\S+) was elected leader of (\S+) in epoch (\d+)", fact.says)
    chosen = re.search(r"the controller (?:chose|named) broker (\S+)(?: as)? leader of (\S+) in epoch (\d+)", fact.says)
    found = elected or chosen
    return ("elected", *found.groups()) if found else None
