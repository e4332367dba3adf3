"""A rule: one guarantee, its text in four parts, and the functions that judge it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from inspect import cleandoc
from typing import Any, Literal, NamedTuple

import polars as pl

from ...histories.references import Reference
from ...histories.tables import Evidence, Finding
from ..partitions.indeterminate_polls import has_left_out_lines
from ..partitions.later_epochs import overwritten
from ..partitions.observations import with_null_tombstones
from ..partitions.partition import Partition, once
from ..partitions.truncated_sends import REMOVED, truncated_sends
from ..partitions.unknown_acks import may_have_no_acks
from ..replicas.replica_logs import ReplicaLogs, TopicPartition, complete_sends

Row = dict[str, Any]
# A proof of a finding and its place in the history, or evidence from a file.
EvidenceLike = tuple[str, int | None] | Evidence


def finding(
    about: TopicPartition,
    sentence: str,
    offsets: tuple[int | None, int | None],
    evidence: Iterable[EvidenceLike],
    *,
    count: int = 1,
    values: Iterable[Any] = (),
    processes: Iterable[Any] = (),
    severity: str = "violation",
    acks: str | None = None,
    event: int | None = None,
    brokers: Iterable[str] = (),
    snapshot: str = "",
) -> Finding:
    """One breach at the first and last of `offsets`; the rule adds its name.

    Processes are named once; evidence without a place is left out.
    """
    return Finding(
        rule="",
        sentence=sentence,
        topic=about.topic,
        partition=about.partition,
        severity=severity,
        first_offset=offsets[0],
        last_offset=offsets[1],
        count=count,
        values=[str(value) for value in values],
        processes=distinct(processes),
        evidence=[
            item if isinstance(item, Evidence) else Evidence(*item)
            for item in evidence
            if isinstance(item, Evidence) or item[1] is not None
        ],
        replicas=list(brokers),
        snapshot=snapshot or None,
        acks=acks,
        event=event,
    )


def where(about: TopicPartition, first: int | None, last: int | None = None) -> str:
    """orders-2@4711, or orders-2@4711-4720."""
    if first is None:
        return f"{about.name} (offset unknown)"
    return f"{about.name}@{first}" if last is None or last == first else f"{about.name}@{first}-{last}"


def seconds(ns: int | None) -> str:
    """A time of the history's clock in words."""
    return "an unknown time" if ns is None else f"{ns / 1e9:.3f} s"


def distinct(values: Iterable[Any]) -> list[str]:
    """The values as text, each once, in order, without null."""
    return list(dict.fromkeys(str(value) for value in values if value is not None))


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
Results = Callable[[Partition], Iterator[Result]]


def judge_later(_: Partition) -> Judgement:
    """Reports nothing: the rule judges the whole run."""
    return Judgement()


def missing_isolation_levels(p: Partition, processes: Iterable[str]) -> list[MissingSetting]:
    """The isolation levels that run.json does not set, among those of the processes."""
    return [
        MissingSetting(f"isolation.level of {name}") for name in sorted(processes) if p.settings.isolation(name) is None
    ]


def unless_left_out(results: Results) -> Results:
    """Decorates a generator of results: if lines of the history were left out, its findings are unknown.

    Each of these lines may be the poll that returned a value, or the assignment that moved a consumer. The lines after
    a damaged last one may be missing, too.
    """

    @wraps(results)
    def proved(p: Partition) -> Iterator[Result]:
        if not has_left_out_lines(p):
            yield from results(p)
            return
        found = list(results(p))
        unknowns = [result for result in found if isinstance(result, Unknown)]
        yield from unknowns
        if len(unknowns) < len(found):
            yield Unknown(
                "lines of the history are missing or could not be read, so a poll or an assignment may be missing"
            )

    return proved


@once  # lost-write uses the judgement of acknowledged-absent
def _judge_logs(p: Partition, of_logs: Callable[[ReplicaLogs, pl.DataFrame], Judgement]) -> Judgement:
    return Judgement() if p.replica_logs is None else of_logs(p.replica_logs, _sends_for_logs(p))


@once
def _sends_for_logs(p: Partition) -> pl.DataFrame:
    """`sends_of`, with null as the value of a tombstone, as the logs have it; also tombstones of unknown outcome."""
    sends = sends_of(p).with_columns(
        overwritten=overwritten(p, sends_of(p)),
        unsure_acks=pl.col("process").is_in(may_have_no_acks(p)),
        **{name: pl.col("value").is_in(truncated_sends(p).filter(name)["value"].implode()) for name in REMOVED},
    )
    sends = with_null_tombstones(sends, p.tombstones) if len(p.tombstones) else sends
    may_be = pl.col("value").is_null() & ~pl.col("acknowledged") & (pl.col("outcome") != "fail")
    unsure = p.possible_sends.filter(may_be)
    return pl.concat([sends, complete_sends(unsure.rename({"at": "place"}))]) if len(unsure) else sends


