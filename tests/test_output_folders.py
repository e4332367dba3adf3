"""Output folders: odd targets and inputs, kills and signals."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from command_line import UNREAD, invoke
from logjudge.cli.main import ENVIRONMENT_ERRORS, Terminated
from logjudge.histories import output_folder as folders
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import LogjudgeError, UsageError
from logjudge.histories.output_folder import RESULT, check_target, move_into, write_whole
from logjudge.histories.scratch import scratch_folder

VERDICT = '{"rules": {}, "verdict": "valid"}'


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "history.jsonl").write_text(UNREAD)
    return tmp_path / "run"


def _take_signals() -> None:
    """Undo what a shell with `&` or nohup makes a child ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def check(run: Path, out: object) -> int:
    """The exit code; 2 for one sentence about the input."""
    result = invoke("check", run, "--engine", "local", "--no-plots", "--out", out)
    if isinstance(result.exception, LogjudgeError):
        assert "\n" not in str(result.exception)
        return 2
    if result.exception:
        raise result.exception
    return int(result.return_value)


def result_of(content: str) -> object:
    def fill(scratch: Path) -> None:
        (scratch / "verdict.json").write_text(VERDICT)
        (scratch / "report.md").write_text(content)

    return fill


def test_the_current_folder_takes_a_result_and_stays_the_current_folder(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert [check(run, ".") for _ in range(2)] == [3, 3]
    assert Path("verdict.json").is_file()  # a folder that was exchanged would be empty here
    assert {path.name for path in Path().iterdir()} <= RESULT.names
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "run"]


