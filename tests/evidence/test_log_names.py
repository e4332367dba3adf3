"""Logs are found whatever a rotation, an operator or a collector called them; other files are none."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from logjudge import check
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.recording.broker_logs import find_logs

LOG = (
    "[2026-11-20 10:00:00,000] INFO starting (kafka.server.KafkaRaftServer)\n"
    "[2026-11-20 10:00:01,000] INFO [KafkaRaftServer nodeId=3] Kafka Server started (kafka.server.KafkaRaftServer)\n"
)
NAMES = [
    *("server.log", "server.log.1", "server.log.2026-11-20-10", "server.log-20261120", "server.log-20261120.gz"),
    *("server.log.bak", "server.log.previous", "SERVER.LOG", "server (1).log", "kafka-2.previous", "messages"),
    *("pod-logs", "journal.export", "kafka-3_kafka.log-20261120.gz", "3f2a-json.log", "broker3.json"),
]
OTHERS = ["history.jsonl", "run.json", "report.md", "00000000000000000000.index", "leader-epoch-checkpoint", ".hidden"]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize("name", NAMES)
def test_a_broker_s_log_of_any_name_is_read_and_collected(name: str, tmp_path: Path) -> None:
    _write(tmp_path / "brokers" / "a" / name, LOG)
    assert [(part.kind, part.broker) for part in find_parts(tmp_path)] == [("log", "3")]
    assert [log.brokers for log in find_logs(tmp_path, [tmp_path / "brokers" / "a" / name])] == [["3"]]


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_names_are_no_logs(name: str, tmp_path: Path) -> None:
    _write(tmp_path / "brokers" / "a" / name, LOG)
    assert [part.kind for part in find_parts(tmp_path)] in ([], ["epochs"])


@pytest.mark.parametrize("name", ["notes", "cron.out", "messages", "app.jsonl"])
def test_a_text_that_no_broker_wrote_is_no_log(name: str, tmp_path: Path) -> None:
    _write(tmp_path / "brokers" / "a" / name, "2026-11-20 10:00:00 backup of kafka started\n{}\n")
    assert find_parts(tmp_path) == []


@pytest.mark.parametrize(
    "name", ["server.log.1.xz", "controller.log.2026-11-20-10.zst", "state-change.log-20261120.bz2"]
)
def test_a_packed_log_is_reported(name: str, tmp_path: Path) -> None:
    _write(tmp_path / "brokers" / "3" / "server.log", LOG)
    packed = tmp_path / "brokers" / "3" / name
    packed.write_bytes(lzma.compress(LOG.encode()))
    broken = [one["says"] for one in check(tmp_path).assumptions if not one["holds"]]
    assert any(
        f"{name}: found a log packed as {packed.suffix}, expected text or .gz: unpack it" in text for text in broken
    )
    [log] = find_logs(tmp_path, [packed])
    assert log.brokers == ["3"]


@pytest.mark.parametrize("name", ["server.log", "pod.txt"])
def test_a_lone_log_has_the_broker_of_its_lines(name: str, tmp_path: Path) -> None:
    _write(tmp_path / name, LOG)
    assert [(part.kind, part.broker, part.name) for part in find_parts(tmp_path / name)] == [("log", "3", name)]
