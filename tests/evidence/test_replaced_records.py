"""Replaced records that were not acknowledged, and the words for lost ones that some replica still has."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.incidents.explaining import explain
from logjudge.analysis.incidents.joining import incidents_of
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.rules import RULES
from logjudge.analysis.rules.send_evidence import proof_of_loss
from logjudge.analysis.verdict.consequences import findings_of
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS

from .replica_texts import logs
from .timelines import AFTER, SECOND, UNCLEAN, timeline


def read_twice(*polls, held):
    """A partition that a consumer polled: the offset, value and second of each record."""
    about = {"process": "c", "outcome": "ok", "txn": False, "exempt": False, "index": 0}
    reads = [
        {**about, "invoked": int(at * SECOND) - 1, "completed": int(at * SECOND), "invoked_at": at, "at": at}
        | {"offset": offset, "value": value}
        for offset, value, at in polls
    ]
    frames = pl.DataFrame(schema=SENDS), pl.DataFrame(reads, schema=READS)
    return Partition("orders", 0, Settings(), *frames, replica_logs=held.replica_logs, timeline=held)


@pytest.mark.parametrize(
    ("read_at", "again", "cause"),
    [
        (5, "x", "unclean-election"),
        (5, "y", "unknown"),  # the leader's log has neither of them
        (10, "x", "unknown"),  # broker 2, which never had it, led already
    ],
)
def test_a_record_that_was_read_and_replaced_was_taken_by_the_unclean_election(read_at, again, cause):
    """The record of a transaction that aborts, which a read_uncommitted consumer had read."""
    p = read_twice((1, "b", read_at), (1, again, 12), held=timeline(AFTER, meta=UNCLEAN))
    names = ("inconsistent-offsets", "nonmonotonic-poll")
    findings, explained = explain(p, findings_of(p, {name: RULES[name].judges["native"](p) for name in names}))
    assert [finding.rule for finding in findings] == [*names]
    incidents = [one for one in incidents_of(findings, explained) if one.findings]
    assert {one.cause for one in incidents} == {cause}
    assert incidents[0].headline == f"orders-0@1 held b and {again}"
    assert len(incidents) == (2 if cause == "unknown" else 1)


@pytest.mark.parametrize(
    ("held", "text"),
    [
        ("1: 0a\n2: 0a 1b", "the last log of broker 1, the last leader, does not have it"),
        ("1: 0a\n2: 0a", "the brokers' last logs do not have it"),
    ],
)
def test_a_loss_names_the_leader_if_another_replica_has_the_record(held, text):
    """The last leader started with an older log, and no leader has been elected since."""
    replica_logs = timeline(logs(held), leader="1").replica_logs
    sends = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
    partition = Partition("orders", 0, Settings(), *sends, replica_logs=replica_logs)
    proofs = dict.fromkeys(("replaced", "displaced", "shrunk", "absent"), False)
    run = pl.DataFrame([{"offset": 1, "value": "b", "other": None, **proofs, "not_in_logs": True}])
    assert proof_of_loss(partition, run) == text
