"""The sample lines of docs/format.md are read, and there is one of every `f`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from logjudge.analysis.engines.local import judge_run
from logjudge.histories.bundle import open_run
from logjudge.histories.tables import FUNCTIONS

PAGE = Path(__file__).parents[1] / "docs" / "format.md"


def sample_lines() -> list[str]:
    section = PAGE.read_text().split("## Sample lines")[1]
    block = re.search(r"```json\n(.*?)```", section, re.DOTALL)
    assert block
    return block[1].splitlines()


def test_a_sample_line_of_every_f() -> None:
    assert {json.loads(line)["f"] for line in sample_lines()} == set(FUNCTIONS)


def test_no_sample_line_is_quarantined(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    history.write_text("\n".join(sample_lines()) + "\n")
    results = judge_run(open_run(history))
    assert results.left_out == 0
    assert results.counts["operations"] == 13
