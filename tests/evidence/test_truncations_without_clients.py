"""Truncations in brokers' files without a history: what else than acknowledgements shows their cause."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from logjudge import check

from .test_commands import Unpack
from .test_commands import check as check_into


def test_a_truncation_that_explains_a_divergence_is_no_incident_of_its_own(unpacked: Unpack, tmp_path: Path) -> None:
    shutil.copytree(unpacked("kip-101-c") / "brokers", tmp_path / "brokers")
    [incident] = check(tmp_path, engine="local").incidents
    assert incident["cause"] == "high-watermark-truncation"
    assert "broker 2 truncated orders-0 to offset 635" in [fact["says"] for fact in incident["chain"]]


def test_the_timeline_of_a_report_has_each_event_once(unpacked: Unpack, tmp_path: Path) -> None:
    shutil.copytree(unpacked("kip-101-c") / "brokers", tmp_path / "run" / "brokers")
    check_into(tmp_path / "run", tmp_path / "out")
    report = (tmp_path / "out" / "report.md").read_text()
    table = report[report.index("## Timeline") : report.index("## Supporting information")]
    rows = [line.split(" | ") for line in table.splitlines() if "broker 2 truncated" in line]
    assert len(rows) == len({row[0] for row in rows}) == 2


@pytest.mark.parametrize(
    ("acks", "cause"), [(["1", "1"], "single-ack-failover"), (["1", "all"], "unknown"), (["all"], "unknown")]
)
def test_acks_of_the_producers_in_run_json_explain_a_truncation(
    acks: list[str], cause: str, unpacked: Unpack, tmp_path: Path
) -> None:
    """With acks=1 a leader acknowledges what it writes. With acks=all the removed records may be unacknowledged."""
    shutil.copytree(unpacked("acks1-failover-a") / "brokers", tmp_path / "brokers")
    producers = {f"p{number}": {"role": "producer", "acks": value} for number, value in enumerate(acks)}
    (tmp_path / "run.json").write_text(json.dumps({"processes": producers}))
    [incident] = check(tmp_path, engine="local").incidents
    assert incident["cause"] == cause


def test_acks_of_recorded_producers_explain_nothing_of_a_partition_to_which_they_did_not_send(
    unpacked: Unpack, tmp_path: Path
) -> None:
    shutil.copytree(unpacked("acks1-failover-a") / "brokers", tmp_path / "brokers")
    about = {"started_at": "2026-11-21T09:00:00Z", "processes": {"p0": {"role": "producer", "acks": "1"}}}
    (tmp_path / "run.json").write_text(json.dumps(about))
    send = {"process": "p0", "op": 1, "f": "send", "topic": "other", "partition": 0, "value": "a"}
    crash = {"process": "p0", "op": 2, "f": "crash"}
    kinds = [("invoke", send), ("ok", {**send, "offset": 0}), ("invoke", crash), ("ok", crash)]
    events = [{"time": time, "type": kind, **event} for time, (kind, event) in enumerate(kinds)]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    assert check(tmp_path, engine="local").incidents == []
