"""Records that a group missed after it had been beyond their offsets and had gone back below them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import polars as pl
import pytest
from logjudge.analysis.causes import explain_missed
from logjudge.analysis.causes.cases import GROUP_EVENTS, Explanation, Missed
from logjudge.analysis.incidents.losses import ExplainedRange
from logjudge.analysis.incidents.missed import _truncation_of
from logjudge.analysis.timelines.facts import SECOND

from .test_consumer_causes import ASSIGNED, COMMITTED, SET_BACK, copies, regression
from .timelines import lost, timeline

# A client set the group to 900, beyond the end of the log, so that the reset to the earliest offset moved it to 0.
ALTERED = [("m1", "poll", 0, 9), ("m1", "commit", 10, None), ("m2", "assign", 900, None)]
READ = [("m2", "poll", 0, 49), ("m2", "handle", 0, 49), ("m2", "commit", 50, None)]
SKIPPED = [("m3", "poll", 60, 69), ("m3", "handle", 60, 69), ("m3", "commit", 70, None)]
STORED = [("committed", 10, 1), ("committed", 900, 2), ("committed", 50, 5), ("removed", None, 6)]


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        # The group was deleted, and came back without an offset.
        ([*ALTERED, *READ, ("m3", "assign", None, None), *SKIPPED], "committed-offset-vanished"),
        ([*ALTERED, *READ, ("m3", "assign", 50, None), *SKIPPED], "unknown"),
        # A seek moved it back.
        (
            [*ALTERED, ("m2", "seek", 0, None), *READ, ("m3", "assign", None, None), *SKIPPED],
            "committed-offset-vanished",
        ),
        # It never went back: the client's commit skipped them.
        ([*ALTERED, ("m2", "poll", 900, 910)], "offsets-altered"),
    ],
)
def test_the_last_time_that_a_group_passed_the_records_explains_them(events, cause):
    rows = [(at * SECOND, at, *event) for at, event in enumerate(events)]
    missed = Missed("x", 0, "g", 50, 59, 10, copies=copies(*STORED))
    config = {name: {"auto.offset.reset": policy} for name, policy in (("m2", "earliest"), ("m3", "latest"))}
    found = explain_missed(pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row"), missed, config)
    assert found.cause == cause, found


@pytest.mark.parametrize(
    ("offset", "value", "cause", "is_explained"),
    [
        (1, "b", "unclean-election", True),
        (1, "b", "unknown", False),
        (1, "z", "unclean-election", False),  # another record at the offset
        (2, "b", "unclean-election", False),
    ],
)
def test_the_loss_of_the_record_that_was_polled_there_explains_its_truncation(offset, value, cause, is_explained):
    p = cast(Any, SimpleNamespace(timeline=timeline({}), topic="orders", partition=0))
    loss = ExplainedRange(lost(), Explanation(cause))
    earlier = {"value": value, "time": 6 * SECOND}
    assert (_truncation_of(p, offset, earlier, [loss]) is not None) == is_explained


def test_a_stored_commit_of_the_lower_offset_leaves_open_which_client_made_it() -> None:
    """A member's commit of that offset has no outcome, so it may be that one, or an operator's."""
    events = [("g1", "commit-info", 2, None), COMMITTED, ASSIGNED]
    found = regression(events, 2, SET_BACK, 1)
    assert found.missing == ("which client removed or lowered the committed offset 5 of x-0 by group g after 11.000 s",)
