"""Logs of replicas that are missing, cannot be read, lack a segment, or were emptied: no rule that needs them is valid.

An honestly empty log, that of a new replica or one that retention emptied, is none of these.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import UNREAD, verdict_of_run
from logjudge import check as judged
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence import segments
from logjudge.histories.evidence.coordinator_log import replay_log
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.segments import read_segment

from .conftest import DATA
from .test_commands import Unpack

SEGMENT = f"{0:020d}.log"
Change = Callable[[Path], None]
Made = Callable[..., Any]  # a result of `judged`


def _remove(log: Path) -> None:
    log.unlink()


def _replace_by_folder(log: Path) -> None:
    log.unlink()
    log.mkdir()


def _empty(log: Path) -> None:
    os.truncate(log, 0)


def _overwrite(log: Path) -> None:
    log.write_bytes(b"no batch" * 99)


def _rename_to_index(log: Path) -> None:
    log.rename(log.with_suffix(".index"))


@pytest.fixture(scope="session")
def open_transaction(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three brokers; broker 2 leads x-0, which has an open transaction."""
    folder = tmp_path_factory.mktemp("late")
    shutil.unpack_archive(DATA / "transactions" / "late-write-open.tar.xz", folder)
    return folder / "late-hang"


def _changed(source: Path, target: Path, log: str, change: Change) -> Any:
    run = shutil.copytree(source, target / "run")
    change(run / log)
    return judged(run)


def _verdicts(result: Any, *rules: str) -> list[str]:
    return [result.rules[rule]["verdict"] for rule in rules]


def _sentence(result: Any, name: str) -> str:
    """The sentence of an assumption, which does not hold."""
    (found,) = (one for one in result.assumptions if one["name"] == name)
    assert not found["holds"]
    return str(found["says"])


