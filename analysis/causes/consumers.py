"""consumer-reset and commit-before-handle: records that a group missed though no broker lost them.

Both are proved from the history alone. Group events: a frame of one topic-partition with columns time (ns),
place, process, f (assign, seek, poll, handle, commit, crash), first_offset and last_offset (of the records
of a poll or handle; the offset of an assign, seek or commit in first_offset, null where an assignment has no
committed offset). A crash has neither topic nor partition and belongs to all of its process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..timelines.facts import Fact, ordered
from .attempts import NOT_THE_CASE, Attempt, Explanation, explained, lacks

GROUP_EVENTS = {
    "time": pl.Int64,
    "place": pl.Int64,
    "process": pl.String,
    "f": pl.String,
    "first_offset": pl.Int64,
    "last_offset": pl.Int64,
}

CONSUMER_RESET = "consumer-reset"
CONSUMER_RESET_CITATION = "auto.offset.reset; KIP-842 (richer offset reset strategies), KAFKA-12478 (added partitions)"
COMMIT_BEFORE_HANDLE = "commit-before-handle"
COMMIT_BEFORE_HANDLE_CITATION = "Kafka's documentation of at-most-once delivery and enable.auto.commit"


@dataclass(frozen=True)
class Missed:
    """Neighbouring records that no member of a group handled."""

    topic: str
    partition: int
    group: str
    first: int
    last: int
    count: int

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


def explain_missed(events: pl.DataFrame, missed: Missed, processes: Mapping[str, Mapping[str, Any]]) -> Explanation:
    """The cause of records that a group missed; processes as in run.json, of the group's members."""
    ordered_events = events.sort("time", "place")
    attempts = {
        name: (cause(ordered_events, missed, processes), citation)
        for name, (cause, citation) in CONSUMER_CAUSES.items()
    }
    return explained(attempts, "what the group's members did with these records")


def _touching(events: pl.DataFrame, f: str, missed: Missed) -> pl.DataFrame:
    """Polls or handles with a record within the missed range."""
    within = (pl.col("first_offset") <= missed.last) & (pl.col("last_offset") >= missed.first)
    return events.filter((pl.col("f") == f) & within)


def consumer_reset(events: pl.DataFrame, missed: Missed, processes: Mapping[str, Mapping[str, Any]]) -> Attempt:
    """The group had no committed offset, and auto.offset.reset began after the records."""
    if _touching(events, "poll", missed).height:
        return NOT_THE_CASE
    assigned = events.filter((pl.col("f") == "assign") & pl.col("first_offset").is_null())
    polls = events.filter((pl.col("f") == "poll") & (pl.col("first_offset") > missed.last))
    if not assigned.height:
        if events.filter(pl.col("f") == "assign").height:
            return NOT_THE_CASE
        return lacks(f"the group's assignment of {missed.name}, and whether it had a committed offset")
    first = assigned.row(0, named=True)
    committed = events.filter((pl.col("f") == "commit") & (pl.col("time") < first["time"]))
    if committed.height:
        return NOT_THE_CASE
    reset = processes.get(first["process"], {}).get("auto.offset.reset")
    if reset is None:
        return lacks(f"auto.offset.reset of {first['process']}")
    if reset not in ("latest", "largest"):
        return NOT_THE_CASE
    if not polls.height:
        return lacks(f"where the group began to read {missed.name}")
    began = polls.row(0, named=True)
    says = f"{first['process']} was assigned {missed.name}, for which group {missed.group} had committed nothing"
    facts = [
        Fact(says, "assigned", first["time"], place=first["place"], partition=missed.name),
        Fact(f"auto.offset.reset of {first['process']} is {reset}", "configured", source="run.json"),
        Fact(
            f"{began['process']} began to read {missed.name} at offset {began['first_offset']}, after the "
            f"{missed.count} records up to {missed.last}",
            "polled",
            began["time"],
            place=began["place"],
            partition=missed.name,
            offset=began["first_offset"],
        ),
    ]
    prevented = ["auto.offset.reset=earliest", "by_duration where the group may start afresh (KIP-1106)"]
    return Attempt(True, ordered(facts), prevented)


def commit_before_handle(
    events: pl.DataFrame,
    missed: Missed,
    processes: Mapping[str, Mapping[str, Any]],
) -> Attempt:
    """A member polled the records, committed beyond them, and ended before it had handled them or any behind them."""
    polled = _touching(events, "poll", missed)
    if (
        not polled.height
        or _touching(events, "handle", missed)
        .filter((pl.col("first_offset") <= missed.first) & (pl.col("last_offset") >= missed.last))
        .height
    ):
        return NOT_THE_CASE
    poll = polled.row(0, named=True)
    commits = events.filter(
        (pl.col("f") == "commit") & (pl.col("first_offset") > missed.last) & (pl.col("time") >= poll["time"])
    )
    if not commits.height:
        return lacks(f"a commit of group {missed.group} beyond offset {missed.last} of {missed.name}")
    commit = commits.row(0, named=True)
    ended = events.filter(
        (pl.col("f") == "crash") & (pl.col("process") == poll["process"]) & (pl.col("time") >= commit["time"])
    )
    if commit["process"] != poll["process"] or not ended.height:
        return lacks(f"that {poll['process']}, which polled the records, ended before it handled them")
    end = ended.row(0, named=True)
    later = _handled_later(events, missed, poll, end)
    if later is not None:
        return lacks(
            f"why {poll['process']} passed over the records: it lived on and handled offset {later} of {missed.name}"
        )
    automatic = processes.get(poll["process"], {}).get("enable.auto.commit")
    facts = [
        Fact(
            f"{poll['process']} polled offset {missed.first} of {missed.name}",
            "polled",
            poll["time"],
            place=poll["place"],
            partition=missed.name,
            offset=missed.first,
        ),
        Fact(
            f"{commit['process']} committed offset {commit['first_offset']} of {missed.name}",
            "committed",
            commit["time"],
            place=commit["place"],
            partition=missed.name,
            offset=commit["first_offset"],
        ),
        Fact(
            f"{end['process']} crashed, and no member of {missed.group} had handled the {missed.count} "
            f"records from {missed.first} to {missed.last}",
            "crashed",
            end["time"],
            place=end["place"],
        ),
    ]
    prevented = ["committing after handling"]
    if automatic:
        prevented.append("enable.auto.commit=false")
    return Attempt(True, ordered(facts), prevented)


def _handled_later(events: pl.DataFrame, missed: Missed, poll: Mapping[str, Any], end: Mapping[str, Any]) -> int | None:
    """A record behind the missed ones that the member handled before its end: it did not die before them."""
    lived = (pl.col("process") == poll["process"]) & pl.col("time").is_between(poll["time"], end["time"])
    behind = events.filter(lived & (pl.col("f") == "handle") & (pl.col("last_offset") > missed.last))["last_offset"]
    return int(behind[0]) if len(behind) else None


CONSUMER_CAUSES = {
    CONSUMER_RESET: (consumer_reset, CONSUMER_RESET_CITATION),
    COMMIT_BEFORE_HANDLE: (commit_before_handle, COMMIT_BEFORE_HANDLE_CITATION),
}
