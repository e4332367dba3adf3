"""Partitions and offsets that a test hands to `Recorder`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from logjudge.histories.errors import UsageError
from logjudge.histories.recording.recorder import Recorder


@pytest.mark.parametrize("arguments", [("0", "1"), (0, 1.5), ({}, None)])
def test_a_wrong_place_of_a_send_is_refused_and_leaves_it_open(tmp_path: Path, arguments: tuple[Any, Any]) -> None:
    recorder = Recorder(tmp_path / "run")
    with pytest.raises(UsageError, match="expected an integer or None"), recorder.send("p0", "orders", "a") as op:
        op.ok(*arguments)
    lines = (recorder.finish() / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["invoke", "info"]


def test_a_place_may_be_an_integer_of_numpy(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run")
    recorder.send("p0", "orders", "a").ok(np.int64(0), np.int64(7))
    last = (recorder.finish() / "history.jsonl").read_text().splitlines()[-1]
    assert (json.loads(last)["partition"], json.loads(last)["offset"]) == (0, 7)
