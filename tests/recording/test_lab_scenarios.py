"""Real clusters under faults: each scenario gets the verdict and the causes that it states."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import logjudge
import pytest
from lab_processes import processes
from logjudge.histories.recording.collect import collect, sources_of
from logjudge.histories.recording.lab.cluster import Plan
from logjudge.histories.recording.lab.handle import Lab
from logjudge.histories.recording.lab.releases import fetch_kafka
from logjudge.histories.recording.scenarios import load, names

DELETING = ("retention", "delete-records", "compaction")


def lost_values(folder: Path) -> set[str]:
    """The acknowledged values that the final reads lack, counted by hand."""
    acknowledged: set[str] = set()
    values: dict[tuple[str, int], str] = {}
    read: set[str] = set()
    for file in (folder / "history.jsonl", *folder.glob("history/*.jsonl")):
        for event in map(json.loads, file.read_text().splitlines()):
            if event["f"] == "send" and event["type"] == "invoke":
                values[event["process"], event["op"]] = event["value"]
            elif event["f"] == "send" and event["type"] == "ok":
                acknowledged.add(values[event["process"], event["op"]])
            elif event["f"] == "txn" and event["type"] == "ok":
                acknowledged |= {step["value"] for step in event["ops"] if step["f"] == "send"}
            elif event["process"] == "final" and event["f"] == "poll" and event["type"] == "ok":
                read |= {record["value"] for record in event["records"]}
    return acknowledged - read


@pytest.mark.slow
@pytest.mark.lab
@pytest.mark.parametrize("name", names())
def test_a_scenario_gets_its_verdict_and_its_causes(name: str, tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    from logjudge.histories.recording.run import record_scenario

    scenario = load(name)
    done = record_scenario(scenario, tmp_path / name, lambda *_: None, lambda _: None)
    assert done.problem == ""
    assert not processes(tmp_path)
    assert not (tmp_path / f"{name}-lab").exists()
    result = logjudge.check(done.folder)
    broken = {rule for rule, about in result.rules.items() if about["verdict"] == "invalid"}
    assert result.verdict == scenario.verdict, result.headline
    assert set(scenario.rules) <= broken
    assert set(scenario.causes) <= {incident["cause"] for incident in result.incidents}
    if name not in DELETING:
        assert result.rules["lost-write"]["count"] == len(lost_values(done.folder))


@pytest.mark.slow
@pytest.mark.lab
def test_ctrl_c_ends_a_recording_cleanly_and_kill_leaves_what_can_be_judged(tmp_path: Path) -> None:
    pytest.importorskip("confluent_kafka")
    kafka = fetch_kafka()
    with Lab.start(Plan(str(tmp_path / "lab"), kafka.version, str(kafka.jars))) as lab:
        codes = {}
        for name, number in (("interrupted", signal.SIGINT), ("killed", signal.SIGKILL)):
            command = [sys.executable, "-m", "logjudge.cli", "record", "--bootstrap-server", lab.bootstrap]
            options = ["--no-judge", "--workload", "consumer-group", "--topic", name, "--out", str(tmp_path / name)]
            with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as recording:
                wait_for_reads(tmp_path / name)
                recording.send_signal(number)
                output = recording.communicate(timeout=240)[0].decode()
            codes[name] = recording.returncode
            assert "Traceback" not in output
        assert codes == {"interrupted": 0, "killed": -signal.SIGKILL}
        collect(sources_of([str(lab.folder)]), tmp_path / "interrupted", topics=["interrupted"])
    assert not processes(tmp_path)  # the group's members have ended, too
    result = logjudge.check(tmp_path / "interrupted")
    assert result.verdict == "valid", result.headline
    assert result.rules["replica-divergence"]["verdict"] == "valid"
    assert logjudge.check(tmp_path / "killed").verdict == "unknown"


def wait_for_reads(folder: Path) -> None:
    end = time.monotonic() + 240
    while time.monotonic() < end:
        if any(b'"records":[{' in file.read_bytes() for file in folder.glob("history/*.jsonl")):
            return
        time.sleep(0.5)
    raise AssertionError("nothing was read")
