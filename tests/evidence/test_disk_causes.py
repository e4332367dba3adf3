"""Losses that disks brought about: damaged segments, and logs that came back with less."""

from __future__ import annotations

import json
import shutil

import polars as pl
import pytest
from logjudge.analysis.causes import corruption, explain_loss
from logjudge.histories.evidence.tables import DAMAGE, LOCATION, damage_row

from .test_causes import lost, metadata, timeline
from .test_commands import run
from .test_replicas import logs

THREE = "1: 0a 1b 2c\n2: 0a 1b 2c\n3: 0a 1b 2c"
TWO_LEADS = metadata((9, {"leader": 2, "isr": [2]}))


def damaged(text, *rows, kind="crc"):
    """Logs of which each row (broker, first, last) is a batch that fails its CRC, so that its records are not read."""
    tables = logs(text)
    for broker, first, last in rows:
        gone = (pl.col("broker") == broker) & pl.col("offset").is_between(first, last)
        tables["records"] = tables["records"].filter(~gone)
    found = [
        {**damage_row(kind, "the CRC is not that of the batch", 7, None, first, last), "snapshot": "", "broker": broker}
        for broker, first, last in rows
    ]
    damage = pl.DataFrame([{**row, "file": "0.log"} for row in found], schema={**LOCATION, **DAMAGE})
    return {**tables, "damage": damage}


@pytest.mark.parametrize(
    ("tables", "elections", "cause"),
    [
        (damaged(THREE, ("2", 1, 1)), TWO_LEADS, "corruption"),
        (damaged(THREE, ("2", 0, 1), ("3", 1, 1)), TWO_LEADS, "corruption"),
        # Broker 2 never led: nobody read its copy.
        (damaged(THREE, ("2", 1, 1)), metadata(), "unknown"),
        # It had led before the record was written.
        (damaged(THREE, ("1", 1, 1)), metadata((2, {"leader": 2, "isr": [2]})), "unknown"),
        # Another batch is damaged, or what is left of a killed broker's last write.
        (damaged(THREE, ("2", 0, 0)), TWO_LEADS, "unknown"),
        (damaged(THREE, ("2", 1, 1), kind="torn-tail"), TWO_LEADS, "unknown"),
        # No copy shows that the batch held the record, or another log lacks it, too.
        (damaged(THREE, ("1", 1, 1), ("2", 1, 1), ("3", 1, 1)), TWO_LEADS, "unknown"),
        (damaged("1: 0a 1b 2c\n2: 0a 1b 2c\n3: 0a", ("2", 1, 1)), TWO_LEADS, "unknown"),
        (damaged("1: 0a 1x 2c\n2: 0a 1x 2c\n3: 0a 1x 2c", ("2", 1, 1)), TWO_LEADS, "unknown"),
    ],
)
def test_a_damaged_copy_is_the_cause_where_its_broker_led_and_others_are_whole(tables, elections, cause):
    explained = explain_loss(timeline(tables, meta=elections), lost())
    assert explained.cause == cause
    if cause == "corruption":
        assert [fact.kind for fact in explained.chain] == ["elected", "damaged", "intact"]
        assert explained.chain[1].broker == "2"


def test_a_range_of_which_a_part_is_damaged_has_another_cause():
    lines = timeline(damaged(THREE, ("2", 1, 1)), meta=TWO_LEADS)
    assert explain_loss(lines, lost(first=1, last=2, values=("b", "c"))).cause == "unknown"


def test_what_was_misread_is_a_consequence_of_the_damage():
    lines = timeline(damaged(THREE, ("2", 1, 1)), meta=TWO_LEADS)
    assert corruption.explain_read(lines, 1).proved
    assert not corruption.explain_read(lines, 2).proved


def test_the_diff_of_a_damaged_log_is_not_the_same(unpacked, tmp_path):
    root = tmp_path / "run"
    shutil.copytree(unpacked("clean-a"), root)
    segment = root / "brokers" / "2" / "data" / "orders-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[100] ^= 1
    segment.write_bytes(data)
    told = run("diff", root, "orders-0")
    assert told.return_value == 1
    assert "broker 2 DAMAGED at offset" in told.output
    assert "  the same\n" not in told.output
    [part] = json.loads(run("diff", root, "orders-0", "--json").stdout)
    assert [(row["broker"], row["is_corrupt"]) for row in part["snapshots"][0]["damage"]] == [("2", True)]
