"""Copies of lost records in collected logs: snapshots, leftover folders, and logs that differ from the leader's."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import polars as pl
import pytest
from logjudge.analysis.causes.cases import LostRange
from logjudge.analysis.incidents.explaining import remaining_copies
from logjudge.analysis.replicas.replica_logs import replica_logs_of

from .replica_texts import joined, logs
from .test_commands import Unpack, check


def test_the_logs_with_the_most_lost_values_come_first() -> None:
    tables = joined(logs("1: 0a 1b 2c\n2: 0a 1b", "early"), logs("1: 0a 1x\n2: 0a 1x\n3: 0a 1b"))
    in_place = {"early/1": "s/1/x-0", "early/2": "s/2/x-0", "/1": "1/x-0", "/2": "2/x-0", "/3": "3/x-0"}
    place = pl.concat_str("snapshot", "broker", separator="/").replace_strict(in_place, default=None)
    tables["records"] = tables["records"].with_columns(file=place + f"/{0:020d}.log")
    held = replica_logs_of("x", 0, tables)
    assert remaining_copies(held, ("b", "c", "z")) == (("s/1/x-0", 2), ("3/x-0", 1), ("s/2/x-0", 1))
    assert remaining_copies(held, ("z",)) == ()
    assert remaining_copies(None, ("b",)) == ()


def test_a_range_is_the_same_after_json() -> None:
    lost = LostRange("orders", 0, 1, 2, 2, None, copies=(("brokers/1/data/orders-0", 2),))
    assert LostRange.from_record(json.loads(json.dumps(asdict(lost)))) == lost


@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_report_names_the_copies_of_lost_records(has_snapshots: bool, unpacked: Unpack, tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    if not has_snapshots:
        for folder in (run / "snapshots", run / "dump"):
            shutil.rmtree(folder, ignore_errors=True)
    _, verdict = check(run, tmp_path / "out")
    [lost] = [lost for incident in verdict["incidents"] for lost in incident["lost"]]
    folder = "snapshots/before-rejoin/brokers/3/data/orders-0"
    assert ([folder, 597] in lost["copies"]) == has_snapshots
    for name in ("report.md", "report.html"):
        report = (tmp_path / "out" / name).read_text()
        assert (f"{folder} (597 records)" in report) == has_snapshots
        assert ("no collected log has a copy of the lost records" in report) != has_snapshots