LEADERS = ("torn-transaction", "hanging-transaction", "replica-divergence", "acknowledged-absent")
# How the leader's log of x-0 is changed, and why it is missing then.
CHANGES: dict[str, tuple[Change, str]] = {
    "removed": (_remove, "has no segment in its folder, though that has leader-epoch-checkpoint"),
    "a folder": (_replace_by_folder, "cannot be read: found a folder, expected a file"),
    "emptied": (_empty, "is empty, though its leader-epoch-checkpoint has epoch 0, of which broker 1 has records"),
    "other bytes": (_overwrite, "has no batch that can be read"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_missing_log_of_the_leader_leaves_rules_unknown(case: str, open_transaction: Path, tmp_path: Path) -> None:
    change, why = CHANGES[case]
    result = _changed(open_transaction, tmp_path, f"brokers/2/data/x-0/{SEGMENT}", change)
    assert _verdicts(result, *LEADERS) == ["unknown"] * 4
    assert f"x-0 (broker 2) (x-0: the log of broker 2 {why})" in _sentence(result, "all replicas collected")
    assert f"the log of broker 2, the last leader of x-0, {why}, so open" in _sentence(result, "evidence sufficient")


@pytest.mark.parametrize("case", CHANGES)
def test_a_missing_log_of_a_follower_hides_no_proven_breach(case: str, open_transaction: Path, tmp_path: Path) -> None:
    change, why = CHANGES[case]
    result = _changed(open_transaction, tmp_path, f"brokers/3/data/x-0/{SEGMENT}", change)
    expected = ["unknown", "invalid", "unknown", "unknown"]
    assert _verdicts(result, *LEADERS) == expected
    assert result.rules["hanging-transaction"]["count"] == 3
    assert f"x-0 (broker 3) (x-0: the log of broker 3 {why})" in _sentence(result, "all replicas collected")


def test_a_missing_log_without_acknowledged_records_hides_none(unpacked: Unpack, tmp_path: Path) -> None:
    """For example a log of __consumer_offsets. Its replicas cannot be compared, and no client sent a record to it."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    for broker in "123":
        shutil.copytree(run / f"brokers/{broker}/data/orders-0", run / f"brokers/{broker}/data/audit-0")
    _remove(run / "brokers/2/data/audit-0" / SEGMENT)
    result = judged(run)
    assert "audit-0 (broker 2)" in _sentence(result, "all replicas collected")
    assert _verdicts(result, "acknowledged-absent", "replica-divergence") == ["valid", "unknown"]


def test_a_shorter_log_is_no_missing_one(open_transaction: Path, tmp_path: Path) -> None:
    """Nothing in it is newer than the records that the followers have: it may have been copied before them."""
    cut = f"brokers/2/data/x-0/{SEGMENT}"
    result = _changed(open_transaction, tmp_path, cut, lambda log: os.truncate(log, 294))
    assert _verdicts(result, "replica-divergence", "acknowledged-absent") == ["valid", "unknown"]
    assert "may have been written after the brokers' logs were copied" in _sentence(result, "evidence sufficient")
    assert next(one["holds"] for one in result.assumptions if one["name"] == "all replicas collected")


def test_a_log_without_permission_is_not_collected(open_transaction: Path, tmp_path: Path) -> None:
    """In another process, as root reads files of any mode unless it gives up its capabilities."""
    if os.geteuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("root needs setpriv to be refused")
    run = shutil.copytree(open_transaction, tmp_path / "run")
    log = run / "brokers/2/data/x-0" / SEGMENT
    log.chmod(0)
    prefix: list[str] = []
    if os.geteuid() == 0:
        os.chown(log, 12345, 12345)
        prefix = ["setpriv", "--bounding-set=-all"]
    code = "import json, sys, logjudge as l; r = l.check(sys.argv[1]); print(json.dumps([r.rules, r.assumptions]))"
    command = [*prefix, sys.executable, "-c", code, str(run)]
    rules, assumptions = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert {rules[rule]["verdict"] for rule in LEADERS} == {"unknown"}
    collected = next(one for one in assumptions if one["name"] == "all replicas collected")
    assert "the log of broker 2 cannot be read: Permission denied" in collected["says"]
    assert not collected["holds"]


@pytest.mark.parametrize("ranged", [False, True])
def test_an_error_of_the_disk_leaves_offsets_unknown(
    ranged: bool, unpacked: Unpack, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = unpacked("clean-a") / "brokers/1/data/orders-0" / SEGMENT

    def refuse(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    start = segments.split_segment(log, 3000)[1][0] if ranged else 0
    monkeypatch.setattr(np, "fromfile", refuse)
    damage = read_segment(log, start).damage
    expected = [("unreadable", start, 0, "cannot be read: Input/output error")]
    assert damage.select("kind", "byte", "first_offset", "reason").rows() == expected


SNAPSHOT = f"snapshots/before-rejoin/brokers/1/data/orders-0/{SEGMENT}"


@pytest.mark.parametrize("change", [_remove, _replace_by_folder, _empty])
def test_a_missing_log_in_a_snapshot_leaves_divergence_unknown(
    change: Change, unpacked: Unpack, tmp_path: Path
) -> None:
    source = unpacked("acks1-failover-a")
    whole = judged(source)
    result = _changed(source, tmp_path, SNAPSHOT, change)
    assert _verdicts(whole, "replica-divergence") == ["invalid"]
    assert _verdicts(result, "replica-divergence") == ["unknown"]
    for name in ("all replicas collected", "evidence sufficient"):
        assert "the log of broker 1 in snapshot before-rejoin" in _sentence(result, name)
    assert _verdicts(result, "acknowledged-absent") == _verdicts(whole, "acknowledged-absent")


def test_a_log_of_zeros_is_no_readable_one(tmp_path: Path) -> None:
    """Kafka preallocates segments with zeros (log.preallocate)."""
    (tmp_path / "history.jsonl").write_text(UNREAD)
    log = tmp_path / "brokers/1/data/x-0" / SEGMENT
    log.parent.mkdir(parents=True)
    log.write_bytes(bytes(1000))
    assert "no readable log of x-0 was collected" in _sentence(judged(tmp_path), "evidence sufficient")


def _split(folder: Path) -> list[Path]:
    """Cuts the segment of a partition into three, and returns them."""
    log = folder / SEGMENT
    batches, content = read_segment(log).batches, log.read_bytes()
    firsts = [batches.height * third // 3 for third in range(3)]
    ends = [*(batches["byte"][first] for first in firsts[1:]), len(content)]
    paths = [folder / f"{batches['base_offset'][first]:020d}.log" for first in firsts]
    for path, first, end in zip(paths, firsts, ends, strict=True):
        path.write_bytes(content[batches["byte"][first] : end])
    return paths


HOLES: dict[str, tuple[int, Change, str]] = {
    "first": (0, _remove, "is missing: leader-epoch-checkpoint begins at offset 0, and the first segment at"),
    "second": (1, _remove, "have no segment between them"),
    "second, unreadable": (1, _replace_by_folder, "cannot be read: found a folder, expected a file"),
    "third, with its index": (
        2,
        lambda log: log.rename(log.with_suffix(".index")),
        "is missing, though its folder has",
    ),
    "third, unreadable": (2, _replace_by_folder, "cannot be read: found a folder, expected a file"),
}


def test_a_log_with_all_its_segments_is_complete(unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    for broker in ("1", "3"):
        _split(run / f"brokers/{broker}/data/orders-0")
    assert judged(run).verdict == "valid"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("broker", ["1", "3"])  # 3 is the last leader of orders-0
@pytest.mark.parametrize("case", HOLES)
def test_a_log_that_lacks_a_segment_is_incomplete(case: str, broker: str, unpacked: Unpack, tmp_path: Path) -> None:
    number, change, why = HOLES[case]
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    parts = _split(run / f"brokers/{broker}/data/orders-0")
    change(parts[number])
    result = judged(run)
    assert result.verdict == "unknown"
    assert _verdicts(result, "replica-divergence", "log-corruption") == ["unknown"] * 2
    assert _verdicts(result, "acknowledged-absent") == ["unknown" if broker == "3" else "valid"]
    # The end of the log, and with it what its checkpoints must not exceed, is in the last segment.
    assert _verdicts(result, "checkpoint-order") == ["unknown" if number == 2 else "valid"]
    for name in ("all replicas collected", "evidence sufficient"):
        assert why in _sentence(result, name)


@pytest.mark.parametrize(("broker", "cause"), [("3", "corruption"), ("1", "unknown")])  # 1 leads another partition only
def test_a_leader_without_a_segment_is_why_readers_missed_its_records(
    broker: str, cause: str, unpacked: Unpack, tmp_path: Path
) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    _, lacking, behind = _split(run / f"brokers/{broker}/data/orders-0")
    lacking.unlink()
    missed = range(int(lacking.stem), int(behind.stem))
    events = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    for event in events:
        if event["process"] == "final" and "records" in event:
            event["records"] = [one for one in event["records"] if one["partition"] != 0 or one["offset"] not in missed]
    (run / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    [incident] = [one for one in judged(run).incidents if one["lost"]]
    assert incident["cause"] == cause
    if cause == "corruption":
        assert any(f"broker 3 has no segment with offsets {missed[0]} to" in one["says"] for one in incident["chain"])


PROOFS: dict[str, Callable[[Path], object]] = {
    "timeindex": lambda folder: (folder / f"{0:020d}.timeindex").write_bytes(b"\x00\x00\x01\x00" * 3),
    "snapshot": lambda folder: (folder / f"{7:020d}.snapshot").write_bytes(b"\x00"),
    "epoch": lambda folder: (folder / "leader-epoch-checkpoint").write_text("0\n1\n3 12\n"),
    "high watermark": lambda folder: (folder.parent / "replication-offset-checkpoint").write_text("0\n1\norders 0 9\n"),
    "recovery point": lambda folder: (folder.parent / "recovery-point-offset-checkpoint").write_text(
        "0\n1\norders 0 9\n"
    ),
    "in-sync replicas": lambda _: None,
    "nothing": lambda folder: _shrink_isr(folder.parents[3]),
}


def _shrink_isr(run: Path) -> None:
    """Records that broker 1 left the ISR of orders-0: an empty log of a member below the high watermark is missing."""
    line = (
        "[2026-11-21 09:23:13,000] INFO [Partition orders-0 broker=3] Shrinking ISR from 3,1,2 to 3,2. Leader:"
        " (highWatermark: 0, endOffset: 1). (kafka.cluster.Partition)\n"
    )
    with (run / "brokers/3/server.log").open("a") as log:
        log.write(line)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("proof", PROOFS)
def test_an_empty_log_is_missing_if_another_file_proves_that_it_had_records(
    proof: str, unpacked: Unpack, tmp_path: Path
) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    folder = run / "brokers/1/data/orders-0"
    for path in (*folder.parent.glob("*checkpoint"), folder / "leader-epoch-checkpoint"):
        path.unlink()
    _empty(folder / SEGMENT)
    # As Kafka makes them for a new log.
    (folder / f"{0:020d}.index").write_bytes(bytes(1024))
    PROOFS[proof](folder)
    result = judged(run)
    rules = ("replica-divergence", "acknowledged-absent")
    assert _verdicts(result, *rules) == (["valid"] * 2 if proof == "nothing" else ["unknown"] * 2)
    if proof != "nothing":
        assert "is empty, though" in _sentence(result, "all replicas collected")


def test_a_checkpoint_alone_proves_that_a_log_was_not_collected(unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    shutil.rmtree(run / "brokers/1/data/orders-0")
    result = judged(run)
    rules = ("replica-divergence", "acknowledged-absent", "checkpoint-order")
    assert _verdicts(result, *rules) == ["unknown"] * 3
    why = "the log of broker 1 was not collected, though its high watermark is"
    assert why in _sentence(result, "all replicas collected")
    assert why in _sentence(result, "evidence sufficient")


def test_a_new_replica_and_one_that_retention_emptied_are_collected(unpacked: Unpack) -> None:
    for source in (DATA / "emptied", unpacked("custom-kraft")):
        assumptions = verdict_of_run(source)["assumptions"]
        collected = next(one for one in assumptions if one["name"] == "all replicas collected")
        assert collected["holds"], source
    assert not [part for part in find_parts(unpacked("custom-kraft")) if part.kind in ("missing", "unreadable")]


def test_an_emptied_log_of_a_later_copy_is_missing_unless_its_broker_truncated_it(
    unpacked: Unpack, tmp_path: Path
) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    shutil.copytree(run / "brokers", run / "snapshots/before/brokers")
    settings = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**settings, "snapshots": {"before": {"time": 1}}}))
    folder = run / "brokers/1/data/orders-0"
    for path in (*folder.parent.glob("*checkpoint"), folder / "leader-epoch-checkpoint"):
        path.unlink()
    _empty(folder / SEGMENT)
    _shrink_isr(run)
    assert "in snapshot before" in _sentence(judged(run), "all replicas collected")
    line = "[2026-11-21 09:21:33,618] INFO [Log partition=orders-0, dir=/data] Truncating to offset 0 (kafka.log.Log)\n"
    with (run / "brokers/1/server.log").open("a") as log:
        log.write(line)
    assert _verdicts(judged(run), "replica-divergence") == ["valid"]


def test_a_folder_is_of_a_partition_only_if_a_broker_made_it(tmp_path: Path) -> None:
    data = tmp_path / "brokers/1/data"
    (data / "orders-0").mkdir(parents=True)
    (data / "orders-0" / SEGMENT).write_bytes(b"")
    for name in ("notes-1/readme.md", "backup-2/orders-1/partition.metadata"):
        (data / name).parent.mkdir(parents=True)
        (data / name).write_text("version: 0\n")
    (tmp_path / "brokers/host-7").mkdir()
    (data / "orders-3").mkdir()
    missing = {(part.topic, part.partition) for part in find_parts(tmp_path) if part.kind == "missing"}
    assert missing == {("orders", 1), ("orders", 3)}


def test_a_dump_replaces_a_missing_segment(unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("unclean-election-a"), tmp_path / "run")
    (run / "brokers/1/data/orders-0" / SEGMENT).unlink()
    assert [part.name for part in find_parts(run) if part.kind == "missing"] == []
    shutil.rmtree(run / "dump")
    assert [part.name for part in find_parts(run) if part.kind == "missing"] == ["brokers/1/data/orders-0"]


def test_a_copy_of_a_coordinators_log_is_not_intact_without_a_segment(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(b"")
    assert replay_log(tmp_path, lambda *_: None)[1]
    (tmp_path / f"{5:020d}.log").mkdir()
    assert not replay_log(tmp_path, lambda *_: None)[1]


def test_copies_of_a_coordinators_log_are_not_intact_without_one_of_them(
    open_transaction: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(open_transaction, tmp_path / "run")

    def intact() -> set[bool]:
        parts = [part for part in find_parts(run) if part.kind == "transactions"]
        rows = [block.frame for part in parts for block in read_part(part) if block.table == "transactions"]
        return {value for frame in rows for value in frame["intact"]}

    assert intact() == {True}
    (run / "brokers/1/data/__transaction_state-0" / SEGMENT).unlink()
    assert intact() == {False}


@pytest.mark.spark
def test_missing_logs_are_the_same_on_spark(open_transaction: Path, tmp_path: Path, spark: Any) -> None:
    from logjudge.analysis.engines import spark as engine

    run = shutil.copytree(open_transaction, tmp_path / "run")
    (run / "brokers/2/data/x-0" / SEGMENT).unlink()
    _replace_by_folder(run / "brokers/1/data/x-1" / SEGMENT)
    opened = open_run(run)
    here, there = verdict_of(judge_run(opened)), verdict_of(engine.judge_run(opened, spark))
    assert here == there
    assert {here["rules"][rule]["verdict"] for rule in LEADERS} == {"unknown"}