@pytest.mark.parametrize(
    "odd", ["/", "file", "file/x", "pipe", "loop", "link", "/proc/x", "a" * 256, "no/" + "a" * 256]
)
def test_a_target_that_cannot_take_a_result_is_refused_before_the_run_is_read(
    odd: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    os.mkfifo("pipe")
    Path("loop").symlink_to("loop")
    Path("link").symlink_to("run")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr("logjudge.cli.engines.Engine.open_run", lambda *_: pytest.fail("the run was opened"))
    assert check(run, odd) == 2
    assert sorted(tmp_path.iterdir()) == before


def test_a_name_of_255_bytes_is_written(run: Path, tmp_path: Path) -> None:
    assert check(run, tmp_path / ("ä" * 127 + "a")) == 3


@pytest.mark.parametrize("odd", ["/proc/self/mem", "loop", "pipe", "socket", "", "folder"])
def test_inputs_that_cannot_be_read_cost_a_sentence(odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    os.mknod("socket", 0o140600)
    Path("loop").symlink_to("loop")
    Path("folder").mkdir()
    if odd == "folder":
        monkeypatch.setattr(os, "listdir", _denied)
    for command in (["check", odd, "--engine", "local"], ["explain", odd], ["plot", odd, "glance"]):
        result = invoke(*command)
        assert isinstance(result.exception, LogjudgeError), command
        assert "\n" not in str(result.exception)


@pytest.mark.parametrize("command", [("check", "--engine", "local"), ("lint",), ("explain",), ("timeline",)])
def test_the_error_for_a_file_without_permission_has_advice(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "h.jsonl").touch()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # click would ask for it
    monkeypatch.setattr(os, "open", _denied)
    result = invoke(command[0], tmp_path / "h.jsonl", *command[1:])
    assert isinstance(result.exception, LogjudgeError)
    advice = "change its permissions (`ls -ld` shows them), or run logjudge as a user who has them"
    assert str(result.exception) == f"{tmp_path / 'h.jsonl'}: no permission to read it; {advice}"


def test_a_folder_of_archives_is_to_be_unpacked(tmp_path: Path) -> None:
    for name in ("broker1.tgz", "logs.zip"):
        (tmp_path / name).touch()
    log = b"[2026-11-20 10:00:00,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)\n"
    with tarfile.open(tmp_path / "broker2.tar.gz", "w:gz") as archive:  # its bytes hold the lines of a broker's log
        member = tarfile.TarInfo("server.log")
        member.size = len(log)
        archive.addfile(member, io.BytesIO(log))
    with pytest.raises(LogjudgeError, match=r"without a history .*; unpack broker1.tgz, broker2.tar.gz, logs.zip$"):
        open_run(tmp_path)
    for name in ("broker2.tar.gz", "broker2.gz"):
        (tmp_path / "broker2.tar.gz").rename(tmp_path / name)
        with pytest.raises(LogjudgeError, match=r"found a tar archive, .*; unpack it"):
            open_run(tmp_path / name)
        (tmp_path / name).rename(tmp_path / "broker2.tar.gz")


def test_a_folder_of_other_texts_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("shopping list\n")
    with pytest.raises(LogjudgeError, match=r"without a history or brokers' files \(a.txt: a first line"):
        open_run(tmp_path)
    (tmp_path / "b.log").write_text("milk\n")
    with pytest.raises(LogjudgeError, match=r"'shopping list', and 1 more\)"):
        open_run(tmp_path)
    (tmp_path / "app.log").write_text("2026-11-20 10:00:00,000 INFO sent a\n2026-11-20 10:00:01,000 INFO sent b\n")
    with pytest.raises(
        LogjudgeError, match=r"lines of a log without a broker's id, .*; name a broker's log server.log"
    ):
        open_run(tmp_path / "app.log")
    (tmp_path / "h.jsonl").write_text("milk\n")  # meant as a history
    with pytest.raises(LogjudgeError, match=r"a\.txt: found a first line like"):
        open_run(tmp_path)


def _denied(path: object, *_: object, **__: object) -> list[str]:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def test_environment_errors_while_reading_are_not_reported_as_bugs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in ENVIRONMENT_ERRORS - {errno.ENOSPC, errno.EDQUOT}:

        def refuse(*_: object, number: int = number) -> None:
            raise OSError(number, os.strerror(number), "disk")

        monkeypatch.setattr("logjudge.plots.report.saved.write_result", refuse)
        assert check(run, tmp_path / "out") == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]
    with pytest.raises(LogjudgeError, match="no such file or folder; check the path"):
        open_run(tmp_path / "nowhere")


def test_a_result_is_at_its_place_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every renaming is one system call, before and after which a complete result is there."""
    out = tmp_path / "out"
    write_whole(out, result_of("old"))
    seen = []
    exchange, rename, replace = folders._exchange, Path.rename, Path.replace

    def watched(name: str, call: object) -> object:
        def watch(*paths: object) -> object:
            seen.append(((out / "verdict.json").read_text(), name))
            done = call(*paths)  # type: ignore[operator]
            seen.append(((out / "verdict.json").read_text(), name))
            return done

        return watch

    monkeypatch.setattr(folders, "_exchange", watched("exchange", exchange))
    monkeypatch.setattr(Path, "rename", watched("rename", rename))
    monkeypatch.setattr(Path, "replace", watched("replace", replace))
    write_whole(out, result_of("new"))
    assert seen == [(VERDICT, "exchange")] * 2
    assert (out / "report.md").read_text() == "new"
    monkeypatch.setattr(folders, "_exchange", lambda *_: False)  # as on NFS
    write_whole(out, result_of("newer"))
    assert {text for text, _ in seen} == {VERDICT}
    assert (out / "report.md").read_text() == "newer"
    assert list(tmp_path.iterdir()) == [out]


def test_leftovers_of_a_killed_run_are_removed_and_those_of_a_live_one_stay(tmp_path: Path) -> None:
    out = tmp_path / "out"
    abandoned = tmp_path / ".out.logjudge-abandoned"
    (abandoned / "whole").mkdir(parents=True)
    with scratch_folder(tmp_path, ".out.logjudge-") as running:
        write_whole(out, result_of("a"))
        assert running.is_dir()
    assert list(tmp_path.iterdir()) == [out]


def test_a_kill_while_the_target_is_checked_leaves_nothing_for_ever(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # as after kill -9
        check_target(out)
    assert len(list(tmp_path.iterdir())) == 1
    check_target(out)
    assert list(tmp_path.iterdir()) == []


def test_a_signal_while_a_temporary_folder_is_removed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove, calls = shutil.rmtree, []

    def interrupted(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        if len(calls) == 1:
            raise Terminated(signal.SIGTERM)
        remove(*arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(Terminated), scratch_folder(tmp_path, ".out.logjudge-"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_move_into_a_folder_that_was_killed_is_taken_up_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / ".logjudge-killed").mkdir(parents=True)
    (out / "report.md").write_text("new")
    write_whole(out, result_of("newer"))
    assert {path.name for path in out.iterdir()} == {"verdict.json", "report.md"}
    (out / ".logjudge-killed").mkdir()
    (out / "notes.txt").touch()
    with pytest.raises(UsageError, match="other files"):
        write_whole(out, result_of("newest"))


def test_parts_that_the_new_result_lacks_are_removed(tmp_path: Path) -> None:
    for name, file in (("old", "plots"), ("new", "report.md")):
        (tmp_path / name).mkdir()
        (tmp_path / name / file).mkdir() if file == "plots" else (tmp_path / name / file).touch()
    (tmp_path / "old" / "kept.txt").touch()
    move_into(tmp_path / "old", tmp_path / "new", RESULT)
    assert sorted(path.name for path in (tmp_path / "old").iterdir()) == ["kept.txt", "report.md"]


WRITING, READING = "plots.report.saved.write_result", "analysis.engines.local.read_split"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("number", "work"),
    [(signal.SIGTERM, READING), (signal.SIGHUP, WRITING), (signal.SIGINT, READING), (signal.SIGINT, WRITING)],
)
def test_a_signal_leaves_nothing(number: signal.Signals, work: str, run: Path, tmp_path: Path) -> None:
    """While the result is written, and while a thread works that no signal interrupts."""
    module, function = work.rsplit(".", 1)
    waits = (
        "import threading; from pathlib import Path\n"
        f"from logjudge.cli import main; import logjudge.{module} as module\n"
        f"module.{function} = lambda *_: (Path({str(tmp_path / 'begun')!r}).touch(), threading.Event().wait())\n"
        "main.main()"
    )
    words = ["check", run, "--engine", "local", "--no-plots", "--out", tmp_path / "out"]
    with subprocess.Popen(
        [sys.executable, "-c", waits, *map(str, words)], stderr=subprocess.PIPE, preexec_fn=_take_signals
    ) as process:
        while not (tmp_path / "begun").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert b"Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "run"]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.campaign)])
def test_a_signal_to_spark_leaves_nothing(number: signal.Signals, run: Path, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    words = ["check", run, "--engine", "spark", "--no-plots", "--out", tmp_path / "out"]
    local = f"{tmp_path / 'local'},{tmp_path / 'local-2'}"
    with subprocess.Popen(
        [sys.executable, "-m", "logjudge.cli", *map(str, words)],
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary"), "SPARK_LOCAL_DIRS": local},
        stderr=subprocess.PIPE,
        preexec_fn=_take_signals,
    ) as process:
        while not list((tmp_path / "local-2").glob("logjudge-spark-*/*")) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, errors = process.communicate()
    assert process.returncode == 128 + number
    assert b"Traceback" not in errors
    assert [file for name in ("temporary", "local", "local-2") for file in (tmp_path / name).iterdir()] == []
