"""A run opened by the local engine to inspect single partitions, for `explain`, `diff` and `timeline`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

import polars as pl

from ...histories.bundle import open_run
from ...histories.errors import UsageError
from ...histories.tables import Finding
from ..batches import Unit, batches_of, by_unit
from ..engines.local import Gathered, gather
from ..engines.threads import on_all_cores
from ..incidents.explaining import explain
from ..incidents.incident import Explained
from ..kernel import judge
from ..partitions.partition import Partition
from ..partitions.unit import partitions_of
from ..results import Results
from ..screening.screen import screen_batch
from ..stages import Progress
from ..timelines.facts import Fact
from ..verdict.consequences import findings_of
from ..wording import short, some

MAX_NAMES = 12
NOT_SEARCHED = "Cycles and torn transactions are not searched here; `logjudge check` finds them."


class Inspected:
    """The partitions of a run by name."""

    def __init__(
        self, path: Path, progress: Progress = lambda *_: None, offset: int | None = None, reader: str | None = None
    ) -> None:
        self.run = open_run(path, reader)
        self.run = self.run.with_settings(batches=batches_of(self.run))
        self._gathered: Gathered = gather(self.run, progress, offset)
        self._unproved = _with_small(self._gathered)
        self.results.refuse_unusable()
        units, common = sorted(self._gathered.units.items()), self._gathered.common
        of_units = on_all_cores(lambda one: list(partitions_of(*one[0], one[1], common)), units)
        found = [p for of_unit in of_units for p in of_unit]
        # If a run only has server logs, all partitions are only named there; then these are shown.
        known = [p for p in found if not p.is_named_only] or found
        self._partitions: dict[str, Partition] = {p.label: p for p in known}

    @property
    def results(self) -> Results:
        """The results of reading the run: no partition is judged yet."""
        return self._gathered.results

    @property
    def has_history(self) -> bool:
        """Whether times count from the start of a run that is known."""
        return not self.run.settings.is_undated

    @property
    def started_at(self) -> str:
        """The start of the run from run.json; empty if it is not recorded."""
        return str(self.run.settings.config.get("started_at") or "")

    def names(self) -> list[str]:
        """The labels of all partitions. A topic that was created again has one for each generation (orders-0#1)."""
        return list(self._partitions)

    def labels(self, name: str | None) -> list[str]:
        """The labels of a partition, one for each generation of its topic; without a name, those of all partitions.

        Raises UsageError if the run has no such partition.
        """
        if name is None:
            return self.names()
        return [label for label, p in self._partitions.items() if p.name == name] or [self.partition(name).label]

    def has(self, name: str) -> bool:
        """Whether the run has a partition of this name, or of this label."""
        return any(name in (label, p.name) for label, p in self._partitions.items())

    def with_files(self) -> set[str]:
        """The partitions with facts from brokers' files."""
        return {p.name for p in self._partitions.values() if p.timeline is not None}

    def partition(self, name: str) -> Partition:
        """The partition of that name. Raises UsageError if the run has none."""
        if name not in self._partitions:
            known = some(self.names(), MAX_NAMES) or "none"
            raise UsageError(f"found {short(name)}, which is not in this run, expected one of {known}")
        return self._partitions[name]

    def judged(self, p: Partition) -> tuple[list[Finding], list[Explained]]:
        """A partition's findings and their explanations, with file and line of all evidence."""
        unproved = self._unproved.get(Unit(p.topic, p.partition))
        if unproved is not None and not unproved:
            return [], []
        # On a thread of polars' pool, where small queries are cheap.
        [(findings, causes)] = on_all_cores(lambda p: explain(p, findings_of(p, judge(p, unproved))), [p])
        locate = self.results.locator()
        found = [replace(one, evidence=[item.located(locate) for item in one.evidence]) for one in findings]
        return found, [cause.located(locate) for cause in causes]

    def not_searched(self) -> list[str]:
        """A sentence for a run that may have findings of rules on the whole run, which these commands do not judge."""
        has_transactions = any(p.sends["txn"].any() or p.reads["txn"].any() for p in self._partitions.values())
        return [NOT_SEARCHED] if has_transactions or self.run.settings.dialect == "jepsen" else []

    def clocks(self) -> list[str]:
        """Comparisons of each broker's clock with the history's, as sentences; without one, of clocks not in UTC."""
        clocks = dict(self._gathered.common.clocks)
        for p in self._partitions.values():
            of_partition = p.timeline.clocks if p.timeline is not None else {}
            clocks |= {name: clock for name, clock in of_partition.items() if clock.by_records}
        return [
            clock.description for clock in clocks.values() if self.has_history or clock.offset or clock.has_conflict
        ]

    def set_aside(self) -> list[str]:
        """The brokers' files that are not judged although they may be of these partitions, each with the reason."""
        damage = self.results.damage()
        beside = damage.filter(damage["kind"].is_in(["left-out", "leftover"]))
        return [f"{row['source']}: {row['reason']}" for row in beside.iter_rows(named=True)]

    def located(self, facts: Iterable[Fact]) -> list[Fact]:
        """The facts with the file and line of their places in the history."""
        locate = self.results.locator()
        return [fact.located(locate) for fact in facts]


def _with_small(gathered: Gathered) -> dict[Unit, Collection[str]]:
    """Adds all small partitions to the units. Returns the rules that must judge each; none in a plainly valid one."""
    unproved: dict[Unit, Collection[str]] = {}
    for small in gathered.small:
        screened = screen_batch(small, gathered.units.keys(), gathered.common)
        unproved |= {Unit(one["topic"], one["partition"]): () for one in screened.summaries}
        unproved |= screened.unproved
        for table, frames in small.items():
            for unit, rows in by_unit(pl.concat(frames)):
                gathered.units.add(unit, table, rows)
    return unproved
