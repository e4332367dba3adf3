"""Outcomes that the logs show and the client does not, and legal absences."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

import polars as pl
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.partitions.evidence import collected_logs
from logjudge.analysis.partitions.log_start import log_start
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.replicas.resolved_outcomes import ABSENCES, BELOW_START, legal_absences, resolve_outcomes
from logjudge.histories.bundle import open_run
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, complete, without_key


def test_unknown_sends_are_in_the_log_or_not(recorded):
    run = recorded("leader-kill-m")
    unknown = [(place, e) for place, e in run.events if e["f"] == "send" and e["type"] == "info"]
    partitions = {(e["process"], e["op"]): e.get("partition") for _, e in run.events if e["f"] == "send"}
    is_in_log = 0
    for topic, partition in run.partitions():
        if topic != "orders":
            continue
        mine = [(e["value"], p) for p, e in unknown if partitions[(e["process"], e["op"])] == partition]
        frame = pl.DataFrame(mine, schema={"value": pl.String, "place": pl.Int64}, orient="row")
        resolved = resolve_outcomes(run.replica_logs(topic, partition), frame)
        assert resolved["is_in_log"].null_count() == 0
        assert resolved.filter(pl.col("is_in_log"))["offset"].null_count() == 0
        is_in_log += resolved["is_in_log"].sum()
    assert is_in_log == run.truth["info_and_read"]


def test_aborted_sends_are_not_in_the_log(recorded):
    run = recorded("transactions-a")
    for place, event in run.events:
        if event["f"] == "txn" and event["type"] == "fail":
            for op in event["ops"]:
                if op["f"] == "send" and op["topic"] == "orders" and op.get("offset") is not None:
                    frame = pl.DataFrame({"value": [op["value"]], "place": [place]})
                    resolved = resolve_outcomes(run.replica_logs("orders", op["partition"]), frame)
                    assert resolved["is_in_log"].to_list() == [False]
                    return
    raise AssertionError("the run has no aborted send")


def test_outcomes_stay_unknown_without_the_leader_s_log(recorded):
    run = recorded("custom-kraft")
    frame = pl.DataFrame({"value": ["x"], "place": [1]})
    replica_logs = run.replica_logs("demo", 0)
    hidden = replica_logs.records.filter(pl.col("broker") != replica_logs.leader)
    assert resolve_outcomes(replace(replica_logs, records=hidden), frame)["is_in_log"].to_list() == [None]


def test_legal_absences_are_those_of_the_truth(recorded):
    run = recorded("retention-a")
    for name, gone in run.truth["legally_gone"].items():
        topic, partition = name.rsplit("-", 1)
        ranges = legal_absences(run.replica_logs(topic, int(partition)))
        covered = {o for a, b in ranges.select("first_offset", "last_offset").rows() for o in range(a, b + 1)}
        sent = run.sent(topic, int(partition))
        replica_logs = run.replica_logs(topic, int(partition))
        # The first segment may still hold records below the log start, which no reader gets.
        start = replica_logs.extents["start"][0]
        there = replica_logs.records.filter((pl.col("broker") == replica_logs.leader) & (pl.col("offset") >= start))[
            "offset"
        ]
        missing = set(sent["offset"]) - set(there)
        assert len(missing) == gone["count"]
        assert missing <= covered
        assert not covered & set(there)


def test_markers_and_aborted_records_are_never_missing(recorded):
    run = recorded("transactions-a")
    ranges = legal_absences(run.replica_logs("orders", 0))
    assert set(ranges["reason"]) == {"a control record", "of an aborted transaction"}
    records = run.replica_logs("orders", 0).records.filter(pl.col("broker") == run.replica_logs("orders", 0).leader)
    markers = records.filter(pl.col("control").is_not_null()).height
    assert ranges.filter(pl.col("reason") == "a control record").height == markers


def test_metadata_that_ends_before_the_log_names_no_leader(recorded):
    frames = dict(recorded("custom-kraft").tables["demo", 0])
    frames.pop("log_events", None)
    assert collected_logs("demo", 0, frames, Settings()).leader is not None
    frames["metadata"] = frames["metadata"].with_columns(pl.col("leader_epoch") - 100)
    of_another = collected_logs("demo", 0, frames, Settings())
    assert (of_another.leader, of_another.replicas) == (None, ())


@pytest.mark.parametrize(("role", "first", "start"), [("final", 10, 10), ("final", 300, 200), ("consumer", 10, 200)])
def test_a_log_start_in_files_explains_nothing_that_final_reads_still_saw(role, first, start):
    reads = pl.DataFrame(
        {"process": "c", "offset": [first, first + 1], "value": ["a", "b"], "invoked": 1, "completed": 2}
    )
    reads = reads.with_columns(pl.lit(0).alias("index"), pl.lit(0).alias("at"), pl.lit(False).alias("exempt"))
    kinds = without_key(READS)
    settings = Settings(config={"final": True, "processes": {"c": {"role": role}}})
    p = Partition("t", 0, settings, reads=complete(reads, kinds).cast(pl.Schema(kinds)))
    below = {"first_offset": [0], "last_offset": [199], "reason": [BELOW_START]}
    vars(p)["legally_absent"] = pl.DataFrame(below, ABSENCES)
    assert log_start(p).certain == start


@pytest.mark.parametrize("left_out", ["topics", "keys"])
def test_compacted_records_are_no_poll_skip(unpacked, tmp_path, left_out):
    """Even if cleanup.policy, or the keys of the records, are not recorded."""
    run = shutil.copytree(unpacked("retention-a"), tmp_path / "run")
    about = json.loads((run / "run.json").read_text())
    if left_out == "topics":
        del about["topics"]
        (run / "run.json").write_text(json.dumps(about))
    else:
        lines = map(json.loads, (run / "history.jsonl").read_text().splitlines())
        nameless = partial(json.dumps, separators=(",", ":"))
        changed = [nameless({name: value for name, value in line.items() if name != "key"}) for line in lines]
        (run / "history.jsonl").write_text("".join(line + "\n" for line in changed))
    found = judge_run(open_run(run)).findings()
    assert not found.filter(pl.col("rule").str.contains("poll-skip") & (pl.col("severity") == "violation")).height
