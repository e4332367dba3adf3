"""Large logs, compared by the headers of their batches, give the findings that whole decoding gives."""

from __future__ import annotations

import shutil
from dataclasses import replace

import polars as pl
import pytest
from command_line import thinned
from logjudge.analysis.engines.local import gather, judge_run
from logjudge.analysis.inspect.offset_history import UNDECODED, offset_history
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.analysis.replicas.identical_batches import split_identical_batches
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.layout import with_headers_first


def judged(folder):
    results = judge_run(open_run(folder))
    counts = [{**summary["counts"], "unjudged": summary["unjudged"]} for summary in results.summaries]
    return results.findings(), results.causes(), counts


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "below"),
    [("acks1-failover-a", ""), ("unclean-election-t", ""), ("unclean-election-t", "snapshots/before-rejoin")],
)
def test_findings_are_the_same(unpacked, monkeypatch, name, below):
    whole = judged(unpacked(name) / below)
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "1")
    run = open_run(unpacked(name) / below)
    assert {part.kind for part in run.evidence if part.path.stem.isdigit()} == {"headers"}
    judged_run = judged(unpacked(name) / below)
    assert judged_run[0].equals(whole[0])
    assert judged_run[1:] == whole[1:]


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


def test_only_what_differs_is_decoded_and_the_rest_is_ranges():
    logs = pl.concat([batches("1", 5, 6, 7, 8), batches("2", 5, 66, 7)])
    chosen, identical = split_identical_batches(logs, has_history=False)
    # Their neighbours show where replicas agree again.
    assert sorted(chosen.select("base_offset", "crc").rows()) == [(0, 5), (10, 6), (10, 66), (20, 7)]
    ranges = identical.select("broker", "first_offset", "last_offset", "records").rows()
    # The tail that one replica alone reaches diverges from nothing.
    assert ranges == [("1", 30, 39, 10)]


def test_batches_that_differ_in_one_snapshot_are_decoded_in_all():
    then = pl.concat([batches("1", 5, 6, 7, 8, 9), batches("2", 5, 6, 77, 8, 9)])
    now = pl.concat([batches("1", 5, 6, 7, 8, 9), batches("2", 5, 6, 7, 8, 9)])
    logs = pl.concat([then.with_columns(snapshot=pl.lit("then")), now])
    _, identical = split_identical_batches(logs, has_history=False)
    ranges = {(row["first_offset"], row["last_offset"]) for row in identical.iter_rows(named=True)}
    assert ranges == {(0, 9), (40, 49)}
    assert len(identical) == 8
    chosen, _ = split_identical_batches(logs, has_history=True)
    assert sorted(chosen.filter(~pl.col("whole"))["base_offset"]) == [0, 0, 40, 40]


def test_batches_that_overlap_within_a_log_are_decoded():
    log = batches("1", 5, 6, 7, 8).with_columns(
        pl.when(pl.col("base_offset") == 0).then(25).otherwise("last_offset").alias("last_offset")
    )
    _, identical = split_identical_batches(log, has_history=False)
    assert not len(identical)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["transactions-a", "retention-a"])
def test_a_history_of_few_records_decodes_few_batches(unpacked, monkeypatch, tmp_path, name):
    """Findings, causes and summaries are the same, though most records are only known as ranges."""
    folder = thinned(shutil.copytree(unpacked(name), tmp_path / "run"))
    whole = judge_run(open_run(folder))
    decoded = sum(summary["evidence"]["records"] for summary in whole.summaries if summary["evidence"])
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "1")
    results = judge_run(open_run(folder))
    assert results.findings().equals(whole.findings())
    assert results.causes() == whole.causes()
    assert results.summaries == whole.summaries
    units = gather(open_run(folder)).units.values()
    assert sum(len(frame) for tables in units for frame in tables.get("records", ())) < decoded * 2 / 3


def test_with_a_history_one_copy_is_decoded_for_all_that_hold_it():
    chosen, identical = split_identical_batches(pl.concat([batches("1", 5, 6), batches("2", 5, 66)]), has_history=True)
    assert not len(identical)
    copies = {row["crc"]: [copy["broker"] for copy in row["copies"]] for row in chosen.iter_rows(named=True)}
    assert copies == {5: ["1", "2"], 6: ["1"], 66: ["2"]}


def test_an_offset_that_is_not_decoded_is_reported_as_present(unpacked, monkeypatch, tmp_path):
    """Without a history a folder of brokers has ranges that were not decoded."""
    shutil.copytree(unpacked("acks1-failover-a") / "brokers", tmp_path / "brokers")
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "1")
    opened = Inspected(tmp_path)
    p = opened.partition("orders-0")
    locate = opened.results.locator()
    history = offset_history(p, int(p.replica_logs.identical["first_offset"][0]), locate)
    assert {row["why_not"] for row in history.held} == {UNDECODED}
    assert history.absence is None
    beyond = int(p.replica_logs.batches["last_offset"].max()) + 1
    assert offset_history(p, beyond, locate) is None


def test_explained_offsets_are_decoded_beside_a_history(unpacked, monkeypatch, tmp_path):
    folder = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    next(folder.glob("history.jsonl*")).unlink()
    (folder / "history.jsonl").write_text('{"process": "p", "op": 0, "f": "poll", "type": "invoke", "time": 0}\n')
    monkeypatch.setenv("LOGJUDGE_LARGE_BYTES", "1")
    for offset in (None, 40):
        opened = Inspected(folder, offset=offset)
        history = offset_history(opened.partition("orders-0"), 40, opened.results.locator())
        holds = [row["holds"] for row in history.held]
        assert [one is not None and one["value"] is not None for one in holds] == [offset is not None] * len(holds)


def test_segments_with_a_dump_are_decoded(unpacked):
    parts = open_run(unpacked("acks1-failover-a")).evidence
    segment = next(part for part in parts if part.kind == "segment" and part.end)
    other = replace(segment, topic="other")
    dump = replace(segment, kind="dump", broker="9")
    ordered = with_headers_first([segment, other, dump], 0)
    assert [part.kind for part in ordered] == ["segment", "headers", "dump"]
    nameless = replace(dump, topic=None, partition=None)
    assert with_headers_first([segment, nameless], 0) == [segment, nameless]


def test_all_segments_together_make_a_run_large(unpacked):
    parts = open_run(unpacked("acks1-failover-a")).evidence
    total = sum((part.end or 0) - part.start for part in parts if part.kind == "segment")
    assert with_headers_first(parts, total) == list(parts)
    assert {part.kind for part in with_headers_first(parts, total - 1)} >= {"headers"}
    assert "segment" not in {part.kind for part in with_headers_first(parts, total - 1)}
