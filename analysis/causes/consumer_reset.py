"""consumer-reset: a group without a committed offset began behind the records, as auto.offset.reset chose.

Needs: the group's assignment without a committed offset; no commit of the group before it; auto.offset.reset=latest of
the member; and where the group began to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..timelines.facts import Fact, ordered
from .attempts import NOT_THE_CASE, Attempt, needs
from .missed import Missed, Processes, touching

NAME = "consumer-reset"
CITATION = "auto.offset.reset; KIP-842 (richer offset reset strategies), KAFKA-12478 (added partitions)"
REMEDY = "auto.offset.reset=earliest or none; or a commit for the group before its first start."
PREVENTION = ["auto.offset.reset=earliest", "by_duration where the group may start afresh (KIP-1106)"]


@dataclass(frozen=True)
class Reset:
    """An assignment without a committed offset from which a group skipped the missed records."""

    assigned: Mapping[str, Any]
    commits: pl.DataFrame  # of the group, before the assignment, also those of unknown outcome
    configured: Fact  # auto.offset.reset of the member
    began: Fact


def explain(events: pl.DataFrame, missed: Missed, processes: Processes) -> Attempt:
    reset = reset_behind(events, missed, processes)
    if isinstance(reset, Attempt):
        return reset
    if reset.commits.filter(pl.col("f") == "commit").height:
        return NOT_THE_CASE
    if reset.commits.height:
        return needs(f"whether group {missed.group} had committed an offset of {missed.name}: a commit has no outcome")
    says = (
        f"{reset.assigned['process']} was assigned {missed.name}, for which group {missed.group} had committed nothing"
    )
    assigned = missed.fact(reset.assigned, "assigned", says)
    return Attempt(True, ordered([assigned, reset.configured, reset.began]), PREVENTION)


def reset_behind(events: pl.DataFrame, missed: Missed, processes: Processes) -> Reset | Attempt:
    """The reset by which the group skipped the records, or why none is proved."""
    if touching(events, "poll", missed).height:
        return NOT_THE_CASE
    assigned = events.filter(pl.col("f").is_in(["assign", "assign-own"]))
    if not assigned.height:
        return needs(f"the group's assignment of {missed.name}, and whether it had a committed offset")
    behind = events.filter(
        pl.col("f").is_in(["assign", "seek", "poll", "commit"]) & (pl.col("first_offset") > missed.last)
    )
    polls = behind.filter(pl.col("f") == "poll")
    # The group's position passed the records at the first sign of an offset behind them.
    passed = behind["time"].min()
    before = assigned if passed is None else assigned.filter(pl.col("time") < passed)
    if not before.height or before["first_offset"][-1] is not None:
        return NOT_THE_CASE
    last = before.row(-1, named=True)
    if isinstance(passed, int) and _is_sought(events, last["time"], passed, missed):
        return NOT_THE_CASE
    policy = processes.get(last["process"], {}).get("auto.offset.reset")
    if policy is None:
        return needs(f"auto.offset.reset of {last['process']}")
    if policy not in ("latest", "largest"):
        return NOT_THE_CASE
    if not polls.height:
        return needs(f"where the group began to read {missed.name}")
    began = polls.row(0, named=True)
    says = f"{began['process']} began to read {missed.name} at offset {began['first_offset']}, after the "
    says += f"{missed.count} records up to {missed.last}"
    return Reset(
        last,
        events.filter(pl.col("f").is_in(["commit", "commit-info"]) & (pl.col("time") < last["time"])),
        Fact(f"auto.offset.reset of {last['process']} is {policy}", "configured", source="run.json"),
        missed.fact(began, "polled", says),
    )


def _is_sought(events: pl.DataFrame, since: int, until: int, missed: Missed) -> bool:
    """Whether the application itself chose an offset behind the records between two times."""
    own = (pl.col("f") == "seek") & pl.col("time").is_between(since, until) & (pl.col("first_offset") > missed.last)
    return events.filter(own).height > 0
