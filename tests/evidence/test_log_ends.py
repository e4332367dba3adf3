"""Where a leader's log ended: when it refused a fetch, at the end of the run, where it was cut, or as it led again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.replica_history import lasting_cuts, short_log_facts
from logjudge.analysis.causes.surviving_records import still_had_records
from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.clock import Fault
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.search import Space, explore
from logjudge.models.exploration.shrink import shrink

from .replica_texts import logs
from .timelines import (
    AFTER,
    BEGAN,
    BOOT,
    CUT,
    LEADS,
    LOADED,
    SECOND,
    UNCLEAN,
    epochs,
    fault,
    lost,
    metadata,
    of_format_v1,
    server_log,
    timeline,
)

REFUSED = (
    "ERROR [ReplicaFetcherThread-0-%d], Current offset %d for partition [orders,0] out of range; reset offset to %d"
    " (kafka.server.ReplicaFetcherThread)"
)
ELECTIONS = server_log("100", (1, LEADS % (1, 0, "1,2,3")), (9, LEADS % (2, 1, "2,3")), (12, LEADS % (3, 2, "3")))
WITHOUT = "1: 0a\n2: 0a\n3: 0a"
DEAD = (fault("kill", "2", 8),)
DELETED = replace(fault("delete-topic", "", 14), details={"topic": "orders"}, outcome="ok")
AGAIN = "1: 0a 1x\n2: 0a 1x\n3: 0a 1x"  # another record is at offset 1 at the end


def cause_before_epochs(at_end=AGAIN, truncated=(9, 1), refused=None, first_leader=(), faults=DEAD, later=()):
    """The cause of the loss of offset 1, acknowledged at 5 s; broker 3 truncated its log at 9 s and led from 12 s."""
    own = [] if truncated is None else [(truncated[0], CUT % truncated[1])]
    lines = [server_log("3", (1, CUT % 0), *own, *later), ELECTIONS]
    lines += [server_log("1", (refused[0], REFUSED % refused[1:]))] if refused else []
    lines += [server_log("2", *first_leader)] if first_leader else []
    config = {"unclean.leader.election.enable": "false"}
    tables = of_format_v1(at_end)
    return explain_loss(timeline(tables, None, None, lines, config, "0.10.2.2", "3", faults), lost()).cause


RESTARTED = (fault("kill", "2", 8), fault("power-loss", "3", 13), fault("restart", "3", 14))


@pytest.mark.parametrize(
    ("about", "is_proved"),
    [
        ({"refused": (13, 3, 2, 1)}, True),
        ({"refused": (12, 3, 2, 1)}, True),  # in the millisecond of the election
        ({}, False),
        ({"refused": (13, 3, 3, 2)}, False),  # it had the record
        ({"refused": (13, 2, 2, 1)}, False),  # another broker refused
        ({"refused": (13, 3, 0, 1)}, False),  # offset 1 is the start of its log
        ({"refused": (10, 3, 2, 1)}, False),  # long before its election
        ({"refused": (16, 3, 2, 1), "faults": RESTARTED}, False),  # it may have lost its tail since
        ({"refused": (13, 3, 2, 1), "truncated": None}, False),  # nothing shows that it truncated the record
        ({"refused": (13, 3, 2, 1), "truncated": (9, 2)}, False),
    ],
)
def test_a_leader_that_refused_a_fetch_had_not_fetched_the_records_again(about, is_proved):
    assert cause_before_epochs(**about) == ("high-watermark-truncation" if is_proved else "unknown")


KILLED = (fault("kill", "2", 8), fault("kill", "3", 13), fault("restart", "3", 14))


@pytest.mark.parametrize(
    ("about", "is_proved"),
    [
        ({"faults": KILLED, "later": [(14, LOADED % 1)]}, True),
        ({"faults": KILLED, "later": [(14, LOADED % 2)]}, False),  # it had a record there
        ({"faults": RESTARTED, "later": [(14, LOADED % 1)]}, False),  # it may have lost its tail since
        ({"later": [(14, CUT % 1)]}, False),  # it may have had a record there until then
    ],
)
def test_a_leader_that_still_had_a_short_log_later_had_it_when_it_began_to_lead(about, is_proved):
    assert cause_before_epochs(**about) == ("high-watermark-truncation" if is_proved else "unknown")


@pytest.mark.parametrize(
    ("about", "is_proved"),
    [
        ({}, True),
        ({"at_end": "1: 0a\n2: 0a\n3: 0a 1b"}, False),
        ({"at_end": "1: 0a\n2: 0a"}, False),  # without its log
        ({"truncated": None}, False),
        ({"truncated": (14, 1)}, False),  # the truncation is the later one
        ({"later": [(14, CUT % 1)]}, False),
        ({"faults": RESTARTED}, False),
        ({"faults": (*DEAD, DELETED)}, False),
    ],
)
def test_a_log_that_is_short_at_the_end_was_short_when_its_broker_began_to_lead(about, is_proved):
    assert cause_before_epochs(**{"at_end": WITHOUT, **about}) == (
        "high-watermark-truncation" if is_proved else "unknown"
    )


@pytest.mark.parametrize(
    ("about", "is_proved"),
    [
        ({"faults": (fault("pause", "2", 8),)}, True),
        ({"faults": (fault("pause", "2", 8), replace(fault("pause", "2", 10), type="heal"))}, False),
        ({"faults": (fault("pause", "2", 10),)}, False),
        # It truncated before the record was written, and had it when it started again.
        ({"faults": (), "first_leader": [(4, CUT % 0), (7, LOADED % 2)]}, True),
        ({"faults": (), "first_leader": [(4, CUT % 0)]}, False),
        ({"faults": (), "first_leader": [(7, LOADED % 2), (8, CUT % 1)]}, False),
    ],
)
def test_a_leader_that_was_paused_or_had_the_records_did_not_lose_them(about, is_proved):
    assert cause_before_epochs(at_end=WITHOUT, **about) == ("high-watermark-truncation" if is_proved else "unknown")


def test_a_shrunk_scenario_of_a_search_has_the_cause_that_the_search_names(tmp_path: Path) -> None:
    """Few records are left, so no later one shows that the leader lacked the lost record."""
    space, invariant = Space("high-watermark"), "no-acknowledged-loss"
    seed, text = explore(space, range(200), (invariant,), stop=True).first[invariant]
    small, _ = shrink(space.scenario(seed), invariant)
    found = judge_run(open_run(write_bundle(small, tmp_path / "run").folder)).causes()
    assert {one.cause for one in found} == {"high-watermark-truncation"}
    assert "high-watermark-truncation" in text


def follows(epoch):
    return (
        f"INFO [Broker id=1] Follower orders-0 starts at leader epoch {epoch} from offset 2 with partition epoch 7 and"
        " high watermark 1. Current leader is 2. (state.change.logger)"
    )


KILL, RESTARTS = fault("kill", "1", 7), [fault("restart", "1", at) for at in (10, 13)]


@pytest.mark.parametrize(
    ("logged", "faults", "had"),
    [
        ([(8, LOADED % 2)], [], True),
        ([(8, LOADED % 1), (8, LOADED % 2)], [], False),
        ([(6, LOADED % 2)], [fault("power-loss", "1", 7)], False),
        # After broker 2 began to lead without the record, broker 1 may have truncated it and fetched another.
        ([(12, LOADED % 2)], [], False),
        ([(12, LOADED % 2)], [KILL], True),
        ([(12, LOADED % 2)], [KILL, RESTARTS[0]], True),
        ([(14, LOADED % 2)], [KILL, *RESTARTS], False),  # it may have fetched between its starts
        ([(12, CUT % 2)], [KILL, RESTARTS[0]], False),
        ([(10, follows(1))], [], True),
        ([(12, follows(2))], [], False),
    ],
)
def test_a_log_end_proves_records_only_while_no_leader_without_them_may_have_replaced_them(logged, faults, had):
    held = timeline(AFTER, None, metadata((9, {"leader": 2, "isr": [2]})), [server_log("1", *logged)], faults=faults)
    assert still_had_records(held, "1", lost()) is had


@pytest.mark.parametrize(
    ("faults", "cause"),
    [
        ((), "single-ack-failover"),
        ((fault("kill", "2", 6),), "single-ack-failover"),
        ((fault("power-loss", "2", 6),), "unknown"),  # no source has its restart, but it leads again
    ],
)
def test_a_leader_that_lost_power_may_have_lost_its_own_tail(faults, cause):
    meta = metadata((9, {"leader": 2, "isr": [2]}))
    assert explain_loss(timeline(AFTER, meta=meta, faults=faults), lost(acks="1")).cause == cause


ALONE, STOPPED, LED_AGAIN = (3, {"leader": 1, "isr": [1]}), (9, {"leader": -1}), (12, {"leader": 1, "isr": [1]})
BACK = ((1, {"leader": 2}), (3, {"leader": 1, "isr": [1]}), LED_AGAIN)
RESTART = fault("restart", "1", 11)


def cut(*offsets, partition=0):
    """A fault that cut the tail of broker 1's log at 10 s."""
    details = {"topic": "orders", "partition": partition, **({"offsets_cut": list(offsets)} if offsets else {})}
    return Fault("fault", "truncate", ("1",), 10 * SECOND, 10 * SECOND, 10, details)


