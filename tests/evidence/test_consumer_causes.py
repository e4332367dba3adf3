"""Why a group missed records: what its members did, in one line each."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.causes.consumers import GROUP_EVENTS, Missed, explain_missed

POLLED = [("poll", 0, 2), ("handle", 0, 0), ("commit", 3, 3)]
BEFORE = [("poll", 0, 2), ("handle", 0, 0), ("handle", 2, 2), ("commit", 3, 3)]
AFTER = [("poll", 3, 5), ("handle", 3, 5), ("commit", 6, 6)]
CRASH = ("crash", None, None)


@pytest.mark.parametrize(
    ("events", "cause"),
    [
        ([*POLLED, CRASH], "commit-before-handle"),
        ([*POLLED, ("poll", 3, 5), CRASH], "commit-before-handle"),
        # It handled what stands behind the record, so that no crash kept it from the record itself.
        ([*BEFORE, CRASH], "unknown"),
        ([*BEFORE, *AFTER, CRASH], "unknown"),
        ([*POLLED, *AFTER, CRASH], "unknown"),
        # Another life of the process handles what it will.
        ([*POLLED, CRASH, *AFTER], "commit-before-handle"),
        # A crash before the commit did not follow it.
        ([*POLLED[:2], CRASH, POLLED[2]], "unknown"),
        (POLLED, "unknown"),
    ],
)
def test_only_a_crash_before_later_records_proves_that_a_commit_came_too_early(
    events: list[tuple[str, int | None, int | None]], cause: str
) -> None:
    rows = [(time, time, "g1", *event) for time, event in enumerate(events)]
    frame = pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row")
    assert explain_missed(frame, Missed("x", 0, "g", 1, 1, 1), {}).cause == cause
