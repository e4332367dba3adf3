"""An empty log in a snapshot is collected if its broker reported around that time that it was empty."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from logjudge import check as judged

from .test_commands import Unpack
from .test_missing_logs import SEGMENT, _verdicts

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


def _remove_checkpoints(folder: Path) -> None:
    for path in folder.glob("*-offset-checkpoint"):
        path.unlink()


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
    """As a rack that lost power before any record of a replica was flushed."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    _with_empty_log(run, 1, 8 * NS)
    with (run / "history.jsonl").open("a") as history:
        history.write(_faults(*faults))
    assert _verdicts(judged(run), "replica-divergence") == [verdict]
