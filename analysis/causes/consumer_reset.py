"""consumer-reset: a group skipped records as auto.offset.reset=latest moved a member without a position.

The group had no committed offset, or the records at its position were deleted (retention, delete-records).

Needs: auto.offset.reset=latest of the member; the offset at which it started to read; and either an assignment without
a committed offset, with no commit of the group before it, or a position below the log start.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from ..timelines.facts import Fact, ordered
from .cases import NOT_THE_CASE, Attempt, Event, Missed, Processes, after_last_return, events_in_range, needs

CITATION = "auto.offset.reset; KIP-842 (richer offset reset strategies), KAFKA-12478 (added partitions)"
REMEDY = "auto.offset.reset=earliest or none; or a commit for the group before its first start."
PREVENTED_BY = [
    "auto.offset.reset=earliest",
    "auto.offset.reset=by_duration for a group that may start anew (KIP-1106)",
]
LATEST = ("latest", "largest", "end")  # Kafka's value of auto.offset.reset, that before 0.9, and librdkafka's


@dataclass(frozen=True)
class Reset:
    """An assignment without a committed offset from which a group skipped the missed records."""

    assigned: Event
    commits: pl.DataFrame  # of the group, before the assignment; includes commits of unknown outcome
    configured: Fact  # auto.offset.reset of the member
    began: Fact


def explain_missed(events: pl.DataFrame, missed: Missed, processes: Processes) -> Attempt:
    """Whether a group that never committed an offset was reset to an offset after the missed records."""
    reset = find_reset(events, missed, processes)
    if isinstance(reset, Attempt):
        return _out_of_range(events, missed, processes) or reset
    if reset.commits.filter(f="commit").height:
        return NOT_THE_CASE
    if reset.commits.height:
        committed = f"whether group {missed.group} had committed an offset of {missed.name}"
        return needs(f"{committed}: a commit has no recorded outcome")
    text = f"{reset.assigned['process']} was assigned {missed.name} without a committed offset of group {missed.group}"
    assigned = missed.fact(reset.assigned, "assigned", text)
    return Attempt(True, ordered([assigned, reset.configured, reset.began]), PREVENTED_BY)


def find_reset(events: pl.DataFrame, missed: Missed, processes: Processes) -> Reset | Attempt:
    """The reset by which the group skipped the records; an attempt if none is proved.

    A member may have polled records before, if it ended without handling them.
    """
    assigned = events.filter(pl.col("f").is_in(["assign", "assign-own"]))
    if not assigned.height:
        return needs(f"the group's assignment of {missed.name}, and whether it had a committed offset")
    placing = pl.col("f").is_in(["assign", "seek", "poll", "commit"])
    beyond = after_last_return(events, missed).filter(placing, pl.col("first_offset") > missed.last)
    polls = beyond.filter(f="poll")
    # The group's position passed the records at the first event with a later offset.
    passed = beyond["time"].min()
    before = assigned if passed is None else assigned.filter(pl.col("time") < passed)
    if not before.height or before["first_offset"][-1] is not None:
        return NOT_THE_CASE
    last = before.row(-1, named=True)
    if events_in_range(events.filter(pl.col("time") >= last["time"]), "poll", missed).height:
        return NOT_THE_CASE
    # The application called seek with an offset after the records.
    if beyond.filter(pl.col("time").is_between(last["time"], passed), f="seek").height:
        return NOT_THE_CASE
    policy = processes.get(last["process"], {}).get("auto.offset.reset")
    if policy is None:
        return needs(f"auto.offset.reset of {last['process']}")
    if policy not in LATEST:
        return NOT_THE_CASE
    if not polls.height:
        return needs(f"the offset at which the group started to read {missed.name}")
    began = polls.row(0, named=True)
    text = f"{began['process']} started to read {missed.name} at offset {began['first_offset']}, after the missed"
    text += f" {missed.records_text}"
    commits = events.filter(pl.col("f").is_in(["commit", "commit-info"]) & (pl.col("time") < last["time"]))
    return Reset(last, commits, _configured(last["process"], policy), missed.fact(began, "polled", text))


def _out_of_range(events: pl.DataFrame, missed: Missed, processes: Processes) -> Attempt | None:
    """The proof that a member was reset as the records at its position had been deleted; None without it."""
    passed = events.filter(pl.col("f") == "poll", pl.col("first_offset") > missed.last).head(1).rows(named=True)
    if not passed or events_in_range(events, "poll", missed).height:
        return None
    [began] = passed
    policy = processes.get(began["process"], {}).get("auto.offset.reset")
    own = events.filter(pl.col("time") < began["time"], process=began["process"])
    placed = own.filter(pl.col("f").is_in(["assign", "assign-own", "seek", "poll"])).tail(1).rows(named=True)
    if policy not in LATEST or not placed or placed[0]["first_offset"] is None:
        return None
    [last] = placed
    position = last["last_offset"] + 1 if last["f"] == "poll" else last["first_offset"]
    since = missed.deleted_since(position)
    if position >= missed.first or since is None or since > began["time"]:
        return None
    reached = f"had polled up to offset {position - 1}" if last["f"] == "poll" else f"was set to offset {position}"
    gone = f"offset {position} of {missed.name} was below the log start: its record had been deleted"
    continued = f"{began['process']} continued at offset {began['first_offset']}, after the missed"
    facts = [
        missed.fact(last, "positioned", f"{last['process']} {reached} of {missed.name}"),
        Fact(gone, "log-start", partition=missed.name, offset=position),
        _configured(began["process"], policy),
        missed.fact(began, "polled", f"{continued} {missed.records_text}"),
    ]
    measures = [PREVENTED_BY[0], "reading the records before retention or delete-records removes them"]
    return Attempt(True, facts, measures)


def _configured(process: str, policy: str) -> Fact:
    return Fact(f"auto.offset.reset of {process} is {policy}", "configured", source="run.json")
