"""The provenance of a verdict is in verdict.json and in the reports."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from command_line import invoke, verdict_in
from figure_cases import FINAL, lossy, write_run
from logjudge.analysis.verdict import provenance
from logjudge.histories.bundle import open_run

CONFIG = {
    "system": {"name": "kafka", "version": "4.1.1"},
    "topics": {"orders": {"min.insync.replicas": 2}},
    **FINAL,
    "processes": {**FINAL["processes"], "p": {"role": "producer", "acks": "all", "sasl.password": "hunter2"}},
}


def test_a_verdict_names_tool_command_inputs_and_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    run, out = write_run(tmp_path / "run", lossy(), CONFIG), tmp_path / "out"
    invoke("check", run, "--engine", "local", "--no-plots", "--out", out)
    found = verdict_in(out)["provenance"]
    assert found["tool"]["name"] == "logjudge"
    assert found["judged_at"] == "2027-01-15T08:00:00Z"
    assert found["command"].startswith("logjudge")
    assert {item["file"]: item["sha256"] for item in found["inputs"]} == {
        name: hashlib.sha256((run / name).read_bytes()).hexdigest() for name in ("history.jsonl", "run.json")
    }
    assert found["system"]["version"] == "4.1.1"
    assert found["topics"] == CONFIG["topics"]
    assert found["processes"]["p"]["acks"] == "all"
    assert found["processes"]["p"]["sasl.password"] == "(hidden)"
    for name in ("report.html", "report.md"):
        text = (out / name).read_text()
        assert found["inputs"][0]["sha256"] in text
        assert "2027-01-15T08:00:00Z" in text


def test_the_history_stands_before_the_brokers_files_and_an_unread_run_json_is_no_input(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", lossy(), CONFIG)
    (folder / "brokers" / "1").mkdir(parents=True)
    (folder / "brokers" / "1" / "server.log").write_text("[2026-11-22 21:00:00,000] INFO started (kafka.server)\n")

    def inputs(path: Path) -> list[str]:
        return [item["file"] for item in provenance.provenance_of(open_run(path), "logjudge check")["inputs"]]

    assert inputs(folder) == ["history.jsonl", "run.json", "brokers/1/server.log"]
    (folder / "history.jsonl").rename(folder / "other.jsonl")
    assert inputs(folder / "other.jsonl") == ["other.jsonl"]


def test_a_file_beyond_the_limit_has_its_size_and_no_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(write_run(tmp_path / "run", lossy(), CONFIG))
    size = (tmp_path / "run" / "history.jsonl").stat().st_size
    monkeypatch.setattr(provenance, "MAX_HASHED", size)
    hashed = {
        item["file"]: item["sha256"] is not None for item in provenance.provenance_of(run, "logjudge check")["inputs"]
    }
    assert hashed == {"history.jsonl": True, "run.json": False}