def explained(*faults, began=1, changes=(ALONE, STOPPED, LED_AGAIN), replicas=("1", "2")):
    """The explanation of the loss of offset 1, acknowledged at 5 s; broker 1 led again, from offset `began`."""
    tables = logs("1: 0a")
    if began is not None:
        tables["epochs"] = epochs(("1", 0, 0), ("1", 3, began))
    about = {"replicas": replicas}
    return explain_loss(timeline(tables, about, metadata(*changes), leader="1", faults=faults), lost())


@pytest.mark.parametrize(
    ("faults", "about", "cause"),
    [
        ((fault("kill", "1", 7),), {}, "last-replica-standing"),
        ((), {}, "unknown"),  # it may have been shut down cleanly
        ((fault("kill", "1", 7),), {"began": None}, "unknown"),
        ((fault("kill", "1", 7),), {"began": 2}, "unknown"),
        # Another broker may have led in between.
        ((), {"changes": (ALONE, (7, {"leader": 2, "isr": [2, 1]}), LED_AGAIN)}, "unknown"),
        # Broker 2 may have led before, and acknowledged the record later.
        ((), {"changes": BACK}, "unknown"),
        ((fault("kill", "2", 3), fault("kill", "1", 8)), {"changes": BACK}, "last-replica-standing"),
        # The fault that cut its log.
        ((fault("kill", "1", 8), cut(1, 1), RESTART), {"began": None}, "last-replica-standing"),
        ((cut(1, 1),), {"began": None}, "unknown"),  # it ran
        ((fault("kill", "1", 7), fault("restart", "1", 8), cut(1, 1)), {"began": None}, "unknown"),
        ((fault("kill", "1", 8), cut(2, 2), RESTART), {"began": None}, "unknown"),
        ((fault("kill", "1", 8), cut(), RESTART), {"began": None}, "unknown"),
        ((fault("kill", "1", 8), cut(1, 1, partition=1), RESTART), {"began": None}, "unknown"),
        ((fault("kill", "1", 8), cut("1", None), RESTART), {"began": None}, "unknown"),
        ((fault("kill", "1", 8), replace(cut(1, 1), outcome="fail"), RESTART), {"began": None}, "unknown"),
        # A shutdown leaves the log complete.
        ((fault("shutdown", "1", 8), cut(1, 1), RESTART), {}, "log-rolled-back"),
        ((fault("shutdown", "1", 8), cut(1, 1), RESTART), {"began": None}, "log-rolled-back"),
        ((fault("shutdown", "1", 8), cut(), RESTART), {}, "log-rolled-back"),
        ((fault("shutdown", "1", 8), cut(), RESTART), {"began": None}, "unknown"),
        ((fault("shutdown", "1", 8), cut(2, 2), RESTART), {}, "last-replica-standing"),
        ((fault("shutdown", "1", 8), cut(1, 1, partition=1), RESTART), {}, "last-replica-standing"),
        ((fault("power-loss", "1", 7), fault("shutdown", "1", 8), cut(1, 1), RESTART), {}, "last-replica-standing"),
    ],
)
def test_a_leader_that_led_again_or_was_cut_lost_the_records_itself(faults, about, cause):
    assert explained(*faults, **about).cause == cause


