"""`check --state` and `watch` as a user calls them: in steps, killed, ended with Ctrl-C, with bad options."""

from __future__ import annotations

import gzip
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from command_line import invoke, verdict_in
from notation import parse

SOAK = " ".join(f"p:v{n}@{n} c:<v{n}@{n}" for n in range(60)) + " p:lost@60 p:next@61 c:<next@61"
LOGJUDGE = [sys.executable, "-m", "logjudge.cli"]


@pytest.fixture
def growing(tmp_path: Path) -> tuple[Path, list[str]]:
    """A run that lacks all lines, and its lines."""
    folder = parse(SOAK).write(tmp_path / "soak")
    lines = (folder / "history.jsonl").read_text().splitlines(keepends=True)
    (folder / "history.jsonl").write_text("")
    return folder, lines


def append(folder: Path, lines: list[str]) -> None:
    with (folder / "history.jsonl").open("a") as file:
        file.writelines(lines)


def test_check_judges_in_steps(growing: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, lines = growing
    options = ("--state", tmp_path / "soak.state", "--out", tmp_path / "out")
    append(folder, lines[:150])
    first = invoke("check", folder, *options)
    assert first.return_value == 3
    assert "not yet: lost-write, unseen" in first.stdout
    assert "the whole history, as no earlier call" in first.stderr
    append(folder, lines[150:200])
    second = invoke("check", folder, *options)
    assert re.search(r"^read [\d,]+ of [\d,]+ bytes$", second.stderr, re.MULTILINE)
    report = verdict_in(tmp_path / "out")
    assert report["not_yet"] == ["lost-write", "unseen"]
    assert report["provenance"]["inputs"] == [
        {"file": "history.jsonl", "bytes": sum(map(len, lines[:200])), "sha256": None}
    ]
    append(folder, lines[200:])
    assert invoke("check", folder, *options).return_value == 1
    in_steps = verdict_in(tmp_path / "out")
    assert invoke("check", folder, "--engine", "local", "--out", tmp_path / "whole").return_value == 1
    assert in_steps["findings"] == verdict_in(tmp_path / "whole")["findings"]
    assert in_steps["verdict"] == "invalid"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--spark",), "expected the local engine"),
        (("--master", "local[1]"), "expected the local engine"),
        (("RUN",), "a state belongs to one run"),
        (("--state", "missing/soak.state"), "expected one for the state"),
        (("--state", "RUN"), "is not a state"),
        (("--state", "RUN/run.json"), "is not a state"),
        (("--state", "PIPE"), "is not a state"),
    ],
)
def test_bad_options_are_one_sentence(
    options: tuple[str, ...], sentence: str, growing: tuple[Path, list[str]], tmp_path: Path
) -> None:
    folder, lines = growing
    append(folder, lines)
    os.mkfifo(pipe := tmp_path / "pipe")
    named = [option.replace("RUN", str(folder)).replace("PIPE", str(pipe)) for option in options]
    done = invoke("check", folder, "--state", tmp_path / "s", "--out", tmp_path / "out", *named)
    assert sentence in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.thorough
def test_a_killed_call_leaves_the_state_of_the_last_one(growing: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, lines = growing
    command = [*LOGJUDGE, "check", str(folder), "--state", str(tmp_path / "s"), "--out", str(tmp_path / "out"), "-q"]
    append(folder, lines[:100])
    assert subprocess.run(command, check=False).returncode == 3
    append(folder, lines[100:])
    for seconds in (0.3, 0.8, 1.1):
        with subprocess.Popen(command) as process:
            time.sleep(seconds)
            process.kill()
        assert verdict_in(tmp_path / "out")["verdict"] in ("unknown", "invalid")
    assert subprocess.run(command, check=False).returncode == 1


def start_watch(folder: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    # Tests may run where Ctrl-C is ignored, as behind `&` in a script.
    return subprocess.Popen(
        [*LOGJUDGE, "watch", str(folder), "--out", str(out), "--every", "0.2", *options],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(process: subprocess.Popen[str], words: str) -> list[str]:
    """The lines that the process writes up to one with these words."""
    assert process.stderr is not None
    limit = threading.Timer(120, process.kill)
    limit.start()
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if words in line:
            break
    limit.cancel()
    assert words in "".join(lines), lines
    return lines


def test_watch_follows_a_run_until_ctrl_c(growing: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, lines = growing
    out = tmp_path / "out"
    with start_watch(folder, out) as process:
        wait_for(process, "waiting for the first line of a history")
        append(folder, [*lines[:100], lines[100][:20]])
        wait_for(process, "UNKNOWN, 100 lines")
        page = (out / "index.html").read_text()
        assert '<meta http-equiv="refresh"' in page
        assert "not yet" in page
        assert "<script" not in page
        append(folder, [lines[100][20:], *lines[101:]])
        wait_for(process, "INVALID")
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 1
    assert verdict_in(out / "soak")["verdict"] == "invalid"
    assert "invalid" in (out / "index.html").read_text()
    again = invoke("check", folder, "--state", out / "soak.state", "--out", out / "soak")
    assert again.return_value == 1
    assert "read 0 of" in again.stderr


def test_watch_ends_when_idle(growing: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, lines = growing
    append(folder, lines[:100])
    with start_watch(folder, tmp_path / "out", "--idle", "0.5") as process:
        wait_for(process, "UNKNOWN, no new lines")
        assert process.wait(120) == 3


def test_watch_counts_the_lines_of_a_history_that_is_judged_whole(
    growing: tuple[Path, list[str]], tmp_path: Path
) -> None:
    packed = tmp_path / "history.jsonl.gz"
    packed.write_bytes(gzip.compress("".join(growing[1]).encode()))
    with start_watch(packed, tmp_path / "out", "--idle", "0.1") as process:
        wait_for(process, f"INVALID, {len(growing[1])} lines")
        process.wait(120)


def test_watch_refuses_what_it_would_destroy(growing: tuple[Path, list[str]], tmp_path: Path) -> None:
    folder, lines = growing
    append(folder, lines)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("a user's page")
    assert "logjudge did not write" in str(invoke("watch", folder, "--out", tmp_path / "out").exception)
    invoke("check", folder, "--state", tmp_path / "s", "--out", tmp_path / "judged")
    (folder / "history.jsonl").write_text("".join(lines[2:]))
    done = invoke("watch", folder, "--out", tmp_path / "new", "--state", tmp_path / "s")
    assert "which were rewritten" in str(done.exception)


def test_watch_of_nothing_is_one_sentence(tmp_path: Path) -> None:
    done = invoke("watch", tmp_path / "missing", "--out", tmp_path / "out")
    assert "no such file" in str(done.exception).lower()
