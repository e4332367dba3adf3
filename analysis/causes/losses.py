"""What a cause is asked about: a range of acknowledged records that are gone, with when they were acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ...histories.tables import Finding
from ..timelines.facts import Fact
from ..wording import plural, span

LOSSES = ("lost-write", "acknowledged-absent")  # rules that find them: by the clients' view, by the brokers' logs


@dataclass(frozen=True)
class LostRange:
    """Acknowledged records of one topic-partition that are gone."""

    topic: str
    partition: int
    first: int | None  # offsets, inclusive; None where they are not known
    last: int | None
    count: int
    read: int | None  # how many a consumer had read; None where that is not known
    first_acked: int | None = None  # ns
    last_acked: int | None = None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


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


def lost_of(finding: Finding, sends: pl.DataFrame) -> Lost | None:
    """The lost range of a finding (acknowledged-absent, or lost-write of the client's view).

    Sends are those of the finding's topic-partition, with columns as in replica_logs.SENT_RECORDS.
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


def acknowledgement(lost: Lost) -> list[Fact]:
    """The facts that the lost records were acknowledged, the first and the last; none where nobody recorded it."""
    if lost.written is not None:
        return []
    acks = f" under acks={next(iter(lost.acks))}" if len(lost.acks) == 1 else ""
    lost_ones = f"{span(lost.first, lost.last)} of {lost.name}"
    says = f"{lost_ones} ({plural(lost.count, 'record')}) began to be acknowledged{acks}"
    facts = [Fact(says, "acknowledged", lost.first_acked, place=lost.place, partition=lost.name)]
    if lost.last_acked is not None and lost.last_acked != lost.first_acked:
        says = f"the last of {lost_ones} was acknowledged"
        facts.append(Fact(says, "acknowledged", lost.last_acked, place=lost.last_place, partition=lost.name))
    return facts
