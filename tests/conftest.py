"""Fixtures that several modules share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import judged_once
import pytest
from combined_corpus import HISTORIES, JudgedRun, judge_combined
from command_line import UNREAD
from hypothesis import HealthCheck, settings

# How long an example takes depends on what else the machine does.
settings.register_profile("any machine", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile("any machine")

# Tests that share one of these fixtures are one group. pytest-xdist 3.8 does not keep groups together under pytest 9.2,
# as it marks them in an attribute of tests that this pytest ignores; then each worker makes the fixture.
SHARED = ("spark", "combined_corpus")
# What takes longest goes first, so that no core waits for it at the end.
FIRST = (
    *("spark", "test_spark_cluster.py", "combined_corpus", "test_porcupine.py", "test_jepsen_cases.py"),
    *("test_judge.py", "test_packaging.py", "test_report.py", "test_scenarios.py", "test_commands.py", "test_rules.py"),
    *("test_recorded_runs.py", "test_matrix.py", "test_search.py", "test_engines.py", "test_identical_batches.py"),
    *("test_twins.py", "test_cli_verdicts.py", "test_cli.py", "test_hostile.py", "test_hostile_values.py"),
)

# Masses of runs of what other tests cover: tracing their lines costs as much again, and shows nothing more.
UNTRACED = (
    *("test_agreement.py", "test_twins.py", "test_engines.py"),
    *("test_matrix.py", "test_judge.py", "test_search.py"),
    *("test_porcupine.py", "test_porcupine_limits.py", "test_porcupine_minimal.py"),
)


def _group(item: pytest.Item) -> str:
    """The group of a test: the tests of a shared fixture, or those of its file."""
    fixtures = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in fixtures), item.path.name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))
        if item.path.name in UNTRACED:
            item.add_marker(pytest.mark.no_cover)
    # What the modules made stays until the end: searching it for garbage again and again takes a tenth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    items.sort(key=lambda item: FIRST.index(_group(item)) if _group(item) in FIRST else len(FIRST))


@pytest.fixture(scope="session")
def combined_corpus(tmp_path_factory: pytest.TempPathFactory) -> list[JudgedRun]:
    """The whole corpus as a few runs, judged once."""
    return judge_combined(HISTORIES, tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session on two cores for all tests, as starting one takes seconds."""
    from logjudge.cli.doctor import java

    found = java()
    if found.state != "ok":
        pytest.skip(f"Spark needs Java 17 or newer, and there is {found}")
    from logjudge.analysis.engines.spark import open_session, whole_run

    # What tests shuffle is small: a part for each core is enough.
    session = open_session("local[2]", conf=[("spark.driver.memory", "1g"), ("spark.sql.shuffle.partitions", "2")])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_run, "MAX_BYTES", 0)  # test_engines.py has a test for runs that one task judges
        yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def _judged_once() -> Iterator[None]:
    yield from judged_once.judging_once()


@pytest.fixture
def judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a test judge recorded runs itself."""
    monkeypatch.setattr(judged_once, "CONSTANT", [])


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are wrapped to the terminal, so that tests see one width wherever they run."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def unread(tmp_path: Path) -> Path:
    """A run whose verdict is unknown."""
    (tmp_path / "unread").mkdir()
    (tmp_path / "unread" / "history.jsonl").write_text(UNREAD)
    return tmp_path / "unread"
