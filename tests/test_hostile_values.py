"""Hostile values, names and files: a verdict or one sentence, never a crash."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from command_line import invoke, json_lines, verdict_in
from hostile_input import EVENTS, check, lines
from logjudge.cli.document import Document
from logjudge.histories.errors import LogjudgeError
from logjudge.histories.files import HEAD_BYTES
from logjudge.histories.readers import recognise
from logjudge.histories.readers.contents import LOG
from logjudge.histories.readers.native import parse as parse_lines
from notation import History, parse


def test_extreme_numbers(tmp_path: Path) -> None:
    far = [{**e, "offset": 2**62 + e["offset"]} if e.get("offset") else e for e in EVENTS]
    late = [
        {**e, "time": 2**63 - 1 if n % 7 == 0 else -(2**63) if n % 11 == 0 else e["time"]} for n, e in enumerate(EVENTS)
    ]
    reused = [{**e, "op": 2**63 - 1 if n % 7 == 0 else -5} for n, e in enumerate(EVENTS)]
    for name, events in (("far", far), ("late", late), ("reused", reused)):
        (tmp_path / f"{name}.jsonl").write_bytes(lines(events))
        assert check(tmp_path / f"{name}.jsonl", tmp_path / name) in (1, 3)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"offset": 2**63 - 1}, "found offset 9223372036854775807, expected one from 0 to 9223372036854775806"),
        ({"partition": -3}, "found partition -3, expected one from 0 to 2147483647"),
        ({"records": [{"topic": "x", "partition": 0, "offset": -7}]}, "found offset -7, expected one from 0 to"),
        ({"offsets": [{"topic": "x", "partition": -2}]}, "found partition -2, expected one from 0 to 2147483647"),
        ({"records": [{"topic": "x", "partition": 0}]}, "found a record without topic, partition or offset"),
    ],
)
def test_a_place_that_no_log_has_is_named_with_its_limits(change: dict[str, Any], found: str) -> None:
    _, malformed = parse_lines(lines([EVENTS[0], {**EVENTS[1], **change}]))
    assert malformed["line"].to_list() == [1]
    assert malformed["reason"][0].startswith(found)


def test_odd_faults(tmp_path: Path) -> None:
    odd = {"kind": "delete-records", "topic": 5, "offsets": {"a": 1, "99999999999": "x", "0": 2**70}}
    events = [
        {"time": 5, "process": "nemesis", "op": 9, "type": "invoke", "f": "fault", "fault": odd},
        {"time": 6, "process": "nemesis", "op": 9, "type": "ok", "f": "fault", "fault": {"kind": ["x"], "nodes": {}}},
    ]
    (tmp_path / "h.jsonl").write_bytes(lines(EVENTS + events))
    assert check(tmp_path / "h.jsonl", tmp_path / "out") == 3


@pytest.mark.parametrize(
    "odd", [{"topic": 5}, {"offsets": {"²": 1}}, {"offsets": {"99999999999": 1}}, {"offsets": [1]}]
)
def test_a_deletion_that_cannot_be_read_may_have_taken_anything(odd: dict[str, Any], tmp_path: Path) -> None:
    history = parse("p:a@0 p:b@1 c:<a@0 delete=1 final:<b@1")
    events = [{**e, "fault": {**e["fault"], **odd}} if "fault" in e else e for e in history.events]
    folder = History(events, history.config).write(tmp_path / "run")
    assert check(folder, tmp_path / "out", "--no-plots") == 3


@pytest.mark.parametrize("shift", [None, -(10**12)])
def test_coarse_times_hide_no_tail(shift: int | None, tmp_path: Path) -> None:
    history = parse("p:a@0 p:b@1 final:assign=0 final:<a@0")
    events = [{**e, "time": 5 if shift is None else e["time"] + shift} for e in history.events]
    folder = History(events, history.config).write(tmp_path / "run")
    assert check(folder, tmp_path / "out", "--no-plots") == (3 if shift is None else 1)


def test_names_are_text_and_links_end(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "brokers").symlink_to(folder)
    hostile = [{**e, "topic": "../../<b>x</b>\u202e", "process": "<i>|`"} if "topic" in e else e for e in EVENTS]
    (folder / "history.jsonl").write_bytes(lines(hostile))
    assert check(folder, tmp_path / "out") in (1, 3)
    assert "<b>x" not in (tmp_path / "out" / "report.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


@pytest.mark.parametrize("seed", range(8))
def test_flipped_bytes(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    data = bytearray(lines(EVENTS))
    for _ in range(300):
        data[rng.randrange(len(data))] = rng.randrange(256)
    (tmp_path / "h.jsonl").write_bytes(data)
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") in (1, 3)
    assert (tmp_path / "out" / "quarantine.jsonl").read_text()


@pytest.mark.parametrize(
    ("name", "change"),
    [("verdict.json", {"rules": {"lost-write": 3}}), ("figures.json", {"partitions": [{"name": 7}]})],
)
def test_results_that_were_changed_by_hand_are_refused(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines(EVENTS))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") in (1, 3)
    saved = json.loads((tmp_path / "out" / name).read_text())
    (tmp_path / "out" / name).write_text(json.dumps({**saved, **change}))
    result = invoke("report", tmp_path / "out")
    assert isinstance(result.exception, LogjudgeError)


def test_invalid_names_and_numbers_are_malformed(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('[broker."²"]\n')
    (tmp_path / "wrong.toml").write_text('[config]\n"replica.lag.time.max.ms" = "x"\n')
    for name in ("odd", "wrong"):
        arguments = ["simulate", "--config", str(tmp_path / f"{name}.toml"), "--out", str(tmp_path / "run")]
        result = invoke(*arguments)
        assert isinstance(result.exception, LogjudgeError)
        assert f"{name}.toml" in str(result.exception)
    done = subprocess.run(
        [sys.executable, "-m", "logjudge.cli", "simulate", "--ops", "5", "--out", os.fsencode(tmp_path) + b"/bad\xff"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert (done.returncode, b"bad\\udcff" in done.stdout) == (0, True)


def test_paths_that_are_not_utf_8_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    def called(*arguments: object) -> subprocess.CompletedProcess[bytes]:
        words = [os.fsencode(str(each)) if isinstance(each, Path) else each for each in arguments]
        return subprocess.run([sys.executable, "-m", "logjudge.cli", *words], capture_output=True, check=False)

    (tmp_path / "history.jsonl").write_bytes(lines(EVENTS))
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/b\xff\x1b[31m\n"))
    done = called("check", tmp_path / "history.jsonl", "--engine", "local", "--no-plots", "--out", odd)
    assert (done.returncode in (0, 1, 3), done.stderr) == (True, b"")
    assert called("explain", odd, "--json").returncode == 0
    history = odd.with_name(odd.name + ".jsonl")
    history.write_bytes(lines(EVENTS))
    for refused in (
        ("check", history, "--engine", "local"),
        ("check", history, "--engine", "local", tmp_path / "nothing"),
        ("explain", history),
        ("convert", tmp_path / "history.jsonl", odd.with_name(odd.name + ".parquet")),
    ):
        done = called(*refused)
        assert done.returncode == 2, done.stderr
        assert all(line.startswith(b"logjudge: ") for line in done.stderr.splitlines())
        assert b"\x1b" not in done.stderr


def test_a_segment_beyond_all_offsets_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(lines(EVENTS))
    folder = tmp_path / "brokers" / "1" / "data" / "orders-0"
    folder.mkdir(parents=True)
    (folder / f"{'9' * 20}.log").write_bytes(b"")
    assert check(tmp_path, tmp_path / "out", "--no-plots") == 3
    assert "99999 as its name, expected at most" in (tmp_path / "out" / "quarantine.jsonl").read_text()


def test_a_result_is_no_run_and_one_answer_is_printed(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines(EVENTS))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") in (1, 3)
    for arguments, expected in (
        ([str(tmp_path / "out")], "logjudge report"),
        (["h.jsonl", "--json", "--format", "sarif"], "both"),
    ):
        result = invoke("check", *arguments, "--engine", "local")
        assert isinstance(result.exception, LogjudgeError)
        assert expected in str(result.exception)


def odd_file(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"device": "/dev/zero", "nothing": "nowhere", "loop": path.name}[kind])


BROKERS_FILES = (
    "1/server.log",
    "1/data/meta.properties",
    "1/data/replication-offset-checkpoint",
    "1/data/orders-0/00000000000000000000.log",
    "1/data/orders-0/leader-epoch-checkpoint",
    "1/data/orders-0/partition.metadata",
    "1/data/__cluster_metadata-0/00000000000000000000.log",
)


@pytest.mark.parametrize("kind", ["pipe", "device", "nothing", "loop"])
def test_brokers_files_that_are_no_files_are_reported(kind: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "history.jsonl").write_bytes(lines(EVENTS))
    for name in BROKERS_FILES:
        odd_file(kind, tmp_path / "run" / "brokers" / name)
    assert check(tmp_path / "run", tmp_path / "out", "--no-plots") == 3
    rows = json_lines(tmp_path / "out" / "quarantine.jsonl")
    assert sorted(row["source"] for row in rows) == sorted(f"brokers/{name}" for name in BROKERS_FILES)
    assert all(row["reason"].startswith("found ") for row in rows)
    assumptions = verdict_in(tmp_path / "out")["assumptions"]
    assert any("readable" in item["name"] and "could not be read" in item["says"] for item in assumptions)


def test_hostile_text_is_harmless_in_documents() -> None:
    evil = "\x1b[31m<script>alert(1)</script> | @everyone [x](http://e.vil) \u202e"
    document = Document()
    document.heading(evil)
    document.sentences(evil)
    document.numbered([(evil, evil)])
    document.table([evil], [[evil]])
    terminal = click.unstyle(document.terminal())
    assert "\x1b" not in terminal
    assert "\u202e" not in terminal
    shown = document.markdown()
    assert "<script>" not in shown
    assert "[x](http" not in shown
    assert "http://" not in shown
    assert "@everyone" not in shown
    assert "\x1b" not in shown


def sends(values: list[str], offset: int) -> list[dict[str, Any]]:
    """Transactions of one value each at one offset; only the last is committed."""
    step = {"f": "send", "topic": "x", "partition": 0}
    return [
        {"time": time, "process": "t", "op": op, "type": kind, "f": "txn", "ops": [{**step, "value": value, **at}]}
        for op, value in enumerate(values)
        for time, kind, at in (
            (2 * op, "invoke", {}),
            (2 * op + 1, "ok" if value != values[0] or op == len(values) - 1 else "fail", {"offset": offset}),
        )
    ]


def polls(count: int, value: str) -> list[dict[str, Any]]:
    record = {"topic": "x", "partition": 0, "offset": 0, "value": value}
    return [
        {"time": 10**6 + op, "process": "c", "op": op, "type": kind, "f": "poll", **fields}
        for op in range(count)
        for kind, fields in (("invoke", {}), ("ok", {"records": [record]}))
    ]


MANY = 4000
CROWDS = {
    "attempts of one value at one offset, and polls of it": sends(["a"] * MANY, 0) + polls(MANY, "a"),
    "values at one offset": sends([f"v{number}" for number in range(MANY)], 0) + polls(1, "v1"),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", CROWDS)
def test_memory_does_not_grow_with_the_square_of_rows_at_an_offset(name: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines(CROWDS[name]))
    command = [sys.executable, "-m", "logjudge.cli", "check", "h.jsonl", "--engine", "local", "--no-plots", "--quiet"]
    # A process begins with the peak of the one that starts it, so a small one starts the command.
    starter = (
        "import resource, subprocess, sys; code = subprocess.run(sys.argv[1:]).returncode;"
        " print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", starter, *command], cwd=tmp_path, capture_output=True, check=True)
    code, peak = map(int, done.stdout.split())
    assert (code, verdict_in(tmp_path / "logjudge-out" / "h")["verdict"]) == (1, "invalid")
    assert peak < 1 << 20  # KiB


@pytest.mark.parametrize("line", [b"\n", b"\t\n", b",\n"])
def test_blank_lines_are_passed_over_once(line: bytes) -> None:
    """An expression that took blank lines at the beginning of each line needed a minute of the processor."""
    begun = time.process_time()
    assert recognise(line * (HEAD_BYTES // len(line)), LOG) is None
    assert time.process_time() - begun < 2
