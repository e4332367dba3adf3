"""What the evidence shows of collected logs: older copies, and empty ones that their brokers reported as empty.

A follower's last log that ends below what its broker had is an older copy: behind it, replicas may differ. A follower
that is only behind is compared as far as it goes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import invoke
from logjudge import check as judged

from .test_commands import Unpack
from .test_missing_logs import SEGMENT, _sentence, _split, _verdicts

RULES = ("replica-divergence", "acknowledged-absent", "checkpoint-order")
SHRUNK = (
    "[2026-11-21 09:23:13,000] INFO [Partition orders-0 broker=3] Shrinking ISR from 3,1,2 to 3,1. Leader:"
    " (highWatermark: 0, endOffset: 1). Out of sync replicas: (brokerId: 2, endOffset: 0). (kafka.cluster.Partition)\n"
)
TRUNCATED = "[2026-11-21 09:23:20,000] INFO [UnifiedLog partition=orders-0, dir=/d] Truncating to offset 1 (k.Log)\n"


def _log_line(run: Path, broker: int, line: str) -> None:
    with (run / f"brokers/{broker}/server.log").open("a") as log:
        log.write(line)


def _remove_checkpoints(folder: Path) -> None:
    for path in folder.glob("*-offset-checkpoint"):
        path.unlink()


def _shorten(run: Path, broker: int) -> None:
    """Removes the last third of a broker's log of orders-0, and all checkpoints of the broker."""
    folder = run / f"brokers/{broker}/data/orders-0"
    _remove_checkpoints(folder.parent)
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


LOG = "INFO [UnifiedLog partition=orders-0, dir=/d]"
FULLY = f"{LOG} Truncate fully and start at offset 0 (kafka.log.UnifiedLog)"
NOTHING = f"{LOG} Truncating to 0 has no effect as the largest offset in the log is -1 (kafka.log.UnifiedLog)"
LOADED = "INFO Completed load of log orders-0 with 1 log segments and log end offset 0 in 10 ms (kafka.log.Log)"
NS = 1_000_000_000


def _line(second: int, text: str) -> str:
    """A line of server.log; the run of clean-a started at 09:23:11."""
    return f"[2026-11-21 09:23:{11 + second:02d},154] {text}\n"


# The lines of broker 1 around a snapshot at 8 s.
LINES: dict[str, tuple[str, str]] = {
    "truncated a moment before": (_line(6, FULLY), "valid"),
    "truncated nothing next": (_line(10, NOTHING), "valid"),
    "truncated long before": (_line(2, FULLY), "unknown"),
    "truncated nothing long before": (_line(6, NOTHING), "unknown"),
    "truncated next": (_line(10, FULLY), "unknown"),
    "loaded next": (_line(10, LOADED), "unknown"),
    "nothing": ("", "unknown"),
}


def _with_empty_log(run: Path, broker: int, at: int) -> Path:
    """Adds a snapshot at a time (ns) in which the broker's log of orders-0 is empty, and returns its log.dir."""
    shutil.copytree(run / "brokers", run / "snapshots/during/brokers", ignore=shutil.ignore_patterns("*server.log"))
    settings = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**settings, "snapshots": {"during": {"time": at}}}))
    folder = run / f"snapshots/during/brokers/{broker}/data"
    os.truncate(folder / "orders-0" / SEGMENT, 0)
    return folder


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", LINES)
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_an_empty_log_that_its_broker_reported_is_collected(
    case: str, has_checkpoint: bool, unpacked: Unpack, tmp_path: Path
) -> None:
    """Its checkpointed high watermark, or its epoch with records of another replica, would prove records."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    folder = _with_empty_log(run, 1, 8 * NS)
    if not has_checkpoint:
        _remove_checkpoints(folder)
    lines, verdict = LINES[case]
    with (run / "brokers/1/server.log").open("a") as log:
        log.write(lines)
    assert _verdicts(judged(run), "replica-divergence") == [verdict]


@pytest.mark.parametrize(("at", "verdict"), [(NS, "valid"), (3 * NS, "unknown")])
def test_an_empty_log_of_a_topic_that_was_just_created_is_collected(
    at: int, verdict: str, unpacked: Unpack, tmp_path: Path
) -> None:
    """Broker 3 created it at 0.3 s and leads it; the others were copied with the first records."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    _remove_checkpoints(_with_empty_log(run, 3, at))
    assert _verdicts(judged(run), "replica-divergence") == [verdict]


def _faults(*kinds: tuple[str, str, float]) -> str:
    """Lines of a nemesis on broker 1: type, kind and time (s)."""
    about = {"nodes": ["1"], "topic": "orders", "partition": 0, "offsets_cut": [0, 121]}
    common = {"process": "nemesis"}
    events = [
        {**common, "op": op, "time": int(at * NS), "type": step, "f": f, "fault": {**about, "kind": kind}}
        for op, (f, kind, at) in enumerate(kinds)
        for step in ("invoke", "ok")
    ]
    return "".join(f"{json.dumps(event)}\n" for event in events)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("faults", "verdict"),
    [
        ([("fault", "kill", 7), ("fault", "truncate", 7.5)], "valid"),
        ([("fault", "kill", 7)], "unknown"),
        ([("fault", "kill", 6), ("fault", "truncate", 6.5), ("heal", "restart", 7)], "unknown"),
        ([("fault", "kill", 7), ("fault", "truncate", 9)], "unknown"),  # after the snapshot
    ],
)
def test_an_empty_log_that_a_fault_had_cut_is_collected(
    faults: list[tuple[str, str, float]], verdict: str, unpacked: Unpack, tmp_path: Path
) -> None:
    """A rack lost power before any record of a replica was flushed."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    _with_empty_log(run, 1, 8 * NS)
    with (run / "history.jsonl").open("a") as history:
        history.write(_faults(*faults))
    assert _verdicts(judged(run), "replica-divergence") == [verdict]


COMPACTED = {"cleanup.policy": "compact", "simulation.keys": 20, "simulation.tombstones": 300, "num.partitions": 1}


def test_tombstones_that_the_leader_has_beside_an_older_copy_are_not_lost(tmp_path: Path) -> None:
    run = tmp_path / "run"
    options = [word for name, value in COMPACTED.items() for word in ("--set", f"{name}={value}")]
    assert invoke("simulate", "--seed", "5", "--ops", "200", *options, "--out", run).exception is None
    history = (run / "history.jsonl").read_text().splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(line for line in history if '"process":"final"' not in line))
    settings = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**settings, "final": False}))
    _remove_checkpoints(run / "brokers/2/data")
    os.truncate(run / "brokers/2/data/orders-0" / SEGMENT, 0)
    result = judged(run)
    assert "the log of broker 2 is empty" in _sentence(result, "all replicas collected")
    assert _verdicts(result, "lost-write", "acknowledged-absent") == ["unknown", "unknown"]
    assert not len(result.findings)
