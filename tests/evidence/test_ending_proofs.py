"""Which marker ended a transaction's records: an operator's, a repeated one, or the next one after a late write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from logjudge.analysis.causes import late_write, operator_abort, repeated_marker
from logjudge.analysis.causes.transaction_part import TransactionPart


def marker(offset: int, outcome: str, epoch: int = 0) -> dict[str, Any]:
    place = {"marker_file": "0.log", "marker_byte": offset, "marker_ns": offset}
    return {"marker": offset, "outcome": outcome, "marker_epoch": epoch, **place}


DECISION = {"transactional_id": "t", "outcome": "commit", "prepared_ns": 7}
DECISION |= {"file": "t/0.log", "prepared_file": "0.log", "prepared_byte": 1}
# The coordinator committed the transaction of the record at offset 5; its marker is at offset 8, after an ABORT.
PART = TransactionPart(
    "orders",
    0,
    process="t",
    producer=7,
    first=5,
    last=5,
    values=("a",),
    created=None,
    record={"file": "0.log", "byte": 5, "producer_epoch": 0},
    decision=DECISION,
    older_transaction=None,
    emptied_state=None,
    own_marker=marker(8, "commit"),
    ending_marker=marker(6, "abort"),
    repeated_marker=None,
    is_whole_log=True,
)


@pytest.mark.parametrize(
    ("about", "cause"),
    [
        ({}, operator_abort),
        ({"ending_marker": marker(6, "abort", epoch=1)}, None),  # the coordinator's, as it fenced the producer
        ({"ending_marker": marker(6, "commit")}, None),  # operators only abort
        ({"decision": {**DECISION, "outcome": "abort"}, "own_marker": marker(8, "abort")}, None),
        ({"is_whole_log": False}, None),  # it may repeat a marker that is no longer there
        ({"repeated_marker": marker(3, "abort")}, repeated_marker),
        ({"own_marker": marker(4, "commit")}, late_write),
        ({"own_marker": marker(4, "commit"), "repeated_marker": marker(3, "abort")}, late_write),
    ],
)
def test_one_cause_ends_records_otherwise_than_decided(about: dict[str, Any], cause: Any) -> None:
    part = replace(PART, **about)
    causes = operator_abort, repeated_marker, late_write
    assert [one for one in causes if one.explain_ending(part).is_proved] == ([] if cause is None else [cause])
