"""Runs of Kafka's own tools, whose lines have no acks: a leader of Kafka 4.2 was killed while its followers lagged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from logjudge import check

SENT = """\
{"timestamp":1795917483611,"name":"producer_send_success","key":"6","value":"3.258","offset":0,"topic":"vt","partition":0}
{"timestamp":1795917483642,"name":"producer_send_success","key":"0","value":"3.259","offset":1,"topic":"vt","partition":0}
{"timestamp":1795917495388,"name":"producer_send_success","key":"3","value":"3.423","offset":1,"topic":"vt","partition":0}
"""
DUMP = """\
Dumping /var/lib/kafka/vt-0/00000000000000000000.log
Log starting offset: 0
"""
BATCH = (
    "baseOffset: {0} lastOffset: {0} count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1"
    " partitionLeaderEpoch: {1} isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty"
    " position: {2} CreateTime: {3} size: 74 magic: 2 compresscodec: none crc: {2} isvalid: true\n"
    "| offset: {0} CreateTime: {3} keySize: 1 valueSize: 5 sequence: -1 headerKeys: [] key: 6 payload: {4}\n"
)
FIRST = BATCH.format(0, 0, 0, 1795917483598, "3.258")
LAST = BATCH.format(1, 1, 74, 1795917487735, "3.423")


@pytest.mark.parametrize(("acks", "is_named"), [(None, True), ("all", False)])
def test_acks_that_are_not_recorded_are_missing_evidence(tmp_path: Path, acks: str | None, is_named: bool) -> None:
    (tmp_path / "history").mkdir()
    (tmp_path / "history" / "producer.jsonl").write_text(SENT, encoding="utf-8")
    processes = {} if acks is None else {"processes": {"producer": {"acks": acks}}}
    (tmp_path / "run.json").write_text(json.dumps(processes), encoding="utf-8")
    for broker in ("1", "2"):
        folder = tmp_path / "brokers" / broker
        folder.mkdir(parents=True)
        (folder / f"{broker}-vt-0.txt").write_text(DUMP + FIRST + LAST, encoding="utf-8")
    result = check(tmp_path, engine="local")
    assert result.rules["lost-write"]["count"] == 1
    [incident] = [incident for incident in result.incidents if incident["lost"]]
    assert ("the acks setting" in " ".join(incident["missing"])) == is_named


def test_times_of_the_tools_are_dated(tmp_path: Path) -> None:
    (tmp_path / "producer.jsonl").write_text(SENT, encoding="utf-8")
    assert check(tmp_path, engine="local").report["input"]["started_at"] == "1970-01-01T00:00:00Z"
