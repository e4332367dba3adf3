"""Judges histories in the one-line notation of logjudge.histories.notation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis import summary
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.notation import Event, History, parse

__all__ = ["Event", "History", "Judged", "judge", "parse", "undrawn"]


@dataclass(frozen=True)
class Judged:
    """The local engine's report on a history."""

    history: History
    findings: list[dict[str, Any]]
    verdict: dict[str, Any]

    def of(self, rule: str) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["rule"] == rule]


@contextmanager
def undrawn() -> Iterator[None]:
    """Judges without the data of plots, which take a sixth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "figures_of", lambda *_: {"bins": None})
        yield


def judge(history: History | str, folder: Path, **settings: Any) -> Judged:
    """Writes the history as a bundle, opens it and judges it; `settings` replace fields of Settings."""
    parsed = parse(history) if isinstance(history, str) else history
    run = open_run(parsed.write(folder))
    with undrawn():
        results = judge_run(replace(run, settings=replace(run.settings, **settings)))
    return Judged(parsed, results.findings().to_dicts(), verdict_of(results))
