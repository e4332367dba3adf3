"""Large logs, compared by the headers of their batches, give the findings that whole decoding gives."""

from __future__ import annotations

import shutil

import polars as pl
import pytest
from logjudge.analysis.inspecting import Inspected
from logjudge.analysis.local import judge_run
from logjudge.analysis.offset_story import UNDECODED, offset_story
from logjudge.analysis.sealing import sealed_batches
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.layout import with_headers_first


def judged(folder):
    results = judge_run(open_run(folder))
    counts = [{**summary["counts"], "unjudged": summary["unjudged"]} for summary in results.summaries]
    return results.findings(), results.causes(), counts


@pytest.mark.parametrize("below", ["", "snapshots/before-rejoin"])
@pytest.mark.parametrize("name", ["acks1-failover-a", "unclean-election-t"])
def test_findings_are_the_same(unpacked, monkeypatch, name, below):
    whole = judged(unpacked(name) / below)
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "1")
    run = open_run(unpacked(name) / below)
    assert {part.kind for part in run.evidence if part.path.stem.isdigit()} == {"headers"}
    sealed = judged(unpacked(name) / below)
    assert sealed[0].equals(whole[0])
    assert sealed[1:] == whole[1:]


def batches(broker, *crcs, path="x"):
    rows = [
        {"snapshot": "", "broker": broker, "file": f"{broker}.log", "path": path, "base_offset": 10 * n, "crc": crc}
        for n, crc in enumerate(crcs)
    ]
    return pl.DataFrame(rows).with_columns(
        (pl.col("base_offset") + 9).alias("last_offset"),
        (pl.col("base_offset") * 100).alias("byte"),
        pl.lit(1000).alias("size"),
        pl.lit(0).alias("leader_epoch"),
        pl.lit(2).alias("magic"),
        pl.lit(10).alias("count"),
        pl.lit(True).alias("crc_ok"),
    )


def test_only_what_differs_is_decoded_and_the_rest_is_told_as_ranges():
    logs = pl.concat([batches("1", 5, 6, 7, 8), batches("2", 5, 66, 7)])
    chosen, sealed = sealed_batches(logs, history=False)
    assert sorted(chosen.select("base_offset", "crc").rows()) == [(10, 6), (10, 66)]
    told = sealed.select("broker", "first_offset", "last_offset", "records").rows()
    # The tail that one replica alone reaches diverges from nothing.
    assert told == [("1", 0, 9, 10), ("1", 20, 39, 20), ("2", 0, 9, 10), ("2", 20, 29, 10)]


def test_with_a_history_one_copy_is_decoded_for_all_that_hold_it():
    chosen, sealed = sealed_batches(pl.concat([batches("1", 5, 6), batches("2", 5, 66)]), history=True)
    assert not len(sealed)
    copies = {row["crc"]: [copy["broker"] for copy in row["copies"]] for row in chosen.iter_rows(named=True)}
    assert copies == {5: ["1", "2"], 6: ["1"], 66: ["2"]}


def test_an_offset_that_is_not_decoded_is_told_as_held(unpacked, monkeypatch, tmp_path):
    """Without a history a folder of brokers has ranges that nobody decoded."""
    shutil.copytree(unpacked("acks1-failover-a") / "brokers", tmp_path / "brokers")
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "1")
    opened = Inspected(tmp_path)
    p = opened.partition("orders-0")
    story = offset_story(p, int(p.kept.sealed["first_offset"][0]), [], [])
    assert {row["why_not"] for row in story["held"]} == {UNDECODED}
    assert story["absence"] is None
    beyond = int(p.kept.batches["last_offset"].max()) + 1
    assert offset_story(p, beyond, [], []) is None


def test_all_segments_together_make_a_run_large(unpacked):
    parts = open_run(unpacked("acks1-failover-a")).evidence
    total = sum((part.end or 0) - part.start for part in parts if part.kind == "segment")
    assert with_headers_first(parts, total) == list(parts)
    assert {part.kind for part in with_headers_first(parts, total - 1)} >= {"headers"}
    assert "segment" not in {part.kind for part in with_headers_first(parts, total - 1)}
