"""Damage that lost records, or may have: segments that a copy of a log lacks, and copies that clients may have read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.corruption import _missing_segments
from logjudge.analysis.replicas.missing_logs import MissingLog

from .replica_texts import epochs
from .test_disk_causes import THREE, damaged
from .timelines import lost, metadata, timeline

HOLE = MissingLog("", "1", 1, 3, False, "is missing", "0.log", is_hole=True)


@pytest.mark.parametrize(
    ("about", "is_damage"),
    [
        ({}, True),
        ({"first": 2}, False),  # the first lost record was in another segment
        ({"last": 2}, False),
        ({"last": None}, False),
        ({"snapshot": "early"}, False),
        ({"is_hole": False}, False),  # after the last segment: the end of the log may not have been copied
    ],
)
def test_missing_segments_lost_records_if_they_had_all_of_them(about: dict[str, Any], is_damage: bool) -> None:
    logs = SimpleNamespace(missing=[HOLE._replace(**about)])
    held = cast(Any, SimpleNamespace(replica_logs=logs))
    assert bool(_missing_segments(held, "", lost(first=1, last=3))) == is_damage


@pytest.mark.parametrize(
    ("meta", "begun", "is_doubtful"), [(None, (), True), (metadata(), [("1", 1, 2)], True), (metadata(), (), False)]
)
def test_a_broker_with_a_damaged_copy_may_have_led_an_epoch_without_a_known_leader(meta, begun, is_doubtful):
    found = timeline({**damaged(THREE, ("2", 1, 1)), "epochs": epochs(*begun)}, meta=meta, leader="1")
    missing = explain_loss(found, lost()).missing
    assert (
        any(item.startswith("the leader of orders-0 when") and "were read" in item for item in missing) == is_doubtful
    )
