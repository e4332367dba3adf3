"""Times that cannot be nanoseconds since the start are a broken assumption; short legal histories are left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from notation import History, judge, parse

SECOND = 10**9
START = 1_795_383_228  # s since 1970
SENDS = " ".join(f"p:v{i}@{i}" for i in range(120))
HISTORY = (
    f"{SENDS} c:<{','.join(f'v{i}@{i}' for i in range(120))} end=120 final:<{','.join(f'v{i}@{i}' for i in range(120))}"
)


def timed(start: int, step: int, text: str = HISTORY) -> History:
    """The history with its events `step` apart."""
    history = parse(text)
    return replace(history, events=[{**event, "time": start + i * step} for i, event in enumerate(history.events)])


@pytest.mark.parametrize(
    ("start", "step"),
    [(START, 1), (START * 10**3, 5), (START * 10**6, 5_000), (0, 5)],
    ids=["seconds", "milliseconds", "microseconds", "milliseconds since the start"],
)
def test_times_of_another_unit_keep_a_run_from_being_valid(start: int, step: int, tmp_path: Path) -> None:
    verdict = judge(timed(start, step), tmp_path).verdict
    broken = [item for item in verdict["assumptions"] if item["holds"] is not True]
    assert [item["name"] for item in broken] == ["times in nanoseconds"]
    assert verdict["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("start", "step"),
    [
        (0, 10**6),
        (START, 10**6),  # begins 1.8 s after the start
        (START * 10**3, 10**5),  # half an hour after it
        (START * 10**6, 10**5),  # a monotonic clock of a machine that runs for 20 days
        (START * SECOND, 10**6),
        (-(10**12), 10**5),
    ],
)
def test_nanoseconds_are_nanoseconds_wherever_a_clock_stands(start: int, step: int, tmp_path: Path) -> None:
    assert judge(timed(start, step), tmp_path).verdict["verdict"] == "valid"


def test_a_short_history_may_count_its_events(tmp_path: Path) -> None:
    assert judge(timed(0, 1, "p:a@0 end=1 final:<a@0"), tmp_path).verdict["verdict"] == "valid"
