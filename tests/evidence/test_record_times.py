"""The times of records, which producers choose, in what `explain` and `diff` print."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import invoke


@pytest.mark.parametrize(("started", "date"), [("2026-11-21", ""), ("2099-01-01", "2026-11-21 ")])
def test_a_time_of_a_record_has_its_date_if_that_is_not_the_date_of_the_run(
    unpacked: Callable[[str], Path], tmp_path: Path, started: str, date: str
) -> None:
    run_folder = shutil.copytree(unpacked("unclean-election-a"), tmp_path / "run")
    config = json.loads((run_folder / "run.json").read_text())
    config["started_at"] = f"{started}T09:00:00.000Z"
    (run_folder / "run.json").write_text(json.dumps(config))
    time = r"(2026-11-21 )?\d\d:\d\d:\d\d\.\d{3}Z? +"
    shown = re.findall(rf"broker \d +\d+ +{time}", invoke("explain", run_folder, "orders-0@300").stdout)
    compared = re.findall(rf"\be\d+ {time}", invoke("diff", run_folder, "orders-0").stdout)
    assert shown
    assert compared
    assert {*shown, *compared} == {date}
