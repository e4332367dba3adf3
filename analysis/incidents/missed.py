"""Explains records that a group missed and committed offsets that went back, from what the group's members did."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from ...histories.tables import Finding, typed
from .. import causes
from ..causes.cases import GROUP_EVENTS, Explanation, Lost, Missed, Regression
from ..partitions.coordinators import committed_at_last, group_evidence
from ..partitions.log_start import log_start
from ..partitions.partition import Partition
from ..rules.consumer_groups import groups_or_clients
from .losses import Losses

Record = dict[str, Any]


def explain_missed(p: Partition, finding: Finding, losses: Losses) -> Explanation | None:
    """The cause of records that a group missed; None if the finding names no group or no offsets."""
    if finding.first_offset is None or finding.last_offset is None or not finding.processes:
        return None
    group = finding.processes[0]
    members = {name: about for name, about in p.settings.processes.items() if p.settings.group_of(name) == group}
    earlier = _earlier_record(p, list(members), finding)
    stored = next(committed_at_last(p).filter(group=group).iter_rows(named=True), None)
    missed = Missed(
        p.topic,
        p.partition,
        group,
        finding.first_offset,
        finding.last_offset,
        finding.count,
        earlier=earlier,
        stored=stored,
        copies=_commits_in_copies(p, group),
        truncation=_truncation_of(p, finding.first_offset, earlier, losses),
        deleted_since=partial(_deleted_since, p),
    )
    return causes.explain_missed(_group_events(p, [*members]), missed, members)


def explain_regression(p: Partition, finding: Finding) -> Explanation | None:
    """The cause of a committed offset that went back; None if it follows from a truncation."""
    if finding.values or finding.first_offset is None or finding.last_offset is None:
        return None
    members = next(group.members for group in groups_or_clients(p) if finding.processes[0] in group.members)
    group, events = p.settings.group_of(finding.processes[0]), _group_events(p, members)
    placed = events.filter(pl.col("f").is_in(["assign", "commit"]))
    by_place = {row["place"]: row for row in placed.iter_rows(named=True)}
    higher, lower = (by_place.get(each.place) for each in finding.evidence)
    if higher is None:
        return None
    offset, copies = finding.last_offset + 1, _commits_in_copies(p, group)
    automatic = {*p.marks.filter("auto", kind="commit")["at"]}
    are_automatic = [event is not None and event["place"] in automatic for event in (higher, lower)]
    regression = Regression(p.topic, p.partition, group, offset, higher, lower, copies, *are_automatic)
    return causes.explain_regression(events, regression)


def _commits_in_copies(p: Partition, group: str) -> pl.DataFrame:
    """The group's commits and removals of committed offsets in the brokers' final copies of `__consumer_offsets`."""
    return group_evidence(p).filter(pl.col("kind").is_in(["committed", "removed"]), group=group)


def _deleted_since(p: Partition, offset: int) -> int | None:
    """The earliest time (ns) at which an offset may have been deleted; None unless it certainly was by the end."""
    start = log_start(p)
    return int(start.since(np.array([offset]))[0]) if offset < start.certain else None


def _earlier_record(p: Partition, members: list[str], finding: Finding) -> Record | None:
    """The first poll by a member of another record at the first missed offset, unless one polled the missed record."""
    polls = p.reads.filter(pl.col("process").is_in(members), offset=finding.first_offset)
    polls = polls.select("process", "value", time="completed", place="at").drop_nulls()
    others = polls.filter(~pl.col("value").is_in(finding.values)).sort("time")
    return others.row(0, named=True) if len(others) and len(others) == len(polls) else None


def _truncation_of(p: Partition, offset: int, earlier: Record | None, losses: Losses) -> Explanation | None:
    """The proved cause of the truncation of a record that was read at an offset and is replaced there."""
    if p.timeline is None or earlier is None:
        return None
    for lost, explanation in losses:
        if lost.first <= offset <= lost.last and earlier["value"] in lost.values:
            return explanation if explanation.is_known else None
    truncated = Lost(p.topic, p.partition, offset, offset, 1, values=(earlier["value"],), written=earlier["time"])
    explanation = causes.explain_loss(p.timeline, truncated)
    return explanation if explanation.is_known else None


def _group_events(p: Partition, members: Sequence[str]) -> pl.DataFrame:
    """What these members of a group did with the partition (GROUP_EVENTS)."""
    own = pl.col("process").is_in(members)
    offsets = (pl.col("offset").min().alias("first_offset"), pl.col("offset").max().alias("last_offset"))
    who = (pl.col("completed").alias("time"), pl.col("at").alias("place"), "process")
    polls = p.reads.filter(own).group_by("completed", "at", "process", maintain_order=True).agg(*offsets)
    is_known = pl.col("kind").is_in(["assign", "seek", "commit", "handle"])
    marks = p.marks.filter(own, is_known, pl.col("outcome") != "fail").with_columns(
        # An offset that the application assigned is not the group's committed offset. Without an offset the client
        # starts at the committed offset, or resets.
        kind=pl.when((pl.col("kind") == "assign") & ~pl.col("group"))
        .then(pl.when(pl.col("offset").is_null()).then(pl.lit("assign-own")).otherwise(pl.lit("seek")))
        .when((pl.col("kind") == "commit") & (pl.col("outcome") == "info"))
        .then(pl.lit("commit-info"))
        .otherwise("kind")
    )
    marks = marks.group_by("completed", "at", "process", "kind", maintain_order=True).agg(*offsets)
    crashes = p.context.filter(own, kind="crash")
    events = [
        polls.select(*who, "first_offset", "last_offset", f=pl.lit("poll")),
        marks.select(*who, "first_offset", "last_offset", f="kind"),
        crashes.select(*who, f=pl.lit("crash")),
    ]
    return typed(pl.concat(events, how="diagonal"), GROUP_EVENTS)