@pytest.mark.parametrize(("loaded", "cause"), [(7, "unknown"), (12, "unclean-election")])
def test_only_before_its_election_does_a_log_end_show_that_a_leader_may_have_had_the_records(loaded, cause):
    logged = [server_log("2", (loaded, LOADED % 2))]
    assert explain_loss(timeline(AFTER, None, UNCLEAN, logged), lost()).cause == cause


@pytest.mark.parametrize("acks", ["all", "1"])
def test_an_out_of_sync_leader_that_is_elected_again_lost_the_records_by_its_first_election(acks):
    """As when a reassignment completes at once: no file has the offset at which the first of its epochs began."""
    uncleanly = (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1})
    meta = metadata((4, {"isr": [1]}), uncleanly, (10, {"leader": 2, "isr": [2]}))
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("2", 2, 1))}

    def cause(*logged):
        return explain_loss(timeline(tables, None, meta, logged), lost(acks)).cause

    assert cause() == "unclean-election"
    assert cause(server_log("2", (8, BOOT), (10, BOOT))) == "unknown"  # the first may have had them


def test_a_second_replica_prevents_the_loss_of_the_only_one():
    faults = (fault("shutdown", "1", 8), cut(1, 1), RESTART)
    own_log = "starting the broker with its own log as it was when it stopped, without cutting it"
    assert explained(*faults).prevented_by == (own_log,)
    one = explained(*faults, replicas=("1",))
    assert one.prevented_by == (own_log, "a second replica (replication.factor)")
    sentences = [fact.sentence for fact in one.chain]
    stopped, cut_off = "shutdown of broker 1 began", "the tail of orders-0 was cut off on broker 1, from offset 1 on"
    assert sentences.index(stopped) < sentences.index(cut_off)
    assert explained(fault("kill", "1", 7), replicas=("1",)).prevented_by[0] == "a second replica (replication.factor)"


