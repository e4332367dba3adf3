"""Judges one unit: runs every rule on its partitions, ties the findings of one event together, numbers them.

Knows frames and rules, but neither Spark nor files. The same function serves both engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from ..histories.tables import FINDINGS, MARKS, MAX_INT64, READS, SENDS, Finding
from .causes.explaining import explain
from .consequences import accept_consequences, link_consequences
from .partitions.evidence import is_told_of, kept_of, resolved_sends, timeline_of
from .partitions.partition import Partition
from .replicas.replica_logs import replica_logs_of
from .rules import RULES
from .summary import summarise

if TYPE_CHECKING:
    from ..histories.bundle import Settings

Tables = dict[str, list[pl.DataFrame]]
Judged = tuple[list[Finding], list[dict[str, Any]]]
_SCHEMAS = {"sends": SENDS, "reads": READS, "marks": MARKS}

# Findings as they travel: places are resolved to files and lines at the end, when all splits are counted.
RAW_EVIDENCE = pl.List(
    pl.Struct({"place": pl.Int64, "source": pl.String, "line": pl.Int64, "byte": pl.Int64, "says": pl.String})
)


class Common(NamedTuple):
    """What every unit's rules get: context, sends whose partition nobody learned, and evidence of no partition."""

    context: pl.DataFrame
    unplaced: pl.DataFrame
    shared: Mapping[str, pl.DataFrame]


def judge_unit(
    topic: str,
    partition: int,
    tables: Tables,
    common: Common,
    settings: Settings,
    each: Callable[[Callable[[Partition], Judged], Iterable[Partition]], Iterable[Judged]] = map,
) -> Judged:
    """Findings of a unit, each with its id, and a bounded summary of each of its partitions.

    `each` judges one partition after the other, as `map` does, or several at once.
    """
    findings: list[Finding] = []
    summaries: list[dict[str, Any]] = []
    for found, said in each(_judged, partitions_of(topic, partition, tables, common, settings)):
        findings += found
        summaries += said
    return findings, summaries


def _judged(p: Partition) -> Judged:
    found = judge(p)
    causes = explain(p, found)
    return found, [{**summarise(p, found), "causes": causes}] if causes or not p.is_named_only else []


def partitions_of(
    topic: str, partition: int, tables: Tables, common: Common, settings: Settings
) -> Iterator[Partition]:
    """The partitions of a unit, each with its observations and what the brokers kept of it."""
    whole = {name: pl.concat(frames) for name, frames in tables.items() if frames}
    if settings.dialect != "jepsen":
        yield _native(topic, partition, whole, common, settings)
        return
    full = {name: whole.get(name, pl.DataFrame(schema=_SCHEMAS[name])) for name in _SCHEMAS}
    confirmed = _confirmed(full["sends"], full["reads"])
    topics = sorted({str(name) for frame in full.values() for name in frame["topic"].unique()})
    split = {name: frame.partition_by("topic", as_dict=True, include_key=False) for name, frame in full.items()}
    for name in topics:
        sends, reads, marks = (split[table].get((name,)) for table in ("sends", "reads", "marks"))
        yield Partition(name, 0, settings, sends, reads, marks, context=common.context, confirmed=confirmed)


def _native(
    topic: str, partition: int, whole: Mapping[str, pl.DataFrame], common: Common, settings: Settings
) -> Partition:
    """The partition with its evidence joined."""
    logs = kept_of(topic, partition, whole, settings)
    observed = {name: whole.get(name, pl.DataFrame(schema=_without_key(_SCHEMAS[name]))) for name in _SCHEMAS}
    settled = 0
    if logs is not None:
        observed["sends"], settled = resolved_sends(observed["sends"], logs)
    unplaced = common.unplaced.filter(pl.col("topic") == topic).select(list(_without_key(SENDS)))
    timeline = None
    if logs is not None or is_told_of(whole):
        held = logs or replica_logs_of(topic, partition, {})
        timeline = timeline_of(held, whole, common.shared, common.context, settings)
    return Partition(
        topic,
        partition,
        settings,
        observed["sends"],
        observed["reads"],
        observed["marks"],
        context=common.context,
        unplaced=unplaced,
        replica_logs=logs,
        timeline=timeline,
        settled=settled,
    )


def _without_key(schema: dict[str, Any]) -> dict[str, Any]:
    return {name: kind for name, kind in schema.items() if name not in ("topic", "partition")}


def _confirmed(sends: pl.DataFrame, reads: pl.DataFrame) -> pl.Series:
    """Undecided operations one of whose values an ok operation read: they must have happened (Jepsen)."""
    undecided = sends.filter(pl.col("outcome") == "info")
    seen = reads.filter(pl.col("outcome") == "ok").select("topic", "value").unique()
    return undecided.join(seen, on=["topic", "value"], how="semi")["at"].unique()


def judge(p: Partition) -> list[Finding]:
    """All findings of one partition, in order, numbered within their rule, with links between them."""
    found: list[Finding] = []
    for rule in RULES.values():
        judges = rule.jepsen if p.settings.dialect == "jepsen" else rule.native
        if judges is None or (p.settings.rules and rule.name not in p.settings.rules):
            continue
        mine = sorted(judges(p), key=_order)
        for number, finding in enumerate(mine):
            finding.id = f"{rule.name}/{p.name}/{number}"
            if p.settings.strict and finding.severity == "permitted":
                finding.severity = "violation"
            if finding.severity == "violation" and _is_allowed(finding, p.settings):
                finding.severity = "permitted"
        found.extend(mine)
    link_consequences(found)
    accept_consequences(found)
    return found


def _is_allowed(finding: Finding, settings: Settings) -> bool:
    return finding.rule in settings.allow or f"{finding.rule}:acks={finding.acks}" in settings.allow


def _order(finding: Finding) -> tuple[Any, ...]:
    offset = finding.first_offset if finding.first_offset is not None else MAX_INT64
    return (offset, finding.last_offset or 0, finding.values, finding.sentence)


def to_frame(findings: Iterable[Finding]) -> pl.DataFrame:
    """One row a finding; the columns of FINDINGS, with places not yet resolved."""
    schema = {**FINDINGS, "evidence": RAW_EVIDENCE}
    rows = [{name: getattr(finding, name) for name in schema if name != "evidence"} for finding in findings]
    for row, finding in zip(rows, findings, strict=True):
        row["evidence"] = [vars(item) for item in finding.evidence]
    return pl.DataFrame(rows, schema=schema)
