"""The results of an engine: findings, quarantine, counts and bounded summaries, with places resolved to lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import polars as pl

from ..histories.errors import InputError
from ..histories.tables import CONTEXT, FINDINGS, PLACES_OF_SPLIT, Finding, Locate
from .finding_order import by_rule, partition_key
from .incidents.incident import Explained
from .stages import QUARANTINED
from .wording import plural

if TYPE_CHECKING:
    from ..histories.bundle import Run

MAX_NAMED = 3  # repeated keys
# Findings (`to_frame`), lines of the history that were left out (QUARANTINED), damage in files of no partition.
FRAMES = ("findings", "quarantine", "damage")
# The evidence of findings within the pipeline: Results resolves places to files and lines once all splits are counted.
RAW_EVIDENCE = pl.List(
    pl.Struct({"place": pl.Int64, "source": pl.String, "line": pl.Int64, "byte": pl.Int64, "says": pl.String})
)


def to_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    """One row for each finding: the columns of FINDINGS, with evidence as RAW_EVIDENCE (unresolved places)."""
    schema = {**FINDINGS, "evidence": RAW_EVIDENCE}
    rows = []
    for finding in findings:
        evidence = [
            {"place": item.place, "source": item.source, "line": item.line, "byte": item.byte, "says": item.sentence}
            for item in finding.evidence
        ]
        rows.append({**{name: getattr(finding, name) for name in schema}, "evidence": evidence})
    return pl.DataFrame(rows, schema=schema)


class Results:
    """Collects the results of tasks in any order, and returns them in one order."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.counts: Counter[str] = Counter()
        self.repeated_keys: list[str] = []  # of transactions on lists and registers: the first few by name
        self._summaries: list[dict[str, Any]] = []
        self._of_run: list[dict[str, Any]] = []
        self.context = pl.DataFrame(schema=CONTEXT)
        self._lines: Counter[int] = Counter()  # by split
        self._frames: dict[str, list[pl.DataFrame]] = {kind: [] for kind in FRAMES}

    def add_counts(self, counts: dict[str, int]) -> None:
        """Adds the counts of one task to the totals by name."""
        self.counts.update(counts)

    def add_repeated_keys(self, names: list[str], count: int) -> None:
        """Adds keys that are not judged, as a value was written to each twice: some names, and how many there are."""
        self.add_counts({"repeated keys": count})
        self.repeated_keys = sorted({*self.repeated_keys, *names})[:MAX_NAMED]

    def add_lines(self, split: int, lines: int) -> None:
        """Adds to the number of lines in a split. Lines are only located once all splits are counted."""
        self._lines[split] += lines

    def lines_of(self, split: int) -> int:
        """The number of lines in a split that were added so far."""
        return self._lines[split]

    @property
    def splits(self) -> list[int]:
        """The numbers of the splits whose lines are counted."""
        return sorted(self._lines)

    def add(self, kind: str, rows: pl.DataFrame) -> None:
        """Adds rows of one of FRAMES."""
        if len(rows):
            self._frames[kind].append(rows)

    def add_summaries(self, summaries: list[dict[str, Any]]) -> None:
        """Adds the summaries of partitions."""
        self._summaries.extend(summaries)

    def add_of_run(self, findings: pl.DataFrame, record: dict[str, Any]) -> None:
        """Adds the findings of rules on the whole run and their record (run_rules.py)."""
        self.add("findings", findings)
        self._of_run.append(record)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The reports of rules: of each partition (`summaries`), and of the whole run."""
        return [*self.summaries, *self._of_run]

    def contents(self) -> Iterator[tuple[str, str, Any]]:
        """The added parts as kind, name and a frame or JSON, so that another process can add them to its Results."""
        yield from ((kind, "", frame) for kind, frames in self._frames.items() for frame in frames)
        yield "summaries", "", self._summaries
        yield from (("run", "", record) for record in self._of_run)
        yield "context", "", self.context
        yield "counts", "", self.counts
        yield from (("lines", str(split), lines) for split, lines in self._lines.items())

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """One summary for each partition and generation of its topic, in order."""
        return sorted(self._summaries, key=partition_key)

    def findings(self) -> pl.DataFrame:
        """All findings with the columns of FINDINGS, sorted by rule, partition and offset."""
        if not self._frames["findings"]:
            return pl.DataFrame(schema=FINDINGS)
        number = pl.col("id").str.extract(r"/(\d+)$").cast(pl.Int64)
        found = pl.concat(self._frames["findings"]).sort(by_rule(), "topic", "partition", "topic_generation", number)
        return self._resolved(found).select(list(FINDINGS))

    def losses(self) -> pl.DataFrame:
        """The findings so far from which torn transactions may follow: id, topic, partition and values."""
        columns = ("id", "topic", "partition", "values")
        frames = [
            frame.filter(pl.col("rule").is_in(["lost-write", "aborted-read"])).select(columns)
            for frame in self._frames["findings"]
        ]
        return pl.concat([pl.DataFrame(schema={name: FINDINGS[name] for name in columns}), *frames])

    def causes(self) -> list[Explained]:
        """The explanations of all partitions, each fact with its source and line."""
        locate = self.locator()
        causes = (cause for record in self.records for cause in record.get("causes", ()))
        return [Explained.from_record(cause).located(locate) for cause in causes]

    def locator(self) -> Locate:
        """A function that returns the file and line of a place in the history. All lines must have been counted."""
        first = self._first_lines()

        def locate(place: int) -> tuple[str, int]:
            source, line = first[place // PLACES_OF_SPLIT]
            return source, line + place % PLACES_OF_SPLIT + 1

        return locate

    def _first_lines(self) -> dict[int, tuple[str, int]]:
        """By split: its file, and the number of lines of the file before it."""
        read: Counter[str] = Counter()
        first = {}
        for split in self.run.splits:
            source = self.run.shown[split.number]
            first[split.number] = source, read[source]
            read[source] += self._lines[split.number]
        return first

    @property
    def left_out(self) -> int:
        """The number of lines of the history that were left out."""
        return sum(map(len, self._frames["quarantine"]))

    def first_left_out(self) -> str:
        """The first line that was left out, as `file:line: reason`. At least one must have been left out."""
        first = self.quarantine().row(0, named=True)
        return f"{first['source']}:{first['line']}: {first['reason']}"

    def refuse_unusable(self) -> None:
        """Raises InputError if lines were left out, no operation was read, and there is no evidence of brokers."""
        if self.left_out and not self.counts.get("operations") and not self.run.evidence:
            found = f"nothing to judge in {plural(self.left_out, 'line')} ({self.first_left_out()})"
            raise InputError(str(self.run.path), found, "an event", "docs/format.md describes them")

    def quarantine(self) -> pl.DataFrame:
        """The lines of the history that were left out, and the unreadable places of brokers' files.

        Columns source, line (from 1), byte and reason.
        """
        rows = pl.concat([pl.DataFrame(schema=QUARANTINED), *self._frames["quarantine"]])
        located = self._located(rows.sort("place"))
        lines = located.select("source", "line", pl.lit(None, pl.Int64).alias("byte"), "reason")
        shared = self.damage().drop("kind")
        damage = [row for summary in self.summaries for row in (summary.get("evidence") or {}).get("damage", ())]
        return pl.concat([lines, shared, pl.DataFrame(damage, schema=lines.schema)])

    def damage(self) -> pl.DataFrame:
        """The unreadable places of brokers' files without a partition: source, line, byte, reason and kind."""
        schema = {"source": pl.String, "line": pl.Int64, "byte": pl.Int64, "reason": pl.String, "kind": pl.String}
        found = pl.concat([pl.DataFrame(schema=schema), *self._frames["damage"]])
        return found.sort("source", "byte", "line", nulls_last=True)

    def _resolved(self, found: pl.DataFrame) -> pl.DataFrame:
        """The findings with the file and line of each item of evidence."""
        items = found.select("id", "evidence").explode("evidence", empty_as_null=False).unnest("evidence")
        located = self._located(items.rename({"source": "named_source", "line": "named_line"}))
        evidence = (
            located.with_columns(source=pl.coalesce("named_source", "source"), line=pl.coalesce("named_line", "line"))
            .group_by("id", maintain_order=True)
            .agg(evidence=pl.struct("source", "line", "byte", "says"))
        )
        empty = pl.lit([], dtype=FINDINGS["evidence"])
        return (
            found.drop("evidence")
            .join(evidence, on="id", how="left", maintain_order="left")
            .with_columns(pl.col("evidence").fill_null(empty))
        )

    def _located(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows with source and line of their place. Lines are counted on through the splits of a file."""
        splits = [(split, *first) for split, first in self._first_lines().items()]
        table = pl.DataFrame(splits, {"split": pl.Int64, "source": pl.String, "first": pl.Int64}, orient="row")
        place = pl.col("place")
        numbered = rows.with_columns(split=place // PLACES_OF_SPLIT, line_of_split=place % PLACES_OF_SPLIT)
        return (
            numbered.join(table, on="split", how="left", maintain_order="left")
            .with_columns(line=pl.col("first") + pl.col("line_of_split") + 1)
            .drop("split", "first", "line_of_split")
        )
