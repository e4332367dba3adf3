"""stale-commit: a member committed an older position after a newer one of the group.

A coordinator stores commits in the order in which they arrive. A member that commits late (an asynchronous commit that
is sent again, a commit after its partition went to another member, or a slower thread) sets the group back. The next
member that starts there reads records again.

Needs: the higher commit, and the member's polls: after the higher commit it polled no record from the lower offset on
or just below it. An automatic commit happens some time before its callback, at the earliest when its member first
polled the record below it: the polls since then count.
"""

from __future__ import annotations

import polars as pl

from ...histories.tables import MIN_INT64
from ..extremes import least
from ..timelines.facts import ordered
from .cases import NOT_THE_CASE, Attempt, Regression, needs

CITATION = "Kafka's documentation of KafkaConsumer.commitAsync and ConsumerRebalanceListener"
REMEDY = (
    "Commits of the greatest finished offset only; a synchronous commit before partitions are revoked."
    " enable.auto.commit=false, if the late commit was automatic."
)
PREVENTED_BY = [
    "committing only the greatest finished offset of a partition",
    "a synchronous commit when partitions are revoked, and none after that",
]


def explain_regression(events: pl.DataFrame, regression: Regression) -> Attempt:
    """Whether a member committed a lower offset although it had not read the records again."""
    lower, higher = regression.lower, regression.higher
    if lower is None or lower["f"] != "commit":
        return NOT_THE_CASE
    # Polls of other offsets are left out of large partitions (screening/condense.py).
    first, end = lower["first_offset"] - 1, regression.offset
    own = events.filter(pl.col("time") <= lower["time"], f="poll", process=lower["process"])
    own = own.filter(pl.col("last_offset") >= first, pl.col("first_offset") < end)
    again = own.filter(pl.col("time") > _earliest_time(events, regression))
    if len(again):
        return needs(f"why {lower['process']} read {regression.name} again below offset {end}")
    polls = own.filter(pl.col("first_offset") <= first, pl.col("last_offset") >= first)
    if not len(polls) and higher["process"] != lower["process"]:
        return needs(f"the polls of {lower['process']}, which committed the lower offset of {regression.name}")
    facts = [regression.committed]
    for poll in polls.tail(1).iter_rows(named=True):
        text = f"{poll['process']} polled offset {first} of {regression.name}"
        facts.append(regression.fact({**poll, "first_offset": first}, "polled", text))
    facts.append(regression.committed_fact(lower, " without reading from there"))
    own_commits = ["enable.auto.commit=false"] if regression.is_lower_automatic else []
    return Attempt(True, ordered(facts), own_commits + PREVENTED_BY)


def _earliest_time(events: pl.DataFrame, regression: Regression) -> int:
    """The earliest time (ns) at which the higher commit may have happened."""
    higher, end = regression.higher, regression.offset
    if not regression.is_automatic:
        return int(higher["time"])
    polls = events.filter(pl.col("first_offset") < end, pl.col("last_offset") >= end - 1, f="poll")
    return int(least(polls.filter(process=higher["process"])["time"], MIN_INT64))
