"""Incidents of what coordinators lost, with the truncation of their log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from logjudge.analysis.incidents.incident import Explained
from logjudge.analysis.incidents.joining import incidents_of
from logjudge.histories.tables import Finding

FINDING = Finding(
    *("commit-regression", "a committed offset went back", "orders", 0),
    first_offset=1,
    last_offset=4,
    id="commit-regression/orders-0/0",
)


def fact(kind: str, second: int, **changed: Any) -> dict[str, Any]:
    record = {"says": f"{kind} {second}", "time": second * 10**9, "source": None, "line": None, "byte": None}
    return {**record, "kind": kind, **changed}


def explanation(cause: str, *chain: dict[str, Any], findings: tuple[str, ...] = ()) -> dict[str, Any]:
    about = {"findings": list(findings), "says": cause, "lost": None, "cause": cause, "chain": list(chain)}
    return {**about, "prevented_by": [f"no {cause}"], "citation": "", "missing": [], "readings": []}


def truncation(second: int, log: str = "__consumer_offsets-0") -> dict[str, Any]:
    return explanation("unclean-election", fact("elected", second, partition=log))


OLDER = fact("committed", 1, source="brokers/1/data/__consumer_offsets-0/0.log", byte=7)
NEXT, REMOVED = ({**OLDER, "kind": kind, "time": 40 * 10**9} for kind in ("committed", "removed"))
COMMITTED, ASSIGNED = fact("committed", 5, source="history.jsonl"), fact("assigned", 20, source="history.jsonl")
BEGAN = fact("began", 50, source="history.jsonl")


@pytest.mark.parametrize(
    ("chain", "election", "is_one"),
    [
        ([OLDER, COMMITTED, ASSIGNED], truncation(10), True),
        ([OLDER, COMMITTED], truncation(30), True),  # no later assignment is recorded
        ([OLDER, COMMITTED, ASSIGNED], truncation(3), False),
        ([OLDER, COMMITTED, ASSIGNED], truncation(30), False),
        ([OLDER, COMMITTED, ASSIGNED], truncation(10, "__consumer_offsets-1"), False),
        ([COMMITTED, ASSIGNED], truncation(10), False),
    ],
)
def test_a_truncation_of_consumer_offsets_is_one_incident_with_the_commits_that_it_lost(
    chain: list[dict[str, Any]], election: dict[str, Any], is_one: bool
) -> None:
    lost = explanation("commits-lost", *chain, findings=(FINDING.id,))
    of_group, *others = incidents_of([FINDING], map(Explained.from_record, [lost, election]))
    assert len(others) == (not is_one)
    assert (of_group.cause, of_group.prevented_by) == ("commits-lost", ("no commits-lost",))
    assert ("elected" in [step.kind for step in of_group.chain]) == is_one


@pytest.mark.parametrize(
    ("chain", "second", "is_one"),
    [
        ([COMMITTED, NEXT, ASSIGNED, BEGAN], 10, True),
        ([COMMITTED, NEXT, ASSIGNED, BEGAN], 30, False),  # the offset had vanished before
        ([COMMITTED, ASSIGNED, BEGAN], 10, False),  # the log of the group is not known
        ([COMMITTED, NEXT, REMOVED, ASSIGNED, BEGAN], 10, False),  # it had expired
    ],
)
def test_a_truncation_of_consumer_offsets_is_one_incident_with_the_offset_that_vanished(
    chain: list[dict[str, Any]], second: int, is_one: bool
) -> None:
    finding = replace(FINDING, id="consumer-loss/orders-0/0", rule="consumer-loss")
    vanished = explanation("committed-offset-vanished", *chain, findings=(finding.id,))
    of_group, *others = incidents_of([finding], map(Explained.from_record, [vanished, truncation(second)]))
    assert len(others) == (not is_one)
    assert of_group.cause == "committed-offset-vanished"
    assert ("elected" in [step.kind for step in of_group.chain]) == is_one
