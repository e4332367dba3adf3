"""Elections by the record that ends a reassignment: the new leader joins the ISR by the same record."""

from __future__ import annotations

import pytest

from .replica_texts import logs
from .timelines import metadata, server_log, timeline


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
