"""Large logs, compared by the headers of their batches, give the findings that whole decoding gives."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.local import judge_run
from logjudge.analysis.sealing import sealed_batches
from logjudge.histories.bundle import open_run


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
