"""How findings of aborted-read count what aborted or failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from notation import judge


@pytest.mark.parametrize(
    ("history", "outcome"),
    [
        ("{c.isolation.level=read_committed} p:(a@0,b@1)! c:<a@0,b@1", "the transaction aborted"),
        ("{c.isolation.level=read_committed} p:(a@0)! p:(b@2)! c:<a@0,b@2", "the 2 transactions aborted"),
        ("p:a! c:<a@0", "the send failed"),
        ("p:a! p:b! c:<a@0,b@1", "the 2 sends failed"),
    ],
)
def test_the_number_of_transactions_and_sends_is_named(history: str, outcome: str, tmp_path: Path) -> None:
    [finding] = [one for one in judge(history, tmp_path).findings if one["rule"] == "aborted-read"]
    assert finding["sentence"].endswith(f"but {outcome}")