@pytest.mark.parametrize("is_cut_recorded", [True, False])
def test_a_real_broker_with_a_cut_log_lost_a_marker(is_cut_recorded: bool, tmp_path: Path) -> None:
    """Kafka 4.1.1, without server logs: audit-0 has one replica, which was shut down and cut at offset 2."""
    shutil.unpack_archive(Path(__file__).parent / "data" / "transactions" / "hanging.tar.xz", tmp_path)
    run = tmp_path / "hanging"
    if not is_cut_recorded:
        history = run / "history.jsonl"
        lines = history.read_text().splitlines()
        history.write_text("".join(f"{line}\n" for line in lines if '"op":15,' not in line))
    found = judge_run(open_run(run)).causes()
    assert [one.cause for one in found] == ["log-rolled-back"]
    chain = json.dumps(found[0].record()["chain"])
    assert ("cut off on broker 3, from offset 2 on" in chain) == is_cut_recorded
    assert "begins epoch 2 at offset 2" in chain
    assert "a second replica (replication.factor)" in found[0].prevented_by


@pytest.mark.parametrize(
    ("end", "died", "isr", "end_of_3", "cause"),
    [
        (3, 2, [1, 2, 3], 1, "log-rolled-back"),
        (2, 2, [1, 2, 3], 1, "last-replica-standing"),  # it does not have the record
        (3, 9, [1, 2, 3], 1, "last-replica-standing"),  # it may have fetched the record
        (3, 2, [1, 2, 3], None, "last-replica-standing"),  # broker 3 may have the record, too
        (3, 2, [1, 3], 1, "last-replica-standing"),  # it may have had a record of its own
    ],
)
def test_a_log_that_a_dead_broker_cannot_have_written_is_a_copy(end, died, isr, end_of_3, cause):
    """The disks of brokers 1 and 2 were swapped while both were down (Kafka 4.1)."""
    meta = metadata((1, {"isr": isr}), (died + 1, {"isr": [1]}), (13, {"leader": -1}), (15, {"leader": 1}))
    meta = meta.with_columns(byte=pl.int_range(pl.len()))
    faults = [fault("kill", "2", died), fault("kill", "1", 11), fault("restart", "1", 12), fault("restart", "2", 20)]
    events = [server_log("1", (12, LOADED % 1)), server_log("2", (21, LOADED % end), (22, CUT % 1))]
    events += [] if end_of_3 is None else [server_log("3", (21, LOADED % end_of_3))]
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    held = timeline(tables, {"replicas": ("1", "2", "3")}, meta, events, leader="1", faults=faults)
    explained = explain_loss(held, lost(first=2, last=2, at=10))
    assert explained.cause == cause, explained
    assert ("broker 2 loaded orders-0 with log end 3" in str(explained.chain)) == (cause == "log-rolled-back")


