"""Losses that disks brought about: damaged segments, and logs that came back with less."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import corruption, explain_loss
from logjudge.analysis.causes.lost_marker import lost_marker
from logjudge.histories.evidence.server_log import parse_log
from logjudge.histories.evidence.tables import DAMAGE, LOCATION, damage_row, located

from . import test_recorded_runs as recorded_runs
from .replica_texts import checkpoints, joined, logs
from .test_commands import check, run
from .timelines import BOOT, CRASHED, LOADED, SECOND, TWO_LEADS, epochs, fault, lost, metadata, server_log, timeline

THREE = "1: 0a 1b 2c\n2: 0a 1b 2c\n3: 0a 1b 2c"


def damaged(text, *rows, kind="crc"):
    """Logs where each row (broker, first, last) is a batch that fails its CRC, so its records are not read."""
    tables = logs(text)
    for broker, first, last in rows:
        gone = (pl.col("broker") == broker) & pl.col("offset").is_between(first, last)
        tables["records"] = tables["records"].filter(~gone)
    found = [
        {**damage_row(kind, "the CRC is not that of the batch", 7, first, last), "snapshot": "", "broker": broker}
        for broker, first, last in rows
    ]
    damage = pl.DataFrame([{**row, "file": "0.log"} for row in found], schema={**LOCATION, **DAMAGE})
    return {**tables, "damage": damage}


@pytest.mark.parametrize(
    ("tables", "elections", "cause"),
    [
        (damaged(THREE, ("2", 1, 1)), TWO_LEADS, "corruption"),
        (damaged(THREE, ("2", 0, 1), ("3", 1, 1)), TWO_LEADS, "corruption"),
        # Broker 2 never led: no consumer read its copy.
        (damaged(THREE, ("2", 1, 1)), metadata(), "unknown"),
        # It had led before the record was written.
        (damaged(THREE, ("1", 1, 1)), metadata((2, {"leader": 2, "isr": [2]})), "unknown"),
        # Another batch is damaged, or what is left of a killed broker's last write.
        (damaged(THREE, ("2", 0, 0)), TWO_LEADS, "unknown"),
        (damaged(THREE, ("2", 1, 1), kind="torn-tail"), TWO_LEADS, "unknown"),
        # No copy shows that the batch held the record, or another log lacks it, too.
        (damaged(THREE, ("1", 1, 1), ("2", 1, 1), ("3", 1, 1)), TWO_LEADS, "unknown"),
        (damaged("1: 0a 1b 2c\n2: 0a 1b 2c\n3: 0a", ("2", 1, 1)), TWO_LEADS, "unknown"),
        (damaged("1: 0a 1x 2c\n2: 0a 1x 2c\n3: 0a 1x 2c", ("2", 1, 1)), TWO_LEADS, "unknown"),
    ],
)
def test_a_damaged_copy_is_the_cause_where_its_broker_led_and_others_are_whole(tables, elections, cause):
    explained = explain_loss(timeline(tables, meta=elections), lost())
    assert explained.cause == cause
    if cause == "corruption":
        assert [fact.kind for fact in explained.chain] == ["elected", "damaged", "intact"]
        assert explained.chain[1].broker == "2"


def test_a_range_of_which_a_part_is_damaged_has_another_cause():
    lines = timeline(damaged(THREE, ("2", 1, 1)), meta=TWO_LEADS)
    assert explain_loss(lines, lost(first=1, last=2, values=("b", "c"))).cause == "unknown"


def test_misread_records_are_a_consequence_of_the_damage():
    lines = timeline(damaged("1: 0a 1b 2c\n2: 0a 1b 2c\n3: 0a", ("2", 1, 1)), meta=TWO_LEADS)
    assert corruption.explain_misread(lines, 1).is_proved
    assert not corruption.explain_misread(lines, 2).is_proved


def test_damage_on_a_broker_that_never_led_is_the_cause_of_no_read():
    lines = timeline(damaged(THREE, ("2", 1, 1)), meta=metadata())
    assert not corruption.explain_misread(lines, 1).is_proved
    damage = corruption.explain_misread(lines, 1, is_read=False)
    assert [fact.kind for fact in damage.chain] == ["damaged", "intact"]
    assert damage.chain[1].sentence.endswith("intact: let broker 2 fetch its replica anew")
    assert damage.prevented_by == ["file systems or disks that verify checksums"]


def test_diff_reports_a_damaged_log(unpacked, tmp_path):
    root = tmp_path / "run"
    shutil.copytree(unpacked("clean-a"), root)
    segment = root / "brokers" / "2" / "data" / "orders-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    output = run("diff", root, "orders-0")
    assert output.return_value == 1
    assert "broker 2 DAMAGED at offset" in output.output
    assert "  the same\n" not in output.output
    [part] = json.loads(run("diff", root, "orders-0", "--json").stdout)
    assert [(row["broker"], row["is_corrupt"]) for row in part["snapshots"][0]["damage"]] == [("2", True)]


# Broker 2 alone acknowledges b at 5 s; broker 1 joins, leads, stops, and leads again with a shorter log.
JOINS = [(3, {"leader": 2, "isr": [2]}), (6, {"isr": [1, 2]}), (7, {"leader": 1, "isr": [1]})]
AGAIN = [(9, {"leader": -1}), (12, {"leader": 1, "isr": [1]})]
FOLLOWED = [(3, {"leader": 2, "isr": [2]}), (4, {"isr": [1, 2]}), (12, {"leader": 1, "isr": [1]})]
KILLED = (fault("kill", "2", 6), fault("kill", "1", 8), fault("restart", "1", 11))
AT_THE_END = "1: 0a 1x@4\n2: 0a 1x@4"


def rolled_back(
    *faults,
    before="1: 0a 1b@1\n2: 0a 1b@1",
    after="1: 0a\n2: 0a 1b@1",
    recovered=None,
    changes=(),
    acks="all",
    events=(),
):
    """The cause of the loss of b, with snapshots of both logs at 9 and 10 s where they are given."""
    parts = [logs(text, name) for text, name in ((before, "before"), (after, "after"), (AT_THE_END, "")) if text]
    tables = joined(*parts)
    tables["epochs"] = epochs(("1", 4, 1))
    if recovered is not None:
        tables["checkpoints"] = checkpoints(("after", "recovery-point", "1", recovered))
    times = {"before": 9 * SECOND, "after": 10 * SECOND}
    about = {"snapshots": ("before", "after", ""), "times": times}
    meta = metadata(*(changes or (*JOINS, *AGAIN))).with_columns(byte=pl.int_range(pl.len()))  # each a batch of its own
    return explain_loss(timeline(tables, about, meta, events, leader="1", faults=faults), lost(acks))


def test_a_log_that_came_back_shorter_than_it_was_on_disk_was_rolled_back():
    explained = rolled_back(*KILLED)
    assert explained.cause == "log-rolled-back"
    sentences = " | ".join(fact.sentence for fact in explained.chain)
    assert sentences.index("in snapshot before broker 1's log of orders-0 ended at 2") < sentences.index(
        "in snapshot after"
    )
    own_log = "starting the broker with its own newest log instead of an older copy or an empty disk"
    assert explained.prevented_by == (own_log,)
    # Broker 2 was in sync as well, and still had the record.
    both = rolled_back(*KILLED[1:], changes=[*JOINS[:2], (7, {"leader": 1}), *AGAIN])
    assert both.prevented_by == (own_log, "starting broker 2, in sync and with the records, before broker 1")


@pytest.mark.parametrize(
    ("faults", "logs_of", "cause"),
    [
        # All that is below the recovery point had been flushed.
        (KILLED, {"before": "", "recovered": 2}, "log-rolled-back"),
        (KILLED, {"before": "", "recovered": 1}, "unknown"),
        # The history shows it, and broker 1 had been in sync.
        ((*KILLED[:2], fault("restore", "1", 9), KILLED[2]), {"before": ""}, "log-rolled-back"),
        ((*KILLED[:2], fault("restore", "2", 9), KILLED[2]), {"before": ""}, "unknown"),
        # It joined the ISR before the acknowledgement, and no later report names it.
        ((*KILLED[:2], fault("restore", "1", 9), KILLED[2]), {"before": "", "changes": FOLLOWED}, "log-rolled-back"),
        (KILLED, {"before": "", "changes": FOLLOWED}, "unknown"),
        # Another leader may have cut its log before it was stopped.
        (
            (*KILLED[:2], fault("restore", "1", 9), KILLED[2]),
            {"before": "", "changes": [*FOLLOWED[:-1], (7, {"leader": 3}), FOLLOWED[-1]]},
            "unknown",
        ),
        # It never had the record, or had another.
        (KILLED, {"before": "1: 0a\n2: 0a 1b@1"}, "unknown"),
        (KILLED, {"before": "1: 0a 1y@1\n2: 0a 1b@1"}, "unknown"),
        # A failure of power may have taken what was not flushed.
        ((*KILLED[:2], fault("power-loss", "1", 9), KILLED[2]), {}, "unknown"),
        # It was up when its log was copied, and may have been cut by its leader.
        ((), {"changes": [*JOINS[:2], (12, {"leader": 1, "isr": [1]})]}, "unknown"),
    ],
)
def test_a_rolled_back_log_is_proved_by_what_the_disk_had_held(faults, logs_of, cause):
    assert rolled_back(*faults, **logs_of).cause == cause


ALONE = [(3, {"leader": 1, "isr": [1]}), (12, {"leader": 1, "isr": [1]})]
STOPPED = (fault("kill", "1", 8), fault("restart", "1", 11))


@pytest.mark.parametrize(
    ("between", "cause"),
    [
        ((fault("restore", "1", 9),), "log-rolled-back"),
        ((fault("restore", "2", 9),), "last-replica-standing"),
        ((), "last-replica-standing"),
        ((fault("power-loss", "1", 8), fault("restore", "1", 9)), "last-replica-standing"),
    ],
)
def test_a_leader_had_what_it_acknowledged_until_its_log_was_replaced(between, cause):
    faults = (STOPPED[0], *between, STOPPED[1])
    assert rolled_back(*faults, before="", after="1: 0a\n2: 0a", changes=ALONE).cause == cause


CLEAN = "INFO Skipping recovery of 1 logs from /d since clean shutdown file was found (kafka.log.LogManager)"


@pytest.mark.parametrize(
    ("faults", "broker", "lines", "cause"),
    [
        ([], "1", [(8, BOOT), (9, CLEAN)], "log-rolled-back"),
        ([], "1", [(8, BOOT)], "unknown"),
        ([], "1", [(7, BOOT), (7, CRASHED), (8, BOOT), (9, CLEAN)], "last-replica-standing"),
        ([], "2", [(8, BOOT), (9, CLEAN)], "unknown"),
        ([fault("shutdown", "1", 6)], "1", [(8, BOOT)], "log-rolled-back"),
        ([fault("shutdown", "1", 6)], "1", [(8, BOOT), (9, CRASHED)], "last-replica-standing"),
        ([fault("shutdown", "1", 6)], "1", [(7, BOOT), (8, BOOT)], "unknown"),
        ([fault("shutdown", "1", 6), fault("kill", "1", 7)], "1", [(8, BOOT)], "last-replica-standing"),
    ],
)
def test_a_log_that_is_short_after_a_clean_shutdown_was_replaced(faults, broker, lines, cause):
    about = {"changes": ALONE, "events": [server_log(broker, *lines)]}
    assert rolled_back(*faults, before="", after="1: 0a\n2: 0a", **about).cause == cause


NO_LOG = "INFO Created log for partition orders-0 in /d/orders-0 with properties {} (kafka.log.LogManager)"
NEW = server_log("1", (9, NO_LOG))
OLD = located(parse_log(f"[2027-01-15 07:58:00,000] {LOADED % 0}"), "", "1", "brokers/1/server.log")
SAME, NEW_DISK = ([(at, {"brokerId": 1, "logDirs": d}) for at, d in ((1, "a"), (9, x))] + ALONE for x in ("ab", "b"))


@pytest.mark.parametrize(
    ("faults", "events", "changes", "cause"),
    [
        # The end of a process removes nothing from the disk, and a power failure removes no existing folder.
        (STOPPED, [NEW], ALONE, "log-rolled-back"),
        ([fault("shutdown", "1", 6)], [NEW], ALONE, "log-rolled-back"),
        ([], [NEW, OLD, server_log("1", (7, "INFO line (x)"), (8, BOOT))], ALONE, "log-rolled-back"),
        (STOPPED, [], NEW_DISK, "log-rolled-back"),
        ([], [server_log("1", (8, NO_LOG))], NEW_DISK, "log-rolled-back"),
        ([fault("power-loss", "1", 8)], [], NEW_DISK, "last-replica-standing"),
        (STOPPED, [], SAME, "last-replica-standing"),
        ([], [NEW], ALONE, "unknown"),  # the log was new, too
        ([fault("power-loss", "1", 8)], [NEW], ALONE, "last-replica-standing"),
        (STOPPED, [server_log("1", (9, LOADED % 0))], ALONE, "last-replica-standing"),
        # Broker 2 led before broker 1 did, which may have fetched the record again.
        (STOPPED, [NEW], [*ALONE[:1], (10, {"leader": 2, "isr": [1, 2]}), ALONE[1]], "unknown"),
    ],
)
def test_a_broker_that_finds_no_log_has_another_disk(faults, events, changes, cause):
    found = rolled_back(*faults, before="", after="1: 0a\n2: 0a", changes=changes, events=events)
    assert found.cause == cause
    shown = "orders-0 and created one" if events else "with none of the log.dirs that it had"
    assert cause != "log-rolled-back" or shown in sentences(found)


@pytest.mark.parametrize(("dark", "cause"), [(9, "last-replica-standing"), (7, "unknown")])
def test_a_replica_that_came_back_into_the_isr_and_left_it_is_no_matter(dark, cause):
    """Broker 2 starts with an empty disk, and joins the ISR again before broker 1 loses the record alone."""
    back = (fault("kill", "2", 5), fault("restart", "2", 6))
    faults = (*back, fault("power-loss", "1", dark), fault("restart", "1", 10))
    events = [server_log("2", (6, NO_LOG)), server_log("1", (11, LOADED % 1))]
    changes = [(6, {"isr": [1]}), (6.5, {"isr": [1, 2]}), (8, {"isr": [1]}), (12, {"leader": 1, "isr": [1]})]
    meta = metadata(*changes).with_columns(byte=pl.int_range(pl.len()))
    short = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("1", 0, 0), ("1", 1, 1))}
    held = timeline(short, {"replicas": ("1", "2")}, meta, events, leader="1", faults=faults)
    assert explain_loss(held, lost(at=4)).cause == cause


def sentences(found):
    return " | ".join(fact.sentence for fact in found.chain)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        # Broker 1 still ran when it was alone in the ISR, so it lost its log later.
        ([(8, "INFO line (x)"), (9, BOOT), (9, CRASHED)], "last-replica-standing"),
        # It may have died while broker 2 was in the ISR.
        ([(6, "INFO line (x)"), (9, BOOT)], "unknown"),
        ([(9, BOOT)], "unknown"),
        # It had started in between, perhaps without the record.
        ([(6, "INFO line (x)"), (7, BOOT), (8, "INFO line (x)"), (9, BOOT)], "unknown"),
    ],
)
def test_a_broker_keeps_the_log_that_it_had_while_it_runs(lines, cause):
    """Broker 2 has the record, too, but left the ISR before broker 1 died and lost it."""
    shrinks = [(6, {"isr": [1, 2, 3]}), (7, {"isr": [1]}), (12, {"leader": 1, "isr": [1]})]
    found = rolled_back(before="", after="1: 0a\n2: 0a 1b", changes=shrinks, events=[server_log("1", *lines)])
    assert found.cause == cause


@pytest.mark.parametrize(("end", "cause"), [(2, "last-replica-standing"), (1, "correlated-failure"), (None, "unknown")])
def test_what_the_last_replica_lost_while_others_were_in_the_isr_these_may_still_have(end, cause):
    """The power fails twice before the ISR, which had been [1, 2], is broker 1 alone. It lost the record at first."""
    dark = [fault(kind, broker, at) for kind, at in (("power-loss", 8), ("restart", 10)) for broker in ("1", "2")]
    dark += [fault("power-loss", "1", 12), fault("restart", "1", 14)]
    loads = [] if end is None else [server_log("2", (11, LOADED % end))]
    meta = metadata((13, {"leader": -1, "isr": [1]}), (15, {"leader": 1}))
    short = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    logged = [server_log("1", (11, LOADED % 1), (14, LOADED % 1)), *loads]
    held = timeline(short, {"replicas": ("1", "2")}, meta, logged, leader="1", faults=dark)
    assert explain_loss(held, lost()).cause == cause


def test_one_replica_alone_is_helped_by_a_second_one():
    about = {"replicas": ("1",)}
    events = [server_log("1", (12, LOADED % 1))]
    dark = (fault("power-loss", "1", 6), fault("restart", "1", 11))
    meta = metadata((1, {"isr": [1]}), (7, {"leader": -1}), (12, {"leader": 1}))
    short = {**logs("1: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    held = timeline(short, about, meta, events, {"replication.factor": 1}, leader="1", faults=dark)
    explained = explain_loss(held, lost())
    assert explained.cause == "last-replica-standing"
    assert explained.prevented_by[0] == "a second replica (replication.factor)"


def test_a_log_that_recovery_cut_at_damage_is_not_helped_by_flushing():
    damage = replace(fault("corrupt", "1", 9), details={"kind": "corrupt", "topic": "orders", "partition": 0})
    about = {"before": "", "after": "1: 0a\n2: 0a", "changes": ALONE}
    found, without = rolled_back(STOPPED[0], damage, STOPPED[1], **about), rolled_back(*STOPPED, **about)
    assert found.cause == without.cause == "last-replica-standing"
    assert [fact.kind for fact in found.chain if fact not in without.chain] == ["fault-corrupt"]
    assert "file systems or disks that verify checksums" in found.prevented_by
    assert [any("flush" in text for text in one.prevented_by) for one in (found, without)] == [False, True]


@pytest.mark.parametrize(("end", "is_damage"), [("kill", True), ("power-loss", False)])
def test_a_torn_batch_is_no_damage_if_the_power_failed(end, is_damage):
    """A process that is killed leaves its writes in the page cache."""
    cut = (11, "WARN [LogLoader partition=orders-0, dir=/d] Corruption found in segment 0, truncating to offset 1 (x)")
    meta = metadata((3, {"isr": [1]}), (7, {"leader": -1}), (12, {"leader": 1}))
    short = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    events, faults = [server_log("1", cut, (11, LOADED % 1))], (fault(end, "1", 6), fault("restart", "1", 10))
    found = explain_loss(timeline(short, {"replicas": ("1", "2")}, meta, events, leader="1", faults=faults), lost())
    assert found.cause == "last-replica-standing"
    assert ("file systems or disks that verify checksums" in found.prevented_by) == is_damage
    assert any("flush" in text for text in found.prevented_by) != is_damage


def test_a_restored_backup_took_what_the_brokers_had_acknowledged(unpacked, tmp_path):
    _, verdict = check(unpacked("backup-x"), tmp_path / "out")
    lost_ranges = {
        (c["cause"], c["lost"]["partition"], c["lost"]["first"], c["lost"]["last"]) for c in verdict["causes"]
    }
    assert lost_ranges == {("log-rolled-back", 0, 403, 1748), ("log-rolled-back", 1, 408, 1817)}


def test_records_remain_after_their_commit_marker_was_truncated(recorded):
    lines = recorded("txn-unclean-x").timeline("orders", 0)
    values = ("t1-76", "t1-78", "t1-79", "t1-80", "t1-81", "t1-82")
    cut = replace(
        lost(first=52, last=57, values=values, at=14.2), first_acked=14_226_000_000, last_acked=14_226_000_000
    )
    explained = explain_loss(lines, cut)
    assert explained.cause == "unclean-election"
    sentences = [fact.sentence for fact in explained.chain]
    held = "in snapshot before-rejoin broker 1's log of orders-0 held the records' COMMIT marker at offset 58"
    assert held in sentences
    assert sentences[-1].startswith("offsets 52 to 57 of orders-0 are still in the log, but aborted")
    assert not any("lacked offset 52" in text for text in (*sentences, *explained.missing))
    # Without a copy of the marker, the epoch that began after the records bounds it.
    bare = replace(
        lines,
        replica_logs=replace(lines.replica_logs, records=lines.replica_logs.records.filter(pl.col("snapshot") == "")),
    )
    assert explain_loss(bare, cut).cause == "unclean-election"
    # Records that committed, or that are gone, have no missing marker.
    assert lost_marker(lines, replace(cut, first=60, last=61, values=("t0-208", "t0-209"), count=2)) is None
    assert lost_marker(lines, replace(cut, first=59, last=59, values=("t1-87",), count=1)) is None


def test_reads_of_a_damaged_segment_have_one_cause(unpacked, tmp_path):
    _, verdict = check(unpacked("bitflip-x"), tmp_path / "out")
    findings = pl.read_parquet(tmp_path / "out" / "findings.parquet")
    rules = {"lost-write", "inconsistent-offsets", "duplicate", "phantom-read", "log-corruption"}
    assert set(findings.select("rule", "cause").iter_rows()) == {(rule, "corruption") for rule in rules}
    for cause in verdict["causes"]:
        assert len(cause["findings"]) == 4
        intact = cause["chain"][-1]
        assert intact["brokers"] == ["1", "3"]
        assert "move leadership there" in intact["says"]


@pytest.mark.parametrize("name", ["backup-x", "txn-unclean-x"])
def test_permanent_losses_have_their_true_cause(recorded, name):
    recorded_runs.test_each_loss_has_its_true_cause_and_a_chain_in_order(recorded, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["backup-x", "txn-unclean-x"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 6))])
def test_with_less_evidence_it_becomes_unknown_and_never_another(recorded, name, seed):
    recorded_runs.test_with_less_evidence_a_cause_becomes_unknown_and_never_another(recorded, name, seed)


BEGINS = (
    "INFO [Broker id=2] Leader orders-0 with topic id x starts at leader epoch 1 from offset %d with partition epoch 2,"
    " high watermark 1, ISR [2], adding replicas [], removing replicas []. Previous leader epoch was 0. (x)"
)


@pytest.mark.parametrize(("start", "cause"), [(2, "log-rolled-back"), (1, "single-ack-failover")])
def test_a_leader_that_had_led_with_the_records_lost_them_itself(start, cause):
    """Broker 2 leads twice. At first it has the record, which broker 1 acknowledged with acks=1, or does not."""
    faults = [fault("kill", "2", 8), fault("restore", "2", 9), fault("restart", "2", 11)]
    joins = [(4, {"isr": [1]}), (6, {"isr": [1, 2]})] if start == 2 else []
    meta = metadata(*joins, (7, {"leader": 2, "isr": [2]}), (10, {"leader": -1}), (12, {"leader": 2}))
    meta = meta.with_columns(byte=pl.int_range(pl.len()))
    tables = {**logs("1: 0a 1x@3\n2: 0a 1x@3"), "epochs": epochs(("2", 0, 0), ("2", 3, 1))}
    events = [server_log("2", (7, BEGINS % start), (11, LOADED % 1))]
    config = {"unclean.leader.election.enable": False}
    held = timeline(tables, {"replicas": ("1", "2")}, meta, events, config, leader="2", faults=faults)
    assert explain_loss(held, lost("1")).cause == cause
