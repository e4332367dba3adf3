"""Parts of losses: those of different causes or elections, and those that lack the same evidence."""

from __future__ import annotations

from typing import Any

import pytest
from logjudge.analysis.incidents.incident import Explained
from logjudge.analysis.incidents.joining import incidents_of
from test_incidents import KILL, LOST, cause, finding, joined, of_partition


@pytest.mark.parametrize(("offset", "count"), [(610, 30), (300, 346), (900, 346), (None, 346)])
def test_a_consequence_belongs_to_the_part_of_a_loss_at_its_offsets_else_to_the_largest(
    offset: Any, count: int
) -> None:
    tail = cause(lost={**LOST, "first": 601, "count": 30}, cause="log-rolled-back")
    about = {"first_offset": offset, "last_offset": offset, "related": ["lost-write/orders-0/0"]}
    follows = finding("checkpoint-order/orders-0/0", **about)
    found = joined([cause(lost={**LOST, "last": 600, "count": 346}), tail], follows)
    assert [one.records for one in found if follows.id in one.findings] == [count]


@pytest.mark.parametrize(("seconds", "records"), [(3, [346, 30]), (1, [376])])
def test_records_of_one_finding_that_two_elections_lost_are_two_incidents(seconds: int, records: list[int]) -> None:
    """Unless both followed from one event."""
    first = {**KILL, "kind": "elected", "epoch": 5, "says": "broker 2 was elected"}
    second = {**first, "epoch": 6, "time": KILL["time"] + seconds * 10**9, "says": "broker 3 was elected"}
    parts = [
        cause(lost={**LOST, "last": 600, "count": 346}, chain=[first]),
        cause(lost={**LOST, "first": 601, "count": 30}, chain=[second]),
    ]
    incidents = joined(parts)
    assert [one.records for one in incidents] == records
    assert [fact.epoch for one in incidents for fact in one.chain] == [5, 6]


def test_losses_of_a_partition_that_lack_the_same_evidence_are_one_incident() -> None:
    def part(partition: int, number: int, missing: str) -> dict[str, Any]:
        lost = {**LOST, "partition": partition, "first": 9 * number, "last": 9 * number, "count": 1}
        about = {"cause": "unknown", "chain": [], "missing": [missing]}
        return cause(findings=[f"lost-write/orders-{partition}/{number}"], lost=lost, **about)

    parts = [*(part(0, n, "a log") for n in range(5)), part(0, 5, "an epoch"), part(1, 0, "a log")]
    permitted = [finding(f"lost-write/orders-0/{number}", severity="permitted") for number in (3, 4)]
    first, *others = joined(parts, *permitted)
    assert (first.records, len(first.findings), first.missing) == (3, 3, ("a log",))
    assert "orders-0 at offsets 0 to 18 in 3 ranges" in first.headline
    assert [(one.records, one.missing[0], one.severity) for one in others] == [
        (1, "an epoch", "violation"),
        (1, "a log", "violation"),
        (2, "a log", "permitted"),
    ]


def test_losses_of_a_partition_without_brokers_files_are_one_incident() -> None:
    rows = [finding(f"lost-write/orders-0/{n}", first_offset=2 * n, last_offset=2 * n, count=1) for n in range(150)]
    first, second = incidents_of([*rows, finding("lost-write/orders-1/0", count=3)], [])
    assert (first.records, second.records) == (150, 3)
    assert "orders-0 at offsets 0 to 298 in 150 ranges" in first.headline


@pytest.mark.parametrize(
    ("rule", "first", "records"),
    [
        ("acknowledged-absent", 300, 376),  # the brokers' logs show the same records
        ("acknowledged-absent", 700, 378),
        ("lost-write", 300, 378),  # records of another acks between those of the first
    ],
)
def test_records_that_clients_and_logs_show_count_once(rule: str, first: int, records: int) -> None:
    more = f"{rule}/orders-0/1"
    part = cause(findings=[more], lost={**LOST, "first": first, "last": first + 2, "count": 2})
    [incident] = joined([part, cause()], finding(more, related=["lost-write/orders-0/0"]))
    assert incident.records == records


def test_explanations_of_other_findings_make_no_incident() -> None:
    other = of_partition(1, cause="log-rolled-back")
    [incident] = incidents_of([finding()], map(Explained.from_record, [cause(), other]))
    assert incident.findings == ("lost-write/orders-0/0",)


def test_unexplained_consequences_belong_to_their_loss_that_has_no_explanation() -> None:
    rules = "checkpoint-order", "epoch-order"
    follow = [finding(f"{rule}/orders-0/0", related=["lost-write/orders-0/0"]) for rule in rules]
    about = {"lost": None, "cause": "unknown", "chain": [], "missing": ["a log"]}
    [incident] = joined([cause(findings=[one.id], **about) for one in follow], finding(), *follow)
    assert len(incident.findings) == 3
