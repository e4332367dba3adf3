"""The input of a Spark session: absolute paths, tasks by the size of the run, a code archive that is removed."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from logjudge.analysis import kernel
from logjudge.analysis.engines.spark import connecting, driver_files, worker_package
from logjudge.analysis.engines.spark import session as sessions
from logjudge.analysis.engines.spark.connecting import cluster_errors, refuse_unreachable
from logjudge.analysis.engines.spark.driver_files import driver_folder, ship_code, write_code_archive
from logjudge.analysis.engines.spark.plan import tasks_of
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import ClusterError, InputError, MissingComponentError
from notation import parse
from operation_files import DATA
from operation_files import run as linearize

EXAMPLES = Path(__file__).parents[1] / "examples"


class Conf(dict[str, str]):
    set = dict.__setitem__


def fake_session(cores: int | None, master: str = "local", **conf: str) -> Any:
    """A session of so many cores; None: Spark Connect, which has no context."""
    context = None if cores is None else SimpleNamespace(defaultParallelism=cores, master=master)
    return SimpleNamespace(_sc=context, conf=Conf({"spark.sql.shuffle.partitions": "200", **conf}))


def test_workers_get_absolute_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    run = open_run(Path("unclean-election"))
    assert not Path(run.splits[0].path).is_absolute()
    paths = [Path(item["path"]) for task in tasks_of(run) for item in json.loads(task["task"])]
    assert len(paths) > 5
    assert all(path.is_relative_to(EXAMPLES / "unclean-election") for path in paths)


@pytest.mark.parametrize(
    ("master", "cores", "size", "expected"),
    [
        ("local[8]", 8, 0, "1"),
        ("local[8]", 8, 100_000, "1"),
        ("local[8]", 8, 5 << 20, "5"),
        ("local[8]", 8, 32 << 20, "8"),
        ("local[8]", 8, 8 << 30, "32"),
        ("local[8]", 8, 32 << 30, "128"),
        ("local[8]", 8, 1 << 50, "2000"),
        ("local[8]", 8, sessions.UNKNOWN_SIZE, "32"),
        ("spark://host:7077", 2, 8 << 20, "2"),
        ("spark://host:7077", 2, 9 << 20, "9"),
        ("spark://host:7077", 2, 1 << 30, "32"),
        ("", None, 8 << 20, "8"),
        ("", None, 1 << 30, "32"),
    ],
)
def test_shuffles_have_tasks_by_the_size_of_the_run(master: str, cores: int | None, size: int, expected: str) -> None:
    session = fake_session(cores, master, **{sessions._SIZED_BY_DATA: "true"})
    sessions.size_shuffles(session, size)
    assert session.conf["spark.sql.shuffle.partitions"] == expected


@pytest.mark.parametrize(
    ("master", "remote", "submitted", "expected"),
    [
        (None, None, False, True),
        ("local[4]", None, False, True),
        (None, None, True, False),  # spark-submit chose the master
        ("spark://host:7077", None, False, False),
        (None, "sc://host", False, False),
    ],
)
def test_spark_on_this_machine_alone_needs_no_session(
    master: str | None, remote: str | None, submitted: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "_is_submitted", lambda: submitted)
    assert sessions.starts_here(master, remote) == expected


def test_the_users_number_of_shuffle_tasks_stays() -> None:
    session = fake_session(8)
    sessions.size_shuffles(session, 1 << 40)
    assert session.conf["spark.sql.shuffle.partitions"] == "200"


def test_the_jvm_prints_its_errors_without_the_warning_of_a_module(capfd: pytest.CaptureFixture[str]) -> None:
    from pyspark import java_gateway

    script = "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2; echo 'no memory left' >&2"
    with driver_files.interruptible_start():
        java_gateway.Popen(["sh", "-c", script]).wait()
    for thread in driver_files._copiers:
        thread.join(10)
    assert capfd.readouterr().err == "no memory left\n"


def test_the_code_archive_is_removed_with_the_drivers_files() -> None:
    shipped: list[str] = []
    add: Callable[..., None] = lambda path, pyfile: shipped.append(path)  # noqa: ARG005, E731
    ship_code(SimpleNamespace(addArtifacts=add))  # type: ignore[arg-type]
    assert [Path(path).parent for path in shipped] == [driver_folder()]
    assert Path(shipped[0]).stat().st_size > 100_000


def import_from(archive: Path, cache: Path) -> Path:
    """The file of a module that a worker imports with the archive on its path."""
    modules = "kernel as k, logjudge.analysis.linearizability.linearize, logjudge.models.exploration.search"
    program = f"import logjudge, logjudge.analysis.{modules}; logjudge.check; print(k.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(archive), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=cache, capture_output=True, text=True, check=True
    )
    return Path(done.stdout.strip())


def test_workers_use_their_installed_package_if_it_is_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "code.zip"
    write_code_archive(archive)
    assert import_from(archive, tmp_path) == Path(kernel.__file__)
    assert [path.name for path in tmp_path.iterdir()] == ["code.zip"]


@pytest.mark.thorough
def test_workers_unpack_the_shipped_package_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sessions find it under the same path, so that compiled code next to it is found, too."""
    monkeypatch.setattr(driver_files, "digest_of", lambda _: "0" * 64)
    archives = [tmp_path / "one.zip", tmp_path / "two.zip"]
    write_code_archive(archives[0])
    write_code_archive(archives[1])
    cache = tmp_path / "cache"
    old, used = (cache / "logjudge" / f"code-{name}" for name in ("old", "used"))
    for folder in (old, used):
        folder.mkdir(parents=True)
        os.utime(folder, (0, 0))
    (cache / "logjudge").chmod(0o700)
    lock = os.open(used, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_SH)
    found = {import_from(archive, cache) for archive in archives}
    os.close(lock)
    assert found == {cache / "logjudge" / f"code-{'0' * 32}" / worker_package.CODE / "analysis" / "kernel.py"}
    assert (used.exists(), old.exists()) == (True, False)


