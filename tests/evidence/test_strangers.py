"""What is no replica of the log at hand is left out, said, and never a divergence."""

from __future__ import annotations

import shutil

import pytest
from logjudge.analysis.local import judge_run
from logjudge.analysis.verdict import verdict_of
from logjudge.histories.bundle import open_run

OTHER = "qMbN0rtrS3qpFZTFyJYUZw"


def log_dirs(unpacked, folder):
    """kafka-a of a run's broker 1 at its end, and kafka-b of the same broker before its log was cut."""
    run = unpacked("acks1-failover-a")
    shutil.copytree(run / "brokers/1/data", folder / "kafka-a")
    shutil.copytree(run / "snapshots/before-rejoin/brokers/1/data", folder / "kafka-b")


def change(path, key, value):
    lines = [f"{key}{value}" if line.startswith(key) else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")


def verdict(folder):
    results = judge_run(open_run(folder))
    assert results.findings().filter(severity="violation").is_empty()
    return verdict_of(results), results.quarantine()["reason"].to_list()


def test_a_backup_of_a_broker_is_no_replica(unpacked, tmp_path):
    log_dirs(unpacked, tmp_path)
    told, reasons = verdict(tmp_path)
    assert told["verdict"] == "unknown"
    assert [reason for reason in reasons if "second copy of what broker 1 kept" in reason]


def test_log_dirs_of_another_cluster_are_left_out(unpacked, tmp_path):
    log_dirs(unpacked, tmp_path)
    meta = tmp_path / "kafka-b/meta.properties"
    change(meta, "cluster.id=", OTHER)
    change(meta, "node.id=", "2")
    told, reasons = verdict(tmp_path)
    assert [reason for reason in reasons if f"is of cluster {OTHER}" in reason]
    broken = [item["name"] for item in told["assumptions"] if item["holds"] is not True]
    assert "one copy of each log" in broken


@pytest.mark.parametrize(("topic_id", "other"), [(OTHER, True), (None, False)])
def test_a_topic_that_was_made_again_is_another_log(unpacked, tmp_path, topic_id, other):
    log_dirs(unpacked, tmp_path)
    change(tmp_path / "kafka-b/meta.properties", "node.id=", "2")
    metadata = tmp_path / "kafka-b/orders-0/partition.metadata"
    damaged = metadata.read_text().splitlines()[-1].partition(": ")[2][:-1] + "_"
    change(metadata, "topic_id: ", topic_id or damaged)
    results = judge_run(open_run(tmp_path))
    assert bool([r for r in results.quarantine()["reason"] if "another topic named orders" in r]) is other
    assert ("replica-divergence" not in results.findings()["rule"].to_list()) is other
