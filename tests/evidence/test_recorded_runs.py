"""The recorded runs give their truth: what is absent, where replicas diverge, and why."""

from __future__ import annotations

import json
import random
import re
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

import polars as pl
import pytest
from logjudge.analysis.causes import explain_absence, explain_loss, explain_missed
from logjudge.analysis.causes.cases import GROUP_EVENTS, Explanation, Lost, Missed, lost_of
from logjudge.analysis.causes.repeated_values import Repeated
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.replicas.replica_logs import SENT_RECORDS, replica_logs_of
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from notation import undrawn

from .conftest import duplicate_cause, gathered, judge_divergence

CAUSE_OF = {
    "acks1-failover": "single-ack-failover",
    "backup": "log-rolled-back",
    "disk-truncate": "last-replica-standing",
    "kip-101": "high-watermark-truncation",
    "txn-unclean": "unclean-election",
    "unclean-election": "unclean-election",
}


def expected_cause(name):
    return CAUSE_OF.get(name.rsplit("-", 1)[0])


def name_of(finding):
    return f"{finding.topic}-{finding.partition}"


@pytest.mark.sampled(8)
def test_every_acknowledged_record_that_is_gone_is_found_and_no_other(recorded, run_name):
    run = recorded(run_name)
    lost = {}
    for finding in run.findings("acknowledged-absent"):
        lost.setdefault(name_of(finding), []).extend(finding.values)
    truth = {name: sorted(value for _, value in rows) for name, rows in run.truth["lost_acked"].items()}
    assert {name: sorted(values) for name, values in lost.items() if values} == truth
    for (rule, topic, partition), judged in run.judged.items():
        if rule == "acknowledged-absent":
            assert judged.unknowns == ()
        assert all(f"{topic}-{partition}" in finding.sentence for finding in judged.findings)


@pytest.mark.sampled(6)
def test_divergence_is_found_where_it_is_and_nowhere_else(recorded, run_name):
    run = recorded(run_name)
    found = {
        (finding.snapshot or "final", name_of(finding), finding.first_offset, finding.last_offset)
        for finding in run.findings("replica-divergence")
    }
    truth = {
        (snapshot, name, *offsets)
        for snapshot, partitions in run.truth["divergent"].items()
        for name, pairs in partitions.items()
        for pair in pairs.values()
        for offsets in pair.get("conflicting_offsets", [])
    }
    assert found == truth


def test_torn_tails_are_notes_at_their_byte(recorded, run_name):
    run = recorded(run_name)
    found = {
        (finding.snapshot, finding.replicas[0], name_of(finding), finding.evidence[0].byte)
        for finding in run.findings("log-corruption")
        if finding.severity == "note"
    }
    truth = {
        (snapshot, broker, name, byte)
        for snapshot, rows in run.truth["torn_tails"].items()
        for broker, name, _, byte, _ in rows
    }
    assert found == truth


@pytest.mark.parametrize(
    "name",
    ["clean-a", "leader-kill-a", "leader-kill-m", "transactions-a", "retention-a", "group-rebalance-a"],
)
def test_nothing_is_found_where_nothing_is(recorded, name):
    assert not any(judged.findings or judged.unknowns for judged in recorded(name).judged.values())


def test_a_partition_with_records_on_one_replica_alone_is_not_divergent(recorded):
    run = recorded("custom-kraft")
    assert all(judged.findings == () for judged in run.judged.values())
    assert set(run.tables[("demo", 0)]["records"]["broker"]) == {"103"}
    metadata = [tables["metadata"] for tables in run.tables.values() if "metadata" in tables]
    assert sum(len(rows.filter(kind="change", broker="101")) for rows in metadata) == 689


def test_each_loss_has_its_true_cause_and_a_chain_in_order(recorded, run_name):
    run = recorded(run_name)
    for finding in run.findings("acknowledged-absent"):
        at = finding.topic, finding.partition
        explained = explain_loss(run.timeline(*at), lost_of(finding, run.sent(*at)))
        assert explained.cause == expected_cause(run_name)
        assert explained.citation
        assert explained.prevented_by
        times = [fact.time for fact in explained.chain if fact.time is not None]
        assert times == sorted(times)
        assert len(times) > 2
        assert all(fact.source or fact.place is not None for fact in explained.chain)
        assert Explanation.from_record(json.loads(json.dumps(explained.record()))) == explained


