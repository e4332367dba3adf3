"""A rule: one guarantee, its text in four parts, and the functions that judge it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, ParamSpec

import polars as pl

from ..partitions.partition import Partition
from ..references import Reference
from ..replicas.replica_logs import ReplicaLogs
from .evidence import LogsJudge
from .judgement import Judge, Judgement, Result

Arguments = ParamSpec("Arguments")

# What a rule may assume in addition to well-formed lines: values are unique, clocks go forward, events have an order in
# time, the times of each process go forward, failures are certain, partitions and invocations were recorded, the logs
# of all replicas were collected.
Assumed = Literal["values", "clock", "order", "process clock", "outcomes", "partitions", "invocations", "replicas"]

NO_BROKER_FILES = "Not judged: they have no broker files."


@dataclass(frozen=True)
class Rule:
    """One guarantee, checked. `logjudge rules`, docs/rules.md and the report show the same four parts of its text."""

    name: str
    group: Literal["loss", "order", "consumers", "transactions", "replicas"]  # in `check --help`
    summary: str  # a breach in one line, without a full stop
    breach: str
    not_a_breach: str
    source: Reference  # where the guarantee is stated
    needs: tuple[str, ...]  # counts of a run without which there is nothing to judge
    unknown_when: str = "Only when the run's evidence is incomplete."
    in_jepsen: str = "Not judged: Jepsen's checker has no such rule."
    example: str = ""  # a history that breaks it (histories/notation.py); empty if brokers' files do
    needs_final: bool = False  # without final reads an absence of findings proves nothing
    assumes: tuple[Assumed, ...] = ()
    follows: Literal["offset", "value"] | None = None  # how a finding is known to follow from a loss
    explained_as: Literal["loss", "divergence", "missed", "duplicate", "misread"] | None = None  # by causes; None: none
    of_records: bool = False  # the values of a finding are the records concerned, and nothing else
    judges: dict[str, Judge] = field(default_factory=dict)  # by dialect of the history; none: the rule is not judged

    def judged_by(self, results: Callable[[Partition], Iterator[Result]]) -> Rule:
        """Takes the generator that judges native histories: a decorator."""
        self.judges["native"] = self._collected(results)
        return self

    def judged_by_logs(self, results: Callable[[ReplicaLogs, pl.DataFrame], Iterator[Result]]) -> Rule:
        """Takes the generator that judges collected logs and acknowledged sends: a decorator."""
        self.judges["native"] = LogsJudge(self._collected(results))
        return self

    def judged_in_jepsen_by(self, results: Callable[[Partition], Iterator[Result]]) -> Rule:
        """Takes the generator that judges histories of Jepsen: a decorator."""
        self.judges["jepsen"] = self._collected(results)
        return self

    def _collected(self, results: Callable[Arguments, Iterator[Result]]) -> Callable[Arguments, Judgement]:
        """A function that collects what the generator yields."""
        return lambda *args, **kwargs: Judgement.of(self.name, results(*args, **kwargs))

    @property
    def parts(self) -> tuple[tuple[str, str], ...]:
        """The text: a heading and sentences for each of its four parts."""
        return (
            ("Breach", self.breach),
            ("Not a breach", self.not_a_breach),
            ("Unknown when", self.unknown_when),
            ("In Jepsen histories", self.in_jepsen),
        )
