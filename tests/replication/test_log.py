"""The log alone: epochs, truncation, and the two answers to OffsetsForLeaderEpoch."""

from __future__ import annotations

import pytest
from logjudge.models.replication.config import Config
from logjudge.models.replication.log import UNDEFINED, Batch, ReplicaLog
from logjudge.models.replication.replica import Replica
from logjudge.models.replication.variants import VARIANTS


def log_of(*epochs: int) -> ReplicaLog:
    """A log with one record of each epoch named, in order."""
    log = ReplicaLog()
    for offset, epoch in enumerate(epochs):
        log.append(Batch(offset, offset + 1, epoch, 0, offset, 0, 1000 * epoch + offset))
    return log


def test_truncation_drops_records_and_epochs() -> None:
    log = log_of(0, 0, 2, 2, 5)
    removed = log.truncate(3)
    assert [(b.base, b.epoch) for b in removed] == [(3, 2), (4, 5)]
    assert (log.end, log.epochs) == (3, [(0, 0), (2, 2)])


def test_truncation_cuts_inside_a_batch() -> None:
    log = ReplicaLog()
    log.append(Batch(0, 5, 0, 1, 10, 0, 7, pid=1, producer_epoch=0, sequence=10))
    removed = log.truncate(3)
    assert [(b.base, b.end, b.first, b.sequence) for b in removed] == [(3, 5, 13, 13)]
    assert log.producers[1].recent == [(10, 12, 0)]


def test_truncating_at_the_end_forgets_an_epoch_without_records() -> None:
    log = log_of(0, 0)
    log.assign_epoch(4, 2)
    assert log.truncate(2) == []
    assert log.epochs == [(0, 0)]


def test_reading_stops_at_the_limit_and_begins_inside_a_batch() -> None:
    log = ReplicaLog()
    log.append(Batch(0, 5, 0, 0, 0, 0, 1))
    log.append(Batch(5, 9, 0, 0, 5, 0, 2))
    assert [(b.base, b.end, b.first) for b in log.read(3, 10, 7)] == [(3, 5, 3), (5, 7, 5)]
    assert log.read(9, 10, 9) == []


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(0, (0, 2)), (1, (0, 2)), (2, (2, 4)), (5, (5, 5)), (6, (UNDEFINED, UNDEFINED))],
)
def test_end_of_epoch_names_the_epoch_it_found(asked: int, answer: tuple[int, int]) -> None:
    assert log_of(0, 0, 2, 2, 5).end_of_epoch(asked) == answer


def test_end_of_an_epoch_older_than_the_log() -> None:
    assert log_of(3, 3).end_of_epoch(1) == (1, 0)


def truncated(variant: str, follower: ReplicaLog, leader: ReplicaLog) -> ReplicaLog:
    """The follower's log after it asked the leader, as often as it wants to."""
    rules = VARIANTS[variant]()
    replica = Replica(1, 0, rules, Config())
    replica.log = follower
    for _ in range(10):
        epoch, end = rules.answer_epoch(leader, follower.last_epoch)
        cut, done = rules.truncate_by_epoch(replica, epoch, end)
        follower.truncate(cut)
        if done:
            return follower
    raise AssertionError("the follower asks for ever")


def test_epochs_0_to_3_diverge_with_the_first_answer_and_agree_with_the_second() -> None:
    """KIP-101's appendix: A wrote in epochs 0 and 2, B in 1 and 3; A comes back as B's follower."""
    a, b = [0, 2], [1, 3]
    first = truncated("kip-101", log_of(*a), log_of(*b))
    assert [batch.epoch for batch in first.batches()] == [0]  # not what B has at offset 0
    second = truncated("kip-279", log_of(*a), log_of(*b))
    assert second.batches() == []


def test_a_follower_ahead_in_an_old_epoch_is_cut_to_where_it_ended() -> None:
    follower = truncated("kip-320", log_of(0, 0, 0, 0), log_of(0, 0, 1))
    assert follower.end == 2
