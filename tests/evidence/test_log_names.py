"""Logs are found whatever a rotation, an operator or a collector called them, and read in JSON, too."""

from __future__ import annotations

import gzip
import json
import lzma
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from logjudge import check
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.log_prefixes import from_json, in_kafkas_layout
from logjudge.histories.files import HEAD_BYTES
from logjudge.histories.recording.broker_logs import find_logs

from .test_collect_recipes import assert_same_judgement
from .test_commands import Unpack

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


@pytest.mark.parametrize("name", ["server.log", "all-brokers.txt"])
@pytest.mark.parametrize("head", ["", "\tnode.id = 3\n"])
@pytest.mark.parametrize("between", ["", "[2026-11-20 10:00:02,000] INFO flushed (kafka.log.UnifiedLog)\n" * 4000])
def test_lines_of_two_brokers_without_prefixes_are_of_no_known_broker(
    head: str, between: str, name: str, tmp_path: Path
) -> None:
    """They are not of the first lines' broker: a line such as `Truncating log orders-0 to offset 9` has no id."""
    other = LOG.replace("nodeId=3", "nodeId=4")
    _write(tmp_path / "brokers" / "3" / name, LOG + head + between + other)
    [part] = find_parts(tmp_path)
    assert part.kind == "unreadable"
    assert part.reason.startswith("found lines of brokers 3 and 4 without prefixes, so their broker is not known")
    _write(tmp_path / "brokers" / "3" / name, LOG + head + between + LOG)
    assert [(part.kind, part.broker) for part in find_parts(tmp_path)] == [("log", "3")]


@pytest.mark.parametrize("name", ["server.log", "server.log-20261120.gz"])
def test_an_id_that_is_cut_where_the_first_lines_end_names_no_other_broker(name: str, tmp_path: Path) -> None:
    """A real controller.log of node 100 had `[QuorumController id=1` as the last bytes of its first 64 KiB."""
    log = LOG.replace("nodeId=3", "nodeId=34")
    filler, line = "[2026-11-20 10:00:02,000] INFO {} (kafka.log.UnifiedLog)\n", LOG.splitlines(keepends=True)[1]
    cut = line.index("nodeId=3") + len("nodeId=3")
    room = HEAD_BYTES - len(log) - len(filler.format("")) - cut
    _write(tmp_path / "brokers" / "34" / name, log + filler.format("x" * room) + log.splitlines(keepends=True)[1] + log)
    assert [(part.kind, part.broker) for part in find_parts(tmp_path)] == [("log", "34")]


PLAIN = "[2026-11-20 10:00:00,123] INFO [Partition orders-0 broker=1] Shrinking ISR (kafka.cluster.Partition)"
MESSAGE, LOGGER = "[Partition orders-0 broker=1] Shrinking ISR", "kafka.cluster.Partition"
WHEN = datetime(2026, 11, 20, 10, 0, 0, 123_000, UTC)
LAYOUTS: dict[str, Callable[[datetime, str, str, str], dict[str, object]]] = {
    "JsonLayout": lambda time, level, message, logger: {
        "instant": {"epochSecond": int(time.timestamp()), "nanoOfSecond": time.microsecond * 1000},
        **{"thread": "main", "level": level, "loggerName": logger, "message": message},
    },
    "EcsLayout": lambda time, level, message, logger: {
        **{"@timestamp": f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z", "ecs.version": "1.2.0"},
        **{"log.level": level, "message": message, "log.logger": logger},
    },
    "LogstashJsonEventLayoutV1": lambda time, level, message, logger: {
        **{"@version": 1, "@timestamp": time.isoformat(timespec="milliseconds"), "level": level},
        **{"message": message, "logger_name": logger},
    },
    "KIP-1338": lambda time, level, message, logger: {
        **{"timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "+0000", "level": level, "logger": logger},
        "message": message,
    },
}
EVENT = re.compile(r"\[([-\d]+ [\d:]+),(\d+)\] ([A-Z]+) (.*) \(([\w.$]+)\)\Z", re.DOTALL)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_of_a_layout_is_the_line_of_kafka(layout: str) -> None:
    assert from_json(json.dumps(LAYOUTS[layout](WHEN, "INFO", MESSAGE, LOGGER))) == PLAIN


@pytest.mark.parametrize(
    "wrapped",
    [
        json.dumps({"log": f"{PLAIN}\n", "stream": "stdout", "time": "2026-11-20T10:00:00Z"}),  # docker
        json.dumps({"__REALTIME_TIMESTAMP": "1795918384000000", "_HOSTNAME": "host1", "MESSAGE": PLAIN}),  # journald
        f"MESSAGE={PLAIN}",
        json.dumps({"labels": {"pod": "kafka-1"}, "line": PLAIN, "timestamp": "2026-11-20T10:00:00+00:00"}),  # Loki
    ],
)
def test_a_line_of_a_collector_is_the_line_in_it(wrapped: str) -> None:
    assert in_kafkas_layout(wrapped) == PLAIN


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[" * 100_000,
        "[1]",
        '{"message": "no time", "level": "INFO"}',
        '{"message": 1, "timestamp": "2026-11-20T10:00:00Z"}',
        '{"message": "a", "timestamp": "yesterday"}',
        '{"message": "a", "timeMillis": 1e300}',
        '{"message": "a", "timeMillis": 99999999999999999999}',
        '{"message": "a", "instant": {"epochSecond": "now"}}',
        '{"message": "a", "instant": {"epochSecond": 1, "nanoOfSecond": null}}',
        '{"message": "a", "timestamp": "0001-01-01T00:00:00+23:00"}',
        '{"log": 5}',
    ],
)
def test_other_lines_are_unchanged(line: str) -> None:
    assert from_json(line) == line


def in_docker(text: str) -> str:
    """A log as docker's json-file driver writes it: Go escapes some characters."""
    lines = (json.dumps({"log": f"{line}\n", "stream": "stdout"}) for line in text.splitlines())
    return "".join(line.replace(">", "\\u003e").replace("<", "\\u003c") + "\n" for line in lines)


def in_layout(text: str, layout: str) -> str:
    """A log in a layout, a message of several lines in one object."""
    lines = []
    for event in re.split(r"\n(?=\[\d{4}-)", text.rstrip("\n")):
        found = EVENT.match(event)
        if found is None:
            continue  # of a stack trace
        time = datetime.fromisoformat(f"{found[1]}.{found[2]}+00:00")
        lines.append(json.dumps(LAYOUTS[layout](time, found[3], found[4], found[5])) + "\n")
    return "".join(lines)


@pytest.mark.parametrize("layout", ["docker", "EcsLayout"])
def test_logs_in_json_prove_the_same_causes(layout: str, unpacked: Unpack, tmp_path: Path) -> None:
    recorded = unpacked("kip-101-a")
    run = shutil.copytree(recorded, tmp_path / "RUN")
    for log in run.rglob("*.log"):
        if log.name in ("server.log", "state-change.log", "controller.log"):
            text = log.read_text()
            log.write_text(in_docker(text) if layout == "docker" else in_layout(text, layout))
    assert_same_judgement(recorded, run)
