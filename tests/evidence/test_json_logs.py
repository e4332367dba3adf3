"""Brokers' logs in JSON: docker's json-file driver, and the layouts of log4j."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from logjudge.histories.evidence.log_prefixes import from_json

from .test_collect_recipes import assert_same_judgement
from .test_commands import Unpack

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


def test_a_line_of_docker_is_the_line_in_it() -> None:
    assert from_json(json.dumps({"log": f"{PLAIN}\n", "stream": "stdout", "time": "2026-11-20T10:00:00Z"})) == PLAIN


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
