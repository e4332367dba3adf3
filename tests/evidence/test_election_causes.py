"""Losses by elections: which election lost the records, and which did not."""

# A log line is one line, as brokers write it.
# ruff: noqa: E501

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.histories.evidence.clock import Fault

from .replica_texts import logs
from .timelines import (
    AFTER,
    BOOT,
    CUT,
    LEADS,
    LOADED,
    NO_ISR_ALIVE,
    SECOND,
    TWO_LEADS,
    UNCLEAN,
    epochs,
    fault,
    lost,
    metadata,
    of_format_v1,
    server_log,
    timeline,
)


def test_a_leader_from_outside_the_isr_is_unclean():
    explained = explain_loss(timeline(AFTER, meta=UNCLEAN), lost())
    assert explained.cause == "unclean-election"
    sentences = " | ".join(fact.sentence for fact in explained.chain)
    assert "the ISR of orders-0 shrank to [1]" in sentences
    assert "the controller elected broker 2 leader of orders-0 in epoch 1" in sentences


def test_a_chain_has_the_epoch_without_a_leader_and_the_return_of_the_elected_broker():
    none_leads, led_by_2 = {"leader": -1, "isr": [1]}, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((4, {"isr": [1]}), (7, none_leads), (9, led_by_2))
    faults = [fault("kill", "2", 3), fault("kill", "1", 6), fault("restart", "2", 8)]
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    explained = explain_loss(timeline(tables, meta=meta, faults=faults), lost())
    steps = ["broker 2 was killed", "orders-0 lost its leader in epoch 1, ISR [1]", "broker 2 was restarted"]
    sentences = [fact.sentence for fact in explained.chain]
    assert [sentences.count(step) for step in steps] == [1, 1, 1]
    assert sentences.index(steps[2]) < next(i for i, text in enumerate(sentences) if "elected broker 2" in text)


@pytest.mark.parametrize(("kind", "name"), [("pause", "pause"), ("partition", "network partition")])
def test_a_chain_has_the_end_of_the_fault_on_the_elected_broker(kind, name):
    ended = replace(fault("restart", "2", 6), kind=kind)
    meta = metadata((8, {"leader": 2, "isr": [2]}))
    faults = [fault(kind, "2", 3), ended, fault("kill", "1", 7)]
    explained = explain_loss(timeline(AFTER, meta=meta, faults=faults), lost(acks="1"))
    assert explained.cause == "single-ack-failover"
    assert [fact.sentence for fact in explained.chain].count(f"{name} of broker 2 ended") == 1


FROM_2 = "INFO [Partition orders-0 broker=3] orders-0 starts at Leader Epoch 2 from offset 2. Previous Leader Epoch was: 1 (x)"


@pytest.mark.parametrize(("replaced", "led", "cause"), [(9, [(9, FROM_2)], "unclean-election"), (10, [], "unknown")])
def test_a_leader_that_was_replaced_at_once_lost_nothing(replaced, led, cause):
    """The controller fences brokers 1 and 2 at once, but broker 3 may have led from an offset below the record."""
    isr = (1, {"isr": [1, 2, 3], "replicas": [1, 2, 3]})
    unclean = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata(isr, (9, {"leader": 2, "isr": [2, 3]}), (replaced, {"leader": 3, "isr": [3]}), (12, unclean))
    tables = {**logs("1: 0a 1x@3\n2: 0a 1x@3\n3: 0a 1x@3"), "epochs": epochs(("2", 0, 0), ("2", 3, 1))}
    faults = [fault("kill", "2", 4), fault("restart", "2", 6), fault("kill", "1", 7), fault("kill", "3", 11)]
    events = [server_log("2", (6, LOADED % 1)), server_log("3", *led, (14, LOADED % 2))]
    held = timeline(tables, {"replicas": ("1", "2", "3")}, meta, events, faults=faults)
    explained = explain_loss(held, lost(acks="1"))
    assert explained.cause == cause
    began = [missing for missing in explained.missing if "at which epoch 1 began" in missing]
    assert len(began) == (replaced == 10)


def test_an_election_from_the_isr_is_not_unclean():
    assert explain_loss(timeline(AFTER, meta=TWO_LEADS), lost()).cause == "unknown"
    assert explain_loss(timeline(AFTER, meta=TWO_LEADS), lost(acks="1")).cause == "single-ack-failover"


def test_a_zookeeper_controller_logs_that_it_elects_from_outside():
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    events = server_log("3", (1, LEADS % (1, 0, "1")), (9, NO_ISR_ALIVE), (9, LEADS % (2, 1, "2")))
    found = timeline(old, events=[events], version="0.10.2.2")
    assert found.terms[1].elected_uncleanly
    # Where epoch 1 began is not known without leader epochs, so the loss is not proved.
    assert explain_loss(found, lost()).cause == "unknown"


