"""An incident: the findings and the explanation of one event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..causes.cases import LostRange

UNKNOWN = "unknown"
MAX_TEXT = 400  # characters of a finding's sentence in the record of its explanation

Record = dict[str, Any]


@dataclass(frozen=True)
class Incident:
    """One event: its findings and its cause."""

    number: int  # from 1, the worst first
    headline: str  # a sentence without its full stop
    severity: str  # the worst of its findings'
    cause: str  # a name that `logjudge causes` explains, or "unknown"
    findings: tuple[str, ...]  # ids, the worst first
    rules: tuple[Record, ...]  # per rule: rule, findings, records
    lost: tuple[LostRange, ...] = ()
    chain: tuple[Record, ...] = ()  # dated facts in order of time, each once: of all losses and MAX_EXAMPLES others
    prevented_by: tuple[str, ...] = ()
    citation: str = ""
    missing: tuple[str, ...] = ()  # the evidence that an unknown cause needs; empty if no cause was searched
    readings: tuple[Record, ...] = ()  # of conflicting evidence: cause, chain, citation

    @property
    def has_known_cause(self) -> bool:
        """Whether the cause is proved."""
        return self.cause != UNKNOWN

    @property
    def is_explained(self) -> bool:
        """Whether a cause was searched."""
        return self.has_known_cause or bool(self.missing or self.readings)

    @property
    def records(self) -> int:
        """The number of acknowledged records that it lost."""
        return sum(lost.count for lost in self.lost)

    def record(self) -> Record:
        """The incident as in verdict.json."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def from_record(record: Mapping[str, Any]) -> Incident:
    """The incident from its `record`."""
    values: Record = {name: tuple(value) if isinstance(value, list) else value for name, value in record.items()}
    return Incident(**{**values, "lost": tuple(LostRange(**lost) for lost in record["lost"])})
