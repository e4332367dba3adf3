"""Evidence that is removed leaves a cause or a rule unknown: what the remaining files do not show is no proof."""

from __future__ import annotations

import pytest
from logjudge.analysis.causes import explain_loss

from .conftest import judge_absence
from .replica_texts import checkpoints, epochs, logs, of, sends
from .test_disk_causes import ALONE as LEADS_ALONE
from .test_disk_causes import damaged, rolled_back
from .test_replaced_disks import later_leader
from .timelines import (
    AFTER,
    BOOT,
    CRASHED,
    CUT,
    LOADED,
    TWO_LEADS,
    UNCLEAN,
    fault,
    lost,
    metadata,
    server_log,
    timeline,
)

FOLLOWS = (
    "INFO [Broker id=1] Follower orders-0 starts at leader epoch 1 from offset %d with partition epoch 3 and high"
    " watermark 0. Current leader is 2. Previous leader Some(2) and previous leader epoch was 1. (state.change.logger)"
)


@pytest.mark.parametrize(
    ("restarts", "lines", "cause"),
    [
        ((), [], "unclean-election"),  # broker 1 never started again
        ((12,), [], "unknown"),
        ((12,), [(13, LOADED % 2)], "unclean-election"),
        ((12,), [(13, CUT % 1)], "unclean-election"),
        ((12,), [(13, FOLLOWS % 2)], "unclean-election"),
        ((12,), [(13, FOLLOWS % 0)], "unknown"),  # as from an empty disk
        ((12,), [(13, LOADED % 0)], "unknown"),
    ],
)
def test_an_old_leader_that_started_again_may_have_lost_its_log_before_an_unclean_election(restarts, lines, cause):
    """Broker 1 was alone in the ISR, and was killed at 7 s. Broker 2 was elected at 9 s."""
    faults = [fault("kill", "1", 7), *(fault("restart", "1", at) for at in restarts)]
    found = timeline(AFTER, meta=UNCLEAN, faults=faults, events=[server_log("1", *lines)] if lines else ())
    assert explain_loss(found, lost()).cause == cause


@pytest.mark.parametrize(("isr", "cause"), [([2], "unclean-election"), ([2, 1], "unknown")])
def test_a_dead_leader_that_joins_the_isr_again_has_started_though_no_line_shows_it(isr, cause):
    unclean = {"leader": 2, "isr": [2], "leaderRecoveryState": 1}
    meta = metadata((4, {"isr": [1]}), (9, unclean), (14, {"isr": isr, "leaderRecoveryState": 0}))
    assert explain_loss(timeline(AFTER, meta=meta, faults=[fault("kill", "1", 7)]), lost()).cause == cause


@pytest.mark.parametrize(
    ("text", "about", "is_known"),
    [
        ("1: 0a 1b\n2: 0a", {}, False),
        ("1: 0a 1b\n2: 0a", {"leader": "1"}, True),
        ("1: 0a 1b\n2: 0a", {"former": frozenset("2")}, True),
        ("1: 0a 1b\n2: 0a 1b", {}, True),
        ("1: 0a 1b@1\n2: 0a", {}, True),  # broker 2 never was in the last epoch
        ("1: 0a 1b\n2: 0a 1x@1", {}, False),
        ("1: 0a 1b\n2: 2c", {"log-start": 2}, True),
    ],
)
def test_what_only_some_logs_have_may_not_be_in_the_log_of_an_unknown_leader(text, about, is_known):
    points = [("log-start", "2", about["log-start"])] if "log-start" in about else []
    settings = {name: value for name, value in about.items() if name != "log-start"}
    judged = judge_absence(of({**logs(text), "checkpoints": checkpoints(*points)}, **settings), sends("a@0", "b@1"))
    assert (judged.findings, not judged.unknowns) == ((), is_known)


ALONE, STOPPED, LED_AGAIN = (3, {"leader": 1, "isr": [1]}), (9, {"leader": -1}), (12, {"leader": 1, "isr": [1]})
RECOVERS = "INFO [Log partition=orders-0, dir=/d] Recovering unflushed segment 0 (kafka.log.Log)"


@pytest.mark.parametrize(
    ("began", "lines", "cause"),
    [
        (1, [(10, BOOT)], "unknown"),  # it may have been shut down cleanly, which flushes the log
        (1, [(10, BOOT), (10, CRASHED)], "last-replica-standing"),
        (1, [(10, RECOVERS)], "last-replica-standing"),
        (0, [(10, CRASHED)], "unknown"),  # it may have found no log
        (0, [(10, CRASHED), (11, LOADED % 0)], "last-replica-standing"),
    ],
)
def test_the_last_replica_may_have_had_its_log_on_disk_when_it_ended(began, lines, cause):
    """Broker 1 acknowledges offset 1 alone, and leads again from offset `began`."""
    tables = {**logs("1: 0x@3"), "epochs": epochs(("1", 0, 0), ("1", 3, began))}
    meta = metadata(ALONE, STOPPED, LED_AGAIN)
    found = timeline(tables, {"replicas": ("1", "2")}, meta, [server_log("1", *lines)], leader="1")
    assert explain_loss(found, lost()).cause == cause


@pytest.mark.parametrize(("copies", "cause"), [("1: 0a 2c\n2: 0a 1b 2c\n3: 0a 1b 2c", "corruption"), (None, "unknown")])
def test_the_log_of_the_last_leader_may_lack_what_another_copy_has_damaged(copies, cause):
    """Broker 1 led until 9 s, and broker 2 leads since. Broker 1's copy is damaged."""
    tables = damaged(copies or "1: 0a 2c\n3: 0a 1b 2c", ("1", 1, 1))
    assert explain_loss(timeline(tables, meta=TWO_LEADS), lost()).cause == cause


@pytest.mark.parametrize(("starts", "cause"), [([11], "log-rolled-back"), ([], "unknown")])
def test_a_broker_that_was_shut_down_cleanly_may_have_started_several_times(starts, cause):
    faults = [fault("shutdown", "1", 6), *(fault("restart", "1", at) for at in starts)]
    assert rolled_back(*faults, before="", after="1: 0a\n2: 0a", changes=LEADS_ALONE).cause == cause


@pytest.mark.parametrize(("loads", "cause"), [([], "unknown"), ([("2", 11, 2)], "last-replica-standing")])
def test_the_last_replica_may_have_lost_its_tail_when_others_were_in_the_isr(loads, cause):
    """Brokers 1 and 2 lose power at 8 s, and broker 1 again at 12 s, when it is alone in the ISR."""
    dark = [fault(kind, broker, at) for kind, at in (("power-loss", 8), ("restart", 10)) for broker in ("1", "2")]
    dark += [fault("power-loss", "1", 12), fault("restart", "1", 14)]
    changes = (3, {"isr": [1]}), (6, {"isr": [1, 2]}), (13, {"leader": -1, "isr": [1]}), (15, {"leader": 1})
    events = [server_log(broker, (at, LOADED % end)) for broker, at, end in loads]
    assert later_leader(*changes, epochs_of_1=[(2, 1)], events=events, faults=dark) == cause
