"""The files of a simulated run: a history, segments, checkpoints, logs; the same bytes for the same seed."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka.record.memory_records import MemoryRecords
from command_line import json_lines
from logjudge.histories.evidence.server_log import read_server_log
from logjudge.histories.simulation.bundle import WrittenBundle, write_bundle
from logjudge.models.exploration.narrative import narrate_scenario
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

FAULTS = (
    Fault(3 * SECOND, "crash", (2, 3), 12 * SECOND),
    Fault(14 * SECOND, "crash", (1,), 14 * SECOND),
)
OPTIONS = {
    "num.partitions": 2,
    "simulation.ops": 600,
    "simulation.send.interval.us": 80000,
    "unclean.leader.election.enable": True,
    "min.insync.replicas": 1,
}


@pytest.fixture(scope="module", params=["kraft", "high-watermark"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> WrittenBundle:
    scenario = Scenario("losing", request.param, 5, OPTIONS, {}, FAULTS)
    return write_bundle(scenario, tmp_path_factory.mktemp(request.param))


def events(folder: Path) -> list[dict[str, Any]]:
    return json_lines(folder / "history.jsonl")


def records(folder: Path) -> list[tuple[int, str]]:
    """(offset, value) of a partition's segments, parsed by a client library, CRCs checked."""
    found: list[tuple[int, str]] = []
    for path in sorted(folder.glob("*.log")):
        parsed = MemoryRecords(path.read_bytes())
        while parsed.has_next():
            batch = parsed.next_batch()
            assert batch.validate_crc()
            found.extend((record.offset, record.value.decode()) for record in batch)
    return found


@pytest.mark.parametrize("variant", ["high-watermark", "kip-101", "kraft"])
def test_a_broker_with_a_full_disk_logs_that_it_halts(variant: str, tmp_path: Path) -> None:
    scenario = Scenario("full", variant, 5, OPTIONS, {}, (Fault(3 * SECOND, "disk-full", (1,), 10 * SECOND),))
    folder = write_bundle(scenario, tmp_path / "run").folder
    logged, damage = read_server_log(folder / "brokers" / "1" / "server.log")
    assert damage.is_empty()
    assert [kind for kind in logged["kind"] if kind in ("started", "halted")] == ["started", "halted", "started"]


@pytest.mark.parametrize(
    ("variant", "expected"),
    [
        ("kraft", "Unfenced broker 1 has requested and been granted a controlled shutdown."),
        ("kip-101", "]: Shutting down broker 1"),
    ],
)
def test_a_clean_shutdown_is_logged_as_one(variant: str, expected: str, tmp_path: Path) -> None:
    """It is not logged as a session that ended."""
    scenario = Scenario("leaving", variant, 5, OPTIONS, {}, (Fault(3 * SECOND, "shutdown", (1,), 4 * SECOND),))
    brokers = write_bundle(scenario, tmp_path / "run").folder / "brokers"
    lines = [
        line
        for path in brokers.rglob("*.log")
        if path.parent.parent == brokers
        for line in path.read_text().splitlines()
    ]
    assert any(expected in line for line in lines)
    assert not any("session has timed out" in line for line in lines)
    narrative, _ = narrate_scenario(scenario)
    assert any("broker 1 is granted a controlled shutdown" in line for line in narrative)
    assert not any("the session of broker" in line for line in narrative)


def test_the_oldest_variant_writes_what_brokers_of_its_time_did(tmp_path: Path) -> None:
    """No leader epochs on disk, no lines of KRaft, and followers truncate to the high watermark."""
    scenario = Scenario("old", "lag-max-messages", 5, OPTIONS, {}, FAULTS)
    folder = write_bundle(scenario, tmp_path / "old").folder
    assert not list(folder.rglob("leader-epoch-checkpoint"))
    lines = [line for path in folder.rglob("*.log*") if b"INFO" in path.read_bytes() for line in path.open()]
    assert not [line for line in lines if "LogLoader" in line or "QuorumController" in line]
    assert [line for line in lines if "Truncating log orders-" in line]


def test_every_operation_is_invoked_once_and_completed_at_most_once(written: WrittenBundle) -> None:
    begun: Counter[tuple[str, int]] = Counter()
    ended: Counter[tuple[str, int]] = Counter()
    for event in events(written.folder):
        (begun if event["type"] == "invoke" else ended)[(event["process"], event["op"])] += 1
    assert set(begun.values()) == {1}
    assert set(ended.values()) == {1}
    assert set(ended) <= set(begun)


def test_values_are_unique_and_sends_all_complete(written: WrittenBundle) -> None:
    sends = [e for e in events(written.folder) if e["f"] == "send"]
    invoked = [e["value"] for e in sends if e["type"] == "invoke"]
    assert len(invoked) == len(set(invoked)) == 600
    assert sum(e["type"] != "invoke" for e in sends) == 600


def test_the_leaders_segments_hold_what_the_final_reader_read(written: WrittenBundle) -> None:
    read: dict[int, list[tuple[int, str]]] = {0: [], 1: []}
    for event in events(written.folder):
        if event["process"] == "final" and event["f"] == "poll" and event["type"] == "ok":
            for record in event["records"]:
                read[record["partition"]].append((record["offset"], record["value"]))
    for partition, state in enumerate(written.cluster.quorum.states):
        folder = written.folder / "brokers" / str(state.leader) / "data" / f"orders-{partition}"
        assert records(folder) == read[partition]


