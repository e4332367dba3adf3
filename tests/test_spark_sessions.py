"""What a Spark session is given: absolute paths, tasks by the size of the run, a code archive that is removed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from logjudge.analysis.engines.spark import session as sessions
from logjudge.analysis.engines.spark.driver_files import driver_folder
from logjudge.analysis.engines.spark.plan import tasks_of
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from notation import parse

EXAMPLES = Path(__file__).parents[1] / "examples"


class Conf(dict[str, str]):
    set = dict.__setitem__


def fake_session(cores: int | None, **conf: str) -> Any:
    """A session of a cluster of so many cores; None: Spark Connect, which has no context."""
    context = None if cores is None else SimpleNamespace(defaultParallelism=cores)
    return SimpleNamespace(_sc=context, conf=Conf({"spark.sql.shuffle.partitions": "200", **conf}))


def test_workers_get_absolute_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    run = open_run(Path("unclean-election"))
    assert not Path(run.splits[0].path).is_absolute()
    paths = [Path(item["path"]) for task in tasks_of(run) for item in json.loads(task["task"])]
    assert len(paths) > 5
    assert all(path.is_relative_to(EXAMPLES / "unclean-election") for path in paths)


@pytest.mark.parametrize(
    ("cores", "size", "expected"),
    [
        (8, 0, "1"),
        (8, 100_000, "1"),
        (8, 2 << 20, "8"),
        (8, 1 << 40, "32"),
        (None, 2 << 20, "8"),
        (None, 1 << 40, "200"),
    ],
)
def test_shuffles_have_tasks_by_the_size_of_the_run(cores: int | None, size: int, expected: str) -> None:
    session = fake_session(cores, **{sessions._SIZED_BY_DATA: "true"})
    sessions.size_shuffles(session, size)
    assert session.conf["spark.sql.shuffle.partitions"] == expected


def test_what_the_user_set_for_shuffles_stays() -> None:
    session = fake_session(8)
    sessions.size_shuffles(session, 1 << 40)
    assert session.conf["spark.sql.shuffle.partitions"] == "200"


def test_the_code_archive_is_removed_with_the_drivers_files() -> None:
    shipped: list[str] = []
    add: Callable[..., None] = lambda path, pyfile: shipped.append(path)  # noqa: ARG005, E731
    sessions._ship_code(SimpleNamespace(addArtifacts=add))  # type: ignore[arg-type]
    assert [Path(path).parent for path in shipped] == [driver_folder()]
    assert Path(shipped[0]).stat().st_size > 100_000


@pytest.mark.spark
def test_a_run_that_workers_cannot_see_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    from logjudge.analysis.engines.spark import judge_run

    run = open_run(parse("p:a@0 c:<a@0").write(tmp_path / "run"))
    Path(run.splits[0].path).unlink()
    with pytest.raises(InputError, match=r"no file .*history\.jsonl on a Spark worker.*shared storage"):
        judge_run(run, spark)