@pytest.mark.parametrize(
    ("terms", "faults", "is_proof"),
    [
        ([(1, 1, 0, 0), (12, 1, 1, 1)], (), True),
        ([(1, 1, 0, 0), (12, 1, 1, 2)], (), False),  # it still had the record
        ([(1, 1, 0, 0), (12, 1, 2, 1)], (), False),  # another broker may have led epoch 1
        ([(1, 1, 0, 0), (8, 2, 1, 1), (12, 1, 2, 1)], (), False),
        ([(1, 2, 0, 0), (3, 1, 1, 0), (12, 1, 2, 1)], (), False),  # broker 2 may have acknowledged the record
        ([(1, 2, 0, 0), (3, 1, 1, 0), (12, 1, 2, 1)], [fault("kill", "2", 4)], True),
        ([(1, 1, 0, 0), (12, 1, 1, 1)], [DELETED], False),  # it is the leader of another topic
    ],
)
def test_a_leader_that_leads_next_from_below_the_records_lost_them_itself(terms, faults, is_proof):
    """Terms: when a broker began to lead an epoch, and from which offset. The record was acknowledged at 5 s."""
    events = [server_log(f"{broker}", (at, BEGAN % (broker, *rest, 0, "1,2"))) for at, broker, *rest in terms]
    assert bool(short_log_facts(timeline({}, events=events, faults=faults), "1", lost(), 1)) == is_proof


@pytest.mark.parametrize(
    ("stop", "between", "is_lasting"),
    [
        ("kill", {"leader": -1}, True),
        ("kill", {"leader": 2}, False),  # broker 1 may have fetched the records from broker 2 again
        ("pause", {"leader": -1}, False),  # its process still had the log
    ],
)
def test_what_a_fault_cut_off_a_stopped_brokers_log_is_gone_if_it_leads_next(stop, between, is_lasting):
    cut = replace(fault("truncate", "1", 7), details={"topic": "orders", "partition": 0, "offsets_cut": [1]})
    meta = metadata((8, between), (12, {"leader": 1}))
    found = timeline({}, meta=meta, faults=[fault(stop, "1", 6), cut])
    assert bool(lasting_cuts(found, "1")) == is_lasting