@once
def sends_of(p: Partition) -> pl.DataFrame:
    """Acknowledged sends, with the columns that replica rules and causes take (replica_logs.SENT_RECORDS)."""
    entry = pl.Series(p.entry_of_send)
    known = entry.set(entry < 0, None)
    seen = p.entries.select(
        read=(pl.col("times") > 0).gather(known).fill_null(False),
        held=pl.col("in_final").gather(known).fill_null(False),
        first_read=pl.col("first_read").gather(known),
    )
    if not len(p.reads):  # whether a consumer read them is not recorded
        seen = seen.with_columns(read=pl.lit(None, pl.Boolean))
    # Kafka's tools print neither invocations nor acks.
    acks = pl.when(~pl.col("synthetic") | pl.col("process").is_in(p.settings.with_acks())).then("acks")
    # A send whose outcome only the log shows was not acknowledged to a client.
    return complete_sends(p.sends.with_columns(*seen, place="at", acks=acks).filter("acknowledged"))


# What a rule may assume in addition to well-formed lines: values are unique, clocks go forward, events have an order in
# time, the times of each process go forward, failures are certain, partitions and invocations were recorded, the logs
# of all replicas were collected.
Assumed = Literal["values", "clock", "order", "process clock", "outcomes", "partitions", "invocations", "replicas"]

HEADINGS = {
    "breach": "Breach",
    "not_a_breach": "Not a breach",
    "unknown_when": "Unknown when",
    "in_jepsen": "In Jepsen histories",
}


# Counts of brokers' files.
BROKER_COUNTS = frozenset({"logs", "batches", "transactional batches", "checkpoints", "removals"})


@dataclass(frozen=True)
class Rule:
    """One guarantee, checked. `logjudge rules`, docs/rules.md and the report show the same four parts of its text."""

    name: str
    group: Literal["loss", "order", "consumers", "transactions", "replicas"]  # in `check --help`
    summary: str  # a breach in one line, without a full stop
    source: Reference  # where the guarantee is stated
    needs: tuple[str, ...]  # counts of a run without which there is nothing to judge
    breach: str = ""  # these four texts are sections of the docstring of the function that judges, unless given here
    not_a_breach: str = ""
    unknown_when: str = "Only when the run's evidence is incomplete."
    in_jepsen: str = ""  # empty if the rule does not judge them
    example: str = ""  # a history that breaks it, in the notation of `logjudge rules`; empty if brokers' files do
    needs_final: bool = False  # without final reads an absence of findings proves nothing
    assumes: tuple[Assumed, ...] = ()
    follows: Literal["offset", "value"] | None = None  # how a finding is known to follow from a loss
    # By causes; None: it is not explained.
    explained_as: (
        Literal["loss", "divergence", "missed", "regression", "duplicate", "misread", "replaced", "ending"] | None
    ) = None
    values_are_records: bool = False  # the values of a finding are the records concerned, and nothing else
    judges: dict[str, Judge] = field(default_factory=dict)  # by dialect of the history; none: the rule is not judged

    @property
    def is_of_brokers(self) -> bool:
        """Whether only brokers' files show a breach: clients cannot see it."""
        return not BROKER_COUNTS.isdisjoint(self.needs)

    def judged_by(self, results: Results) -> Rule:
        """Takes the generator that judges native histories: a decorator."""
        self.judges["native"] = lambda p: Judgement.of(self.name, results(p))
        return replace(self, **_texts_in(results.__doc__))

    def judged_by_logs(self, results: Callable[[ReplicaLogs, pl.DataFrame], Iterator[Result]]) -> Rule:
        """Takes the generator that judges collected logs and acknowledged sends (SENT_RECORDS): a decorator."""

        def of_logs(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:
            return Judgement.of(self.name, results(logs, sends))

        self.judges["native"] = partial(_judge_logs, of_logs=of_logs)
        return replace(self, **_texts_in(results.__doc__))

    def judged_in_jepsen_by(self, results: Results) -> Rule:
        """Takes the generator that judges histories of Jepsen: a decorator."""
        self.judges["jepsen"] = lambda p: Judgement.of(self.name, results(p))
        return self

    @property
    def texts(self) -> tuple[tuple[str, str], ...]:
        """The heading and the text of each of its four parts, a line for each paragraph and each item of a list."""
        reason = "they have no broker files" if self.is_of_brokers else "Jepsen's checker has no such rule"
        texts = {name: getattr(self, name) for name in HEADINGS}
        texts["in_jepsen"] = texts["in_jepsen"] or f"Not judged: {reason}."
        return tuple((heading, texts[name]) for name, heading in HEADINGS.items())


def _texts_in(docstring: str | None) -> dict[str, Any]:
    """The parts of a rule's text in a docstring: each begins a line with its heading and a colon."""
    _, *found = re.split(rf"^ *({'|'.join(HEADINGS.values())}): ", docstring or "", flags=re.MULTILINE)
    texts = {heading: _with_items(text) for heading, text in zip(found[::2], found[1::2], strict=True)}
    return {name: texts[heading] for name, heading in HEADINGS.items() if heading in texts}


def _with_items(text: str) -> str:
    """A text with a line for each paragraph and each item. An item begins with a dash; its other lines are indented."""
    lines: list[str] = []
    for line in cleandoc(text.rstrip()).splitlines():
        is_item = line.startswith("- ")
        continues = bool(lines) and not is_item and lines[-1].startswith("- ") == line.startswith("  ")
        lines = [*lines[:-1], f"{lines[-1]} {line.strip()}"] if continues else [*lines, line.strip()]
    return "\n".join(lines)
