"""offsets-altered: a client that is no recorded member of the group set its committed offset.

`kafka-consumer-groups --reset-offsets` and AdminClient.alterConsumerGroupOffsets set the offsets of a group without
members, and so does another consumer with its group.id. The next member starts there: it skips records, or reads some
again.

Needs: the commit in the brokers' final copies of `__consumer_offsets`, behind the higher one if the group went back;
and that no recorded member committed this offset, or was at it and may have committed it in the background.
"""

from __future__ import annotations

import polars as pl

from ..timelines.facts import SECOND, ordered
from .cases import (
    NOT_THE_CASE,
    Attempt,
    Event,
    GroupPartition,
    Missed,
    Processes,
    Regression,
    after_last_return,
    events_in_range,
    needs,
)

CITATION = "Kafka's documentation of managing consumer groups (kafka-consumer-groups.sh --reset-offsets), KIP-122"
REMEDY = "Offsets that are set to a record that the group has handled; a group.id of its own for each application."
PREVENTED_BY = ["setting the group's offset to the next record that its members have not handled"]


def explain_missed(events: pl.DataFrame, missed: Missed, _: Processes) -> Attempt:
    """Whether a member was assigned an offset behind the records that no member had reached."""
    passing = after_last_return(events, missed)
    beyond = passing.filter(pl.col("first_offset") > missed.last).head(1).rows(named=True)
    if not beyond or beyond[0]["f"] != "assign":
        return NOT_THE_CASE
    [assigned] = beyond
    if events_in_range(events.filter(pl.col("time") <= assigned["time"]), "poll", missed).height:
        return NOT_THE_CASE
    if not len(missed.copies):
        at = f"offset {assigned['first_offset']} of {missed.name} before {assigned['process']} was assigned it"
        return needs(
            f"which client committed {at}, as no recorded member did (the brokers' copies of __consumer_offsets would"
            " show the commit)"
        )
    return _altered(missed, missed.copies, assigned)


def explain_regression(events: pl.DataFrame, regression: Regression) -> Attempt:
    """Whether __consumer_offsets has the lower offset behind the higher one, and no member can have committed it."""
    higher, lower, copies = regression.higher, regression.lower, regression.copies
    if lower is None or lower["f"] != "assign" or not len(copies):
        return NOT_THE_CASE
    at, is_before = lower["first_offset"], pl.col("time") <= higher["time"]
    events = events.filter(pl.col("time") <= lower["time"])
    commits = events.filter((pl.col("f") == "commit") & ~is_before | (pl.col("f") == "commit-info"), first_offset=at)
    polls = events.filter(f="poll")
    positions = pl.concat([polls.filter(~is_before), polls.filter(is_before).unique("process", keep="last")])
    stored = copies.filter(kind="committed", offset=regression.offset)
    if len(commits) or not len(stored) or (positions["last_offset"] == (at or 0) - 1).any():
        return NOT_THE_CASE
    later = copies.filter(pl.col("at") > stored["at"].min())
    found = _altered(regression, later, lower)
    return Attempt(True, ordered([regression.committed, *found.chain]), PREVENTED_BY) if found.is_proved else found


def _altered(group: GroupPartition, copies: pl.DataFrame, assigned: Event) -> Attempt:
    """The proof from the last commit of the offset that a member was assigned; no attempt without such a commit."""
    offset = assigned["first_offset"]
    commits = copies.filter(pl.col("dated") <= assigned["time"] + SECOND, kind="committed", offset=offset)
    if not len(commits):
        return NOT_THE_CASE
    text = f"a client that is no recorded member of group {group.group} committed offset {offset} of {group.name}"
    committed = group.stored_fact(commits.row(-1, named=True), "committed", text)
    return Attempt(True, ordered([committed, group.assigned_fact(assigned)]), PREVENTED_BY)
