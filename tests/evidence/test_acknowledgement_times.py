"""Losses in transactions of clients that report a send only after the end of its transaction."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.incidents.losses import _times_of_leaders, explain_losses
from logjudge.analysis.replicas.replica_logs import complete_sends
from logjudge.histories.tables import Finding

from .replica_texts import joined, logs
from .timelines import AFTER, BEGAN, LOADED, SECOND, UNCLEAN, epochs, fault, lost, metadata, server_log, timeline

BEFORE = logs("1: 0a 1b", "mid")
HELD = {**joined(BEFORE, logs("1: 0a 1x@1\n2: 0a 1x@1")), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
MID = {"snapshots": ("mid", ""), "times": {"mid": 8 * SECOND}}
# The ISR was [1, 2] until broker 2 left it at 4 s, and broker 2 was elected at 9 s.


def explained(found, invoked, ended, **changed):
    send = {"value": "b", "offset": 1, "acks": "all", "acknowledged": True, "txn": True, "place": 7}
    times = {"invoked": invoked * SECOND, "completed": ended * SECOND}
    sends = complete_sends(pl.DataFrame([{**send, **times, **changed}]))
    finding = Finding("lost-write", "", "orders", 0, first_offset=1, last_offset=1, values=["b"])
    ((_, part, explanation),) = explain_losses(found, [finding], sends)
    return part, explanation


def test_an_election_before_the_end_of_a_transaction_is_the_cause_if_a_log_held_its_records_before():
    found = timeline(HELD, MID, UNCLEAN)
    part, explanation = explained(found, 5, 20)
    assert explanation.cause == "unclean-election"
    # If it was acknowledged when the transaction ended, broker 2 had acknowledged it.
    assert explain_loss(timeline(AFTER, meta=UNCLEAN), lost(at=20)).cause == "unknown"
    # The report names the end of the transaction, and does not call it an acknowledgement before the loss.
    assert part.reported_at == (20 * SECOND, 20 * SECOND)
    assert [fact.time for fact in explanation.chain if fact.kind == "committed-transaction"] == [20 * SECOND]
    assert "commit of a transaction with records with acks=all of offset 1" in explanation.chain[-1].sentence


@pytest.mark.parametrize(
    ("invoked", "ended", "changed", "times"),
    [
        # A leader can acknowledge until the next one is elected, or until it dies.
        (2, 20, {}, (2, 6)),
        # The client reported it before, or a consumer read it before.
        (2, 5, {}, (2, 5)),
        (2, 20, {"first_read": 3 * SECOND}, (2, 3)),
        # Its transaction began after the leader's death: the clocks disagree.
        (7, 20, {}, (20, 20)),
        # The client reported the acknowledgement of the send itself.
        (2, 20, {"txn": False}, (20, 20)),
    ],
)
def test_bounds_of_the_time_of_an_acknowledgement(invoked, ended, changed, times):
    found = timeline(HELD, MID, UNCLEAN, faults=[fault("kill", "1", 6)])
    part, _ = explained(found, invoked, ended, **changed)
    assert (part.first_acked, part.last_acked) == tuple(time * SECOND for time in times)


@pytest.mark.parametrize(("ended", "times"), [(8, (5, 8)), (4.5, (4, 4.5))])
def test_a_leader_that_was_elected_cleanly_wrote_what_an_open_transaction_has_at_or_above_its_start(ended, times):
    """Broker 2 is elected at 5 s, and broker 1 at 9 s from outside the ISR. Both lead from offset 1."""
    meta = metadata((5, {"leader": 2, "isr": [2]}), (9, {"leader": 1, "isr": [1], "leaderRecoveryState": 1}))
    begun = epochs(("1", 0, 0), ("1", 2, 1), ("2", 0, 0), ("2", 1, 1))
    found = timeline({**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": begun}, meta=meta, leader="1")
    part, explanation = explained(found, 4, ended)
    assert (part.first_acked, part.last_acked) == tuple(time * SECOND for time in times)
    assert (explanation.cause == "unclean-election") == (ended == 8)


@pytest.mark.parametrize(
    ("loads", "invoked", "ended", "times"),
    [
        ((3,), 5, 20, (5, 6)),
        ((), 5, 20, (5, 20)),  # the starts of broker 2 are not recorded
        ((3, 12), 5, 20, (5, 20)),  # it may have lost its tail, and appended another record at that offset
        ((3, 22), 5, 20, (5, 6)),
        ((3,), 10, 20, (10, 20)),  # the transaction began after its election
        ((3,), 5, 8, (5, 8)),
    ],
)
def test_a_leader_that_appended_another_record_there_did_not_write_the_lost_one(loads, invoked, ended, times):
    """Broker 1 died at 6 s. Broker 2 was elected at 9 s without the record, and has another one there."""
    log = [server_log("2", *((at, LOADED % 1) for at in loads))] if loads else []
    found = timeline(AFTER, meta=UNCLEAN, events=log, faults=[fault("kill", "1", 6)])
    part, explanation = explained(found, invoked, ended)
    assert (part.first_acked, part.last_acked) == tuple(time * SECOND for time in times)
    assert explanation.cause == ("unknown" if times[1] == 20 else "unclean-election")


@pytest.mark.parametrize(
    ("epoch", "offset", "began", "gone"),
    [
        (0, 7, 1, 8),  # the leader of epoch 1 began above it, so it still had it
        (0, 9, 1, 4),
        (0, 4, 1, None),
        (1, 9, 4, 8),
        (2, 9, None, None),  # not recorded
    ],
)
def test_a_record_was_acknowledged_in_its_epoch_and_before_a_leader_began_without_it(epoch, offset, began, gone):
    """Epoch 0 began at 1 s from offset 0, epoch 1 at 4 s from offset 9, and epoch 3 at 8 s from offset 5."""
    terms = (1, "1", 0, 0), (4, "2", 1, 9), (8, "3", 3, 5)
    events = [server_log(name, (at, BEGAN % (int(name), number, start, 0, name))) for at, name, number, start in terms]
    times = began and began * SECOND, gone and gone * SECOND - 1
    assert _times_of_leaders(timeline({}, events=events), epoch, offset, 0, 20 * SECOND) == times
