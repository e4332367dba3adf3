"""Fixtures that several modules share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import judged_once
import pytest
from campaign import IS_CAMPAIGN
from combined_corpus import HISTORIES, JudgedRun, judge_combined
from command_line import UNREAD
from hypothesis import HealthCheck, settings
from logjudge.analysis.engines import local
from logjudge.analysis.engines.threads import in_pool
from sampling import mark_thorough
from xdist.scheduler import LoadScopeScheduling

# The time of an example depends on the machine's load. Every commit gets the same few examples.
settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=not IS_CAMPAIGN,
    max_examples=500 if IS_CAMPAIGN else 30,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("any machine")

# The longest go first, so that no core waits for them at the end. test_porcupine.py goes second, as the tests on Spark
# need what it compiles in a fresh clone.
FIRST = (
    *("spark", "test_porcupine.py", "evidence", "corpus", "test_packaging.py"),
    *("test_scenarios.py", "test_cli.py", "test_judge.py", "test_matrix.py", "test_engines.py", "test_cycles.py"),
    *("test_report.py", "test_search.py", "test_record_command.py", "test_hostile_values.py", "test_twins.py"),
    *("test_cli_verdicts.py", "test_cli_explain.py", "test_jepsen_cases.py", "test_hostile.py", "test_membership.py"),
    *("test_keeper.py", "test_figures.py", "test_agreement.py", "test_cli_options.py"),
)
# Files that share the fixture combined_corpus. Those in evidence/ share recorded runs. The tests that share the fixture
# spark have "spark" in their names.
CORPUS = ("test_rules.py", "test_findings.py", "test_ranges.py", "test_condense.py")

# Masses of runs of what other tests cover: tracing their lines costs as much again, and shows nothing more.
UNTRACED = (
    *("test_agreement.py", "test_twins.py", "test_engines.py"),
    *("test_matrix.py", "test_judge.py", "test_search.py"),
    *("test_porcupine.py", "test_porcupine_limits.py", "test_porcupine_minimal.py"),
)


def group_of(nodeid: str) -> str:
    """The group of a test: the tests of a shared fixture, or those of its file."""
    folder, _, file = nodeid.partition("::")[0].rpartition("/")
    if "spark" in nodeid:
        return "spark"
    return "corpus" if file in CORPUS else "evidence" if folder.endswith("evidence") else file


class GroupScheduling(LoadScopeScheduling):
    """Sends the tests of a group to one worker, so that one makes their fixtures; groups go in the order of collection.

    `--dist loadgroup` would do so by marks, but pytest-xdist 3.8 adds them to the ids of tests in an attribute that
    pytest 9.2 ignores.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling:
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


@pytest.hookimpl(tryfirst=True)  # before -m chooses by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        uses_spark = "spark" in getattr(item, "fixturenames", ()) or item.get_closest_marker("spark")
        if uses_spark and group_of(item.nodeid) != "spark":
            raise pytest.UsageError(f"{item.nodeid} needs Spark, so its name must contain spark")
        if item.path.name in UNTRACED:
            item.add_marker(pytest.mark.no_cover)
    mark_thorough(items)
    # Objects of imported modules stay until the end: searching them for garbage repeatedly takes a tenth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    order = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(group_of(item.nodeid), len(FIRST)))


@pytest.fixture(scope="session")
def combined_corpus(tmp_path_factory: pytest.TempPathFactory) -> list[JudgedRun]:
    """The whole corpus as a few runs, judged once by all rules, without screening."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "batches_of", lambda _: 0)
        return judge_combined(HISTORIES, tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One session on two cores for all tests, as starting one takes seconds."""
    from logjudge.cli.doctor import java

    found = java()
    if found.state != "ok":
        pytest.skip(f"Spark needs Java 17 or newer, and there is {found}")
    from logjudge.analysis.engines.spark import open_session, whole_run

    # Tests shuffle little data: a part for each core is enough, and compiling Java code for it is not worth it.
    conf = [("spark.driver.memory", "1g"), ("spark.sql.shuffle.partitions", "2")]
    conf.append(("spark.sql.codegen.wholeStage", "false"))
    conf.append(("spark.driver.defaultJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"))
    session = open_session("local[2]", conf=conf)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole_run, "MAX_BYTES", 0)  # test_engines.py has a test for runs that one task judges
        yield session
    session.stop()


@pytest.fixture(scope="session", autouse=True)
def _judged_once() -> Iterator[None]:
    yield from judged_once.judging_once()


ON_ALL_CORES = local.on_all_cores


@pytest.fixture(scope="session", autouse=True)
def _one_core() -> Iterator[None]:
    """The local engine judges in one thread, as each worker has a core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "on_all_cores", lambda work, items: map(partial(in_pool, work), items))
        yield


@pytest.fixture
def on_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the local engine judge in threads."""
    monkeypatch.setattr(local, "on_all_cores", ON_ALL_CORES)


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
