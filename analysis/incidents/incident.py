"""Explained findings, as verdict.json has them, and incidents: the findings and the explanation of one event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

from ..causes.cases import Explanation, LostRange, OffsetRange
from ..timelines.facts import Fact

MAX_TEXT = 400  # characters of a finding's sentence in the record of its explanation

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Explained(Explanation):
    """An explanation of findings of a partition, or of a truncation or election without any."""

    sentence: str  # of the first finding; without findings: what happened, with its reason if known
    findings: tuple[str, ...] = ()  # ids
    lost: LostRange | None = None  # of a loss
    truncated: OffsetRange | None = None
    cuts: tuple[Fact, ...] = ()  # the facts of the truncations of this range; they are in no record
    event: str = ""  # without findings: what happened; empty in results of early versions

    @property
    def offsets(self) -> OffsetRange | None:
        """The lost or truncated offsets."""
        return self.lost or self.truncated

    def record(self) -> Record:
        """The explanation as in verdict.json."""
        event = {"event": self.event} if self.event else {}
        lost = self.lost and asdict(self.lost)
        truncated = {"truncated": asdict(self.truncated)} if self.truncated else {}
        about = {"findings": list(self.findings), **event, "says": self.sentence, "lost": lost, **truncated}
        return {**about, **super().record()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **about: Any) -> Self:
        """The explanation from its `record`."""
        lost = LostRange.from_record(record["lost"]) if record.get("lost") else None
        truncated = OffsetRange(**record["truncated"]) if "truncated" in record else None
        about |= {"sentence": record.get("says", ""), "event": record.get("event", ""), "lost": lost}
        return super().from_record(record, findings=tuple(record["findings"]), truncated=truncated, **about)


class RuleCounts(NamedTuple):
    """The numbers of findings of a rule in an incident, and of their records."""

    rule: str
    findings: int
    records: int


@dataclass(frozen=True, kw_only=True)
class Incident(Explanation):
    """One event: its findings and its explanation.

    The chain has each fact of all losses, and of a few other findings, once.
    """

    number: int  # from 1, the worst first
    headline: str  # a sentence without its full stop
    severity: str  # the worst of its findings'
    findings: tuple[str, ...]  # ids, the worst first
    rules: tuple[RuleCounts, ...]
    lost: tuple[LostRange, ...] = ()

    @property
    def was_investigated(self) -> bool:
        """Whether causes were tried: one is proved, or the evidence for one is missing or conflicts."""
        return self.is_known or bool(self.missing or self.readings)

    @property
    def records(self) -> int:
        """The number of acknowledged records that it lost."""
        return sum(lost.count for lost in self.lost)

    def record(self) -> Record:
        """The incident as in verdict.json."""
        about = {name: getattr(self, name) for name in ("number", "headline", "severity", "cause")}
        rules, lost = [counts._asdict() for counts in self.rules], [asdict(one) for one in self.lost]
        return {**about, "findings": list(self.findings), "rules": rules, "lost": lost, **super().record()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], **about: Any) -> Self:
        """The incident from its `record`."""
        about |= {name: record[name] for name in ("number", "headline", "severity")}
        rules, lost = (RuleCounts(**one) for one in record["rules"]), map(LostRange.from_record, record["lost"])
        findings = tuple(record["findings"])
        return super().from_record(record, findings=findings, rules=tuple(rules), lost=tuple(lost), **about)
