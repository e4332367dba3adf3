"""The result of a rule: its breaches, and the reasons why it cannot judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...histories.tables import Finding
from ..partitions.partition import Partition


class Unknown(NamedTuple):
    """Something in the partition that a rule cannot judge, and why, in one clause."""

    reason: str


class MissingSetting(NamedTuple):
    """A setting without which a rule cannot judge something in the partition."""

    name: str


Result = Finding | Unknown | MissingSetting


@dataclass(frozen=True)
class Judgement:
    """All that one rule reports of one partition."""

    findings: tuple[Finding, ...] = ()
    unknowns: tuple[str, ...] = ()
    missing_settings: tuple[str, ...] = ()

    @staticmethod
    def of(rule: str, results: Iterable[Result]) -> Judgement:
        """Sorts the results of a rule by their kind, in their order; each reason and setting once."""
        listed = list(results)
        return Judgement(
            tuple(replace(result, rule=rule) for result in listed if isinstance(result, Finding)),
            tuple(dict.fromkeys(result.reason for result in listed if isinstance(result, Unknown))),
            tuple(dict.fromkeys(result.name for result in listed if isinstance(result, MissingSetting))),
        )


Judge = Callable[[Partition], Judgement]


def judge_later(_: Partition) -> Judgement:
    """Reports nothing: the rule judges the whole run."""
    return Judgement()


def missing_isolation_levels(p: Partition, processes: Iterable[str]) -> list[MissingSetting]:
    """The isolation levels that run.json does not set, among those of the processes."""
    return [MissingSetting(f"isolation.level of {name}") for name in sorted(processes) if p.isolation(name) is None]
