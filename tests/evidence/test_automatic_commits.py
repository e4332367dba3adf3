"""Automatic commits, which a client reports long after they happened: polls of records come before their callbacks.

As in a recorded run: the callbacks of six commits of offset 1062 came 24 s late, after the client had noticed that an
unclean election had truncated the log to offset 338, and had read 400 records of the new log.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from logjudge.analysis.causes import explain_regression
from logjudge.analysis.causes.cases import GROUP_EVENTS, Regression
from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.tables import GROUPS
from notation import judge, parse

SECOND = 1_000_000_000
GROUP = "{c.group.id=g d.group.id=g final=true}"
LOG = "p:a@0 p:b@1 p:e@2 c:group=0 c:<a@0,b@1,e@2"
CUT = "nemesis:kill q:x@1 q:y@2 c:<x@1"
READ = "final:<a@0,x@1,y@2"


@pytest.mark.parametrize(
    ("is_automatic", "again", "cause"),
    [
        (True, ("g1", "poll", 0, 1), "unknown"),  # before the callback, perhaps after the commit
        (True, ("g1", "poll", 7, 9), "stale-commit"),
        (True, ("g2", "poll", 0, 1), "stale-commit"),
        (False, ("g1", "poll", 0, 1), "stale-commit"),
    ],
)
def test_a_member_may_have_read_again_before_the_callback(is_automatic, again, cause):
    events = [("g1", "poll", 0, 4), again, ("g1", "commit", 5, 5), ("g1", "commit", 2, 2)]
    rows = [(at * SECOND, at, *event) for at, event in enumerate(events, 8)]
    frame = pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row")
    higher, lower = (frame.row(index, named=True) for index in (2, 3))
    copies = pl.DataFrame(schema={**GROUPS, "dated": pl.Int64})
    found = explain_regression(frame, Regression("x", 0, "g", 5, higher, lower, copies, is_automatic))
    assert found.cause == cause


@pytest.mark.parametrize(
    ("events", "is_related"),
    [
        (f"{LOG} c:commit=3 {CUT} c:commit=2 {READ}", True),
        (f"{LOG} {CUT} c:auto=3 c:auto=2 {READ}", True),
        (f"{LOG} {CUT} c:commit=3 c:commit=2 {READ}", False),  # committed after it had read the new log
        (f"{LOG} nemesis:kill q:x@1 q:y@2 c:auto=3 c:auto=2 {READ}", False),  # it did not read the new log
        (f"{LOG} p:f@3 c:<f@3 {CUT} c:auto=4 c:auto=3 final:<a@0,x@1,y@2,f@3", False),  # f is still there
    ],
)
def test_a_commit_that_went_back_follows_from_a_truncation_before_its_callback(events, is_related, tmp_path: Path):
    run = judge(f"{GROUP} {events}", tmp_path)
    (found,) = run.of("commit-regression")
    assert bool(found["related"]) == is_related


@pytest.mark.parametrize("kind", ["commit", "auto"])
def test_an_automatic_commit_that_is_late_has_its_own_remedy(kind, tmp_path: Path):
    """A program cannot choose the time or the offset of an automatic commit."""
    history = parse(f"{GROUP} {LOG} c:{kind}=3 c:{kind}=2 final:<a@0,b@1,e@2")
    (cause,) = judge_run(open_run(history.write(tmp_path))).causes()
    assert cause.cause == "stale-commit"
    assert ("enable.auto.commit=false" in cause.prevented_by) == (kind == "auto")
