"""Records that a copy of a log has, but below its start: they were deleted before a truncation could remove them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from logjudge import check as judged
from logjudge.analysis.partitions.early_compactions import are_held_by_leaders, held_by_leaders_until
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.partitions.truncated_sends import truncated_sends
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS, complete

from .replica_texts import epochs, joined, logs
from .test_commands import Unpack
from .timelines import BEGINS, SECOND, metadata, server_log, timeline

LED_BY_1 = (server_log("1", (0, BEGINS % (0, 0, 0, "1"))),)


def partition(start):
    """Broker 1 acknowledged a, b and c, and its copy of that time begins at `start`. Broker 2's log replaced them."""
    early, last = logs("1: 0a 1b 2c", "early"), logs("1: 0x@1 1y@1 2z@1\n2: 0x@1 1y@1 2z@1")
    files = epochs(("1", 0, start)).with_columns(snapshot=pl.lit("early"))
    tables = {**joined(early, last), "epochs": pl.concat([files, epochs(("1", 1, 0), ("2", 1, 0))])}
    return partition_of(timeline(tables, {"snapshots": ("early", ""), "times": {"early": 5}}, events=LED_BY_1))


def partition_of(evidence):
    """A partition in which a, b and c were acknowledged in the first nanoseconds."""
    sent = [
        {"value": value, "offset": at, "outcome": "ok", "acknowledged": True, "invoked": at, "completed": at + 1}
        for at, value in enumerate("abc")
    ]
    sends = complete(pl.DataFrame(sent), SENDS).cast(pl.Schema(SENDS))
    reads = pl.DataFrame(schema=READS)
    return Partition("orders", 0, Settings(), sends, reads, replica_logs=evidence.replica_logs, timeline=evidence)


@pytest.mark.parametrize(("start", "deleted"), [(2, ["a", "b"]), (0, [])])
def test_a_copy_with_a_record_below_its_start_shows_a_deletion_before_the_truncation(start, deleted):
    sends = truncated_sends(partition(start))
    assert sends.filter("maybe_removed")["value"].to_list() == deleted


def test_a_log_does_not_hold_what_is_below_its_start():
    p = partition(2)
    assert held_by_leaders_until(p, truncated_sends(p)).to_list() == [None, None, 5]


def cut_run(source: Path, folder: Path, retention_bytes: int) -> Path:
    """The run, with a history that ends before a client could see the truncation."""
    run = shutil.copytree(source, folder)
    lines = (run / "history.jsonl").read_text().splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(line for line in lines if json.loads(line)["time"] < 14_000_000_000))
    settings = json.loads((run / "run.json").read_text())
    settings["topics"]["orders"]["retention.bytes"] = retention_bytes
    (run / "run.json").write_text(json.dumps(settings))
    return run


def test_a_leaders_whole_log_shows_that_retention_removed_nothing_that_it_lacks(
    unpacked: Unpack, tmp_path: Path
) -> None:
    run = cut_run(unpacked("unclean-election-a"), tmp_path / "run", 10**9)
    found = judged(run).findings
    lost, absent = (found.filter(rule=rule)["values"].explode() for rule in ("lost-write", "acknowledged-absent"))
    assert lost.sort().equals(absent.sort())
    assert len(lost) == 753


def test_retention_bytes_may_have_removed_what_only_the_logs_show_as_truncated(
    unpacked: Unpack, tmp_path: Path
) -> None:
    """Without server.log and state-change.log, nothing shows which log the records were written to."""
    run = cut_run(unpacked("unclean-election-a"), tmp_path / "run", 20_000)
    for log in run.glob("**/brokers/*/*.log"):
        log.unlink()
    assert 0 < judged(run).findings.filter(rule="acknowledged-absent")["count"].sum() < 753


@pytest.mark.parametrize(
    ("start_of_2", "copies", "held"),
    [
        (3, "1: 0a 1b 2c\n2: 0a 1b", [True, True, False]),  # broker 2 had all records, and may have removed c
        (2, "1: 0a 1b 2c\n2: 0a 1b", [True, True, True]),  # it never had c
        (3, "1: 0a 1b 2c\n2: 0a 1b 2c", [True, True, True]),
    ],
)
def test_each_leader_before_the_truncation_may_have_removed_a_record(start_of_2, copies, held):
    """Broker 1 wrote a, b and c. Broker 2 led then, and broker 3 replaced them in epoch 2."""
    tables = {**joined(logs(copies, "early"), logs("3: 0x@2 1y@2 2z@2"))}
    tables["epochs"] = epochs(("2", 0, 0), ("2", 1, start_of_2), ("3", 0, 0), ("3", 2, 0))
    meta = metadata((4, {"leader": 2, "isr": [2]}), (9, {"leader": 3, "isr": [3], "leaderRecoveryState": 1}))
    about = {"snapshots": ("early", ""), "times": {"early": 10 * SECOND}}
    evidence = timeline(tables, about, meta, leader="3")
    p = partition_of(evidence)
    assert are_held_by_leaders(p, truncated_sends(p)).to_list() == held
