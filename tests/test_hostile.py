"""Damaged histories: a verdict or one sentence, never a crash, and never a wrong verdict."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from command_line import invoke, verdict_in, verdict_of_run
from hostile_input import EVENTS, EXAMPLE, check, lines
from logjudge.histories import files
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError, LogjudgeError
from logjudge.histories.evidence import layout
from logjudge.histories.files import blocks
from logjudge.histories.readers import parquet
from logjudge.histories.settings import Settings, config_of
from notation import History, parse

NO_HISTORY = {
    "empty": b"",
    "nul": b"\0" * 1000,
    "binary": random.Random(1).randbytes(5000),
    "blank": b"\n\n\n",
    "bomb": gzip.compress(b"a" * 50_000_000),
}


@pytest.mark.parametrize("name", NO_HISTORY)
def test_a_file_that_is_no_history_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(NO_HISTORY[name])
    assert check(tmp_path / "h.jsonl", tmp_path / "out") == 2


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (NO_HISTORY["binary"], "found binary data,"),
        (NO_HISTORY["blank"], "found only blank lines,"),
        (NO_HISTORY["empty"], "found an empty file,"),
        (lines(EVENTS).decode().encode("utf-16"), "found text in UTF-16,.* `iconv -f UTF-16 -t UTF-8 "),
        (lines(EVENTS).decode().encode("utf-16-le"), "found text in UTF-16LE,"),
        (lines(EVENTS).decode().encode("utf-16-be"), "found text in UTF-16BE,"),
        (lines(EVENTS).decode().encode("utf-32"), "found text in UTF-32,"),
        (b"time,process,f\r\n1,p,send\r\n", "found a table with 3 columns, separated by commas,"),
        (b"time\tf\n1\tsend\n", "found a table with 2 columns, separated by tabs,"),
        (b"PK\x03\x04" + lines(EVENTS), "found a ZIP archive,.*unpack it"),
        (b"\xfd7zXZ\x00\0\0", "found data compressed with xz,"),
        (b'{"a": 1, "f": 2}\n', "found a JSON object with the fields a, f, without process, type,"),
        (b"{}\n", "found a JSON object with no fields, without process, type, f,"),
        (b"hello\n", "found a first line like 'hello',"),
        (b'{"value": "\\ud800"}\n', r"found a first line that is no JSON \(no low surrogate"),
        (b"{:valid? false,\n :count 3}\n", "found EDN without an operation that logjudge knows"),
        (b'{"process": "p0", "ty', r"found a first line that is no JSON .*, expected one JSON object .* was it cut"),
        (gzip.compress(b"", mtime=0)[:-1] + b"!", "found damaged gzip data"),
        (b"\x28\xb5\x2f\xfdgarbage", "found damaged zstd data"),
    ],
)
def test_what_is_no_history_is_named(content: bytes, found: str, tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=found):
        open_run(tmp_path / "h.jsonl")


def test_an_archive_of_a_run_is_no_history(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(lines(EVENTS))
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "history.jsonl")
    with pytest.raises(InputError, match=r"found a tar archive, .*unpack it"):
        open_run(tmp_path / "run.tar.gz")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[\n" + ",\n".join(map(json.dumps, EVENTS)) + "\n]\n", "a JSON array"),
        ("[{:type :invoke, :process 0, :f :poll}\n {:type :ok, :process 0, :f :poll}]", "a vector of operations"),
    ],
)
def test_a_list_over_many_lines_is_refused_as_a_whole(text: str, found: str, tmp_path: Path) -> None:
    """Without its first and its last line it would be a history with lines left out."""
    (tmp_path / "h.json").write_text(text)
    with pytest.raises(LogjudgeError, match=f"found {found}, expected one"):
        open_run(tmp_path / "h.json")


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
    content, reader, expected = UNUSABLE[name]
    (tmp_path / "h").write_bytes(content)
    arguments = ["check", str(tmp_path / "h"), "--from", reader, "--engine", "local", "--out", str(tmp_path / "out")]
    error = invoke(*arguments).exception
    assert isinstance(error, LogjudgeError)
    assert expected in str(error)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [("explain",), ("diff",), ("timeline",), ("plot", "glance")])
def test_a_history_without_one_usable_line_is_not_looked_at(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "h.jsonl").write_bytes(lines([{**EVENTS[0], "time": "now"}]))
    name, *rest = command
    error = invoke(name, tmp_path / "h.jsonl", *rest).exception
    assert isinstance(error, LogjudgeError)
    assert 'h.jsonl:1: found "now" as time' in str(error)


def test_brokers_files_beside_a_history_without_one_usable_line_are_judged(tmp_path: Path) -> None:
    folder = shutil.copytree(EXAMPLE.parent, tmp_path / "run")
    (folder / EXAMPLE.name).unlink()
    (folder / "history.jsonl").write_bytes(lines([{**event, "time": "now"} for event in EVENTS]))
    assert check(folder, tmp_path / "out", "--no-plots") == 1
    assumptions = verdict_in(tmp_path / "out")["assumptions"]
    broken = {item["name"]: item["says"] for item in assumptions if not item["holds"]}
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


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_all_members_of_a_compressed_file_are_read(ending: str, compress: Any, tmp_path: Path) -> None:
    half = len(EVENTS) // 2
    file = tmp_path / f"h.jsonl.{ending}"
    file.write_bytes(compress(lines(EVENTS[:half])) + compress(lines(EVENTS[half:])))
    run = open_run(file)
    assert b"".join(block.data for block in blocks(run.splits[0])) == lines(EVENTS)


def test_a_line_without_end_costs_no_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 1 << 20)
    (tmp_path / "h.jsonl.gz").write_bytes(gzip.compress(lines(EVENTS) + b"a" * 60_000_000))
    found = list(blocks(open_run(tmp_path / "h.jsonl.gz").splits[0], 1 << 20))
    assert "a line of more than 1 MiB" in found[-1].damage
    assert sum(len(block.data) for block in found) < 40_000_000


def test_acknowledgements_without_a_partition_are_never_valid(tmp_path: Path) -> None:
    bare = [{k: v for k, v in e.items() if k != "partition" or e["f"] != "send"} for e in EVENTS]
    (tmp_path / "h.jsonl").write_bytes(lines(bare))
    assert check(tmp_path / "h.jsonl", tmp_path / "out", "--no-plots") == 3
    verdict = verdict_in(tmp_path / "out")
    assert [item["name"] for item in verdict["assumptions"] if item["name"] == "partitions recorded"]


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
def test_a_run_json_that_is_no_file_is_refused(odd: str, tmp_path: Path) -> None:
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
    assert not invoke("convert", tmp_path / "h.jsonl", tmp_path / "h.parquet").exit_code
    events = pl.read_parquet(tmp_path / "h.parquet")
    inside = pl.element().struct.with_fields(pl.field("offset") + 0.5)
    odd = pl.col(column).list.eval(inside) if column == "records" else pl.col(column) + 0.5
    events.with_columns(odd).write_parquet(tmp_path / "h.parquet")
    assert check(tmp_path / "h.parquet", tmp_path / "out") == 2


def test_a_failure_to_read_parquet_without_a_message_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: str) -> None:
        raise OSError

    monkeypatch.setattr("pyarrow.parquet.ParquetFile", fail)
    (tmp_path / "history.parquet").touch()
    assert parquet.read_group(str(tmp_path / "history.parquet"), 3)[2:] == (0, "row group 3 cannot be read: OSError")


def test_a_poll_with_an_unreadable_invocation_may_have_read_anything(tmp_path: Path) -> None:
    history = parse("p:a@0 p:b@1 final:assign=0 final:<a@0 final:<b@1")
    folder = History(history.events[:-2] + history.events[-1:], history.config).write(tmp_path / "run")
    assert check(folder, tmp_path / "out", "--no-plots") == 3


GROUP = (
    "{c.group.id=g} p:a@0 p:b@1 p:e@2 c:assign=0 c:<a@0 c:handle<a@0 c:<b@1 c:handle<b@1 c:<e@2 c:handle<e@2 c:commit=3"
    " c:seek=1 c:<b@1 c:handle<b@1 end=3 final:assign=0 final:<a@0 final:<b@1 final:<e@2"
)
OPERATIONS_OF_CLIENTS = [
    (event["process"], event["op"])
    for event in parse(GROUP).events
    if event["process"] in ("c", "final") and event["op"]
]


@pytest.mark.parametrize(("process", "op"), dict.fromkeys(OPERATIONS_OF_CLIENTS))
def test_an_operation_with_the_number_of_an_earlier_one_may_have_happened(
    process: str, op: int, tmp_path: Path
) -> None:
    """A client that numbers from the start again after a restart: its later lines are left out, and break no rule."""
    history = parse(GROUP)
    again = [
        {**event, "op": 0} if (event["process"], event["op"]) == (process, op) else event for event in history.events
    ]
    assert verdict_of_run(History(again, history.config).write(tmp_path))["verdict"] == "unknown"


@pytest.mark.parametrize(("process", "op"), dict.fromkeys(OPERATIONS_OF_CLIENTS))
def test_an_operation_with_two_unreadable_lines_may_have_happened(process: str, op: int, tmp_path: Path) -> None:
    history = parse(GROUP)
    texts = [b"\0" if (event["process"], event["op"]) == (process, op) else lines([event]) for event in history.events]
    folder = history.write(tmp_path / "run")
    (folder / "history.jsonl").write_bytes(b"\n".join(text.strip() for text in texts) + b"\n")
    assert verdict_of_run(folder)["verdict"] == "unknown"


def test_records_that_an_orphaned_completion_handled_were_handled(tmp_path: Path) -> None:
    history = parse(GROUP)
    assert verdict_of_run(history.write(tmp_path / "whole"))["verdict"] == "valid"
    [lost, *_] = [event for event in history.events if event["f"] == "handle"]
    events = [event for event in history.events if event is not lost]
    assert lost["type"] == "invoke"
    rules = verdict_of_run(History(events, history.config).write(tmp_path / "run"))["rules"]
    assert rules["consumer-loss"]["verdict"] == "unknown"


def test_a_missing_line_may_hold_the_send_of_a_read_value(tmp_path: Path) -> None:
    history = parse("p:a@0 q:b@1 q:e@2 c:<a@0,b@1,e@2")
    whole = History(history.events, history.config).write(tmp_path / "whole")
    assert verdict_of_run(whole)["rules"]["phantom-read"]["verdict"] == "valid"
    for name, events in (("head", history.events[3:]), ("line", history.events[:2] + history.events[3:])):
        folder = History(events, history.config).write(tmp_path / name)
        assert verdict_of_run(folder)["rules"]["phantom-read"]["verdict"] == "unknown", name


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"processes": {"p": {"acks": "\\ud800"}}}', "half of a character"),
        ('{"final": true, "final": false}', "'final' twice in an object"),
        ('{"topics": {"x": {}, "x": {"partitions": 3}}}', "'x' twice in an object"),
        ("[" * 5000, "found JSON that is nested too deeply, expected the run's JSON object"),
        ('{"form', r"found no JSON .* at line 1, column 2\).*; correct line 1, column 2, or copy the file again"),
    ],
)
def test_a_run_json_that_can_be_read_in_two_ways_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        config_of(text.encode(), "run.json")


WRONG: list[tuple[Any, str]] = [
    ({"processes": [1]}, r"processes = \[1\], expected an object;"),
    ({"processes": {"p0": 7}}, "processes.p0 = 7, expected an object;"),
    ({"processes": {"p0": {"acks": "some"}}}, 'processes.p0.acks = "some", expected all, -1, 0 or 1;'),
    ({"topics": "x"}, 'topics = "x", expected an object;'),
    ({"topics": {"x": {"partitions": "many"}}}, 'topics.x.partitions = "many", expected a whole number from 1 to 214'),
    ({"topics": {"x": {"replication.factor": 2**31}}}, "topics.x.replication.factor = 2147483648, expected a whole"),
    ({"topics": {"x": {"replication.factor": True}}}, "topics.x.replication.factor = true, expected a whole"),
    ({"topics": {"x": {"retention.ms": "a week"}}}, 'topics.x.retention.ms = "a week", expected a whole number;'),
    ({"processes": {"p0": {"acks": 10**30}}}, "processes.p0.acks = 1000000"),
    ({"snapshots": {"a": {"time": "x"}}}, 'snapshots.a.time = "x", expected nanoseconds'),
    ({"started_at": "yesterday"}, 'started_at = "yesterday", expected a time like'),
    ({"final": "yes"}, 'final = "yes", expected true or false;'),
    ({"system": "kafka"}, 'system = "kafka", expected an object;'),
]


@pytest.mark.parametrize(("config", "found"), WRONG, ids=range(len(WRONG)))
@pytest.mark.parametrize("command", ["check", "lint"])
def test_a_wrong_value_in_run_json_is_named(command: str, config: Any, found: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(config))
    (tmp_path / "history.jsonl").write_bytes(lines(EVENTS))
    error = invoke(command, tmp_path).exception
    assert isinstance(error, InputError)
    assert re.search(f"run.json: found {found}.* correct the value, or remove the field", str(error))


def test_unknown_fields_and_settings_as_text_are_accepted() -> None:
    config: dict[str, Any] = {
        "run by": ["me"],
        "name": None,
        "topics": {
            "x": {
                "partitions": "3",
                "retention.ms": "-1",
                "unclean.leader.election.enable": "true",
                "segment.bytes": {},
            }
        },
        "processes": {"p0": {"acks": -1, "host": 3}, "c0": None},
        "snapshots": {"before": {}},
    }
    read = config_of(json.dumps(config).encode(), "run.json")
    assert read == config
    assert Settings(config=read).topic("x") == {**config["topics"]["x"], "partitions": 3}


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_odd_configurations_are_read_or_refused(config: Any, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(json.dumps(config))
    (tmp_path / "run" / "history.jsonl").write_bytes(lines(EVENTS))
    assert check(tmp_path / "run", tmp_path / "out", "--no-plots") in (2, 3)


def test_a_link_to_a_whole_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run" / "brokers" / "1").mkdir(parents=True)
    (tmp_path / "run" / "history.jsonl").write_bytes(lines(EVENTS))
    (tmp_path / "run" / "brokers" / "1" / "data").symlink_to(tmp_path / "all")
    for number in range(30):
        (tmp_path / "all" / str(number)).mkdir(parents=True)
    monkeypatch.setattr(layout, "MAX_ENTRIES", 30)
    with pytest.raises(InputError, match="more than 30 files and folders"):
        open_run(tmp_path / "run")