def test_a_dead_broker_that_is_elected_takes_nothing_away():
    """The broker elected next had truncated its log before, as with seed 5185 of benchmarks/judge.py."""
    old = of_format_v1("1: 0a 1x\n3: 0a 1x")
    elections = [(1, LEADS % (1, 0, "1,2,3")), (6, LEADS % (2, 1, "2,3")), (9, LEADS % (3, 2, "3"))]

    def cause(*faults, logged=(), acks="all", replaced=10):
        events = [server_log("9", *elections, *logged), server_log("3", (7, CUT % 1))]
        gone = replace(lost(acks), replaced=replaced and replaced * SECOND)
        return explain_loss(timeline(old, None, None, events, None, "0.10.2.2", "3", faults), gone).cause

    dead = fault("kill", "2", 5)
    assert cause(dead) == "high-watermark-truncation"
    assert cause(dead, replaced=None) == "unknown"  # it may have copied the record again
    assert cause(dead, fault("restart", "3", 10), replaced=11) == "unknown"  # it may have lost it then
    assert cause(fault("kill", "2", 8)) == "unknown"  # it may have led, and cut its log
    assert cause(dead, fault("restart", "2", 8)) == "unknown"
    died = (5, "INFO [Controller 9]: Broker failure callback for 2 (x)")
    assert cause(logged=[died]) == "unknown"  # it came back then
    assert cause(dead, acks="1") == "unknown"  # the follower may not have had the record


def test_a_leader_that_went_on_takes_nothing_away():
    """As seeds 5274 and 20124 of benchmarks/judge.py: broker 1 leads in epochs 0 and 1, as its follower died.

    The follower truncated its log when it came back, and was elected from outside the ISR when broker 1 had died.
    """
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    elections = server_log(
        "9", (1, LEADS % (1, 0, "1,2")), (6, LEADS % (1, 1, "1")), (9, NO_ISR_ALIVE), (9, LEADS % (2, 2, "2"))
    )

    def cause(*faults, cut=1, first=((12, LOADED % 2),)):
        events = [elections, server_log("1", *first), server_log("2", (7, LOADED % 2), (8, CUT % cut))]
        return explain_loss(timeline(old, None, None, events, None, "0.10.2.2", "2", faults), lost()).cause

    killed = fault("kill", "1", 7)
    assert cause(killed) == "unclean-election"
    assert cause() == "unknown"  # the follower may have copied them again
    assert cause(killed, fault("restart", "1", 8)) == "unknown"
    assert cause(killed, cut=2) == "unknown"  # it still had them
    assert cause(killed, first=()) == "unknown"  # no line shows that it led on without a restart
    assert cause(killed, first=((6, LOADED % 1), (12, LOADED % 2))) == "unknown"
    assert cause(killed, first=((6, LOADED % 2), (12, LOADED % 2))) == "unclean-election"  # it led on with them


def test_an_unclean_election_that_the_configuration_forbids_was_forced():
    config = {"unclean.leader.election.enable": False, "min.insync.replicas": 2}
    explained = explain_loss(timeline(AFTER, {"replicas": ("1", "2")}, UNCLEAN, config=config), lost())
    assert explained.cause == "unclean-election"
    sentences = [fact.sentence for fact in explained.chain]
    forbidden = sentences.index("unclean.leader.election.enable=false for the topic")
    assert "elected broker 2" in sentences[forbidden + 1]
    measure = "no unclean election by an operator (unclean.leader.election.enable is already false)"
    assert explained.prevented_by == (measure,)


def test_a_second_replica_in_sync_helps_only_where_the_leader_was_alone():
    def measures(*shrunk):
        """Brokers 1 and 2 were in sync at first; records were acknowledged from 3 s to 5 s."""
        meta = metadata(*shrunk, (9, {"leader": 3, "isr": [3], "leaderRecoveryState": 1}))
        gone = replace(lost(first=1, last=2, values=("b", "c")), first_acked=3 * SECOND)
        tables = {**logs("1: 0a 1x@1\n3: 0a 1x@1"), "epochs": epochs(("3", 0, 0), ("3", 1, 1))}
        explained = explain_loss(timeline(tables, {"replicas": ("1", "2", "3")}, meta, leader="3"), gone)
        assert explained.cause == "unclean-election"
        return [measure.split(" ")[0] for measure in explained.prevented_by]

    assert measures((7, {"isr": [1]})) == ["unclean.leader.election.enable=false"]
    for since in (2, 4):
        assert measures((since, {"isr": [1]})) == ["unclean.leader.election.enable=false", "min.insync.replicas=2"]


