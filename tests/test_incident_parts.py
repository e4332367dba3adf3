"""Losses of one event with different causes: to which part of the loss its consequences belong."""

from __future__ import annotations

from typing import Any

import pytest
from test_incidents import LOST, cause, finding, joined


@pytest.mark.parametrize(("offset", "count"), [(610, 30), (300, 346), (900, 346), (None, 346)])
def test_a_consequence_belongs_to_the_part_of_a_loss_at_its_offsets_else_to_the_largest(
    offset: Any, count: int
) -> None:
    tail = cause(lost={**LOST, "first": 601, "count": 30}, cause="log-rolled-back")
    about = {"first_offset": offset, "last_offset": offset, "related": ["lost-write/orders-0/0"]}
    follows = finding("checkpoint-order/orders-0/0", **about)
    found = joined([cause(lost={**LOST, "last": 600, "count": 346}), tail], follows)
    assert [one.records for one in found if follows.id in one.findings] == [count]
