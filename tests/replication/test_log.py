"""The replica log: epochs, truncation, and the two responses to OffsetsForLeaderEpoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.models.exploration.schedule import QUICK
from logjudge.models.replication.brokers.replica import Replica
from logjudge.models.replication.config import SECOND, Config
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.storage import batches, packed_rows
from logjudge.models.replication.storage.batches import Batch
from logjudge.models.replication.storage.replica_log import UNDEFINED, ReplicaLog
from logjudge.models.replication.variants import VARIANTS


def log_of(*epochs: int) -> ReplicaLog:
    """A log with one record of each epoch named, in order."""
    log = ReplicaLog()
    for offset, epoch in enumerate(epochs):
        log.append(Batch(offset, offset + 1, 0, offset, epoch, 0, 1000 * epoch + offset))
    return log


def test_truncation_drops_records_and_epochs() -> None:
    log = log_of(0, 0, 2, 2, 5)
    removed = log.truncate(3)
    assert [(b.base, b.epoch) for b in removed] == [(3, 2), (4, 5)]
    assert (log.end, log.epochs) == (3, [(0, 0), (2, 2)])


def test_truncation_cuts_inside_a_batch() -> None:
    log = ReplicaLog()
    log.append(Batch(0, 5, 1, 10, 0, 0, 7, pid=1, producer_epoch=0, sequence=10))
    removed = log.truncate(3)
    assert [(b.base, b.end, b.first, b.sequence) for b in removed] == [(3, 5, 13, 13)]
    assert [(b.sequence, b.last_sequence, b.base) for b in log.producers[1].recent] == [(10, 12, 0)]


def test_truncating_at_the_end_forgets_an_epoch_without_records() -> None:
    log = log_of(0, 0)
    log.assign_epoch(4, 2)
    assert log.truncate(2) == []
    assert log.epochs == [(0, 0)]


def test_reading_stops_at_the_limit_and_begins_inside_a_batch() -> None:
    log = ReplicaLog()
    log.append(Batch(0, 5, 0, 0, 0, 0, 1))
    log.append(Batch(5, 9, 0, 5, 0, 0, 2))
    assert [(b.base, b.end, b.first) for b in log.read(3, 10, 7)] == [(3, 5, 3), (5, 7, 5)]
    assert log.read(9, 10, 9) == []


@pytest.mark.parametrize(
    ("requested", "expected"),
    [(0, (0, 2)), (1, (0, 2)), (2, (2, 4)), (5, (5, 5)), (6, (UNDEFINED, UNDEFINED))],
)
def test_end_of_epoch_names_the_epoch_it_found(requested: int, expected: tuple[int, int]) -> None:
    assert log_of(0, 0, 2, 2, 5).end_of_epoch(requested) == expected


def test_end_of_an_epoch_older_than_the_log() -> None:
    assert log_of(3, 3).end_of_epoch(1) == (1, 0)


def truncated(variant: str, follower: ReplicaLog, leader: ReplicaLog) -> ReplicaLog:
    """The follower's log after all its requests for the end of an epoch."""
    rules = VARIANTS[variant]()
    replica = Replica(1, 0, rules, Config())
    replica.log = follower
    for _ in range(10):
        truncation = rules.truncation_for(replica, rules.end_offset_for_epoch(leader, follower.last_epoch))
        follower.truncate(truncation.offset)
        if truncation.is_final:
            return follower
    raise AssertionError("the follower requests for ever")


def test_epochs_0_to_3_diverge_under_kip_101_and_agree_under_kip_279() -> None:
    """KIP-101's appendix: A wrote in epochs 0 and 2, B in 1 and 3; A comes back as B's follower."""
    a, b = [0, 2], [1, 3]
    first = truncated("kip-101", log_of(*a), log_of(*b))
    assert [batch.epoch for batch in first.batches()] == [0]  # not what B has at offset 0
    second = truncated("kip-279", log_of(*a), log_of(*b))
    assert list(second.batches()) == []


def test_a_follower_ahead_in_an_old_epoch_is_cut_to_where_it_ended() -> None:
    follower = truncated("kip-320", log_of(0, 0, 0, 0), log_of(0, 0, 1))
    assert follower.end == 2


@pytest.fixture(scope="module")
def small_chunks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "CHUNK", 3)
        patch.setattr(packed_rows, "CHUNK", 3)
        yield


@pytest.mark.usefixtures("small_chunks")
@given(st.lists(st.tuples(st.sampled_from(["append", "append", "append", "truncate", "start"]), st.integers(0, 60))))
def test_packed_batches_are_the_batches_that_were_appended(steps: list[tuple[str, int]]) -> None:
    log, plain = ReplicaLog(), list[tuple[int, int, int]]()
    for uid, (step, number) in enumerate(steps):
        if step == "append":
            log.append(Batch(log.end, log.end + 1 + number % 3, 0, log.end, 0, 0, uid))
            plain.append((plain[-1][1] if plain else log.start, log.end, uid))
        elif step == "truncate" and number >= log.start:
            log.truncate(number)
            plain = [(base, min(end, number), one) for base, end, one in plain if base < number]
        elif step == "start":
            log.advance_start(number)
            log.checkpoint_start()
            plain = [one for one in plain if one[1] > log.start]
        assert [(b.base, b.end, b.uid) for b in log.batches()] == plain
        for base, end, one in plain:
            held = log.at(end - 1)
            assert held is not None
            assert (held.base, held.end, held.uid) == (base, end, one)
        for limit in (1, 4, 100):
            found = log.read(number, limit, log.end)
            expected = [(max(base, number), end, one) for base, end, one in plain if end > number][:limit]
            assert [(b.base, b.end, b.uid) for b in found] == expected


@pytest.mark.usefixtures("small_chunks")
@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=40))
def test_packed_rows_are_the_rows_that_were_appended(steps: list[int | None]) -> None:
    rows, plain = packed_rows.Rows(), list[packed_rows.Row]()
    for number, step in enumerate(steps):
        if step is None:
            rows.append((number, -number, (1, 2)))
            plain.append((number, -number, (1, 2)))
        elif step <= len(plain):
            rows.cut(step)
            del plain[step:]
        assert list(rows.rows()) == plain
        assert len(rows) == len(plain)


@pytest.mark.parametrize(
    ("options", "faults", "points"),
    [
        ({}, (), {0}),  # the kernel wrote everything back long ago
        ({"flush.messages": 1}, (), {60}),
        ({}, (Fault(8 * SECOND, "shutdown", (1, 2, 3), SECOND),), {60}),
    ],
)
def test_the_recovery_point_moves_by_flush_and_shutdown_only(
    options: dict[str, Any], faults: tuple[Fault, ...], points: set[int]
) -> None:
    quick = {**QUICK, "simulation.writeback.ms": 500, "log.flush.offset.checkpoint.interval.ms": 500}
    load = {"simulation.ops": 60, "simulation.send.interval.us": 50000, "simulation.settle.ms": 10000}
    cluster = Scenario("test", "kraft", 1, {**quick, **load, **options}, {}, faults).run()
    assert {broker.disk.recovery_points[0] for broker in cluster.brokers.values()} == points
    assert {broker.replicas[0].log.flushed for broker in cluster.brokers.values()} == {60}


def test_a_truncation_takes_the_recovery_point_along() -> None:
    log = ReplicaLog()
    log.append(Batch(0, 5, 0, 0, 0, 0, 1))
    log.flush()
    log.append(Batch(5, 9, 0, 5, 0, 0, 2))
    assert (log.flushed, log.recovery_point) == (5, 5)
    log.truncate(3)
    assert (log.flushed, log.recovery_point) == (log.end, log.end)