@pytest.mark.parametrize(
    ("since", "acks", "config", "measure"),
    [
        (4, "1", {}, "acks=all together with min.insync.replicas=2"),
        (4, "1", {"min.insync.replicas": 2}, "acks=all"),
        (
            4,
            "all",
            {},
            "min.insync.replicas=2 (then writes with acks=all fail while either of the two replicas is out of the ISR",
        ),
        (6, "1", {}, "eligible leader replicas"),
        (6, "all", {}, "eligible leader replicas"),
    ],
)
def test_only_who_was_in_sync_with_the_last_replica_could_have_led_instead(since, acks, config, measure):
    logged = [server_log("1", (12, LOADED % 1)), server_log("2", (7, LOADED % 2))]
    dark = (fault("power-loss", "1", 8), fault("restart", "1", 11))
    meta = metadata((since, {"isr": [1]}), (9, {"leader": -1}), (13, {"leader": 1}))
    short = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    held = timeline(short, {"replicas": ("1", "2")}, meta, logged, config, leader="1", faults=dark)
    explained = explain_loss(held, lost(acks))
    assert explained.cause == "last-replica-standing"
    assert explained.prevented_by[0].startswith(measure)
    assert explained.prevented_by[1].startswith("flush.messages=1")


def test_a_broker_that_had_the_records_lost_them_itself_though_its_election_was_unclean():
    """Unless another one still had them: only then did the election take them."""
    meta = metadata((6, {"isr": [1]}), (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    dark = (fault("power-loss", "2", 7), fault("restart", "2", 8))

    def cause(*logged, acks="all"):
        return explain_loss(timeline(AFTER, None, meta, logged, faults=dark), lost(acks)).cause

    assert cause() == cause(held := server_log("1", (12, LOADED % 2))) == "unknown"  # it may have fetched others
    assert cause(acks="1") == "unclean-election"
    assert cause(server_log("2", (6, LOADED % 2)), acks="1") == "unknown"  # it had fetched them
    dark += (fault("kill", "1", 8),)
    assert cause(held) == "unclean-election"


def test_the_isr_of_a_replaced_leader_is_overruled():
    shrinks = (
        "INFO [Partition orders-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 1, endOffset: 2). (x)"
    )
    meta = metadata((3, {"leader": 2, "isr": [2]}))
    held = timeline(AFTER, None, meta, [server_log("1", (5, shrinks))])
    assert [fact.isr for fact in held.isr_reports if fact.time == 5 * SECOND] == []
    assert [fact.time for fact in held.overruled] == [5 * SECOND]
    early = timeline(AFTER, None, metadata((7, {"leader": 2, "isr": [2]})), [server_log("1", (5, shrinks))])
    assert not early.overruled


def test_acks_all_alone_prevents_little_where_the_leader_may_be_alone():

    def measures(**config):
        return explain_loss(timeline(AFTER, meta=TWO_LEADS, config=config), lost(acks="1")).prevented_by

    assert measures() == ("acks=all together with min.insync.replicas=2",)
    assert measures(**{"min.insync.replicas": 2}) == ("acks=all",)


def test_the_chain_has_why_the_others_were_gone():
    faults = (fault("pause", "2", 2), fault("pause", "1", 6))
    sentences = [fact.sentence for fact in explain_loss(timeline(AFTER, meta=UNCLEAN, faults=faults), lost()).chain]
    assert "pause of broker 2 began" in sentences
    assert "pause of broker 1 began" in sentences
    healed = (faults[0], Fault("heal", "pause", ("2",), 3 * SECOND, 3 * SECOND))
    sentences = [fact.sentence for fact in explain_loss(timeline(AFTER, meta=UNCLEAN, faults=healed), lost()).chain]
    assert not any("pause" in sentence for sentence in sentences)


def test_an_unclean_leader_with_a_short_log_loses_the_dead_leaders_records():
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    elections = [(1, LEADS % (1, 0, "1")), (9, NO_ISR_ALIVE), (9, LEADS % (2, 1, "2"))]
    failed = (6, "INFO [Controller 3]: Broker failure callback for 1 (x)")

    def cause(end, at, *controller, faults=()):
        events = [server_log("3", *controller, *elections), server_log("2", (at, LOADED % end))]
        return explain_loss(timeline(old, events=events, version="0.10.2.2", faults=faults), lost()).cause

    assert cause(1, 8, failed) == "unclean-election"
    assert cause(2, 8, failed) == "unknown"  # it had the record
    assert cause(1, 5, failed) == "unknown"  # it may have fetched the record before the leader died
    assert cause(1, 8) == "unknown"  # the death of the leader is not recorded
    paused, resumed = fault("pause", "1", 4), fault("restart", "1", 5)
    assert cause(1, 5, failed, faults=(paused,)) == "unclean-election"  # it responded to no fetch before it died
    assert cause(1, 5, failed, faults=(paused, resumed)) == "unknown"


def test_a_leader_that_wrote_other_records_there_in_an_older_epoch_lacked_them():
    tables = {**logs("2: 0a 1x@1 2y@3"), "epochs": epochs(("2", 1, 1), ("2", 3, 2))}
    meta = metadata((2, {"leader": 2, "isr": [2]}), (4, {"leader": 1, "isr": [1]}), (9, {"leader": 2, "isr": [2]}))
    before = {**logs("1: 0a 1b@2\n2: 0a 1x@1", snapshot="before")}
    both = {name: pl.concat([before[name], frame]) if name in before else frame for name, frame in tables.items()}
    assert explain_loss(timeline(both, {"snapshots": ("before", "")}, meta=meta), lost()).cause == "unclean-election"
    changes = ((2, {"leader": 2, "isr": [2]}), (4, {"leader": 1, "isr": [1]}), (9, {"leader": 2, "isr": [2]}))
    led_since = metadata(*changes, (12, {"leader": 1, "isr": [1, 2]}))
    found = timeline(both, {"snapshots": ("before", "")}, meta=led_since, leader="1")
    assert explain_loss(found, lost()).cause == "unclean-election"
    # Another broker wrote it, and the new leader had it where its epoch began.
    other = metadata((2, {"leader": 3, "isr": [3]}), (4, {"leader": 1, "isr": [1]}), (9, {"leader": 2, "isr": [2]}))
    assert explain_loss(timeline(both, {"snapshots": ("before", "")}, meta=other), lost()).cause == "unclean-election"
    # It may have replicated it to the new leader later.
    begun_below = {**both, "epochs": epochs(("2", 1, 1), ("2", 3, 1))}
    assert explain_loss(timeline(begun_below, {"snapshots": ("before", "")}, meta=other), lost()).cause == "unknown"


def test_a_leader_of_one_moment_may_not_have_acknowledged():
    tables = {**logs("3: 0a 1x@3\n2: 0a 1x@3"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}
    three = metadata((5, {"leader": 3, "isr": [3]}), (9, {"leader": 2, "isr": [2]}))
    again = metadata((5, {"leader": 1, "isr": [1]}), (9, {"leader": 2, "isr": [2]}))

    def is_doubtful(meta, *faults, halted=()):
        lines = [(at, "ERROR Shutdown broker because all log dirs in /d have failed (x)") for at in halted]
        found = timeline(tables, meta=meta, events=[server_log("1", *lines)], faults=faults)
        missing = explain_loss(found, lost(acks="1")).missing
        return any("which had just been elected" in item for item in missing)

    assert is_doubtful(three)
    assert not is_doubtful(three, fault("kill", "1", 4))  # no other broker was alive
    assert not is_doubtful(three, halted=[4])  # its own last line
    assert is_doubtful(three, halted=[5])  # its clock may be behind
    assert is_doubtful(three, fault("restart", "1", 4), halted=[3])
    assert not is_doubtful(again)  # it led before


def test_a_later_leader_that_began_below_the_lost_records_did_not_bring_them_back():
    meta = metadata(
        (4, {"isr": [1]}),
        (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}),
        (11, {"leader": 1, "isr": [1, 2]}),
        (13, {"leader": 2}),
    )
    loaded = server_log("1", (10, LOADED % 1))

    def cause(*later):
        tables = {**logs("1: 0a\n2: 0x@3"), "epochs": epochs(("2", 1, 0), *later, ("2", 3, 0))}
        return explain_loss(timeline(tables, meta=meta, events=[loaded]), lost(first=0, last=0, values=("a",))).cause

    assert cause() == "unknown"  # epoch 2 may have begun above them
    assert cause(("2", 2, 0)) == "unclean-election"


def test_a_controller_may_notice_several_brokers_at_once():
    logged = server_log(
        "3",
        (6, "INFO [Controller id=3] Broker failure callback for 1,2 (kafka.controller.KafkaController)"),
        (8, "INFO [Controller id=3] New broker startup callback for 1,2 (kafka.controller.KafkaController)"),
    )
    events = [(event.broker, event.kind) for event in timeline(AFTER, events=[logged]).events]
    assert events == [("1", "died"), ("2", "died"), ("1", "unfenced"), ("2", "unfenced")]


def test_two_leaders_of_one_epoch_prove_nothing():
    meta = metadata((4, {"isr": [1]}), (9, {"leader": 2, "isr": [2]}))
    leads = "INFO [Broker id=3] Leader orders-0 with topic id x starts at leader epoch 1 from offset 1 with partition epoch 2, "
    leads += "high watermark 1, ISR [3], adding replicas [] and removing replicas [] . "
    leads += "Previous leader Some(1) and previous leader epoch was 0. (state.change.logger)"
    found = timeline(AFTER, meta=meta, events=[server_log("3", (9, leads))])
    assert found.terms[1].has_conflict
    assert explain_loss(found, lost()).cause == "unknown"


def test_the_last_broker_to_stop_should_have_been_the_first_to_start():
    """Broker 1 wrote on alone after broker 2 had died. Then both were down, and broker 2 was started first."""
    old = of_format_v1("1: 0a 1x\n2: 0a 1x")
    elections = server_log(
        "9", (1, LEADS % (1, 0, "1,2")), (3, LEADS % (1, 1, "1")), (9, NO_ISR_ALIVE), (9, LEADS % (2, 2, "2"))
    )
    second = server_log("2", (8, LOADED % 1))

    def measures(*faults, first=((12, LOADED % 2),)):
        events = [elections, server_log("1", *first), second]
        explained = explain_loss(timeline(old, None, None, events, None, "0.10.2.2", "2", faults), lost())
        return (
            explained.cause,
            "starting broker 1, which still had the records, before broker 2" in explained.prevented_by,
        )

    died, killed, back = fault("kill", "2", 2), fault("kill", "1", 6), fault("restart", "2", 8)
    assert measures(died, killed, back) == ("unclean-election", True)
    assert measures(killed) == ("unclean-election", False)  # broker 2 ran when broker 1 died: no order of starts helps
    assert measures(died, killed, back, first=((12, LOADED % 1),))[1] is False  # broker 1 lost the record, too


CLEAN = {"unclean.leader.election.enable": "false"}


@pytest.mark.parametrize(
    ("own", "replaced", "cause"),
    [
        ([(1, LOADED % 0)], 15, "single-ack-failover"),
        # The log may have been cut, or lacks the time before; nothing shows what the new leader wrote.
        ([(1, LOADED % 0), (7, CUT % 1)], 15, "unknown"),
        ([(1, LOADED % 0), (7, LOADED % 1)], 15, "unknown"),
        ([], 15, "unknown"),
        ([(1, LOADED % 0)], None, "unknown"),
    ],
)
def test_without_epochs_a_log_that_was_never_cut_lacked_what_acks_1_acknowledged(own, replaced, cause):
    controller = server_log("3", (1, LEADS % (1, 0, "1,2")), (9, LEADS % (2, 1, "2")))
    events = [controller, *([server_log("2", *own)] if own else [])]
    old = timeline(of_format_v1("1: 0a 1x\n2: 0a 1x"), config=CLEAN, events=events, version="0.10.2.2")
    gone = replace(lost(acks="1"), replaced=replaced and replaced * SECOND, replaced_place=3)
    explained = explain_loss(old, gone)
    assert explained.cause == cause, explained.missing
    if cause != "unknown":
        assert [fact.kind for fact in explained.chain][-1] == "acknowledged"
        assert "loaded" in [fact.kind for fact in explained.chain]


@pytest.mark.parametrize("is_in_snapshot", [True, False])
def test_what_an_isolated_leader_acknowledged_after_its_replacement_is_lost_by_the_same_election(is_in_snapshot):
    """Its offsets are beyond the log of the new leader, so no other record is there now."""
    meta = metadata((4, {"leader": 2, "isr": [2]}))
    cut = server_log("1", (20, CUT % 1))
    tables = {**logs("1: 0a\n2: 0a"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    about = {}
    if is_in_snapshot:
        held = logs("1: 0a 1b 2c", snapshot="isolated")
        tables = {name: pl.concat([held[name], frame]) if name in held else frame for name, frame in tables.items()}
        about = {"snapshots": ("isolated", ""), "times": {"isolated": 18 * SECOND}}
    late = lost(acks="1", first=2, last=2, values=("c",), at=15)
    explained = explain_loss(timeline(tables, about, meta=meta, events=[cut]), late)
    assert explained.cause == "single-ack-failover"
    # A new leader that restarted after the acknowledgement may have lost a record of its own.
    boot = server_log("2", (17, BOOT))
    if not is_in_snapshot:
        assert explain_loss(timeline(tables, about, meta=meta, events=[cut, boot]), late).cause == "unknown"
