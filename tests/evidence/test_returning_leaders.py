"""Leaders that join, return or go on: by the record that ends a reassignment, or by a second unclean election."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.leader_change import find_leader_change
from logjudge.analysis.causes.writing_term import writing_term

from .replica_texts import joined, logs
from .timelines import (
    AFTER,
    BEGAN,
    BEGINS,
    BOOT,
    CUT,
    LEADS,
    LOADED,
    NO_ISR_ALIVE,
    SECOND,
    epochs,
    fault,
    lost,
    metadata,
    server_log,
    timeline,
)

NO_LOG = "INFO Created log for partition orders-0 in /lab/disk2/orders-0 with properties {} (kafka.log.LogManager)"


@pytest.mark.parametrize(
    ("end", "is_unclean"),
    [
        ({"leader": 3, "isr": [2, 3], "replicas": [3, 2], "addingReplicas": [], "removingReplicas": []}, False),
        ({"leader": 3, "isr": [3], "replicas": [3], "addingReplicas": [], "removingReplicas": []}, False),
        ({"leader": 3, "isr": [3], "leaderRecoveryState": 1}, True),  # before the end of the reassignment
        ({"leader": 3, "isr": [3], "replicas": [3], "addingReplicas": [], "leaderRecoveryState": 1}, True),
        ({"leader": 2}, False),
    ],
)
def test_a_leader_that_joined_as_its_reassignment_ended_was_elected_cleanly(end, is_unclean):
    began = {"replicas": [3, 2, 1], "addingReplicas": [3], "removingReplicas": [1]}
    found = timeline(logs("2: 0a\n3: 0a"), meta=metadata((4, began), (9, end)), leader="3")
    assert found.terms[1].elected_uncleanly is is_unclean


@pytest.mark.parametrize(
    ("prefix", "isr", "is_unclean"), [("", "[2, 3]", False), ("UNCLEAN ", "[3]", True), ("", "[1, 2]", True)]
)
def test_a_controllers_line_of_a_reassignment_that_ended_is_no_unclean_election(prefix, isr, is_unclean):
    line = (
        f"INFO [QuorumController id=100] {prefix}partition change for orders-0 with topic ID x: isr: [1, 2] -> {isr}, "
    )
    line += "leader: 1 -> 3, leaderEpoch: 0 -> 1 (o.a.k.ReplicationControlManager)"
    term = timeline(logs("2: 0a\n3: 0a"), events=[server_log("100", (9, line))], leader="3").terms[1]
    assert term.elected_uncleanly is is_unclean


@pytest.mark.parametrize("cut_at", [11, 15])
def test_an_old_leader_that_truncated_before_it_led_again_brought_nothing_back(cut_at):
    """The first unclean election lost the record; the second made the truncated old leader the leader again.

    Its second term is after the record of broker 2's, whenever it logged its truncation.
    """
    meta = metadata(
        (4, {"isr": [1]}),
        (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}),
        (10, {"leaderRecoveryState": 0}),
        (14, {"leader": 1, "isr": [1], "leaderRecoveryState": 1}),
    )
    tables = {**logs("1: 0a 1x@1 2y@2\n2: 0a 1x@1 2y@2"), "epochs": epochs(("1", 0, 0), ("1", 1, 1), ("1", 2, 2))}
    events = [server_log("1", (cut_at, CUT % 1))]
    assert explain_loss(timeline(tables, meta=meta, events=events, leader="1"), lost()).cause == "unclean-election"


@pytest.mark.parametrize(
    ("kind", "broker", "at", "is_shown"),
    [
        ("kill", "3", 8, True),
        ("pause", "3", 8, True),
        ("kill", "3", 6, False),  # before it led
        ("kill", "3", 10, False),  # after it was replaced
        ("kill", "4", 8, False),
    ],
)
def test_a_chain_shows_why_a_leader_between_two_elections_was_replaced(kind, broker, at, is_shown):
    elected = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((4, {"isr": [1, 3]}), (7, {"leader": 3, "isr": [3]}), (9, elected))
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2\n3: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    cut_later = server_log("3", (11, LOADED % 2), (12, CUT % 1))
    faults = (fault("kill", "1", 6), fault(kind, broker, at))
    explained = explain_loss(timeline(tables, meta=meta, events=[cut_later], faults=faults), lost())
    assert explained.cause == "unclean-election"
    stops = [fact for fact in explained.chain if fact.kind.removeprefix("fault-") == kind and fact.time == at * SECOND]
    assert any(f"broker {broker}" in fact.sentence for fact in stops) == is_shown


@pytest.mark.parametrize(
    ("loaded", "cut", "missing"),
    [
        (LOADED % 1, False, "why broker 1, which could have been elected in epoch 1, lacked the records (server.log)"),
        (NO_LOG, False, "whether broker 1, without a log at the next start, had lost it before epoch 1"),
        (LOADED % 2, False, None),
        (LOADED % 1, True, None),  # it had the record until then
    ],
)
def test_an_unclean_election_takes_nothing_that_the_dead_leader_lacked(loaded, cut, missing):
    """Broker 1 restarted with the records, lost power, and came back after the election of broker 2."""
    meta = metadata((4, {"isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    faults = [fault("kill", "1", 6), fault("restart", "1", 7), fault("power-loss", "1", 8), fault("restart", "1", 12)]
    tail = {"topic": "orders", "partition": 0, "offsets_cut": [1]}
    faults += [replace(fault("truncate", "1", 10), details=tail)] * cut
    events = [server_log("1", (7, LOADED % 2), (12, loaded))]
    explained = explain_loss(timeline(AFTER, meta=meta, events=events, faults=faults), lost())
    assert explained.cause == ("unknown" if missing else "unclean-election")
    assert missing is None or missing in explained.missing


def test_a_replica_that_was_killed_too_is_no_eligible_leader():
    """All three brokers of a rack lost power: the last one in the ISR lost its tail, another one did not."""
    logged = [server_log("1", (12, LOADED % 1)), server_log("2", (12, LOADED % 2))]
    meta = metadata((9, {"isr": [1]}), (9, {"leader": -1}), (13, {"leader": 1}))
    short = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}

    def measure(*others):
        faults = (fault("kill", "1", 8), *others, fault("restart", "1", 11))
        held = timeline(short, {"replicas": ("1", "2")}, meta, logged, leader="1", faults=faults)
        explained = explain_loss(held, lost())
        assert explained.cause == "last-replica-standing"
        return explained.prevented_by[0]

    assert measure(fault("kill", "2", 8)) == "replicas that do not fail together (broker.rack)"
    assert measure(fault("shutdown", "2", 8)).startswith("eligible leader replicas")
    assert measure(fault("kill", "2", 14)).startswith("eligible leader replicas")  # after the election


DISK_FAILED = (
    "WARN [ReplicaManager broker=1] Broker 1 stopped fetcher for partitions __consumer_offsets-0,{} and stopped moving"
    " logs for partitions  because they are in the failed log directory /lab/disk2. (kafka.server.ReplicaManager)"
)


@pytest.mark.parametrize(
    ("failed", "restarted", "is_shown"), [("orders-0", (), True), ("a-1", (), False), ("orders-0", (8,), False)]
)
def test_a_failed_log_directory_is_why_a_leader_was_gone(failed, restarted, is_shown):
    """One of the broker's two disks was full: the broker stayed alive, and an out-of-sync replica was elected."""
    meta = metadata((4, {"isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    before = [fault("kill", "1", -9), fault("restart", "1", -8)]  # no reason that its term ended
    faults = [*before, *(fault("restart", "1", at) for at in restarted)]
    disk = server_log("1", (7, DISK_FAILED.format(failed)))
    explained = explain_loss(timeline(AFTER, meta=meta, events=[disk], faults=faults), lost())
    assert explained.cause == "unclean-election"
    shown = [fact.sentence for fact in explained.chain if fact.kind == "disk-failed"]
    assert shown == ["the log directory of orders-0 on broker 1 failed (/lab/disk2), so it is offline"] * is_shown
    assert not any((fact.time or 0) < 0 for fact in explained.chain)


@pytest.mark.parametrize(
    ("copied", "cause"), [(True, "unclean-election"), (False, "unknown")], ids=["copied since", "lost with the disk"]
)
def test_a_disk_that_failed_before_an_unclean_election_may_have_had_the_records(copied, cause):
    """Broker 1 lived on, was alone in the ISR, and later started with an empty disk."""
    meta = metadata((4, {"isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    log = server_log("1", (7, DISK_FAILED.format("orders-0")), (14, NO_LOG))
    faults = [fault("kill", "1", 12), fault("restart", "1", 13)]
    tables, about = AFTER, {}
    if copied:
        tables = {**joined(logs("1: 0a 1b", "s"), AFTER), "epochs": AFTER["epochs"]}
        about = {"snapshots": ("s", ""), "times": {"s": 11 * SECOND}}
    found = explain_loss(timeline(tables, about, meta, [log], faults=faults), lost())
    assert found.cause == cause, found
    if not copied:
        missing = "whether the log directory of broker 1, failed before epoch 1, still had the records"
        assert missing in found.missing


KILLED_AGAIN = (fault("restart", "1", 20), fault("kill", "1", 34), fault("restart", "1", 35))  # within a session


@pytest.mark.parametrize(
    ("between", "shown"), [((), [6, 40]), ((fault("restart", "1", 20),), [40]), (KILLED_AGAIN, [34, 40])]
)
def test_a_controller_may_notice_a_death_late(between, shown):
    """The quorum was lost when the leader was killed, and elected another leader when it was back."""
    fenced = (40, "INFO [QuorumController id=102] Fencing broker 1 at epoch 16 because its session has timed out. (x)")
    meta = metadata((4, {"isr": [1]}), (41, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    faults = [fault("kill", "1", 6), *between]
    explained = explain_loss(timeline(AFTER, meta=meta, events=[server_log("102", fenced)], faults=faults), lost())
    assert explained.cause == "unclean-election"
    deaths = [fact for fact in explained.chain if fact.broker == "1" and fact.kind in ("kill", "fenced")]
    assert [fact.time for fact in deaths] == [at * SECOND for at in shown]


@pytest.mark.parametrize(
    ("faults", "cause"),
    [
        ((), "unknown"),
        *(((kind,), "single-ack-failover") for kind in ("kill", "shutdown", "disk-full")),  # the page cache remains
        (("power-loss",), "unknown"),
        (("disk-full", "truncate"), "unknown"),
    ],
)
def test_a_follower_that_restarted_before_its_election_may_have_lost_its_own_tail(faults, cause):
    meta = metadata((9, {"leader": 2, "isr": [2]}))
    boot = server_log("2", (7, "INFO Registered `kafka:type=kafka.Log4jController` MBean (kafka.utils.X)"))
    stopped = [fault(kind, "2", 6) for kind in faults]
    explained = explain_loss(timeline(AFTER, meta=meta, events=[boot], faults=stopped), lost(acks="1"))
    assert explained.cause == cause
    assert any("had lost its own tail" in missing for missing in explained.missing) == (cause == "unknown")


def test_a_copy_of_the_console_shows_no_second_restart():
    boot = server_log("2", (7, BOOT), (8, LOADED % 2))
    copy = boot.with_columns(file=pl.lit("brokers/2/stdout.txt"))
    meta = metadata((9, {"leader": 2, "isr": [2]}))
    found = timeline(AFTER, meta=meta, events=[boot, copy], faults=[fault("kill", "2", 6)])
    assert explain_loss(found, lost(acks="1")).cause == "single-ack-failover"


def test_a_leader_that_was_fenced_late_should_have_started_first():
    """With three nodes that are brokers and controllers, the dead leader is fenced late, as there is no quorum."""
    meta = metadata((4, {"isr": [1]}), (41, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    fenced = (40, "INFO [QuorumController id=3] Fencing broker 1 at epoch 21 because its session has timed out. (x)")
    logged = [server_log("3", fenced), server_log("1", (50, LOADED % 2))]

    def measures(*faults):
        explained = explain_loss(timeline(AFTER, meta=meta, events=logged, faults=faults), lost())
        assert explained.cause == "unclean-election"
        return [measure for measure in explained.prevented_by if measure.startswith("starting broker 1, which")]

    died, killed = fault("kill", "2", 2), fault("kill", "1", 6)
    assert len(measures(died, killed, fault("restart", "2", 8), fault("restart", "1", 48))) == 1
    assert not measures(died, fault("restart", "2", 5), killed, fault("restart", "1", 48))  # it ran when broker 1 died


def test_a_full_disk_is_named_in_a_sentence():
    full = timeline(AFTER, faults=[fault("disk-full", "2", 6)])
    assert [fact.sentence for fact in full.fault_facts] == ["the disk of broker 2 was full"]


@pytest.mark.parametrize(
    ("powerless", "loaded", "cause"),
    [(("1",), (), "unclean-election"), (("1", "3"), (), "unknown"), (("1", "3"), (10,), "unclean-election")],
)
def test_a_power_failure_of_all_in_sync_replicas_may_have_lost_what_an_election_did_not(powerless, loaded, cause):
    """Broker 3 proves that it had the record if it starts with it after the election."""
    meta = metadata((4, {"isr": [1, 3]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    events = [server_log("3", *((at, LOADED % 2) for at in loaded))] if loaded else []
    faults = [fault("power-loss", broker, 6) for broker in powerless]
    explained = explain_loss(timeline(AFTER, meta=meta, events=events, faults=faults), lost())
    assert explained.cause == cause
    if cause == "unknown":
        assert "whether broker 1 or broker 3, also in the ISR, still had the records" in explained.missing


@pytest.mark.parametrize(("has_kill", "cause"), [(False, "unknown"), (True, "unclean-election")])
def test_without_a_recorded_isr_each_other_replica_may_have_been_in_it(has_kill, cause):
    """Broker 1 starts again after the election. Without a recorded death it may have lost its tail with its power."""
    events = [server_log("101", (9, NO_ISR_ALIVE), (9, LEADS % (2, 1, "2"))), server_log("1", (12, LOADED % 1))]
    faults = [*([fault("kill", "1", 6)] if has_kill else []), fault("restart", "1", 12)]
    known = timeline(AFTER, {"replicas": ("1", "2")}, events=events, faults=faults, version="2.8.0")
    explained = explain_loss(known, lost())
    assert explained.cause == cause
    assert any("perhaps in the ISR" in one for one in explained.missing) == (cause == "unknown")


RESTARTED = (fault("kill", "1", 5), fault("restart", "1", 6))


@pytest.mark.parametrize(
    ("leader", "start", "faults", "acked_at", "epoch"),
    [
        (1, 1, (), 10, 1),  # the leader goes on at the lost record
        (1, 2, (), 10, 0),  # the new epoch begins above it
        (1, 1, (), 8, 0),  # the last record was acknowledged before
        (2, 1, (), 10, 0),  # another broker leads
        (1, 1, RESTARTED, 10, 0),  # another process of the broker leads
    ],
)
def test_a_leader_that_goes_on_writes_in_its_new_epoch(leader, start, faults, acked_at, epoch):
    """The first acknowledgement is at 4 s, in epoch 0, and epoch 1 begins at 9 s."""
    held = " ".join(f"{offset}x@{int(offset >= start)}" for offset in range(start + 1))
    tables = {**logs(f"1: {held}\n2: {held}"), "epochs": epochs((str(leader), 0, 0), (str(leader), 1, start))}
    known = timeline(tables, meta=metadata((9, {"leader": leader, "isr": [1, 2]})), faults=faults)
    assert [(term.epoch, term.start) for term in known.led_terms] == [(0, 0), (1, start)]
    found = writing_term(known, replace(lost(at=acked_at), first_acked=4 * SECOND), None)
    assert found is not None
    assert found.epoch == epoch


SHRUNK = (
    "INFO [Broker id=1] Skipped the become-leader state change for orders-0 with topic id Some(x) and partition state"
    " LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, controllerEpoch=-1, leader=1, leaderEpoch=0,"
    " isr=[1], partitionEpoch=1, replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=false,"
    " leaderRecoveryState=0) since it is already the leader with leader epoch 0. (state.change.logger)"
)


@pytest.mark.parametrize("has_metadata", [True, False])
@pytest.mark.parametrize("shrunk", [7, None])
def test_replicas_that_lost_their_power_one_after_the_other_failed_together(shrunk, has_metadata):
    """Both replicas that had been in sync lost the record, so another leader would not have had it."""
    off = [
        fault("power-loss", "2", 6),
        fault("power-loss", "1", 8),
        fault("restart", "2", 10),
        fault("restart", "1", 11),
    ]
    changes = [(shrunk, {"isr": [1]})] if shrunk else []
    meta = metadata(*changes, (9, {"leader": -1}), (14, {"leader": 1, "isr": [1]}))
    states = [(1, BEGINS % (0, 0, 0, "1,2")), *((at, SHRUNK) for at, _ in changes), (14, BEGINS % (2, 1, 4, "1"))]
    own = sorted([(12, LOADED % 1), *([] if has_metadata else states)])
    logged = [server_log("2", (11, LOADED % 1)), server_log("1", *own)]
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    about = {"replicas": ("1", "2")}
    found = timeline(tables, about, meta if has_metadata else None, logged, leader="1", faults=off)
    assert explain_loss(found, lost()).cause == "correlated-failure"


@pytest.mark.parametrize(
    ("at", "version", "faults", "cause"),
    [
        (7, "4.1.1", (), "single-ack-failover"),
        (9, "4.1.1", (), "unknown"),
        (7, "1.1.1", (), "unknown"),
        (7, "4.1.1", (fault("kill", "1", 6), fault("restart", "1", 7)), "unknown"),  # it may have lost its own tail
    ],
)
def test_what_a_leader_truncates_after_an_election_its_successor_lacked(at, version, faults, cause):
    """Preferred elections, as a storm of them leaves on Kafka 4.1.

    Broker 2 acknowledges a record at 5 s. Broker 1 leads from 6 s, with another record at this offset, which a third
    election at 8 s takes as well.
    """
    meta = metadata((4, {"leader": 2}), (6, {"leader": 1}), (8, {"leader": 2}))
    events = [server_log("1", (6, BEGAN % (1, 2, 2, 2, "1,2")), (9, CUT % 1)), server_log("2", (at, CUT % 1))]
    tables = {**logs("1: 0a 1x@3\n2: 0a 1x@3"), "epochs": epochs(("2", 0, 0), ("2", 1, 1), ("2", 3, 1))}
    explained = explain_loss(timeline(tables, None, meta, events, version=version, faults=faults), lost(acks="1"))
    assert explained.cause == cause, explained
    if cause != "unknown":
        assert explained.chain[-1].sentence == "broker 2 truncated orders-0 to offset 1"


@pytest.mark.parametrize(("first", "cause"), [(1, "last-replica-standing"), (3, "unknown")])
def test_a_leader_that_restarts_in_its_epoch_loses_what_an_earlier_leader_wrote_as_well(first, cause):
    """A quick restart on Kafka 4.1: the controller has not yet fenced broker 2, which leads from a shorter log.

    Broker 1 acknowledged offsets 1 and 2 and stopped cleanly at 8 s. What is above 3 was never in the log of broker 2.
    """
    meta = metadata((8, {"leader": 2, "isr": [2]}), (13, {"leader": -1}), (15, {"leader": 2}))
    began = [(at, BEGAN % (2, 1, start, 2, "2")) for at, start in ((8, 3), (12, 1))]
    faults = (fault("shutdown", "1", 8), fault("kill", "2", 10), fault("restart", "2", 11))
    events = [server_log("2", *began[:1], (12, LOADED % 1), *began[1:])]
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 3, 1))}
    found = timeline(tables, None, meta, events, faults=faults)
    explained = explain_loss(found, lost(first=first, last=first, values=("b",)))
    assert explained.cause == cause, explained


@pytest.mark.parametrize(("in_sync", "cause"), [(1, "last-replica-standing"), (2, "unclean-election")])
def test_an_unclean_election_comes_before_a_clean_one_though_its_epoch_has_no_records(in_sync, cause):
    """Broker 1 returns without the tail that it acknowledged. It leads, dies, and leads again, now from the ISR."""
    alone = {"leader": 1, "isr": [1]}
    meta = metadata((8, {"leader": -1, "isr": [in_sync]}), (13, alone), (15, {"leader": -1}), (17, alone))
    logged = [server_log("1", (12, LOADED % 1), (16, LOADED % 1)), server_log("2", (16, LOADED % 2))]
    died = fault("kill", "2", 6), fault("power-loss", "1", 7)
    faults = (*died, fault("restart", "1", 11), fault("power-loss", "1", 14), fault("restart", "2", 15))
    tables = {**logs("1: 0a 1x@4\n2: 0a 1x@4"), "epochs": epochs(("1", 0, 0), ("1", 4, 1))}
    found = timeline(tables, {"replicas": ("1", "2")}, meta, logged, leader="1", faults=faults)
    assert explain_loss(found, lost()).cause == cause


def test_a_leader_that_went_on_in_a_new_epoch_wrote_the_records_in_the_last_one():
    """Broker 1 goes on in epoch 1 at 5 s, from offset 1, and acknowledged offsets 1 and 2 from 4 s to 6 s."""
    meta = metadata((3, {"isr": [1]}), (5, {"leader": 1}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    tables = {**logs("1: 0a\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 1, 1), ("2", 0, 0), ("2", 2, 1))}
    found = timeline(tables, None, meta)
    gone = replace(lost(first=1, last=2, values=("b", "c"), at=4), last_acked=6 * SECOND)
    assert [term.epoch for term in (find_leader_change(found, gone).old, find_leader_change(found, gone).new)] == [1, 2]
    assert explain_loss(found, gone).cause == "unclean-election"


@pytest.mark.parametrize("is_acknowledged", [True, False])
@pytest.mark.parametrize(("restarted_at", "end", "is_unclean"), [(12, 2, True), (6, 1, False)])
def test_a_leader_with_a_new_epoch_lost_nothing_if_it_returned_with_the_records(
    restarted_at, end, is_unclean, is_acknowledged
):
    """No offset is known at which broker 1 began epoch 1, as it may have been dead then."""
    elected = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((4, {"isr": [1]}), (7, {"leader": 1, "isr": [1]}), (8, {"leader": -1}), (9, elected))
    tables = {**logs("1: 0a 1x@3\n2: 0a 1x@3"), "epochs": epochs(("2", 0, 0), ("2", 3, 1))}
    starts = [(2, BOOT), (2, LOADED % 0), (restarted_at, BOOT), (restarted_at, LOADED % end)]
    gone = lost() if is_acknowledged else replace(lost(), first_acked=None, last_acked=None, written=5 * SECOND)
    found = explain_loss(timeline(tables, meta=meta, events=[server_log("1", *starts, (13, CUT % 1))]), gone)
    assert (found.cause == "unclean-election") == is_unclean