@pytest.mark.parametrize("name", ["backup-x", "unclean-election-a", "unclean-election-c", "unclean-election-m"])
def test_without_clients_committed_records_that_a_later_leader_does_not_have_get_their_cause(recorded, name, tmp_path):
    for part in ("run.json", "brokers", "snapshots"):
        (tmp_path / part).symlink_to(recorded(name).root / part)
    with undrawn():
        results = judge_run(open_run(tmp_path))
    found = results.findings().filter(rule="replica-divergence", severity="violation")
    replaced = found.filter(pl.col("count") > 5)  # the five were written again by their producer
    assert set(replaced["cause"]) == {expected_cause(name)}


def test_without_clients_uncommitted_records_that_a_later_leader_does_not_have_get_no_cause(recorded, tmp_path):
    for part in ("run.json", "brokers", "snapshots"):
        (tmp_path / part).symlink_to(recorded("acks1-failover-a").root / part)
    with undrawn():
        found = judge_run(open_run(tmp_path)).findings().filter(rule="replica-divergence")
    assert found.select("severity", "cause").rows() == [("note", None)]


def test_clocks_of_brokers_that_are_minutes_off_hide_no_cause(recorded, tmp_path):
    shutil.copytree(recorded("kip-101-c").root, tmp_path / "run")
    for broker, seconds in (("1", -437), ("2", 1022), ("3", 61)):
        for log in (tmp_path / "run").glob(f"**/brokers/{broker}/*.log"):
            log.write_text(
                re.sub(r"(?m)^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", partial(_later, seconds), log.read_text())
            )
    with undrawn():
        found = judge_run(open_run(tmp_path / "run")).findings().filter(rule="lost-write")
    assert found["cause"].to_list() == ["high-watermark-truncation"] * 2


def _later(seconds, found):
    return f"[{datetime.fromisoformat(found[1]) + timedelta(seconds=seconds)}"


def weakened(run, rng):
    """The run without a part of its evidence: files, kinds of files, lines of logs, settings of run.json."""
    parts = find_parts(run.root)
    share = rng.choice([0.05, 0.3, 0.6, 0.9])
    without = rng.choice([None, "log", "segment", "epochs", "metadata", "offsets"])
    remaining = [part for part in parts if rng.random() > share and part.kind != without]
    tables = gathered(block for part in remaining for block in read_part(part))
    lines = rng.choice([0, 0, 0.3, 0.7])
    for found in tables.values():
        if "log_events" in found and lines:
            mask = pl.Series([rng.random() > lines for _ in range(found["log_events"].height)])
            found["log_events"] = found["log_events"].filter(mask)
    about = {key: value for key, value in run.about.items() if rng.random() > 0.15}
    sends = run.sends
    if rng.random() < 0.15:
        sends = {at: frame.with_columns(acks=pl.lit(None, pl.String)) for at, frame in sends.items()}
    faults = run.faults if rng.random() > 0.3 else []
    return replace(run, tables=tables, about=about, sends=sends, faults=faults)


@pytest.mark.sampled(6)
@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 6))])
def test_with_less_evidence_a_cause_becomes_unknown_and_never_another(recorded, run_name, seed):
    run = recorded(run_name)
    truth = expected_cause(run_name)
    found = run.findings("acknowledged-absent")
    rng = random.Random(f"{run_name}/{seed}")
    for _ in range(3):
        weaker = weakened(run, rng)
        for finding in found:
            at = finding.topic, finding.partition
            explained = explain_loss(weaker.timeline(*at), lost_of(finding, weaker.sent(*at)))
            assert explained.cause in (truth, "unknown")
            assert explained.cause != "unknown" or explained.missing


def test_legal_absences_have_a_reason_and_are_no_loss(recorded):
    run = recorded("retention-a")
    for name, gone in run.truth["legally_gone"].items():
        topic, partition = name.rsplit("-", 1)
        lost = Lost(topic, int(partition), gone["offsets"][0], gone["offsets"][0], 1)
        timeline = run.timeline(topic, int(partition))
        assert explain_absence(timeline, lost).cause == {"logs": "retention", "state": "compaction"}[topic]
        assert explain_loss(timeline, lost).cause == "unknown"