def test_workers_take_no_code_from_a_folder_that_others_can_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(driver_files, "digest_of", lambda _: "1" * 64)
    write_code_archive(tmp_path / "code.zip")
    (tmp_path / "logjudge").mkdir()
    (tmp_path / "logjudge").chmod(0o777)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    found = import_from(tmp_path / "code.zip", tmp_path)
    assert found.is_relative_to(tmp_path / "tmp" / f"logjudge-{os.getuid()}")


def test_a_dead_master_is_one_sentence() -> None:
    with pytest.raises(MissingComponentError, match=r"cannot connect to spark://127\.0\.0\.1:1 \(Connection refused"):
        refuse_unreachable("spark://127.0.0.1:1", None)


def test_a_dead_server_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a server that listens and never responds."""
    monkeypatch.setattr(connecting, "CONNECT_LIMIT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (1, silent.getsockname()[1]):
            sentence = rf"cannot connect to sc://127\.0\.0\.1:{port} \(no response"
            with pytest.raises(MissingComponentError, match=sentence):
                refuse_unreachable(None, f"sc://127.0.0.1:{port}")


def test_a_run_that_spark_gives_up_is_one_sentence() -> None:
    text = "An error occurred\nJob aborted: ExecutorLostFailure (executor 3 exited)\nDriver stacktrace:"
    with (
        pytest.raises(ClusterError, match=r"gave up the run \(.*executor 3 exited\)\); .*docs/cluster\.md: sizing"),
        cluster_errors(),
    ):
        raise RuntimeError(text)
    with pytest.raises(KeyError), cluster_errors():
        raise KeyError("a bug of ours")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("PythonException:\n  ModuleNotFoundError: No module named 'logjudge'\n", "lack logjudge; start the session"),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has 3.9", "lack the Python version of the driver"),
    ],
)
def test_workers_of_another_python_are_one_sentence(text: str, message: str) -> None:
    with pytest.raises(MissingComponentError, match=message), cluster_errors():
        raise RuntimeError(text)


@pytest.mark.spark
def test_a_run_that_workers_cannot_see_is_one_sentence(spark: Any, tmp_path: Path) -> None:
    from logjudge.analysis.engines.spark import judge_run

    run = open_run(parse("p:a@0 c:<a@0").write(tmp_path / "run"))
    Path(run.splits[0].path).unlink()
    with pytest.raises(InputError, match=r"no file .*history\.jsonl on a Spark worker.*shared storage"):
        judge_run(run, spark)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_keys_of_general_operations_are_checked_as_on_the_local_engine() -> None:
    """The last of the tests on Spark: by now another worker has compiled the engine (tests/conftest.py)."""
    files = (DATA / "c01-ok.txt", DATA / "c01-bad.txt")
    here, there = (json.loads(linearize(*files, "--json", "--engine", engine).stdout) for engine in ("local", "spark"))
    verdicts = [{name: about["verdict"] for name, about in report["files"].items()} for report in (here, there)]
    assert verdicts[0] == verdicts[1]
    assert sorted(verdicts[1].values()) == ["illegal", "ok"]
