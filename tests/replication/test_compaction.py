"""Compaction of simulated logs: what the cleaner keeps, and what `check` makes of it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest
from logjudge.models.exploration.compaction_truth import newest_value_stays
from logjudge.models.exploration.group_invariants import no_commit_loss
from logjudge.models.exploration.processing_invariants import exactly_once
from logjudge.models.replication.cleaners import topic_key
from logjudge.models.replication.config import SECOND, Config
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.keys import Keys
from logjudge.models.replication.options import configure
from logjudge.models.replication.storage.batches import Batch
from logjudge.models.replication.storage.compaction import Cleaner
from logjudge.models.replication.storage.replica_log import ReplicaLog
from logjudge.models.replication.storage.transactions import MARKER
from protocol_runs import details, run

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from judge import KEYED, compare

COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": 500,
    "log.cleaner.backoff.ms": 1000,
    "delete.retention.ms": 1000,
    "simulation.keys": 10,
    "simulation.tombstones": 200,
}


def random_log(rng: Random) -> tuple[ReplicaLog, list[list[Batch]]]:
    """A log of one batch a second, and its segments of two seconds."""
    log = ReplicaLog()
    numbers = [0, 0]
    for second in range(rng.randint(3, 15)):
        producer, count = rng.randrange(2), rng.randint(1, 5)
        log.append(Batch(log.end, log.end + count, producer, numbers[producer], 0, second * SECOND, second))
        numbers[producer] += count
    batches = list(log.batches())
    return log, [batches[at : at + 2] for at in range(0, len(batches), 2)]


def offsets(log: ReplicaLog) -> set[int]:
    return {offset for batch in log.batches() for part in batch.parts() for offset in range(part.base, part.end)}


@pytest.mark.parametrize("seed", range(60))
def test_a_cleaning_keeps_what_a_naive_one_keeps(seed: int) -> None:
    rng = Random(seed)
    keys = Keys(Config(keys=4, tombstones=300))
    log, segments = random_log(rng)
    records = [
        (batch.base + index, batch.producer, batch.first + index)
        for batch in log.batches()
        for index in range(batch.count)
    ]
    mark = rng.randrange(log.end + 1)
    below = [segment for segment in segments[:-1] if segment[-1].end <= mark]
    limit = below[-1][-1].end if below else 0
    newest = {keys.of(producer, 0, number).key: offset for offset, producer, number in records if offset < limit}
    remaining = {o for o, producer, number in records if o >= limit or newest[keys.of(producer, 0, number).key] == o}
    cleaner = Cleaner(partial(topic_key, keys, 0), 1 << 30, SECOND, 0.0, 0, 5 * SECOND)
    cleaned = cleaner.clean(log, mark, 100 * SECOND)
    assert cleaned == ((0, limit, len(records) - len(remaining)) if limit else None)
    assert offsets(log) == remaining
    assert log.cleaned == limit
    # A later cleaning needs dirty segments, and only then removes tombstones that are past their horizon.
    assert cleaner.clean(log, mark, 200 * SECOND) is None
    cleaner.clean(log, log.end, 200 * SECOND)
    aged = {o for o, producer, number in records if o < limit and keys.of(producer, 0, number).is_tombstone}
    end = log.cleaned
    newest |= {keys.of(producer, 0, number).key: o for o, producer, number in records if o < end}
    left = {o for o, producer, number in records if o >= end or newest[keys.of(producer, 0, number).key] == o}
    assert offsets(log) == (left - aged if end > limit else remaining)


def test_a_clean_log_and_a_young_segment_wait() -> None:
    keys = Keys(Config(keys=1, tombstones=0))
    log, _ = random_log(Random(1))
    assert (
        Cleaner(partial(topic_key, keys, 0), 1 << 30, SECOND, 0.0, 1000 * SECOND, 0).clean(log, log.end, 100 * SECOND)
        is None
    )
    assert Cleaner(partial(topic_key, keys, 0), 1 << 30, SECOND, 1.0, 0, 0).clean(log, log.end, 100 * SECOND) is None
    assert offsets(log) == set(range(log.end))


def test_parts_of_a_cleaned_batch_keep_their_places() -> None:
    batch = Batch(10, 16, 1, 100, 0, 0, 7, removed=0b011010)
    assert [(part.base, part.end, part.first, part.removed) for part in batch.parts()] == [
        *((10, 11, 100, 0), (12, 13, 102, 0), (15, 16, 105, 0)),
    ]
    assert batch.cut(12, 15).removed == 0b110
    assert [batch.first + index for index in batch.remaining()] == [100, 102, 105]


def test_followers_copy_a_cleaned_log_and_truncations_move_the_checkpoint_back() -> None:
    cluster, events = run("kraft", COMPACTED, Fault(3 * SECOND, "crash", (3,), 4 * SECOND))
    assert {partition for partition, _, _, count in details(events, "cleaned") if count} == {0}
    logs = cluster.logs_of(0)
    assert all(log.cleaned > 0 for log in logs.values())
    assert newest_value_stays(cluster) == []
    log = logs[1]
    log.truncate(log.cleaned - 1)
    assert log.cleaned == log.end


def test_a_truncation_behind_a_cleaning_leaves_a_key_without_value() -> None:
    cluster, _ = run("kraft", {**COMPACTED, "simulation.tombstones": 0, "simulation.keys": 1})
    log = cluster.leader_log(0)
    assert log is not None
    first = min(offsets(log))
    log.truncate(first)
    assert [breach.invariant for breach in newest_value_stays(cluster)] == ["newest-value-stays"]


COORDINATORS = {
    "partition.assignment.strategy": "range",
    "simulation.processing": "exactly-once",
    "isolation.level": "read_committed",
    "simulation.transactions": "own",
    "offsets.topic.segment.bytes": 400,
    "transaction.state.log.segment.bytes": 400,
    "offsets.topic.num.partitions": 50,
    "log.cleaner.backoff.ms": 500,
    "session.timeout.ms": 3000,
}


def test_coordinators_that_load_compacted_logs_lose_nothing() -> None:
    cluster, events = run(
        "kip-966",
        COORDINATORS,
        Fault(3 * SECOND, "crash", (1,), 3 * SECOND),
        Fault(8 * SECOND, "crash", (2,), 3 * SECOND),
    )
    config = cluster.config
    removed = {partition for partition, _, _, count in details(events, "cleaned") if count}
    assert removed == {config.group_log, config.transaction_log}
    assert [breach for check in (newest_value_stays, exactly_once, no_commit_loss) for breach in check(cluster)] == []
    assert config.log_name(config.group_log) == "__consumer_offsets-41"  # Utils.abs("workers".hashCode()) % 50


def test_compaction_removes_aborted_records_and_keeps_what_they_would_have_replaced() -> None:
    log = ReplicaLog()
    committed = Batch(0, 1, 0, 0, 0, 0, 1, 1000, 0)
    aborted = Batch(2, 3, 0, 1, 0, 0, 3, 1000, 0)
    for batch in (
        committed,
        Batch(1, 2, MARKER, 1, 0, 0, 2, 1000, 0, -2),
        aborted,
        Batch(3, 4, MARKER, 0, 0, 0, 4, 1000, 0, -2),
        Batch(4, 5, 1, 0, 0, 9 * SECOND, 5),
    ):
        log.append(batch)
    key_of = partial(topic_key, Keys(Config(keys=1, tombstones=0)), 0)
    assert Cleaner(key_of, 1 << 30, SECOND, 0.0, 0, 0).clean(log, log.end, 10 * SECOND) == (0, 4, 1)
    assert offsets(log) == {0, 1, 3, 4}


def test_keys_follow_the_partitioner() -> None:
    config = configure(Config(), {"num.partitions": 3, "partitioner.class": "key", "simulation.keys": 50})
    keys = Keys(config)
    own = [{keys.of(0, partition, number).key for number in range(2000)} for partition in range(3)]
    assert sorted(key for some in own for key in some) == sorted(f"k{number}" for number in range(50))


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(4, 24))]
)
def test_the_judge_agrees_with_the_simulator_on_compacted_topics(seed: int) -> None:
    assert compare(KEYED + seed).wrong == []
