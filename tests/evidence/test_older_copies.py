"""A follower's last log that ends below what its broker had is an older copy: behind it, replicas may differ.

A follower that is only behind is compared as far as it goes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from logjudge import check as judged

from .test_commands import Unpack
from .test_missing_logs import _sentence, _split, _verdicts

RULES = ("replica-divergence", "acknowledged-absent", "checkpoint-order")
SHRUNK = (
    "[2026-11-21 09:23:13,000] INFO [Partition orders-0 broker=3] Shrinking ISR from 3,1,2 to 3,1. Leader:"
    " (highWatermark: 0, endOffset: 1). Out of sync replicas: (brokerId: 2, endOffset: 0). (kafka.cluster.Partition)\n"
)
TRUNCATED = "[2026-11-21 09:23:20,000] INFO [UnifiedLog partition=orders-0, dir=/d] Truncating to offset 1 (k.Log)\n"


def _log_line(run: Path, broker: int, line: str) -> None:
    with (run / f"brokers/{broker}/server.log").open("a") as log:
        log.write(line)


def _shorten(run: Path, broker: int) -> None:
    """Removes the last third of a broker's log of orders-0, and all checkpoints of the broker."""
    folder = run / f"brokers/{broker}/data/orders-0"
    for path in folder.parent.glob("*-offset-checkpoint"):
        path.unlink()
    _split(folder)[2].unlink()


def _power_loss(run: Path) -> None:
    event = {"process": "nemesis", "op": 10**6, "f": "fault", "fault": {"kind": "power-loss", "nodes": ["2"]}}
    with (run / "history.jsonl").open("a") as history:
        for number, type_ in enumerate(("invoke", "ok")):
            history.write(json.dumps({**event, "type": type_, "time": 14_000_000_000 + number}) + "\n")


LEFT_ALONE: dict[str, Callable[[Path], None]] = {
    "not in the ISR": lambda run: _log_line(run, 3, SHRUNK),
    "without the leader's checkpoint": lambda run: (run / "brokers/3/data/replication-offset-checkpoint").unlink(),
    "lost power": _power_loss,
}


def test_a_member_of_the_isr_below_the_high_watermark_is_an_older_copy(unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    _shorten(run, 2)
    result = judged(run)
    assert _verdicts(result, *RULES) == ["unknown", "valid", "valid"]
    reason = "the broker was in the last ISR, and the leader's checkpointed high watermark is 1840"
    for name in ("all replicas collected", "evidence sufficient"):
        assert reason in _sentence(result, name)


@pytest.mark.parametrize("case", LEFT_ALONE)
def test_a_follower_that_may_be_behind_is_compared(case: str, unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    _shorten(run, 2)
    LEFT_ALONE[case](run)
    assert _verdicts(judged(run), *RULES) == ["valid"] * 3


@pytest.mark.parametrize("is_truncated", [False, True])
def test_a_log_that_ended_later_in_a_snapshot_is_an_older_copy(
    is_truncated: bool, unpacked: Unpack, tmp_path: Path
) -> None:
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    shutil.copytree(run / "brokers/2/data", run / "snapshots/before/brokers/2/data")
    settings = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**settings, "snapshots": {"before": {"time": 12_000_000_000}}}))
    LEFT_ALONE["without the leader's checkpoint"](run)
    _shorten(run, 2)
    if is_truncated:
        _log_line(run, 2, TRUNCATED)
    result = judged(run)
    assert _verdicts(result, *RULES) == ["valid" if is_truncated else "unknown", "valid", "valid"]
    if not is_truncated:
        why = "it had the leader's records up to offset 1839 in snapshot before"
        assert why in _sentence(result, "all replicas collected")