def group_events(run, group, at):
    members = {p for p, config in run.about["processes"].items() if config.get("group.id") == group}
    rows = []
    for place, event in run.events:
        if event["process"] not in members or event["type"] != "ok":
            continue
        here = (event["time"], place, event["process"], event["f"])
        if event["f"] == "crash":
            rows.append((*here, None, None))
        elif event["f"] in ("poll", "handle"):
            own = [r["offset"] for r in event["records"] if (r["topic"], r["partition"]) == at]
            if own:
                rows.append((*here, min(own), max(own)))
        elif event["f"] in ("assign", "commit", "seek"):
            own = [o["offset"] for o in event.get("offsets", []) if (o["topic"], o["partition"]) == at]
            rows.extend((*here, offset, None) for offset in own)
    return pl.DataFrame(rows, schema=GROUP_EVENTS, orient="row")


def test_records_that_a_group_missed_have_a_cause(recorded):
    run = recorded("group-rebalance-a")
    truth = run.truth["consumer_side"]
    skipped = "never_polled_by_the_group (skipped by auto.offset.reset=latest)"
    kinds = {"polled_committed_never_handled": "commit-before-handle", skipped: "consumer-reset"}
    for kind, cause in kinds.items():
        for name, rows in truth[kind].items():
            topic, partition = name.rsplit("-", 1)
            missed = Missed(topic, int(partition), "workers", rows[0][0], rows[-1][0], len(rows))
            events = group_events(run, "workers", (topic, int(partition)))
            explained = explain_missed(events, missed, run.about["processes"])
            assert explained.cause == cause
            assert len(explained.chain) == 3
            bare = explain_missed(events, missed, {})
            assert bare.cause in (cause, "unknown")
            for f in ("assign", "poll", "commit", "crash"):
                less = explain_missed(events.filter(pl.col("f") != f), missed, run.about["processes"])
                assert less.cause in (cause, "unknown")


def test_duplicates_of_a_producer_without_idempotence_are_retries(recorded):
    run = recorded("leader-kill-m")
    for name, places in run.truth["duplicates_in_final_read"].items():
        value = name.split("/")[1]
        process = value.split("-")[0]
        about = run.about["processes"][process]
        repeated = Repeated(
            "orders", places[0][0], value, tuple(offset for _, offset in places), process, producer=about
        )
        timeline = run.timeline("orders", places[0][0])
        explained = duplicate_cause(timeline, repeated)
        assert explained.cause == "retry-duplicate"
        assert sum("a copy is at offset" in fact.sentence for fact in explained.chain) == 2
        assert duplicate_cause(timeline, replace(repeated, producer={"enable.idempotence": True})).cause == "unknown"


@pytest.mark.parametrize(
    ("replaced", "cause"), [({}, "unknown"), ({895: (44_106_140_183, 4032)}, "high-watermark-truncation")]
)
def test_a_copy_that_was_cut_off_before_the_retry_was_not_reordered(replaced, cause, recorded):
    """A consumer read p0-295 at 895; both brokers lost it there, and its retry is at 479.

    The record that is now at 895 was acknowledged after the election, so the new leader had not copied p0-295 again.
    """
    run = recorded("kip-101-a")
    producer, read = run.about["processes"]["p0"], {479: 44_097_004_538, 895: 17_107_890_228}
    repeated = Repeated("orders", 0, "p0-295", (479, 895), "p0", producer=producer, read=read, replaced=replaced)
    assert duplicate_cause(run.timeline("orders", 0), repeated).cause == cause


def test_a_postmortem_without_a_history_still_finds_the_divergence(unpacked):
    root = unpacked("unclean-election-m") / "snapshots" / "before-rejoin" / "brokers"
    tables = gathered(block for part in find_parts(root) for block in read_part(part))
    logs = replica_logs_of("orders", 0, tables[("orders", 0)])
    [finding] = judge_divergence(logs, pl.DataFrame(schema=dict(SENT_RECORDS))).findings
    assert (finding.first_offset, finding.last_offset) == (477, 1085)
    assert finding.severity == "violation"  # the losing side's high watermark is above the first
