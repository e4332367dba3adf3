"""Hostile and damaged input: a verdict or one sentence, never a crash, and never a verdict that it should not have."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from click.testing import CliRunner
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict import verdict_of
from logjudge.cli.main import cli
from logjudge.histories import files
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import LogjudgeError
from logjudge.histories.files import blocks
from logjudge.histories.readers import parquet
from notation import History, parse

EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election" / "history.jsonl.gz"
EVENTS: list[dict[str, Any]] = [json.loads(line) for line in gzip.decompress(EXAMPLE.read_bytes()).splitlines()[:400]]


def lines(events: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def check(path: Path, out: Path, *options: str) -> int:
    """The exit code; anything but one sentence about the input is a failure of the test."""
    arguments = ["check", str(path), "--engine", "local", "--out", str(out), *options]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    if isinstance(result.exception, LogjudgeError):
        assert "\n" not in str(result.exception)
        assert not out.exists()
        return 2
    if result.exception:
        raise result.exception
    assert isinstance(result.return_value, int)
    return result.return_value


NO_HISTORY = {
    "empty": b"",
    "nul": b"\0" * 1000,
    "binary": random.Random(1).randbytes(5000),
    "blank": b"\n\n\n",
    "bomb": gzip.compress(b"a" * 50_000_000),
}


@pytest.mark.parametrize("name", NO_HISTORY)
def test_what_is_no_history_is_said_in_a_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(NO_HISTORY[name])
    assert check(tmp_path / "h.jsonl", tmp_path / "out") == 2


UNUSABLE = {
    "ts": (
        lines([{**e, "ts": e["time"], "time": None} for e in EVENTS[:11]]),
        "native",
        "in 11 lines (h:1: found no time,",
    ),
    "ISO times": (
        lines([{**EVENTS[0], "time": "2026-11-20T10:00:00Z"}]),
        "native",
        'in 1 line (h:1: found "2026-11-20T10:00:00Z" as time,',
    ),
    "array": (json.dumps(EVENTS, indent=1).encode(), "native", "(h:1: no JSON"),
    "CSV": (b"time,process,type\n1,p,ok\n", "native", "in 2 lines (h:1: no JSON"),
    "list-append": (b"{:type :ok, :f :txn, :value [[:append 1 2]], :process 0, :time 1}\n", "jepsen", "[:append 1 2]"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_history_without_one_usable_line_is_refused_with_the_first_reason(name: str, tmp_path: Path) -> None:
    content, reader, says = UNUSABLE[name]
    (tmp_path / "h").write_bytes(content)
    arguments = ["check", str(tmp_path / "h"), "--from", reader, "--engine", "local", "--out", str(tmp_path / "out")]
    error = CliRunner().invoke(cli, arguments, standalone_mode=False).exception
    assert isinstance(error, LogjudgeError)
    assert says in str(error)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [("explain",), ("diff",), ("timeline",), ("plot", "glance")])
def test_a_history_without_one_usable_line_is_not_looked_at(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines([{**EVENTS[0], "time": "now"}]))
    name, *rest = command
    error = CliRunner().invoke(cli, [name, str(tmp_path / "h.jsonl"), *rest], standalone_mode=False).exception
    assert isinstance(error, LogjudgeError)
    assert 'h.jsonl:1: found "now" as time' in str(error)


def test_brokers_files_beside_a_history_without_one_usable_line_are_judged(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE.parent, tmp_path / "run")
    (folder / EXAMPLE.name).unlink()
    (folder / "history.jsonl").write_bytes(lines([{**event, "time": "now"} for event in EVENTS]))
    assert check(folder, tmp_path / "out", "--no-plots") == 1
    told_of = json.loads((tmp_path / "out" / "verdict.json").read_text())["assumptions"]
    broken = {item["name"]: item["says"] for item in told_of if not item["holds"]}
    assert "clients recorded" in broken
    assert 'the first history.jsonl:1: found "now" as time, expected' in broken["lines well formed"]


DAMAGED = {
    "truncated gzip": gzip.compress(lines(EVENTS))[:5000],
    "truncated zstd": zstandard.compress(lines(EVENTS)) + zstandard.compress(b"\n" * 9)[:-1],
    "zstd and more": zstandard.compress(lines(EVENTS)) + b"garbage",
    "deep line": lines(EVENTS) + b"[" * 100_000 + b"\n",
    "long line": lines(EVENTS) + b'{"x":"' + b"a" * 30_000_000 + b'"}\n',
    "invalid UTF-8": lines(EVENTS) + b'{"time":1,"process":"\xff","op":1,"type":"invoke","f":"poll"}\n',
    "beyond int64": lines(EVENTS) + b'{"time":9223372036854775808,"process":"a","op":1,"type":"invoke","f":"poll"}\n',
    "lone surrogate": lines(EVENTS) + b'{"time":1,"process":"\\ud800","op":1,"type":"invoke","f":"poll"}\n',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_quarantined_and_never_valid(name: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(DAMAGED[name])
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") == 3
    assert len((tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()) in (1, 2)


def test_all_frames_of_a_zstd_file_are_read(tmp_path: Path) -> None:
    half = len(EVENTS) // 2
    (tmp_path / "h.jsonl.zst").write_bytes(
        b"".join(map(zstandard.compress, (lines(EVENTS[:half]), lines(EVENTS[half:]))))
    )
    run = open_run(tmp_path / "h.jsonl.zst")
    assert b"".join(block.data for block in blocks(run.splits[0])) == lines(EVENTS)


def test_a_line_without_end_costs_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "h.jsonl.gz").write_bytes(gzip.compress(lines(EVENTS) + b"a" * 60_000_000))
    found = list(blocks(open_run(tmp_path / "h.jsonl.gz").splits[0], 1 << 20))
    assert "a line of more than 1 MiB" in found[-1].damage
    assert sum(len(block.data) for block in found) < 40_000_000


def test_what_is_acknowledged_in_no_partition_is_never_valid(tmp_path: Path) -> None:
    bare = [{k: v for k, v in e.items() if k != "partition" or e["f"] != "send"} for e in EVENTS]
    (tmp_path / "h.jsonl").write_bytes(lines(bare))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") == 3
    told = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert [item["name"] for item in told["assumptions"] if item["name"] == "partitions recorded"]


@pytest.mark.parametrize(
    ("name", "other", "found"),
    [
        ("f", "poll", "the completion of a poll, expected that of the send"),
        ("topic", "else", "a completion with topic else, expected that of the orders"),
        ("value", "else", "a completion with value else, expected that of the p2-0"),
    ],
)
def test_a_completion_of_another_operation_is_quarantined(name: str, other: str, found: str, tmp_path: Path) -> None:
    number = next(n for n, e in enumerate(EVENTS) if e["f"] == "send" and e["type"] == "ok")
    (tmp_path / "h.jsonl").write_bytes(lines([{**e, name: other} if n == number else e for n, e in enumerate(EVENTS)]))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") == 3
    (row,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
    assert (row["line"], row["reason"]) == (number + 1, f"found {found} that was invoked")


def test_pipes_and_links_to_nowhere_are_refused(tmp_path: Path) -> None:
    for name in ("pipe", "link", "loop"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "pipe" / "history.jsonl")
    (tmp_path / "link" / "history.jsonl").symlink_to("nowhere")
    (tmp_path / "loop" / "history.jsonl").symlink_to("history.jsonl")
    for path in (tmp_path / "pipe", tmp_path / "pipe" / "history.jsonl", tmp_path / "link", tmp_path / "loop"):
        assert check(path, tmp_path / "out") == 2


@pytest.mark.parametrize("odd", ["pipe", "folder", "nowhere"])
def test_a_run_json_that_is_no_file_is_told(odd: str, tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(lines(EVENTS))
    config = tmp_path / "run.json"
    {"pipe": os.mkfifo, "folder": Path.mkdir, "nowhere": lambda path: path.symlink_to("nowhere")}[odd](config)
    assert check(tmp_path, tmp_path / "out") == 2


def test_a_long_first_line_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines([{**EVENTS[0], "note": "x" * 100_000}, *EVENTS[1:]]))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") == 3


@pytest.mark.parametrize("column", ["time", "offset", "records"])
def test_parquet_of_fractions_is_refused(column: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines(EVENTS))
    assert not CliRunner().invoke(cli, ["convert", str(tmp_path / "h.jsonl"), str(tmp_path / "h.parquet")]).exit_code
    events = pl.read_parquet(tmp_path / "h.parquet")
    inside = pl.element().struct.with_fields(pl.field("offset") + 0.5)
    odd = pl.col(column).list.eval(inside) if column == "records" else pl.col(column) + 0.5
    events.with_columns(odd).write_parquet(tmp_path / "h.parquet")
    assert check(tmp_path / "h.parquet", tmp_path / "out") == 2


def test_a_failure_to_read_parquet_that_says_nothing_is_damage_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise OSError

    monkeypatch.setattr(parquet.pq, "ParquetFile", fail)
    assert parquet.read_group("history.parquet", 3)[2:] == (0, "row group 3 cannot be read: OSError")


def test_a_poll_whose_invocation_is_unreadable_may_have_read_anything(tmp_path: Path) -> None:
    told = parse("p:a@0 p:b@1 final:assign=0 final:<a@0 final:<b@1")
    folder = History(told.events[:-2] + told.events[-1:], told.config).write(tmp_path / "run")
    assert check(folder, tmp_path / "out", "--no-plots") == 3


def test_who_sent_what_was_read_may_stand_in_a_line_that_is_missing(tmp_path: Path) -> None:
    told = parse("p:a@0 q:b@1 q:e@2 c:<a@0,b@1,e@2")
    whole = History(told.events, told.config).write(tmp_path / "whole")
    assert verdict_of(judge_run(open_run(whole)))["rules"]["phantom-read"]["verdict"] == "valid"
    for name, events in (("head", told.events[3:]), ("line", told.events[:2] + told.events[3:])):
        folder = History(events, told.config).write(tmp_path / name)
        assert verdict_of(judge_run(open_run(folder)))["rules"]["phantom-read"]["verdict"] == "unknown", name


@pytest.mark.parametrize("change", [lambda data: b"\xef\xbb\xbf" + data, lambda data: data.replace(b"\n", b"\r\n")])
def test_bom_and_crlf_change_nothing(change: Any, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(change(lines(EVENTS)))
    check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots")
    assert (tmp_path / "out" / "quarantine.jsonl").read_text() == ""


CONFIGS: list[Any] = [
    *([], 3, "x", {"format": 7}),
    *({"processes": [1, 2]}, {"processes": {"p0": 7, "final": {"role": ["final"]}}}, {"topics": "x"}),
    *({"topics": {"orders": 3}}, {"snapshots": [1]}, {"snapshots": {"a": {"time": "x"}}}, {"system": "kafka"}),
    {"final": "yes", "started_at": 12},
    {"topics": {"orders": {"cleanup.policy": 5, "replica.assignment": "x", "partitions": "many"}}},
    {"processes": {"c0": {"group.id": ["g"], "isolation.level": 3, "acks": {}}}},
    {"name": {"a": 1}},
]


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_odd_configurations_are_read_or_refused(config: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(config))
    (tmp_path / "run" / "history.jsonl").write_bytes(lines(EVENTS))
    assert check(tmp_path / "run", tmp_path / "out", "--no-plots") in (2, 3)


def test_extreme_numbers(tmp_path: Path) -> None:
    far = [{**e, "offset": 2**62 + e["offset"]} if e.get("offset") else e for e in EVENTS]
    late = [
        {**e, "time": 2**63 - 1 if n % 7 == 0 else -(2**63) if n % 11 == 0 else e["time"]} for n, e in enumerate(EVENTS)
    ]
    reused = [{**e, "op": 2**63 - 1 if n % 7 == 0 else -5} for n, e in enumerate(EVENTS)]
    for name, events in (("far", far), ("late", late), ("reused", reused)):
        (tmp_path / f"{name}.jsonl").write_bytes(lines(events))
        assert check(tmp_path / f"{name}.jsonl", tmp_path / name) in (1, 3)


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
    told = parse("p:a@0 p:b@1 c:<a@0 delete=1 final:<b@1")
    events = [{**e, "fault": {**e["fault"], **odd}} if "fault" in e else e for e in told.events]
    folder = History(events, told.config).write(tmp_path / "run")
    assert check(folder, tmp_path / "out", "--no-plots") == 3


@pytest.mark.parametrize("shift", [None, -(10**12)])
def test_times_that_tell_little_hide_no_tail(shift: int | None, tmp_path: Path) -> None:
    told = parse("p:a@0 p:b@1 final:assign=0 final:<a@0")
    events = [{**e, "time": 5 if shift is None else e["time"] + shift} for e in told.events]
    folder = History(events, told.config).write(tmp_path / "run")
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
def test_results_that_were_changed_by_hand_are_told(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines(EVENTS))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") in (1, 3)
    told = json.loads((tmp_path / "out" / name).read_text())
    (tmp_path / "out" / name).write_text(json.dumps({**told, **change}))
    result = CliRunner().invoke(cli, ["report", str(tmp_path / "out")], standalone_mode=False)
    assert isinstance(result.exception, LogjudgeError)


def test_names_that_are_no_text_and_numbers_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "odd.toml").write_text('[broker."²"]\n')
    (tmp_path / "wrong.toml").write_text('[config]\n"replica.lag.time.max.ms" = "x"\n')
    for name in ("odd", "wrong"):
        arguments = ["simulate", "--config", str(tmp_path / f"{name}.toml"), "--out", str(tmp_path / "run")]
        result = CliRunner().invoke(cli, arguments, standalone_mode=False)
        assert isinstance(result.exception, LogjudgeError)
        assert f"{name}.toml" in str(result.exception)
    done = subprocess.run(
        [sys.executable, "-m", "logjudge.cli", "simulate", "--ops", "5", "--out", os.fsencode(tmp_path) + b"/bad\xff"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert (done.returncode, b"bad\\udcff" in done.stdout) == (0, True)


def test_what_is_named_by_bytes_that_are_no_text_costs_a_sentence(tmp_path: Path) -> None:
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
    for arguments, said in (
        ([str(tmp_path / "out")], "logjudge report"),
        (["h.jsonl", "--json", "--format", "sarif"], "both"),
    ):
        result = CliRunner().invoke(cli, ["check", *arguments, "--engine", "local"], standalone_mode=False)
        assert isinstance(result.exception, LogjudgeError)
        assert said in str(result.exception)


def odd_file(kind: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"device": "/dev/zero", "nothing": "nowhere", "loop": path.name}[kind])


@pytest.mark.parametrize("kind", ["pipe", "device", "nothing", "loop"])
@pytest.mark.parametrize(
    "name",
    [
        "1/server.log",
        "1/data/meta.properties",
        "1/data/replication-offset-checkpoint",
        "1/data/orders-0/00000000000000000000.log",
        "1/data/orders-0/leader-epoch-checkpoint",
        "1/data/orders-0/partition.metadata",
        "1/data/__cluster_metadata-0/00000000000000000000.log",
    ],
)
def test_brokers_files_that_are_no_files_are_reported(kind: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "history.jsonl").write_bytes(lines(EVENTS))
    odd_file(kind, tmp_path / "run" / "brokers" / name)
    assert check(tmp_path / "run", tmp_path / "out", "--no-plots") == 3
    (row,) = map(json.loads, (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines())
    assert row["source"] == f"brokers/{name}"
    assert row["reason"].startswith("found ")
    told = json.loads((tmp_path / "out" / "verdict.json").read_text())["assumptions"]
    assert any("readable" in item["name"] and "could not be read" in item["says"] for item in told)
