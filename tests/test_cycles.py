"""Cycles of dependencies: against a naive search in small graphs, and against Elle in Jepsen's histories."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import orjson
import polars as pl
import pytest
import twin_cycles
from campaign import IS_CAMPAIGN, Selection, examples
from combined_corpus import CombinedRun
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.rules.cycles import RULES_OF_CYCLES
from logjudge.analysis.transactions import windows
from logjudge.analysis.transactions.cycles import cycles_in, cycles_of
from logjudge.analysis.transactions.dependencies import DEPENDENCIES
from logjudge.analysis.transactions.shortest_cycle import Cycle
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import Run, open_run
from logjudge.histories.tables import MAX_INT64
from logjudge.plots import PLOTS, draw, style
from notation import parse

_FILE = Path(__file__).parent / "data" / "jepsen" / "cycles.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(_FILE.read_bytes()).splitlines()]


def graph(random: Random) -> tuple[list[twin_cycles.Operation], list[twin_cycles.Edge]]:
    """Some operations that overlap more or less, and dependencies that mostly lead forward."""
    operations: list[twin_cycles.Operation] = []
    for _ in range(random.randint(2, 6)):
        start = random.randint(0, 12)
        ends = random.random() < 0.85
        operations.append((start, start + random.randint(1, 6) if ends else None, random.choice("pq")))
    pairs = [(one, other) for one in range(len(operations)) for other in range(len(operations)) if one != other]
    edges = [
        (random.choice(("ww", "wr")), one, other)
        for one, other in pairs
        if random.random() < (0.35 if operations[one][0] <= operations[other][0] else 0.15)
    ]
    return operations, edges


def frame(operations: list[twin_cycles.Operation], edges: list[twin_cycles.Edge]) -> pl.DataFrame:
    rows = []
    for kind, *ends in edges:
        row: dict[str, Any] = {"topic": "x", "partition": 0, "kind": kind}
        for name, number in zip(("source", "target"), ends, strict=True):
            start, end, process = operations[number]
            row |= {f"{name}_at": number, f"{name}_start": start, f"{name}_end": MAX_INT64 if end is None else end}
            row |= {f"{name}_process": process, f"{name}_offset": number, f"{name}_value": str(number)}
        rows.append(row)
    return pl.DataFrame(rows, schema=DEPENDENCIES)


@examples(150, 2000)
@given(st.randoms(use_true_random=False))
def test_the_same_cycles_as_a_naive_search(random: Random) -> None:
    operations, edges = graph(random)
    dependencies = frame(operations, edges)
    inside = windows.dependencies_within(dependencies, windows.windows_of(dependencies))
    found = cycles_of(inside, 100, as_elle=True)
    expected = twin_cycles.cycles(operations, edges)
    names = {name for types in expected for _, called in types for name in called}
    assert set(found) <= names
    for types in expected:
        for length, called in types:
            assert any(
                len(cycle.steps) == length for name in called if name in found for cycle in found[name].shortest
            ), (operations, edges)
    for cycles in found.values():
        for cycle in cycles.shortest:
            _check_steps(cycle, operations, edges)
    assert cycles_in(orjson.loads(orjson.dumps(found))) == found


def test_the_shortest_cycle_of_a_component_is_found_in_any_part_of_it() -> None:
    """All are one component in real time; writes alone make two parts of it, and the second has the shorter cycle."""
    operations = [(0, 1, "q"), (1, None, "q"), (0, None, "q"), (0, 1, "p"), (0, 2, "q"), (0, 1, "q")]
    writes = [("ww", *pair) for pair in ((0, 5), (1, 3), (2, 1), (3, 0), (3, 2), (4, 5), (5, 0))]
    reads = [("wr", *pair) for pair in ((0, 2), (0, 4), (4, 0), (5, 1), (5, 3))]
    dependencies = frame(operations, writes + reads)
    [cycle] = cycles_of(windows.dependencies_within(dependencies, windows.windows_of(dependencies)), 100, as_elle=True)[
        "G0"
    ].shortest
    assert len(cycle.steps) == 2


def _check_steps(cycle: Cycle, operations: list[twin_cycles.Operation], edges: list[twin_cycles.Edge]) -> None:
    for step, after in zip(cycle.steps, cycle.steps[1:] + cycle.steps[:1], strict=True):
        one, other = step.row["source_at"], step.row["target_at"]
        assert step.kind in twin_cycles.reasons(operations, edges, one, other)
        assert other == after.row["source_at"]


@examples(200, 1000)
@given(st.randoms(use_true_random=False))
def test_windows_contain_every_cycle(random: Random) -> None:
    operations, edges = graph(random)
    dependencies = frame(operations, edges)
    everything = dependencies.with_columns(window=pl.lit(0, pl.Int64))
    inside = windows.dependencies_within(dependencies, windows.windows_of(dependencies))
    if inside.equals(everything):
        return  # half of the examples
    for as_elle in (False, True):
        within, whole = (cycles_of(rows, 100, as_elle) for rows in (inside, everything))
        # Processes only connect operations of the same window.
        assert {name.partition("-")[0] for name in within} == {name.partition("-")[0] for name in whole}
        if as_elle:
            assert {name: found.count for name, found in within.items()} == {
                name: found.count for name, found in whole.items()
            }


def transactions(random: Random) -> str:
    """Some transactions of read_committed processes that overlap, commit or abort, in the language of notation.py."""
    count = random.randint(2, 5)
    offsets = random.sample(range(9), random.randint(count, 9))
    names = {offset: "abefghijk"[number] for number, offset in enumerate(offsets)}
    writes = {number: sorted(offsets[number::count]) for number in range(count)}
    tokens: list[str] = []
    open_now: dict[str, str] = {}
    waiting = list(range(count))
    while waiting or open_now:
        process = random.choice("pqrs")
        if process in open_now:
            tokens.append(f"{process}:..{open_now.pop(process)}" + random.choice(("", "", "", "!")))
        elif waiting:
            number = waiting.pop()
            read = random.sample(offsets, random.randint(0, 2))
            steps = [f"{names[offset]}@{offset}" for offset in writes[number]]
            steps += [f"<{names[offset]}@{offset}" for offset in read if offset not in writes[number]]
            open_now[process] = f"({','.join(steps)})"
            tokens.append(f"{process}:{open_now[process]}..")
    levels = " ".join(f"{process}.isolation.level=read_committed" for process in "pqrs")
    return f"{{{levels}}} {' '.join(tokens)}"


def naive_dependencies(events: list[dict[str, Any]]) -> tuple[list[twin_cycles.Operation], list[twin_cycles.Edge]]:
    """The operations that committed, and their dependencies."""
    begun = {(event["process"], event["op"]): event["time"] for event in events if event["type"] == "invoke"}
    done = [event for event in events if event["type"] == "ok"]
    operations = [(begun[event["process"], event["op"]], event["time"], event["process"]) for event in done]
    wrote = {step["offset"]: n for n, event in enumerate(done) for step in event["ops"] if step["f"] == "send"}
    edges = [("ww", wrote[one], wrote[other]) for one, other in pairwise(sorted(wrote))]
    for reader, event in enumerate(done):
        for record in (record for step in event["ops"] for record in step.get("records", ())):
            writer = wrote.get(record["offset"])
            if writer is not None and operations[reader][1] >= operations[writer][0]:
                edges.append(("wr", writer, reader))
    return operations, [edge for edge in edges if edge[1] != edge[2]]


def test_the_same_cycles_as_naive_rules(tmp_path: Path) -> None:
    selection = Selection(2)
    for seed in range(5000 if IS_CAMPAIGN else 1000):
        text = transactions(Random(seed))
        operations, edges = naive_dependencies(parse(text).events)
        reads = [edge for edge in edges if edge[0] == "wr"]
        by_reads, all_cycles = (twin_cycles.cycles(operations, some) for some in (reads, edges))
        expected = {name for types in all_cycles for _, called in types for name in called}
        if not selection.takes({(name, bool(by_reads)) for name in expected}):
            continue
        found = judge_run(_for_cycles(open_run(parse(text).write(tmp_path)))).findings()
        assert bool(len(found.filter(severity="violation"))) == bool(by_reads), text
        assert bool(len(found)) == bool(all_cycles), text
        if not by_reads:
            assert {base for base in ("G0", "G1c") if base in found["rule"]} <= expected, text
    assert {name for name, _ in selection.met.keys() - {"none"}} == {"G0", "G1c", "G0-realtime"}
    assert selection.met["none"]


def test_few_windows_cover_many(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = pl.DataFrame({"low": [0, 10, 13, 40, 45], "high": [5, 12, 20, 44, 50]}, schema=windows.WINDOWS)
    assert windows.join_windows([spans[3:], spans[:3]]).rows() == [(0, 5), (10, 12), (13, 20), (40, 44), (45, 50)]
    monkeypatch.setattr(windows, "MAX_WINDOWS", 2)
    assert windows.join_windows([spans]).rows() == [(0, 20), (40, 50)]
    assert windows.split_windows(spans[:1], 2).rows() == [(0, 2), (3, 5)]


def elle_cases() -> Iterator[Any]:
    """Each case without and with --ww-deps. Those with the errors of two others wait for a campaign."""
    seen: Counter[tuple[str, ...]] = Counter()
    for ww_deps, errors in ((False, "errors"), (True, "errors_ww")):
        for case in CASES:
            kind = (errors, *sorted(case[errors]))
            seen[kind] += 1
            name = case["name"] + ("-ww" if ww_deps else "")
            yield pytest.param(case, ww_deps, id=name, marks=() if seen[kind] <= 2 else pytest.mark.campaign)


@pytest.mark.parametrize(("case", "ww_deps"), [*elle_cases()])
def test_finds_the_cycles_of_elle(case: dict[str, Any], ww_deps: bool, tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(case["history"])
    results = judge_run(_for_cycles(open_run(file), ww_deps))
    found = results.findings().filter(pl.col("rule").str.contains("^G(0|1c)"))
    assert set(found["rule"]) == set(case["errors_ww" if ww_deps else "errors"])
    is_write = found["rule"].str.starts_with("G0")
    assert set(found.filter(is_write | ww_deps)["severity"]) <= {"permitted"}
    assert set(found.filter(~(is_write | ww_deps))["severity"]) <= {"violation"}
    assert all(len(evidence) >= 2 for evidence in found["evidence"])


def test_the_selection_has_every_type() -> None:
    seen = Counter(name for case in CASES for name in {*case["errors"], *case["errors_ww"]})
    assert set(seen) == {"G0", "G1c", "G0-realtime", "G1c-realtime"}
    assert min(seen.values()) >= 8


def _for_cycles(run: Run, ww_deps: bool = False) -> Run:
    return run.with_settings(ww_deps=ww_deps, rules=tuple(RULES_OF_CYCLES))


TWO_PARTITIONS = """{"time":1,"process":"p","op":0,"type":"invoke","f":"txn","ops":[]}
{"time":2,"process":"q","op":0,"type":"invoke","f":"txn","ops":[]}
{"time":3,"process":"p","op":0,"type":"ok","f":"txn","ops":[\
{"f":"send","topic":"orders","partition":0,"value":"a","offset":5},\
{"f":"poll","records":[{"topic":"orders","partition":1,"offset":9,"value":"b"}]}]}
{"time":4,"process":"q","op":0,"type":"ok","f":"txn","ops":[\
{"f":"send","topic":"orders","partition":1,"value":"b","offset":9},\
{"f":"poll","records":[{"topic":"orders","partition":0,"offset":5,"value":"a"}]}]}
"""


def two_partitions(folder: Path) -> Run:
    (folder / "history.jsonl").write_text(TWO_PARTITIONS)
    levels = {name: {"isolation.level": "read_committed"} for name in "pq"}
    (folder / "run.json").write_text(json.dumps({"format": 1, "processes": levels}))
    return open_run(folder)


def test_a_cycle_over_two_partitions_names_its_steps(tmp_path: Path) -> None:
    results = judge_run(two_partitions(tmp_path))
    (finding,) = results.findings().to_dicts()
    assert finding["sentence"] == (
        "T1 (p), T2 (q): T1 wrote a at orders-0@5, T2 read it; T2 wrote b at orders-1@9, T1 read it: each must come"
        " before the other"
    )
    assert [(item["line"], item["says"]) for item in finding["evidence"]] == [
        (3, "p: T1 wrote a at orders-0@5, T2 read it"),
        (4, "q: T2 wrote b at orders-1@9, T1 read it"),
    ]
    assert verdict_of(results)["rules"]["G1c"]["verdict"] == "invalid"
    figures = merge_figures(results.records, results.context, results.run.settings)
    (subject,) = PLOTS["cycles"].subjects(figures)
    style.save(draw("cycles", figures, subject), tmp_path / "x.svg")
    drawn = (tmp_path / "x.svg").read_text()
    assert all(text in drawn for text in ("T1 (p)", "T2 (q)", "T1 wrote a at orders-0@5, T2 read it"))


def test_allow_and_only_apply_to_cycles(tmp_path: Path) -> None:
    text = (
        "{p.isolation.level=read_committed q.isolation.level=read_committed} p:(a@0,<b@1).. q:(b@1,<a@0) p:..(a@0,<b@1)"
    )
    run = open_run(parse(text).write(tmp_path))
    allowed = judge_run(run.with_settings(allow=("G1c",)))
    assert allowed.findings()["severity"].to_list() == ["permitted"]
    other = judge_run(run.with_settings(rules=("G0",)))
    assert not len(other.findings())


@pytest.mark.spark
def test_spark_finds_the_same_cycles(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from logjudge.analysis.engines.spark import judge_run as judge_on_spark
    from logjudge.analysis.engines.spark import whole_run

    monkeypatch.setattr(whole_run, "MAX_BYTES", 0)
    both = CombinedRun()
    both.add(
        "{p.isolation.level=read_committed q.isolation.level=read_committed}"
        " p:(a@0,<b@1).. q:(b@1,<a@0) p:..(a@0,<b@1) p:(e@2,g@4).. q:(f@3) p:..(e@2,g@4)",
        0,
    )
    both.add("p:(a@0,<b@1).. q:(b@1,<a@0) p:..(a@0,<b@1)", 1)
    both.add("p:(a@0) q:(<a@0,b@2)", 2)
    jepsen = tmp_path / "history.edn"
    jepsen.write_text(next(case["history"] for case in CASES if case["errors"]))
    for path in (both.history.write(tmp_path / "native"), jepsen):
        run = open_run(path)
        here, there = judge_run(run), judge_on_spark(run, spark)
        assert len(here.findings())
        assert there.findings().to_dicts() == here.findings().to_dicts()
        assert verdict_of(there) == verdict_of(here)
