"""Which of several terms after an acknowledgement lost the records."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.leader_change import find_leader_change

from .replica_texts import epochs, logs
from .timelines import BEGAN, BOOT, LOADED, SECOND, fault, lost, metadata, server_log, timeline

THREE = {"replicas": ("1", "2", "3")}
UNCLEAN = {"leaderRecoveryState": 1}


def test_a_term_before_the_last_acknowledgement_did_not_lose_that_record():
    """Broker 1 acknowledges offset 1 at 5 s, broker 2 offset 2 at 8 s. Broker 3 leads uncleanly from 9 s."""
    isr = (1, {"isr": [1, 2, 3], "replicas": [1, 2, 3]})
    meta = metadata(isr, (6, {"leader": 2, "isr": [2]}), (9, {"leader": 3, "isr": [3], **UNCLEAN}))
    tables = {**logs("1: 0a\n2: 0a\n3: 0a"), "epochs": epochs(("3", 0, 0), ("3", 2, 1))}
    records = replace(lost(last=2, values=("b", "c")), last_acked=8 * SECOND)
    found = timeline(tables, THREE, meta, leader="3")
    assert find_leader_change(found, records).new_leader == "3"
    assert explain_loss(found, records).cause == "unclean-election"


def test_a_leader_that_never_had_the_records_lost_them_though_it_did_not_restart():
    """Broker 2 leads uncleanly from 9 s, and acknowledges another record at 11 s. Broker 3 leads from 12 s."""
    isr, unclean = (1, {"isr": [1], "replicas": [1, 2, 3]}), (9, {"leader": 2, "isr": [2], **UNCLEAN})
    meta = metadata(isr, unclean, (10, {"isr": [2, 3]}), (12, {"leader": 3, "isr": [3]}))
    tables = {**logs("1: 0a 1x@2\n3: 0a 1x@2"), "epochs": epochs(("3", 0, 0), ("3", 2, 1))}
    loads = server_log("2", (1, LOADED % 0))
    found = timeline(tables, THREE, meta, [loads], leader="3", faults=[fault("kill", "1", 7)])
    records = replace(lost(), replaced=11 * SECOND, replaced_place=3)
    assert find_leader_change(found, records).new_leader == "2"
    assert explain_loss(found, records).cause == "unclean-election"


def test_a_later_term_may_have_no_time():
    """Broker 1 joined the ISR of broker 2, which an unclean election chose, and leads epoch 2 at an unknown time."""
    changes = (4, {"isr": [1]}), (9, {"leader": 2, "isr": [2], **UNCLEAN}), (11, {"isr": [1, 2]})
    undated = server_log("1", (14, BEGAN % (1, 2, 3, 5, "1,2"))).with_columns(time=pl.lit(None, pl.Int64))
    tables = {**logs("1: 0a 1x@1\n2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    found = timeline(tables, meta=metadata(*changes), events=[undated])
    assert found.terms[2].time is None
    assert explain_loss(found, lost()).cause == "unclean-election"


@pytest.mark.parametrize(("restarted", "cause"), [((), "unclean-election"), (((3, BOOT), (3, LOADED % 1)), "unknown")])
def test_a_paused_leader_did_not_acknowledge_records_where_it_wrote_others_in_its_epoch(restarted, cause):
    """Broker 1 pauses in epoch 0. Broker 2 leads, alone. Broker 1 wakes, writes x, and is elected uncleanly.

    If it started again in epoch 0, it may have lost the records, and have written x later.
    """
    changes = (6, {"leader": 2, "isr": [2]}), (9, {"leader": -1}), (11, {"leader": 1, "isr": [1], **UNCLEAN})
    of_1 = ((0, BOOT), (0, LOADED % 0), (1, BEGAN % (1, 0, 0, 0, "1,2")), *restarted, (11, BEGAN % (1, 3, 2, 3, "1")))
    events = [server_log("1", *of_1), server_log("2", (6, BEGAN % (2, 1, 1, 1, "2")), (13, BOOT), (13, LOADED % 2))]
    faults = [fault("pause", "1", 5), fault("kill", "2", 9), fault("restart", "2", 13)]
    tables = {**logs("1: 0a 1x 2y@3\n2: 0a 1x 2y@3"), "epochs": epochs(("1", 0, 0), ("1", 3, 2))}
    found = timeline(tables, meta=metadata(*changes), events=events, faults=faults, leader="1")
    assert explain_loss(found, lost(at=8)).cause == cause
