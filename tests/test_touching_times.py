"""Operations that touch in one nanosecond overlap: either may have been first."""

from __future__ import annotations

from pathlib import Path

import pytest
from notation import judge, parse

_GROUP = "{c.group.id=g d.group.id=g}"
# A breach of each of these rules, as the last operation began after the one before it had ended.
IN_TURN = {
    "realtime-order": "p:a@5 q:b@3",
    "stale-end-offset": "p:a@0 p:b@1 end=1",
    "commit-regression": f"{_GROUP} p:a@0 p:b@1 p:e@2 c:<a@0,b@1,e@2 c:commit=3 d:commit=1",
    "commit-fenced": f"{_GROUP} p:a@0 c:group=0^5 c:<a@0 d:group=else^6 c:commit=1^5",
}


@pytest.mark.parametrize("rule", IN_TURN)
def test_operations_that_touch_in_time_are_concurrent(rule: str, tmp_path: Path) -> None:
    history = parse(IN_TURN[rule])
    assert judge(history, tmp_path / "apart").of(rule)
    history.events[-2]["time"] = history.events[-3]["time"]
    assert not judge(history, tmp_path / "touching").of(rule)


def test_an_assignment_that_takes_no_time_begins_a_hold(tmp_path: Path) -> None:
    """As in simulated histories, it ends its process's earlier assignment, not itself."""
    history = parse("{c.group.id=g d.group.id=g} p:a@0 c:group=0^5 d:group=0^5 c:<a@0 d:<a@0")
    for event, following in zip(history.events, history.events[1:], strict=False):
        if event["f"] == "assign" and event["type"] == "invoke":
            event["time"] = following["time"]
    assert judge(history, tmp_path / "at-once").of("ownership")
