"""G0 and G1c: no cycle of dependencies between transactions, with process order or real-time order or without.

Partitions contribute their dependencies (analysis/transactions/); `judge_cycles` judges those of the whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import polars as pl

from ...histories.references import ELLE
from ...histories.settings import Settings
from ...histories.tables import MAX_INT64, MIN_INT64, Evidence, Finding
from ..cached import cached_property
from ..partitions.foreign_clock import foreign_clock
from ..partitions.partition import Partition
from ..transactions.cycle_types import TYPES
from ..transactions.cycles import Cycles
from ..transactions.shortest_cycle import Cycle, Step
from ..wording import plural, short
from .rule import Judgement, Rule, judge_later, seconds

MAX_VIOLATIONS, MAX_PERMITTED = 100, 20  # components of a type that become findings; the last one counts the others
# By suffix of a rule's name: what it adds to the summary, and to the dependencies.
_ORDERS = {
    "": ("", ""),
    "-process": (
        ", with the order of the operations of each process",
        ", or began in the same process after that one ended",
    ),
    "-realtime": (", with real-time order", ", or began after that one ended"),
}
_COMMITTED = "{p.isolation.level=read_committed q.isolation.level=read_committed} "
_EXAMPLES = {
    "G0": "p:(a@0,e@2).. q:(b@1) p:..(a@0,e@2)",
    "G0-process": "p:(a@3) p:(b@1)",
    "G0-realtime": "p:(a@3) q:(b@1)",
    "G1c": _COMMITTED + "p:(a@0,<b@1).. q:(b@1,<a@0) p:..(a@0,<b@1)",
    "G1c-process": _COMMITTED + "p:(a@0,<b@1).. q:(<a@0) q:(b@1) p:..(a@0,<b@1)",
    "G1c-realtime": _COMMITTED + "p:(a@0,<b@1).. q:(<a@0) r:(b@1) p:..(a@0,<b@1)",
}


def _rule(base: str, suffix: str) -> Rule:
    of_writes = base == "G0"
    name = base + suffix
    order, in_time = _ORDERS[suffix]
    read = "" if of_writes else ", or read what that one wrote"
    return Rule(
        name,
        group="transactions",
        summary=f"Transactions {'wrote' if of_writes else 'wrote and read'} in a cycle{order} ({name})",
        breach=(
            "Transactions form a cycle: each must come before the next, and the last before the first. Each depends on "
            f"the one before it: it wrote at the next offset{read}{in_time}."
            + ("" if of_writes else " At least one read.")
            + " A finding is the shortest cycle of a component of transactions."
        ),
        not_a_breach=(
            "Permitted: cycles with writes at neighbouring offsets, as Kafka does not isolate the writes of "
            "transactions from each other"
            + ("." if of_writes else ", and cycles in which a read_uncommitted consumer read.")
            + " A value that several operations sent, and an offset with several values, show no order. A value that"
            " was read before its write began is a precommitted-read or phantom-read."
            + f" At most {MAX_PERMITTED} permitted cycles are findings; the last one counts the others."
        ),
        unknown_when=(Rule.unknown_when if of_writes else _UNKNOWN) + (_CLOCK if suffix == "-realtime" else ""),
        in_jepsen=_IN_JEPSEN + (_NO_PROCESS if suffix == "-process" else ""),
        example=_EXAMPLES[name],
        source=ELLE,
        needs=("transactions",),
        assumes=("values", "outcomes", *(("clock", "order") if suffix else ())),
        judges={"native": _judge_clocks if suffix == "-realtime" else judge_later, "jepsen": judge_later},
    )


def _judge_clocks(p: Partition) -> Judgement:
    """A clock that contradicts all others dates no transaction, so the order in real time is not known."""
    clock = foreign_clock(p) if p.has_transactions or p.reads["txn"].any() else ""
    return Judgement(unknowns=(clock,) if clock else ())


_UNKNOWN = "All writes and reads of a cycle are known, but run.json does not set isolation.level of a consumer in it."
_CLOCK = " A process recorded its times in another unit or by another clock."
_IN_JEPSEN = (
    "Elle's dependencies: operations of any outcome that wrote or read; if several wrote a value, the last one "
    "counts. Neighbouring offsets only count with --ww-deps, as with Jepsen's option of this name; cycles of G1c "
    "are then permitted. Cycles of G0 always are. An ok operation comes before those invoked after it."
)
_NO_PROCESS = " Jepsen looks for real-time order alone, which contains process order: never found."

RULES_OF_CYCLES = {rule.name: rule for suffix in _ORDERS for rule in (_rule("G0", suffix), _rule("G1c", suffix))}


CyclesByType = Mapping[str, Cycles]
Drawing = dict[str, Any]  # what plots/cycles.py draws: operations and steps


class Search(NamedTuple):
    """The dependencies to search for cycles, and the number of components of each type to return."""

    dependencies: pl.Expr  # a filter
    max_components: int
    as_elle: bool = False  # see `cycles_of`
    is_exact: bool = False  # see `cycles_of`; several keys may cause the same dependency between two transactions
    may_split: bool = False  # its cycles are permitted, so a window that is too large for a task may lose some


def searches(settings: Settings) -> dict[str, Search]:
    """The searches of `judge_cycles`. Only cycles with nothing but read_committed reads are violations."""
    if settings.dialect == "jepsen":
        return {"all": Search(pl.lit(True), MAX_VIOLATIONS, as_elle=True)}
    if settings.dialect in ("elle-append", "elle-register"):
        return {"all": Search(pl.lit(True), MAX_PERMITTED, is_exact=True)}
    level = pl.col("target_process").replace_strict(_levels(settings), default="", return_dtype=pl.String)
    is_read = pl.col("kind") == "wr"
    return {
        "committed": Search(is_read & (level == "read_committed"), MAX_VIOLATIONS),
        "unless uncommitted": Search(is_read & (level != "read_uncommitted"), MAX_VIOLATIONS),
        "all": Search(pl.lit(True), MAX_PERMITTED, may_split=True),
    }


def judge_cycles(
    found: Mapping[str, CyclesByType], settings: Settings
) -> tuple[list[tuple[Finding, Drawing]], list[tuple[str, str]]]:
    """The findings of these cycles, by search and type, and by rule the settings that are missing to judge the rest."""
    if settings.dialect == "jepsen":
        severity = {name: "permitted" if settings.ww_deps or name[:2] == "G0" else "violation" for name in TYPES}
        in_words = partial(CycleInWords, in_jepsen=True)
        return [*findings_of_cycles(found["all"], severity, in_words)], []
    missing = []
    for name, cycles in found["unless uncommitted"].items():
        readers = {step.row["target_process"] for cycle in cycles.shortest for step in _reads(cycle)}
        missing += [(name, f"isolation.level of {reader}") for reader in sorted(readers - _levels(settings).keys())]
    breaking = {at for cycles in found["committed"].values() for cycle in cycles.shortest for at in cycle.operations}
    permitted = {}
    for name, cycles in found["all"].items():
        others = (cycle for cycle in cycles.shortest if breaking.isdisjoint(cycle.operations))
        if shown := tuple(cycle for cycle in others if _why_permitted(cycle, settings)):
            permitted[name] = Cycles(cycles.count - len(cycles.shortest) + len(shown), shown)

    def with_reason(cycle: Cycle) -> CycleInWords:
        return CycleInWords(cycle, note=_why_permitted(cycle, settings))

    violations = findings_of_cycles(found["committed"], dict.fromkeys(TYPES, "violation"))
    allowed = findings_of_cycles(permitted, dict.fromkeys(TYPES, "permitted"), with_reason)
    return [*violations, *allowed], missing


def _levels(settings: Settings) -> dict[str, str]:
    """The isolation level of each process that run.json sets."""
    return {name: level for name in settings.processes if (level := settings.isolation(name))}


def _reads(cycle: Cycle) -> list[Step]:
    return [step for step in cycle.steps if step.kind == "wr"]


def _why_permitted(cycle: Cycle, settings: Settings) -> str:
    if any(step.kind == "ww" for step in cycle.steps):
        return "permitted, as Kafka does not isolate the writes of transactions from each other"
    if any(settings.reads_uncommitted(step.row["target_process"]) for step in _reads(cycle)):
        return "isolation.level=read_uncommitted permits it"
    return ""


def findings_of_cycles(
    found: CyclesByType, severities: Mapping[str, str], in_words: Callable[[Cycle], CycleInWords] | None = None
) -> Iterator[tuple[Finding, Drawing]]:
    """A finding and its drawing for each cycle; the last one of a type has the count of the other components."""
    for name, cycles in found.items():
        for number, cycle in enumerate(cycles.shortest):
            is_last = number == len(cycles.shortest) - 1
            others = cycles.count - len(cycles.shortest) if is_last else 0
            more = f"; {plural(others, 'more component has', 'more components have')} such a cycle" if others else ""
            about = (in_words or CycleInWords)(cycle)
            yield _finding(name, about, about.whole() + more, severities[name], 1 + others), about.drawing()


def _finding(name: str, about: CycleInWords, sentence: str, severity: str, count: int) -> Finding:
    cycle = about.cycle
    rows = [step.row for step in cycle.steps if step.kind in ("ww", "wr", "rw")]
    first = rows[0]
    here = [row for row in rows if (row["topic"], row["partition"]) == (first["topic"], first["partition"])]
    offsets = [row[f"{end}_offset"] for row in here for end in ("source", "target")]
    known = [offset for offset in offsets if offset is not None]
    values = [row[f"{end}_value"] for row in rows for end in ("source", "target")]
    return Finding(
        rule=name,
        sentence=sentence,
        topic=first["topic"],
        partition=first["partition"],
        severity=severity,
        first_offset=min(known, default=None),
        last_offset=max(known, default=None),
        count=count,
        values=list(dict.fromkeys(value for value in values if value is not None)),
        processes=list(dict.fromkeys(step.row["source_process"] for step in cycle.steps)),
        evidence=[
            Evidence(f"{about.process(step.row['source_process'])}: {about.step(step)}", step.row["source_at"])
            for step in cycle.steps
        ]
        + about.shown_by(),
    )


@dataclass(frozen=True)
class CycleInWords:
    """A cycle in words."""

    cycle: Cycle
    in_jepsen: bool = False  # keys in place of partitions, and no times
    note: str = ""  # behind the whole cycle

    @cached_property
    def names(self) -> dict[int, str]:
        """The names of its transactions, T1 and so on, by their places."""
        return {step.row["source_at"]: f"T{number}" for number, step in enumerate(self.cycle.steps, 1)}

    def process(self, name: str) -> str:
        """A process in a sentence: Jepsen's clients have numbers."""
        return f"process {name}" if self.in_jepsen else name

    def name(self, step: Step) -> str:
        """The transaction that a step leads from, with its process."""
        return f"{self.names[step.row['source_at']]} ({self.process(step.row['source_process'])})"

    def step(self, step: Step) -> str:
        """The reason why one transaction comes before the other."""
        row = step.row
        one, other = self.names[row["source_at"]], self.names[row["target_at"]]
        if step.kind == "process":
            return f"{self.process(row['source_process'])} executed {one} before {other}"
        if step.kind == "realtime":
            if self.in_jepsen:
                return f"{one} ended before {other} began"
            ended, began = seconds(row["source_end"]), seconds(row["target_start"])
            return f"{one} ended at {ended}, before {other} began at {began}"
        return self.dependency(step.kind, row, one, other)

    def dependency(self, kind: str, row: dict[str, Any], one: str, other: str) -> str:
        """The reason in a row of DEPENDENCIES why one transaction comes before the other."""
        wrote = f"{one} wrote {short(row['source_value'])} at {self._where(row, 'source')}"
        if kind == "wr":
            return f"{wrote}, {other} read it"
        return f"{wrote}, before {other} wrote {short(row['target_value'])} at {self._where(row, 'target')}"

    def shown_by(self) -> list[Evidence]:
        """The operations beside those of the cycle that show its dependencies."""
        return []

    def whole(self) -> str:
        """The whole cycle."""
        steps = self.cycle.steps
        following = "other" if len(steps) == 2 else "next, and the last before the first"
        why = "; ".join(map(self.step, steps))
        note = f" ({self.note})" if self.note else ""
        return f"{', '.join(map(self.name, steps))}: {why}: each must come before the {following}{note}"

    def _where(self, row: dict[str, Any], end: str) -> str:
        offset = "?" if row[f"{end}_offset"] is None else row[f"{end}_offset"]
        if self.in_jepsen:
            return f"offset {offset} of key {row['topic']}"
        return f"{row['topic']}-{row['partition']}@{offset}"

    def drawing(self) -> Drawing:
        """Its operations in the order of its steps, and the steps: their sources and targets are those numbers."""
        numbers = {step.row["source_at"]: number for number, step in enumerate(self.cycle.steps)}
        operations = [
            {
                "process": row["source_process"],
                "start": None if row["source_start"] == MIN_INT64 else row["source_start"],
                "end": None if row["source_end"] == MAX_INT64 else row["source_end"],
            }
            for row in (step.row for step in self.cycle.steps)
        ]
        steps = [
            {"kind": step.kind, "target": numbers[step.row["target_at"]], "text": self.step(step)}
            for step in self.cycle.steps
        ]
        return {"operations": operations, "steps": steps, "has_times": not self.in_jepsen}
