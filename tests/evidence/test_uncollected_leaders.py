"""Elections of a leader without collected files: what the old leader truncated shows what its log lacked."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from logjudge import check
from logjudge.analysis.causes import explain_loss

from .replica_texts import epochs, logs
from .test_commands import Unpack
from .timelines import CUT, SECOND, fault, lost, metadata, server_log, timeline

IS_ALONE = (4, {"isr": [1]})
ELECTED = (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1})
REGISTERED = {"brokerId": 2, "brokerEpoch": 5, "incarnationId": "i", "logDirs": []}
STARTED, RESTARTED = (2, REGISTERED), (11, {**REGISTERED, "brokerEpoch": 9, "incarnationId": "j"})


@pytest.mark.parametrize("is_acknowledged", [True, False])
@pytest.mark.parametrize(
    ("changes", "cut_at", "cause"),
    [
        ((STARTED, IS_ALONE, ELECTED), 12, "unclean-election"),
        ((STARTED, IS_ALONE, ELECTED), 8, "unknown"),  # it truncated before broker 2 led
        ((STARTED, IS_ALONE, ELECTED, RESTARTED), 12, "unknown"),  # broker 2 may have lost the record at 11 s
        ((IS_ALONE, ELECTED), 12, "unknown"),  # nothing shows whether broker 2 restarted in between
    ],
)
def test_what_the_old_leader_truncated_was_not_in_the_log_of_the_new_one(changes, cut_at, cause, is_acknowledged):
    gone = lost() if is_acknowledged else replace(lost(), first_acked=None, last_acked=None, written=5 * SECOND)
    found = timeline(logs("1: 0a"), meta=metadata(*changes), events=[server_log("1", (cut_at, CUT % 1))])
    assert explain_loss(found, gone).cause == cause


def test_a_restart_in_the_history_shows_that_restarts_are_recorded():
    faults = [fault("kill", "2", 2), fault("restart", "2", 3)]
    events = [server_log("1", (12, CUT % 1))]
    found = timeline(logs("1: 0a"), meta=metadata(IS_ALONE, ELECTED), events=events, faults=faults)
    assert explain_loss(found, lost()).cause == "unclean-election"


@pytest.mark.parametrize(("acks", "cause"), [("1", "unclean-election"), ("all", "unknown")])
def test_a_follower_that_left_the_isr_before_the_read_may_never_have_had_what_acks_1_acknowledged(acks, cause):
    """The record was acknowledged at 5 s, and read after broker 2 left the ISR. No file of broker 1 was collected."""
    meta = metadata(STARTED, (7, {"isr": [1]}), ELECTED)
    tables = {**logs("2: 0a 1x@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    assert explain_loss(timeline(tables, meta=meta), lost(acks=acks)).cause == cause


def test_replicas_without_a_server_log_are_named(unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("unclean-election-a"), tmp_path / "run")
    for folder in (run / "snapshots", run / "brokers" / "1", run / "brokers" / "100"):
        shutil.rmtree(folder)
    for log in run.glob("brokers/*/*.log"):
        log.unlink()
    incidents = check(run, engine="local").incidents
    missing = [item for incident in incidents for item in incident["missing"]]
    leaders = [item for item in missing if item.startswith("the leader of orders-")]
    assert leaders
    assert all("none of these was collected of brokers 1, 2, 3" in item for item in leaders)
