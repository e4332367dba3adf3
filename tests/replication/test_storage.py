"""Segments, retention, and DeleteRecords that waits for the low watermark."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.replication.config import NEVER, SECOND, Config
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.storage.batches import Batch
from logjudge.models.replication.storage.packed_rows import CHUNK, pack
from logjudge.models.replication.storage.replica_log import EpochStart, ReplicaLog
from logjudge.models.replication.storage.segments import Limits, retained_from, segments, size_of
from protocol_runs import details, run


def log_of(*times: int) -> ReplicaLog:
    """A record at each of these seconds."""
    log = ReplicaLog()
    for offset, time in enumerate(times):
        log.append(Batch(offset, offset + 1, 0, offset, 0, time * SECOND, offset))
    return log


def bases(log: ReplicaLog, size: int, seconds: int) -> list[int]:
    return [segment[0].base for segment in segments(log.batches(), size, seconds * SECOND)]


def test_a_segment_ends_when_it_is_full_or_old() -> None:
    log = log_of(0, 1, 2, 9, 10, 30)
    one = size_of(next(log.batches()))
    assert bases(log, 2 * one, 1000) == [0, 2, 4]
    assert bases(log, 1 << 30, 5) == [0, 3, 5]
    assert bases(log, 1, 1000) == [0, 1, 2, 3, 4, 5]  # a batch larger than a segment has one of its own
    assert bases(ReplicaLog(), 1, 1) == []


def test_retention_deletes_whole_old_segments_below_the_high_watermark() -> None:
    log = log_of(0, 1, 2, 9, 10, 30)
    by_time = Limits(1 << 30, 5 * SECOND, NEVER, 15 * SECOND)
    assert retained_from(log, 6, by_time, 17 * SECOND) == (0, "")  # its newest record is of second 2
    assert retained_from(log, 6, by_time, 18 * SECOND) == (3, "time")
    assert retained_from(log, 6, by_time, 26 * SECOND) == (5, "time")
    assert retained_from(log, 4, by_time, 26 * SECOND) == (3, "time")  # the second reaches beyond the high watermark
    assert retained_from(log, 6, by_time, 50 * SECOND) == (6, "time")
    one = size_of(next(log.batches()))
    assert retained_from(log, 6, Limits(2 * one, NEVER, 3 * one, NEVER), 0) == (2, "size")
    assert retained_from(log, 6, Limits(2 * one, NEVER, 5 * one, NEVER), 0) == (0, "")
    log.delete_segments(5)
    assert (log.start, log.base, [batch.base for batch in log.batches()]) == (5, 5, [5])
    assert Config().retention is None


def test_what_retention_deleted_is_no_loss(tmp_path: Path) -> None:
    scenario = load("retention")
    written = write_bundle(scenario, tmp_path / "run")
    assert written.truth["lost_acked_count"] == 0
    starts = {broker.replicas[0].log.start for broker in written.cluster.brokers.values()}
    assert starts == {written.cluster.ledger.read_by["final"][0][0][0]} != {0}
    files = sorted(path.name for path in (written.folder / "brokers" / "1" / "data" / "orders-0").glob("*.log"))
    assert len(files) > 1
    assert int(files[0][:20]) == starts.pop()
    results = judge_run(open_run(written.folder))
    assert not [row for row in results.findings().to_dicts() if row["severity"] == "violation"]


def test_delete_records_waits_for_the_replicas_that_live() -> None:
    delete = Fault(4 * SECOND, "delete-records", (), 0, 10)
    silent = Fault(3500 * 1000, "pause", (3,), 20 * SECOND)
    options = {"simulation.ops": 200, "broker.session.timeout.ms": 6000, "request.timeout.ms": 15000}
    _, waited = run("kraft", {**options, "delivery.timeout.ms": 60000}, silent, delete)
    assert details(waited, "records-deleted") == [(0, 10, 10)]
    [deleted] = [event.time for event in waited if event.kind == "records-deleted"]
    [fenced] = [event.time for event in waited if event.kind == "fenced"]
    assert deleted >= fenced  # until then broker 3 counted
    options = {"simulation.ops": 200, "broker.session.timeout.ms": 60000, "request.timeout.ms": 5000}
    _, late = run("kraft", options, silent, delete)
    assert details(late, "delete-timed-out") == [(0, 10, 0)]


def test_a_follower_behind_the_leaders_log_start_begins_there() -> None:
    dead, delete = Fault(2 * SECOND, "crash", (3,), 14 * SECOND), Fault(12 * SECOND, "delete-records", (), 0, 100)
    cluster, events = run("kraft", {"simulation.ops": 300}, dead, delete)
    assert details(events, "records-deleted") == [(0, 100, 100)]
    logs = [broker.replicas[0].log for broker in cluster.brokers.values()]
    assert {(log.start, log.end, *log.epochs) for log in logs} == {(100, 300, EpochStart(0, 100))}
    assert [batch.uid for batch in logs[2].batches()] == [batch.uid for batch in logs[0].batches() if batch.end > 100]
    assert logs[2].base == 100


def test_packed_rows_occupy_no_more_than_they_take() -> None:
    chunks = [[(base + n, base + n + 1, 0) for n in range(CHUNK)] for base in range(0, 50 * CHUNK, CHUNK)]
    tracemalloc.start()
    try:
        packed = [pack(rows) for rows in chunks]
        occupied, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert occupied < 2 * sum(map(len, packed)) + 100 * len(packed)