def test_the_truth_is_what_the_history_shows(written: WrittenBundle) -> None:
    acknowledged: dict[str, int] = {}
    final: set[str] = set()
    seen: set[str] = set()
    for event in events(written.folder):
        if event["f"] == "send" and event["type"] == "ok":
            acknowledged[event["value"]] = event["offset"]
        for record in event.get("records", []):
            (final if event["process"] == "final" else seen).add(record["value"])
    gone = {value for value in acknowledged if value not in final}
    lost = {value for rows in written.truth["lost_acked"].values() for _, value in rows}
    assert gone == lost
    assert gone
    assert written.truth["lost_but_read_before"] == len(gone & seen)
    for rows in written.truth["lost_acked"].values():
        assert all(acknowledged[value] == offset for offset, value in rows)


def test_run_json_names_snapshots_processes_and_configuration(written: WrittenBundle) -> None:
    run = json.loads((written.folder / "run.json").read_text())
    assert run["final"] is True
    assert run["processes"]["final"] == {
        "role": "final",
        "isolation.level": "read_uncommitted",
        "auto.offset.reset": "earliest",
    }
    assert run["topics"]["orders"]["unclean.leader.election.enable"] is True
    assert list(run["snapshots"]) == ["before-rejoin"]
    snapshot = written.folder / "snapshots" / "before-rejoin" / "brokers"
    old = dict(records(snapshot / "1" / "data" / "orders-0"))
    new = dict(records(snapshot / "2" / "data" / "orders-0"))
    ranges = written.truth["divergent"]["before-rejoin"]["orders-0"]["1/2"]["conflicting_offsets"]
    assert ranges
    assert old[ranges[0][0]] != new[ranges[0][0]]


def test_checkpoints_and_epochs_have_kafkas_form(written: WrittenBundle) -> None:
    for broker in ("1", "2", "3"):
        data = written.folder / "brokers" / broker / "data"
        lines = (data / "replication-offset-checkpoint").read_text().splitlines()
        assert lines[:2] == ["0", "2"]
        assert [line.split()[:2] for line in lines[2:]] == [["orders", "0"], ["orders", "1"]]
        epochs = data / "orders-0" / "leader-epoch-checkpoint"
        assert epochs.exists() == written.cluster.rules.era.epochs_in_log
        if epochs.exists():
            rows = [tuple(map(int, line.split())) for line in epochs.read_text().splitlines()[2:]]
            assert rows == written.cluster.brokers[int(broker)].replicas[0].log.epochs


def test_batch_headers_have_the_leader_epoch(written: WrittenBundle) -> None:
    raw = (written.folder / "brokers/1/data/orders-0/00000000000000000000.log").read_bytes()
    if not written.cluster.rules.era.epochs_in_log:
        assert raw[16] == 1  # magic of a message set
        return
    at, found = 0, []
    while at < len(raw):
        base, length, epoch, magic = struct.unpack_from(">qiib", raw, at)
        assert magic == 2
        found.append((base, epoch))
        at += 12 + length
    assert found == [(b.base, b.epoch) for b in written.cluster.brokers[1].replicas[0].log.batches()]


def test_server_logs_have_kafkas_lines_of_truncations(written: WrittenBundle) -> None:
    text = (written.folder / "brokers" / "1" / "server.log").read_text()
    if written.cluster.rules.era.epochs_in_log:
        assert "due to leader epoch and offset EpochEndOffset(errorCode=0, partition=0, leaderEpoch=" in text
        assert "[UnifiedLog partition=orders-0, dir=/var/lib/kafka/1/data] Truncating to offset" in text
        controller = (written.folder / "brokers" / "101" / "server.log").read_text()
        assert "UNCLEAN partition change for orders-0 with topic ID" in controller
    else:
        assert "INFO Truncating log orders-0 to offset" in text
        controller = (written.folder / "brokers" / "101" / "controller.log").read_text()
        assert "There's potential data loss" in controller


DIGEST = """
import hashlib, sys
from pathlib import Path
from logjudge.cli.main import cli
out = Path(sys.argv[1])
cli.main(["simulate", "--variant", "kip-101", "--seed", "11", "--faults", "crash,unclean,loss,blackout",
          "--ops", "1500", "--set", "num.partitions=3", "--out", str(out)], standalone_mode=False)
digest = hashlib.sha256()
for path in sorted(p for p in out.rglob("*") if p.is_file()):
    digest.update(str(path.relative_to(out)).encode() + path.read_bytes())
print(digest.hexdigest())
"""


def test_the_same_seed_writes_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    digests = []
    for number, hash_seed in enumerate(("0", "424242")):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "TZ": "UTC" if number else "Asia/Tokyo"}
        out = tmp_path / "same-name" if number == 0 else tmp_path / "b" / "same-name"
        done = subprocess.run(
            [sys.executable, "-c", DIGEST, str(out)],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        digests.append(done.stdout.splitlines()[-1])
    assert digests[0] == digests[1]
    assert len(digests[0]) == len(hashlib.sha256().hexdigest())
