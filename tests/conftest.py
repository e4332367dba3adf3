"""Fixtures that several modules share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from notation import Judged, JudgeOnce, judge

FIRST = ("test_spark_cluster.py", "test_twins.py", "test_engines.py")  # what takes minutes by itself


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files go first, so that no core waits for them at the end."""
    items.sort(key=lambda item: FIRST.index(item.path.name) if item.path.name in FIRST else len(FIRST))


@pytest.fixture(scope="session")
def judged_once(tmp_path_factory: pytest.TempPathFactory) -> JudgeOnce:
    """Judges a history of the corpus on polars; what several tests look at is judged once."""
    done: dict[str, Judged] = {}

    def once(history: str) -> Judged:
        if history not in done:
            done[history] = judge(history, tmp_path_factory.mktemp("run"))
        return done[history]

    return once


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session on two cores for all tests, as starting one takes seconds."""
    from logjudge.cli.doctor import java

    found = java()
    if found.state != "ok":
        pytest.skip(f"Spark needs Java 17 or newer, and there is {found}")
    from logjudge.analysis.spark import open_session

    session = open_session("local[2]", conf=[("spark.driver.memory", "1g")])
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are wrapped to the terminal, so that tests see one width wherever they run."""
    monkeypatch.setenv("COLUMNS", "100")
