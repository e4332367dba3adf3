"""Limits in bytes: the model's sizes are those of the files, and requests, segments and messages keep their limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.segments import batch_bytes, message_set, values_of
from logjudge.models.exploration.invariants import breaches
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import MS, SECOND, Config
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.keys import Keys
from logjudge.models.replication.options import configure
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.sizes import MARKER_BATCH, batch_sizes, record_sizes
from logjudge.models.replication.storage.batches import Batch
from logjudge.models.replication.storage.transactions import MARKER

SOUND = ("no-acknowledged-loss", "no-committed-loss", "no-divergence", "no-duplicates", "no-reordering")
BURSTS = {"simulation.burst.records": 40, "simulation.ops": 800, "simulation.send.interval.us": 200_000}
COMPACTED = configure(Config(), {"cleanup.policy": "compact", "num.partitions": 12})
PLAIN = configure(Config(), {"num.partitions": 12})


@given(st.integers(0, 120), st.integers(0, 2000), st.integers(1, 300), st.integers(0, 11), st.booleans(), st.booleans())
def test_sizes_are_those_of_the_encoded_bytes(
    producer: int, first: int, count: int, partition: int, is_compacted: bool, is_format_2: bool
) -> None:
    config = COMPACTED if is_compacted else PLAIN
    batch = Batch(7, 7 + count, producer, first, 0, 1_000_000, 1)
    content = values_of(partition, Keys(config) if is_compacted else None)
    encoded = (batch_bytes if is_format_2 else message_set)(batch, content)
    assert record_sizes(config, is_format_2)[partition](batch) == len(encoded)


def test_a_marker_has_its_size() -> None:
    marker = Batch(5, 6, MARKER, 0, 0, 0, 1, 1000, 0, -2)
    assert record_sizes(Config(), True)[0](marker) == MARKER_BATCH == len(batch_bytes(marker, values_of(0, None)))


def ran(variant: str = "kraft", **options: Any) -> Cluster:
    named = {name.replace("_", "."): value for name, value in options.items()}
    cluster = Scenario("bytes", variant, 1, {**BURSTS, **named}).run()
    assert cluster.final
    assert breaches(cluster, SOUND if cluster.config.idempotence else SOUND[:3]) == {}
    return cluster


def largest(cluster: Cluster) -> int:
    """The bytes of the largest batch in the log."""
    size = batch_sizes(cluster.config, cluster.rules.era.epochs_in_log)[0]
    log = cluster.leader_log(0)
    assert log is not None
    assert log.end == 800
    return max(map(size, log.batches()))


@pytest.mark.parametrize("variant", ["kraft", "high-watermark"])
def test_a_batch_takes_records_up_to_its_size(variant: str) -> None:
    assert 250 < largest(ran(variant, batch_size=300)) <= 300
    assert largest(ran(variant)) > 600  # all forty of a burst
    assert largest(ran(variant, batch_size=1)) < 90  # one record always fits


def test_a_request_has_at_least_one_batch_and_no_more_than_its_size() -> None:
    requests: list[list[int]] = []

    def watch(cluster: Cluster) -> None:
        inboxes, size = cluster.inboxes, record_sizes(cluster.config, True)
        for node, deliver in list(inboxes.items()):

            def arrived(request: Any, deliver: Any = deliver) -> None:
                if hasattr(request, "batches"):
                    own = [size[b.partition].batch(b.producer, b.first, b.count) for b in request.batches]
                    requests.append(own)
                deliver(request)

            inboxes[node] = arrived

    options = {**BURSTS, "num.partitions": 6, "max.request.size": 300}
    assert Scenario("x", "kraft", 1, options).run(prepare=watch).final
    assert all(len(own) == 1 or sum(own) <= 300 for own in requests)
    assert any(len(own) > 1 for own in requests)
    assert any(sum(own) > 200 for own in requests)


@pytest.mark.parametrize("side", ["replica.fetch.max.bytes", "max.partition.fetch.bytes"])
def test_a_fetch_returns_what_fits_and_the_first_batch_always(side: str) -> None:
    """With a limit below every batch each response has one batch. Broker 3 must catch up, and so must the consumer."""
    crash = Fault(1500 * MS, "crash", (3,), 3 * SECOND)
    total = {1: 0, 100_000: 0}
    for limit in total:
        cluster = Scenario("x", "kraft", 1, {**BURSTS, "batch.size": 100, side: limit}, faults=(crash,)).run()
        assert cluster.final
        assert breaches(cluster, (*SOUND, "no-consumer-loss")) == {}
        total[limit] = cluster.loop.processed
    assert total[1] > total[100_000] + 50


@pytest.mark.parametrize("side", ["replica.fetch.response.max.bytes", "fetch.max.bytes"])
def test_no_partition_starves_when_a_response_holds_one_batch(side: str) -> None:
    cluster = Scenario("x", "kraft", 1, {**BURSTS, "num.partitions": 4, "batch.size": 100, side: 1}).run()
    assert cluster.final
    assert breaches(cluster, (*SOUND, "no-consumer-loss")) == {}


@pytest.mark.parametrize(("variant", "idempotence"), [("kraft", True), ("kraft", False), ("high-watermark", False)])
def test_a_batch_that_is_too_large_is_split(variant: str, idempotence: bool) -> None:
    options = {"max_message_bytes": 300} | ({} if variant == "high-watermark" else {"enable_idempotence": idempotence})
    cluster = ran(variant, **options)
    assert 150 < largest(cluster) <= 300
    assert len(cluster.ledger.acknowledged_end) == 1


def test_segments_and_retention_count_real_bytes(tmp_path: Path) -> None:
    options = {**BURSTS, "segment.bytes": 2000, "retention.bytes": 6000, "log.retention.check.interval.ms": 1000}
    written = write_bundle(Scenario("x", "kraft", 1, options), tmp_path / "run")
    for folder in (tmp_path / "run" / "brokers").glob("*/data/orders-0"):
        files = sorted(file.stat().st_size for file in folder.glob("*.log"))
        assert all(size <= 2000 for size in files)
        assert files[-1] > 1200
        assert 6000 <= sum(files) < 8000 + 2000
    assert written.truth["lost_acked_count"] == 0
