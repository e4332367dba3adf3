"""Calls on a history that grows: each has the findings and the verdict of one call on the whole history so far."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from campaign import IS_CAMPAIGN
from combined_corpus import HISTORIES, combine
from hypothesis import given, settings
from hypothesis import strategies as st
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.incremental import judging, settling
from logjudge.analysis.incremental.judging import Call, judge_appended, not_yet
from logjudge.analysis.incremental.state import load_state, save_state
from logjudge.analysis.verdict.document import report_of
from logjudge.histories.bundle import open_run
from notation import History, parse
from test_ranges import BETWEEN
from test_screening import random_texts, together


SAME = ("verdict", "counts", "causes", "incidents")


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranges of two offsets, which are settled at once."""
    monkeypatch.setattr(judging, "RANGE_OFFSETS", 2)
    monkeypatch.setattr(settling, "LATENESS_NS", 0)
    monkeypatch.setattr(judging, "MAX_RANGES_BEHIND", 4)


def grow(history: History, folder: Path, cuts: Iterable[int]) -> Iterator[tuple[Path, Call]]:
    """The run after each call; before a call its history grows up to so many bytes."""
    run = history.write(folder / "whole")
    lines = (run / "history.jsonl").read_bytes()
    growing = folder / "run"
    growing.mkdir()
    (growing / "run.json").write_bytes((run / "run.json").read_bytes())
    written = 0
    first = lines.index(b"\n") + 1
    for cut in [*sorted(max(cut, first) for cut in cuts), len(lines)]:
        with (growing / "history.jsonl").open("ab") as file:
            file.write(lines[written:cut])
        written = max(cut, written)
        yield growing, call(growing, folder / "state")


def call(run: Path, file: Path) -> Call:
    done = judge_appended(open_run(run), load_state(file), str(file))
    save_state(file, done.state)
    return done


def compare(history: History, cuts: Sequence[int], only_last: bool = False) -> Iterator[Call]:
    with tempfile.TemporaryDirectory() as name:
        for number, (run, done) in enumerate(grow(history, Path(name), cuts)):
            yield done
            if number < len(cuts) and only_last:
                continue
            assert_same(run, done)


def assert_same(run: Path, done: Call) -> None:
    """Asserts that a call has the results of one call on the whole; a rule may also be undecided yet."""
    history = run / "history.jsonl"
    growing = history.read_bytes()
    history.write_bytes(
        growing[: done.state.positions["history.jsonl"].bytes]
    )  # without the line that is being written
    whole = judge_run(open_run(run))
    history.write_bytes(growing)
    assert done.results.findings().equals(whole.findings())
    mine, other = report_of(done.results, ""), report_of(whole, "")
    pending = {*not_yet(mine, done.results)}
    for name, rule in other["rules"].items():
        assert mine["rules"][name] == rule or (name in pending and rule["verdict"] == "valid"), name
    assert {name: mine[name] for name in SAME} == {name: other[name] for name in SAME}


def test_the_corpus_in_calls() -> None:
    random = Random(1)
    for run in combine(HISTORIES):
        size = sum(len(str(event)) for event in run.history.events)
        list(compare(run.history, [random.randrange(size) for _ in range(3)], only_last=True))
