"""Fixtures that several modules share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from combined_corpus import HISTORIES, JudgedRun, judge_combined
from command_line import UNREAD

# One worker runs these one after the other: a Spark session, and each history of the corpus judged alone, are had once.
TOGETHER = (
    *("test_engines.py", "test_rules.py", "test_findings.py"),
    *("test_remote.py", "test_search.py", "test_linearize.py", "test_operation_formats.py"),
)
# What takes longest goes first, so that no core waits for it at the end.
FIRST = (
    "test_spark_cluster.py",
    *TOGETHER,
    "test_packaging.py",
    "test_hostile.py",
    "test_report.py",
    "test_porcupine.py",
    "test_hostile_values.py",
)

# Masses of runs of what other tests cover: tracing their lines costs as much again, and shows nothing more.
UNTRACED = (
    *("test_agreement.py", "test_twins.py", "test_engines.py"),
    *("test_matrix.py", "test_judge.py", "test_search.py"),
    *("test_porcupine.py", "test_porcupine_limits.py", "test_porcupine_minimal.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in UNTRACED:
            item.add_marker(pytest.mark.no_cover)
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `--dist loadfile`: whole files, and those of TOGETHER as if they were one."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "together" if file.rsplit("/", 1)[-1] in TOGETHER else file

    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


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
    from logjudge.analysis.engines.spark import open_session

    # What tests shuffle is small: a part for each core is enough.
    session = open_session("local[2]", conf=[("spark.driver.memory", "1g"), ("spark.sql.shuffle.partitions", "2")])
    yield session
    session.stop()


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
