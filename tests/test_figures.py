"""The data that plots draw: values of known runs, bounds, and independence of order and splits."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from figure_cases import FINAL, REAL, SECOND, Script, judged, lossy, write_run
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis import kernel
from logjudge.analysis.engines import local
from logjudge.analysis.figures import figures_of, merge, merge_figures, own_figures_of
from logjudge.analysis.figures.merge import fault_bands
from logjudge.analysis.figures.offsets import MAX_BLOCKS
from logjudge.analysis.figures.series import MAX_BINS, bins_over, sum_by_bin
from logjudge.analysis.figures.windows import windows
from logjudge.analysis.kernel import judge
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.timelines.fault_kinds import STOPS
from logjudge.analysis.verdict.consequences import findings_of
from logjudge.histories.bundle import open_run
from logjudge.histories.settings import Settings
from logjudge.histories.tables import CONTEXT, READS, SENDS, Finding, complete, without_key
from logjudge.plots import unread
from notation import parse

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from generate import generate_jepsen


def by_name(name: str) -> Path:
    return next(path for path in REAL if path.name == name)


def part(figures: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(part for part in figures["partitions"] if part["name"] == name)
    return found


def test_a_lost_record_is_not_counted_as_deleted_too(tmp_path: Path) -> None:
    """b was replaced before delete-records moved the log start beyond it."""
    history = parse("p:a@0 p:b@1 c:<a@0,b@1 p:x@1 c:<x@1 delete=2 end=2/2 final:assign=2")
    impact = judged(history.write(tmp_path)).figures["impact"]
    assert (impact["acknowledged"], impact["lost"], impact["legally_gone"]) == (3, 1, 2)


def test_the_unclean_election_is_one_lost_range_that_its_consumer_saw_twice() -> None:
    offsets = part(judged(by_name("unclean-election-a")).figures, "orders-0")["offsets"]
    assert offsets["blocks"] == [[0, 254, {"read": 255}], [255, 630, {"lost-read": 376}], [631, 1143, {"read": 513}]]
    assert offsets["later"] == [[255, 630, "replaced"]]
    lanes = {lane["process"]: lane["segments"] for lane in offsets["readers"]}
    assert lanes["c0"] == [[0, 254, "read"], [255, 630, "both"], [631, 1143, "read"]]
    assert lanes["final"] == [[0, 1143, "read"]]


def test_an_old_consumer_keeps_lost_records_and_never_sees_their_successors() -> None:
    offsets = part(judged(by_name("kip-101-c")).figures, "orders-0")["offsets"]
    lanes = {lane["process"]: lane["segments"] for lane in offsets["readers"]}
    assert [635, 832, "lost"] in lanes["c0"]


@pytest.mark.parametrize(
    ("name", "lost", "lost_read"),
    [("unclean-election-a", 753, 753), ("kip-101-c", 362, 198), ("acks1-failover-a", 233, 0), ("clean-a", 0, 0)],
)
def test_impact_agrees_with_the_findings(name: str, lost: int, lost_read: int) -> None:
    run = judged(by_name(name))
    impact = run.figures["impact"]
    assert (impact["lost"], impact["lost_read"]) == (lost, lost_read)
    counted = run.findings.filter(pl.col("rule") == "lost-write")["count"].sum()
    assert counted == lost
    assert sum(counts[0] for _, *counts in impact["by_producer"]) == lost
    assert sum(run.figures["series"]["lost"]) == lost


@pytest.mark.parametrize(
    ("polls", "missed"),
    [
        ([("c", "b", "c"), ("c", "d")], [["c", "orders-0", 1, 2, 2]]),  # kept its position over the cut
        ([("c", "b", "c")], [["c", "orders-0", 1, 2, 2]]),  # stopped before the cut: its position is past them
        ([("c", "b", "c"), ("c", "x", "y")], []),  # went back
        ([("c", "b", "c"), ("c", "x")], []),  # reads again what it read before
        ([("c", "d")], []),  # began late
        ([("c", "b", "c"), ("m", "x", "y"), ("m", "d")], []),  # another member of its group got them
        ([("c", "b", "c"), ("m", "d")], [["c", "orders-0", 1, 2, 2]]),
    ],
)
def test_a_consumer_that_reads_over_a_truncation_misses_the_new_records(
    tmp_path: Path, polls: list[tuple[str, ...]], missed: list[list[Any]]
) -> None:
    offsets = {"a": 0, "b": 1, "c": 2, "x": 1, "y": 2, "d": 3}
    script = Script()
    for value in ("a", "b", "c"):
        script.send("p", value, offsets[value])
    for number, (process, *values) in enumerate(polls):
        if number == 1:
            for value in ("x", "y", "d"):
                script.send("q", value, offsets[value])
        script.poll(process, *((offsets[value], value) for value in values))
    if len(polls) == 1:
        for value in ("x", "y", "d"):
            script.send("q", value, offsets[value])
    script.poll("final", (0, "a"), (1, "x"), (2, "y"), (3, "d"))
    group = {"group.id": "g"}
    config = {"final": True, "processes": {"final": {"role": "final"}, "c": group, "m": group}}
    run = judged(write_run(tmp_path / "run", script.events, config))
    assert run.figures["never_received"] == missed
    assert run.figures["impact"]["lost"] == 2


def test_consumers_of_recorded_runs_that_skipped_the_new_records_are_named() -> None:
    assert judged(by_name("kip-101-c")).figures["never_received"] == [["c0", "orders-0", 635, 832, 198]]
    assert judged(by_name("unclean-election-a")).figures["never_received"] == []


def test_records_handled_again_are_counted_once_each_but_not_their_successors(tmp_path: Path) -> None:
    script = Script().send("p", "a", 0).send("p", "b", 1).poll("c", (0, "a"), (1, "b"))
    for offset, value in ((0, "a"), (0, "a"), (0, "a"), (1, "b")):
        script.handle("c", offset, value)
    script.send("q", "x", 1).poll("c", (1, "x")).handle("c", 1, "x")
    assert judged(write_run(tmp_path / "run", script.events)).figures["impact"]["handled_again"] == 1


@pytest.mark.parametrize(
    ("name", "kind", "count"), [("group-rebalance-a", "handled_again", 80), ("retention-a", "legally_gone", 3049)]
)
def test_permitted_effects_are_counted(name: str, kind: str, count: int) -> None:
    assert judged(by_name(name)).figures["impact"][kind] == count


def test_legal_absences_are_shown_as_absent() -> None:
    offsets = part(judged(by_name("retention-a")).figures, "logs-0")["offsets"]
    assert offsets["blocks"] == [[0, 619, {"absent": 620}], [620, 1091, {"read": 472}]]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_series_add_up_to_the_run(path: Path) -> None:
    run = judged(path)
    figures, counts = run.figures, run.verdict["counts"]
    series = figures["series"]
    # A send that failed before it had a partition belongs to none, but was sent.
    lone = {summary["topic"]: summary["figures"]["unplaced"] for summary in run.summaries}
    unplaced = sum(sum(map(sum, offsets["series"].values())) for offsets in lone.values() if offsets)
    sent = sum(sum(series[outcome]) for outcome in ("ok", "fail", "info"))
    assert sent == counts["sends"] + unplaced
    assert sum(series["read"]) == counts["reads"]
    assert sum(series["acked"]) == figures["impact"]["acknowledged"]
    assert sum(series["seen"]) + sum(series["never"]) + sum(series["gone"]) == sum(series["acked"])
    assert unread.levels(series)[0][-1:] in ([0], [])
    assert json.loads(json.dumps(figures)) == figures


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_neither_order_nor_splits_nor_a_trip_through_json_change_the_record(path: Path) -> None:
    run = judged(path)
    summaries = json.loads(json.dumps(run.summaries))
    random.Random(7).shuffle(summaries)
    context = run.context.sample(fraction=1.0, shuffle=True, seed=7)
    assert merge_figures(summaries, context, run.settings) == run.figures


def test_small_splits_give_the_same_record(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", lossy(), FINAL)
    assert judged(folder, 300).figures == judged(folder).figures


def test_operations_around_a_loss_mark_lost_records_and_proofs(tmp_path: Path) -> None:
    figures = judged(write_run(tmp_path / "run", lossy(), FINAL)).figures
    window = figures["windows"][0]
    operations = {(operation["process"], operation["text"]): operation for operation in window["operations"]}
    assert operations["p", "b @1"]["proof"]
    assert operations["p", "b @1"]["lost"]
    assert not operations["q", "x @1"]["lost"]
    assert operations["c0", "2 records @0-1: a … b"]["lost"]
    times = [operation["invoked"] for operation in window["operations"]]
    assert times == sorted(times)


def test_operations_at_the_offset_of_a_finding_from_brokers_files_stand_out() -> None:
    finding = Finding("checkpoint-order", "broker 1 has a checkpoint beyond its log end", "big", 0, first_offset=6)
    [window] = windows(big_partition(20), [finding])
    assert {operation["text"] for operation in window["operations"] if operation["proof"]} == {"6 @6"}


def test_operations_around_a_consumer_loss_show_the_crash() -> None:
    figures = judged(by_name("group-rebalance-a")).figures
    window = next(window for window in figures["windows"] if window["id"] == "consumer-loss/events-3/0")
    crashes = [operation for operation in window["operations"] if operation["kind"] == "crash"]
    assert [(crash["process"], crash["text"], crash["proof"]) for crash in crashes] == [("m2", "crashed", True)]


def test_heat_puts_a_loss_where_it_was_acknowledged(tmp_path: Path) -> None:
    figures = judged(write_run(tmp_path / "run", lossy(), FINAL)).figures
    cells = {cell["rule"]: cell for cell in figures["heat"][0]["cells"]}
    bins = figures["bins"]
    acknowledged = [((time * SECOND) >> bins["shift"]) - bins["first"] for time in (3, 5)]
    assert cells["lost-write"]["bins"] == acknowledged
    assert cells["lost-write"]["records"] == [1, 1]


def test_a_reader_lags_until_it_has_read_the_acknowledged_records(tmp_path: Path) -> None:
    script = Script().send("p", "a", 0).poll("c", (0, "a")).send("p", "b", 1)
    for _ in range(20):
        script.fault("nothing")
    script.poll("c", (1, "b"))
    figures = judged(write_run(tmp_path / "run", script.events)).figures
    (line,) = part(figures, "orders-0")["lags"]
    known = [behind for behind in line["behind"] if behind is not None]
    assert max(known) > 39 * SECOND
    assert known[-1] == 0


def test_sends_without_a_partition_are_counted_once() -> None:
    sends = complete(
        pl.DataFrame(
            {
                "process": ["p"] * 3,
                "outcome": ["info"] * 3,
                "invoked": [1, 2, 3],
                "completed": [None] * 3,
                "acknowledged": [False] * 3,
            },
            schema_overrides={"outcome": SENDS["outcome"], "completed": pl.Int64},
        ),
        without_key(SENDS),
    )
    context = pl.DataFrame(schema=CONTEXT)
    summaries = []
    for number in range(4):
        own = without_key(SENDS)
        reads = without_key(READS)
        empty = {"sends": pl.DataFrame(schema=own), "reads": pl.DataFrame(schema=reads)}
        p = Partition("t", number, Settings(), **empty, context=context, unplaced=sends)
        figures = figures_of(p, []) | own_figures_of(p, [])
        summaries.append(
            {"topic": "t", "partition": number, "counts": {"records": 0}, "findings": {}, "figures": figures}
        )
    assert sum(merge_figures(summaries, context, Settings())["series"]["info"]) == 3


def events_of(*rows: tuple[str, str, list[str], int]) -> pl.DataFrame:
    events = [
        {
            "kind": kind,
            "invoked": time,
            "completed": time + 1,
            "at": number,
            "detail": json.dumps({"kind": fault, "nodes": nodes}),
        }
        for number, (kind, fault, nodes, time) in enumerate(rows)
    ]
    return complete(pl.DataFrame(events), CONTEXT)


def test_faults_end_with_their_heal_node_by_node() -> None:
    context = events_of(
        ("fault", "pause", ["1"], 10),
        ("fault", "kill", ["2", "3"], 20),
        ("heal", "restart", ["3"], 30),
        ("fault", "kill", ["1"], 40),
        ("heal", "restart", ["2"], 50),
        ("fault", "delete-records", [], 60),
        ("fault", "partition", ["1", "2"], 70),
    )
    bands, left_out = fault_bands(context)
    assert left_out == 0
    assert [(band["kind"], band["nodes"], band["from"], band["to"]) for band in bands] == [
        ("pause", ["1"], 10, 40),  # killed while paused
        ("kill", ["3"], 20, 31),
        ("kill", ["2"], 20, 51),
        ("kill", ["1"], 40, None),
        ("delete-records", [], 60, 60),
        ("partition", ["1", "2"], 70, None),
    ]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("damage", ["restore", "restore-backup", "corrupt", "bit-flip", "truncate"])
def test_a_restart_ends_every_kind_of_stop_and_damage_to_files_has_no_end(stop: str, damage: str) -> None:
    context = events_of(("fault", stop, ["1"], 10), ("fault", damage, ["1"], 20), ("heal", "restart", ["1"], 30))
    bands, _ = fault_bands(context)
    assert [(band["kind"], band["from"], band["to"]) for band in bands] == [(stop, 10, 31), (damage, 20, 20)]


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        ({"kind": "truncate", "nodes": ["1"], "topic": "orders", "partition": 0}, "orders-0"),
        ({"kind": "add-partitions", "nodes": [], "topic": "orders", "partitions": 6}, "orders"),
        ({"kind": "delete-records", "topic": "logs", "offsets": {"0": 237, "1": 240}}, "logs-0@237, logs-1@240"),
        ({"kind": "truncate", "nodes": ["1"]}, ""),
    ],
)
def test_a_fault_of_a_moment_names_its_targets_and_place(fault: dict[str, Any], place: str) -> None:
    context = {"kind": ["fault"], "invoked": [5], "completed": [6], "at": [0], "detail": [json.dumps(fault)]}
    (band,), _ = fault_bands(complete(pl.DataFrame(context), CONTEXT))
    assert band == {"kind": fault["kind"], "nodes": fault.get("nodes", []), "place": place, "from": 5, "to": 5}


def test_malformed_faults_are_shown_by_their_text() -> None:
    context = complete(
        pl.DataFrame({"kind": ["fault"] * 3, "invoked": [1, 2, 3], "at": [0, 1, 2], "detail": ["{bad", "[1]", None]}),
        CONTEXT,
    )
    bands, _ = fault_bands(context)
    assert [band["kind"] for band in bands] == ["{bad", "[1]", "fault"]


@given(
    st.integers(-(2**62), 2**62),
    st.integers(0, 2**61),
    st.lists(st.floats(0, 1), min_size=1, max_size=30),
    st.integers(0, 8),
)
def test_coarser_bins_hold_what_the_finer_ones_held(start: int, length: int, shares: list[float], wider: int) -> None:
    times = np.array([start + int(length * share) for share in shares], np.int64)
    own = bins_over(start, start + length)
    assert own.count <= MAX_BINS
    coarse = bins_over(start, start + length, own.shift + wider)
    assert sum_by_bin(own.count_in(times), own, coarse).tolist() == coarse.count_in(times)
    assert sum(own.count_in(times)) == len(times)


def big_partition(count: int) -> Partition:
    """One in three blocks of 1000 records is never read, so it is lost; there is a gap after each offset."""
    offsets = np.arange(count, dtype=np.int64) * 2
    values = pl.Series(offsets).cast(pl.String)
    times = np.arange(count, dtype=np.int64) * 1_000_003
    common = {"process": "p", "outcome": "ok", "index": 0}
    sends = pl.DataFrame({"offset": offsets, "value": values, "invoked": times, "completed": times + 500_000})
    sends = sends.with_columns(
        *(pl.lit(value).alias(name) for name, value in {**common, "acks": "all", "acknowledged": True}.items()),
        pl.lit(False).alias("txn"),
        pl.lit(False).alias("synthetic"),
        pl.int_range(pl.len(), dtype=pl.Int64).alias("at"),
    ).with_columns(pl.col("at").alias("invoked_at"))
    reads = sends.filter(pl.col("at") // 1000 % 3 > 0).with_columns(
        pl.lit("c").alias("process"), pl.col("completed") + 1000, pl.lit(False).alias("exempt"), pl.col("at") + count
    )
    kinds = without_key(SENDS)
    read_kinds = without_key(READS)
    return Partition(
        "big",
        0,
        Settings(config={"final": True, "processes": {"c": {"role": "final"}}}),
        sends=complete(sends, kinds).cast(pl.Schema(kinds)),
        reads=complete(reads, read_kinds).cast(pl.Schema(read_kinds)),
    )


@pytest.mark.campaign
@pytest.mark.slow
def test_a_million_records_make_a_small_record() -> None:
    p = big_partition(1_000_000)
    findings = findings_of(p, judge(p))
    assert sum(finding.count for finding in findings if finding.rule == "lost-write") > 300_000
    figures = figures_of(p, findings) | own_figures_of(p, findings)
    assert len(figures["offsets"]["blocks"]) <= MAX_BLOCKS
    counted = [count for *_, kinds in figures["offsets"]["blocks"] for count in kinds.values()]
    assert sum(counted) == figures["offsets"]["last"] + 1
    assert all(len(window["operations"]) <= 40 for window in figures["windows"])
    assert len(json.dumps(figures)) < 100_000


def test_a_partition_without_observations_has_empty_figures() -> None:
    assert figures_of(Partition("t", 0, Settings()), [])["bins"] is None
    merged = merge_figures([], pl.DataFrame(schema=CONTEXT), Settings())
    assert merged["partitions"] == []
    assert merged["series"]["ok"] == [0]


def test_a_history_of_many_keys_has_figures_of_its_worst_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are those that would be drawn if each key had its own."""
    generate_jepsen(tmp_path / "h.edn", 3000, keys=7, faulty=True)

    def figures(own: int) -> dict[str, Any]:
        monkeypatch.setattr(kernel, "MAX_PARTITIONS", own)
        results = local.judge_run(open_run(tmp_path / "h.edn"))
        counted.append(sum(summary["figures"]["offsets"] is not None for summary in results.summaries))
        return merge_figures(results.summaries, results.context, results.run.settings)

    counted: list[int] = []
    monkeypatch.setattr(merge, "MAX_PARTITIONS", 2)
    monkeypatch.setattr(merge, "MAX_WINDOWS", 2)
    assert figures(2) == figures(100)
    assert counted == [2, 7]
    assert len(figures(2)["windows"]) == 2
