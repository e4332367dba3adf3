"""Names, partitions and offsets that a test hands to `Recorder`: right ones are recorded, others refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logjudge.histories.errors import LogjudgeError, UsageError
from logjudge.histories.recording.recorder import Recorder


@pytest.mark.parametrize("arguments", [("0", "1"), (0, 1.5), ({}, None)])
def test_a_wrong_place_of_a_send_is_refused_and_leaves_it_open(tmp_path: Path, arguments: tuple[Any, Any]) -> None:
    recorder = Recorder(tmp_path / "run")
    with pytest.raises(UsageError, match="expected an integer or None"), recorder.send("p0", "orders", "a") as op:
        op.ok(*arguments)
    lines = (recorder.finish() / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["invoke", "info"]


@pytest.mark.parametrize("acks", [2, "two", True])
def test_acks_that_kafka_does_not_have_are_refused(tmp_path: Path, acks: Any) -> None:
    recorder = Recorder(tmp_path / "run")
    with pytest.raises(UsageError, match=rf"acks: found {acks!r}, expected all \(or -1\), 1 or 0"):
        recorder.send("p0", "orders", "a", acks=acks)
    assert not (recorder.finish() / "history.jsonl").read_text()


@pytest.mark.parametrize("arguments", [(0, -5), (-2, 0), (0, -1000)])
def test_a_negative_number_that_no_client_reports_is_refused(tmp_path: Path, arguments: tuple[int, int]) -> None:
    recorder = Recorder(tmp_path / "run")
    with pytest.raises(UsageError, match="found a negative"):
        recorder.send("p0", "orders", "a").ok(*arguments)
    with pytest.raises(UsageError, match="found a negative"):
        recorder.txn("t0").send("orders", "b").ok(*arguments)
    with pytest.raises(UsageError, match="expected a record with a partition and an offset from 0"):
        recorder.poll("c").ok([("orders", *arguments, "a")])
    assert '"ok"' not in (recorder.finish() / "history.jsonl").read_text()


def test_a_place_may_be_an_integer_of_numpy(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.send("p0", "orders", "a").ok(np.int64(0), np.int64(7))
    last = (recorder.finish() / "history.jsonl").read_text().splitlines()[-1]
    assert (json.loads(last)["partition"], json.loads(last)["offset"]) == (0, 7)


@pytest.mark.parametrize(
    "call",
    [
        lambda recorder: recorder.send(0, "orders", "a"),
        lambda recorder: recorder.send("p0", 5, "a"),
        lambda recorder: recorder.send("p0", "", "a"),
        lambda recorder: recorder.txn("t0").send("", "a"),
        lambda recorder: recorder.txn(None),
        lambda recorder: recorder.txn("t0").send(b"orders", "a"),
        lambda recorder: recorder.poll(7),
        lambda recorder: recorder.assign(7, []),
        lambda recorder: recorder.crash(7),
        lambda recorder: recorder.configure(7),
        lambda recorder: recorder.configure_topic(7),
        lambda recorder: recorder.finish(final_read=9),
        lambda recorder: recorder.finish(final_read=[9]),
    ],
)
def test_a_name_that_is_no_text_is_refused_and_costs_nothing_else(
    tmp_path: Path, call: Callable[[Recorder], object]
) -> None:
    recorder = Recorder(tmp_path / "run")
    with pytest.raises(UsageError, match=r"expected a name \(str\)"):
        call(recorder)
    recorder.send("p0", "orders", "b").ok(0, 0)
    written = (recorder.finish() / "history.jsonl").read_text()
    assert '"value":"b"' in written
    assert '"value":"a"' not in written


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda recorder: recorder.poll("c").ok([("orders", 0, 1)]), "the value of a tombstone is None"),
        (
            lambda recorder: recorder.poll("c").ok([{"topic": "orders", "partition": 0, "offset": 1}]),
            "offset and value",
        ),
        (lambda recorder: recorder.txn("t").poll([("orders", 0, 1)]), r"found \('orders', 0, 1\), expected"),
        (lambda recorder: recorder.handle("c", [("orders", 0, 1)]), "the value of a tombstone is None"),
        (lambda recorder: recorder.end_offsets("c").ok([("orders", 0)]), r"found \('orders', 0\), expected an offset"),
        (lambda recorder: recorder.end_offsets("c").ok({"topic": "orders", "partition": 0}), "expected an offset"),
        (lambda recorder: recorder.commit("c", [("orders", 0)]), "expected an offset"),
        (lambda recorder: recorder.txn("t").commit(("orders", 0)), "expected an offset"),
    ],
)
def test_a_value_or_an_offset_that_is_missing_is_refused(
    tmp_path: Path, call: Callable[[Recorder], object], reason: str
) -> None:
    recorder = Recorder(tmp_path / "run")
    with pytest.raises(UsageError, match=reason):
        call(recorder)
    assert "null" not in (recorder.finish() / "history.jsonl").read_text()


def test_an_explicit_none_is_a_tombstone_or_an_unknown_offset(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.poll("c").ok([("orders", 0, 1, None)])
    recorder.commit("c", [("orders", 0, None)]).ok()
    recorder.assign("c", [("orders", 0)], group=True)
    written = (recorder.finish() / "history.jsonl").read_text()
    assert written.count('"value":null') == 1
    assert written.count('"offset":null') == 3


@pytest.mark.parametrize("about", [{"topics": ["orders"]}, {"topics": {"orders": 3}}, {"processes": {"p0": "all"}}])
def test_settings_that_are_no_dictionaries_are_refused(tmp_path: Path, about: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="to a dictionary of its settings"):
        Recorder(tmp_path / "run", **about)
    Recorder(tmp_path / "run").finish()


@pytest.mark.parametrize(
    ("nodes", "recorded"), [("12", ["12"]), (12, ["12"]), (["1", 2], ["1", "2"]), (range(2), ["0", "1"]), ([], [])]
)
def test_a_fault_may_hit_one_node(tmp_path: Path, nodes: object, recorded: list[str]) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.fault("kill", nodes=nodes).ok()
    line = json.loads((recorder.finish() / "history.jsonl").read_text().splitlines()[0])
    assert line["fault"] == {"kind": "kill", "nodes": recorded}


def test_a_setting_that_json_lacks_is_recorded_as_text(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.configure("p0", partitioner=len)
    config = json.loads((recorder.finish() / "run.json").read_text())
    assert config["processes"]["p0"]["partitioner"] == str(len)


def test_a_step_that_cannot_be_written_ends_the_recording_after_the_lines_before_it(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.send("p0", "orders", "a").ok(0, 0)
    recorder.txn("t0").poll([{"topic": "\udcff", "partition": 0, "offset": 1, "value": "a"}])
    recorder.flush()
    with pytest.raises(LogjudgeError, match="expected text that UTF-8 can encode"):
        recorder.send("p0", "orders", "b")
    assert (tmp_path / "run" / "history.jsonl").read_text().count('"value":"a"') == 1
