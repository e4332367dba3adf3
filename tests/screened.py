"""Compares what screening proves of a run's partitions with what the rules find there."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from logjudge.analysis.engines import local
from logjudge.analysis.results import Results
from logjudge.analysis.screening import screen
from logjudge.histories.bundle import Run

Key = tuple[str, int]


class Screening(NamedTuple):
    """The summaries of the plainly valid partitions, and the rules that must judge each of the others."""

    summaries: dict[Key, dict[str, Any]]
    unproved: dict[Key, frozenset[str]]


def judged(run: Run, batches: int, drawn: int = 0) -> Results:
    """The results of the local engine with all partitions in so many batches; 0: without screening."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "batches_of", lambda _: batches)
        patch.setattr(screen, "MIN_PARTITIONS", 1)
        patch.setattr(screen, "MAX_DRAWN", drawn)
        return local.judge_run(run)


def screened(run: Run) -> Screening:
    """Screens all partitions of a run without brokers' files."""
    gathered = local.gather(run.with_settings(batches=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "MIN_PARTITIONS", 1)
        patch.setattr(screen, "MAX_DRAWN", 0)
        found = [screen.screen_batch(small, (), gathered.common) for small in gathered.small]
    summaries = {_key(one): without_figures(one) for batch in found for one in batch.summaries}
    return Screening(summaries, {tuple(unit): rules for batch in found for unit, rules in batch.unproved.items()})


def compare(run: Run) -> int:
    """Asserts that the rules agree with all that screening proves; the number of plainly valid partitions."""
    plain, proved = judged(run, 0), screened(run)
    for summary in plain.summaries:
        if (key := _key(summary)) in proved.summaries:
            assert proved.summaries[key] == without_figures(summary)
        elif key in proved.unproved:
            assert reporting_in(summary) <= proved.unproved[key], key
    return len(proved.summaries)


def _key(summary: dict[str, Any]) -> Key:
    return summary["topic"], summary["partition"]


def reporting_in(summary: dict[str, Any]) -> set[str]:
    """The rules that report something of a partition."""
    return {*summary["findings"], *summary["unjudged"], *(rule for rule, _ in summary["missing settings"])}


def without_figures(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in summary.items() if name != "figures"}
