"""Kafka's own DumpLogSegments, for the tests marked `kafka`, and a comparison with its text.

`scripts/fetch-kafka` fetches Kafka's jars.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from logjudge.histories.evidence.segments import RawRecord
from logjudge.histories.evidence.transaction_records import TransactionRecord, decode

LIBS = os.environ.get("KAFKA_LIBS", "")
needs_kafka = [
    pytest.mark.kafka,
    pytest.mark.skipif(
        not LIBS or not list(Path(LIBS).glob("kafka_*.jar")) or not shutil.which("java"),
        reason="KAFKA_LIBS names no folder with Kafka's jars; scripts/fetch-kafka fetches them",
    ),
]


def dump_log(*options: str, files: Iterable[Path]) -> str:
    """The text of all files, one after the other."""
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", "kafka.tools.DumpLogSegments", *options]
    command += ["--files", ",".join(map(str, files))]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout


def dumped_lines(*options: str, files: Iterable[Path]) -> dict[Path, list[str]]:
    """The lines of each file."""
    found: dict[Path, list[str]] = {}
    for line in dump_log(*options, files=files).splitlines():
        if line.startswith("Dumping "):
            found[Path(line.removeprefix("Dumping "))] = lines = []
        else:
            lines.append(line)
    return found


def decoded(raw: RawRecord, line: str) -> tuple[TransactionRecord, dict[str, Any], re.Match[str]]:
    """A record of __transaction_state and its value, and the parts of the line that Kafka's decoder prints of it."""
    record = decode(raw.key or b"", raw.value)
    assert record is not None
    assert record.value is not None
    found = re.fullmatch(r"\| offset: (\d+) CreateTime: (\d+) .*?key: (.*) payload: (.*)", line)
    assert found
    assert (raw.offset, raw.timestamp) == (int(found[1]), int(found[2]))
    return record, record.value, found


def assert_decoded_alike(raw: RawRecord, line: str) -> None:
    """The line is that of `--transaction-log-decoder` of Kafka 4.1."""
    record, value, found = decoded(raw, line)
    assert json.loads(found[3])["data"] == {"transactionalId": record.transactional_id}
    payload = json.loads(found[4])["data"]
    payload["transactionPartitions"] = payload["transactionPartitions"] or []
    assert {name: value[name] for name in payload} == payload
