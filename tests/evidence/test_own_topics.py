"""Internal topics: a collection may have any part of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from logjudge import check as judged

from .conftest import DATA
from .test_commands import Unpack
from .test_missing_logs import SEGMENT

OFFSETS = "__consumer_offsets-0"


def with_commits(run: Path, folder: Path, *brokers: str) -> Path:
    """A copy of a run in which these brokers also have __consumer_offsets, of three replicas."""
    run = shutil.copytree(run, folder)
    for checkpoint in run.glob("brokers/*/data/replication-offset-checkpoint"):  # of the brokers without the log, too
        version, count, *lines = checkpoint.read_text().splitlines()
        lines = [version, str(int(count) + 1), *lines, "__consumer_offsets 0 5"]
        checkpoint.write_text("\n".join(lines) + "\n")
    for broker in brokers:
        log = run / "brokers" / broker / "data" / OFFSETS / SEGMENT
        log.parent.mkdir()
        shutil.copy(DATA / "groups" / "4.1.1.log", log)
    about = json.loads((run / "run.json").read_text())
    about["topics"]["__consumer_offsets"] = {"partitions": 1, "replication.factor": 3}
    (run / "run.json").write_text(json.dumps(about))
    return run


@pytest.mark.sampled(1)
@pytest.mark.parametrize("brokers", [(), ("1",), ("1", "2"), ("1", "2", "3")])
def test_the_clients_records_need_no_replica_of_kafkas_own_topics(
    brokers: tuple[str, ...], unpacked: Unpack, tmp_path: Path
) -> None:
    result = judged(with_commits(unpacked("clean-a"), tmp_path / "run", *brokers))
    assert result.verdict == "valid"
    assert result.rules["replica-divergence"]["verdict"] == "valid"
    assert result.counts["partitions"] == 3


def test_a_log_that_is_missing_by_its_own_folder_is_not_compared(unpacked: Unpack, tmp_path: Path) -> None:
    run = with_commits(unpacked("clean-a"), tmp_path / "run", "1", "2", "3")
    log = run / "brokers" / "2" / "data" / OFFSETS / SEGMENT
    (log.parent / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    log.unlink()
    result = judged(run)
    assert result.rules["replica-divergence"]["verdict"] == "unknown"
    assert result.rules["lost-write"]["verdict"] == "valid"


def test_a_missing_replica_of_the_clients_topic_still_counts(unpacked: Unpack, tmp_path: Path) -> None:
    run = with_commits(unpacked("clean-a"), tmp_path / "run", "1")
    [log] = (run / "brokers" / "2" / "data").glob("orders-0")
    shutil.rmtree(log)
    result = judged(run)
    assert result.rules["replica-divergence"]["verdict"] == "unknown"
