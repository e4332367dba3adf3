"""Condensing changes no finding: rules report the same for the retained rows as for all rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
from campaign import IS_CAMPAIGN, examples
from combined_corpus import BREAKING, JudgedRun, combine
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.engines import local
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.partitions.foreign_clock import HOUR_NS
from logjudge.analysis.results import Results
from logjudge.analysis.screening.clocks import LastTimes, clocks_of, has_other_unit, was_set_back
from logjudge.analysis.screening.retained import OtherRows
from logjudge.histories.bundle import Run, open_run
from logjudge.histories.tables import MIN_INT64
from notation import parse
from screened import judged, without_figures
from test_ranges import judged_by_ranges
from test_screening import GROUPS, compared, random_texts, together

RECORDS = 10  # of a range
SUMS = ("span", "bins", "series", "latency", "heat", "times", "never_received")


def compare(run: Run, offsets: int = RECORDS, plain: Results | None = None) -> int:
    """Asserts that condensing by ranges of so many offsets changes nothing; the number of records that it left out.

    plain: the results without ranges and without screening, if they are known.
    """
    left_out: list[int] = []
    add = local.with_others

    def with_others(summary: dict[str, Any], others: Sequence[OtherRows]) -> dict[str, Any]:
        left_out.append(sum(part.counts["sends"] for part in others))
        return add(summary, others)

    plain = plain or judged(run, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "with_others", with_others)
        results, _ = judged_by_ranges(run, offsets)
    assert results.findings().equals(plain.findings())
    for before, after in zip(plain.summaries, results.summaries, strict=True):
        assert without_figures(after) == without_figures(before), before["topic"]
    return sum(left_out)


compare_together = partial(compared, compare)


@dataclass
class FaultyLog:
    """A long history in the notation: producers and consumers on a log with which a few kinds of things go wrong."""

    random: Random
    log: list[str | None] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    positions: dict[str, int] = field(default_factory=lambda: {"c": 0, "d": 0})

    KINDS = (
        *("lose", "replace", "truncate", "displace", "copy", "alter", "repeat", "info", "fail", "unplaced", "late"),
        *("skip", "back", "seek", "miss", "shuffle", "move", "poll", "commit", "end", "stale", "kill", "stop"),
    )

    def history(self, records: int) -> str:
        kinds = self.random.sample(self.KINDS, self.random.randint(0, 4))
        rate = self.random.choice((0.01, 0.03, 0.08))
        in_groups = self.random.random() < 0.2
        for number in range(records):
            wrong = {kind for kind in kinds if self.random.random() < rate}
            self.send(number, wrong)
            if self.random.random() < 0.3:
                self.poll(self.random.choice("cd"), wrong, in_groups)
        if self.random.random() < 0.65:
            self.read_finally(kinds)
        options = [option for option in ("p.acks=1", "p.enable.idempotence=false") if self.random.random() < 0.1]
        options += ["c.group.id=g d.group.id=g"] * in_groups
        return " ".join([*(["{" + " ".join(options) + "}"] if options else []), *self.tokens])

    def send(self, number: int, wrong: set[str]) -> None:
        random, log, process = self.random, self.log, self.random.choice("pqr")
        value = f"v{random.randrange(number + 1)}" if "repeat" in wrong else f"v{number}"
        end, held = len(log), f"x{value}" if "alter" in wrong else value
        if "displace" in wrong:
            self.tokens.append(f"{process}:{value}@{random.randrange(end + 3)}")
        elif wrong & {"info", "fail", "unplaced"}:
            outcome = "~" if "info" in wrong else "!" if "fail" in wrong else "@?"
            self.tokens.append(f"{process}:{value}{outcome}")
            log += [held] * (random.random() < 0.6)
        elif "late" in wrong:
            self.tokens += [f"s{number}:{value}..", f"q:w{number}@{end + 1}", f"s{number}:..{value}@{end}"]
            log += [held, f"w{number}"]
        else:
            self.tokens.append(f"{process}:{value}@{end}")
            log.append(None if "lose" in wrong else held)
        if "replace" in wrong:
            self.tokens.append(f"q:y{number}@{len(log) - 1}")
            log[-1:] = [f"y{number}"]
        if "copy" in wrong:
            log.append(value)
        if "truncate" in wrong:
            del log[-random.randint(1, 5) :]
            self.positions = {name: min(at, len(log) + 1) for name, at in self.positions.items()}
        marks = {"end": f"end={len(log)}", "stale": f"end={random.randrange(len(log) + 2)}", "kill": "nemesis:kill"}
        self.tokens += [text for kind, text in marks.items() if kind in wrong]

    def poll(self, process: str, wrong: set[str], in_groups: bool) -> None:
        random, first = self.random, self.positions[process]
        first += random.randint(1, 3) * ("skip" in wrong) - random.randint(1, 9) * ("back" in wrong)
        first = min(max(first, 0), len(self.log))
        if "seek" in wrong:
            first = random.randrange(len(self.log) + 1)
            self.tokens.append(f"{process}:{random.choice(('seek', 'assign'))}={first}")
        if "move" in wrong:
            self.tokens.append(f"{process}:{random.choice(('revoked', f'group={first}', 'crash', f'seek={first}'))}")
        if "poll" in wrong:
            self.tokens.append(f"{process}:<~")
        records = [*enumerate(self.log)][first : first + random.randint(1, 12)]
        if "miss" in wrong and records:
            records.pop(random.randrange(len(records)))
        if "shuffle" in wrong:
            random.shuffle(records)
        if body := ",".join(f"{value}@{offset}" for offset, value in records if value is not None):
            self.tokens.append(f"{process}:<{body}")
            self.positions[process] = records[-1][0] + 1
        if "commit" in wrong or (in_groups and random.random() < 0.3):
            offset = random.randrange(len(self.log) + 2) if "commit" in wrong else self.positions[process]
            self.tokens.append(f"{process}:commit={offset}")

    def read_finally(self, kinds: list[str]) -> None:
        records = [f"{value}@{offset}" for offset, value in enumerate(self.log) if value is not None]
        if "miss" in kinds and records:
            records.pop(self.random.randrange(len(records)))
        if "stop" in kinds:
            del records[-self.random.randint(1, 4) :]
        size = self.random.choice((5, 17, 1000))
        self.tokens += [f"end={len(self.log)}"] * (self.random.random() < 0.9)
        self.tokens.append(f"final:assign={2 * (self.random.random() < 0.05)}")
        self.tokens += [f"final:<{','.join(records[at : at + size])}" for at in range(0, len(records), size)]


@pytest.mark.campaign
@pytest.mark.parametrize("offsets", [2, RECORDS])
def test_the_corpus_is_judged_the_same(offsets: int, combined_corpus: list[JudgedRun]) -> None:
    for one in combined_corpus:
        compare(one.results.run, offsets, one.results)


@pytest.mark.thorough
def test_a_breach_of_each_rule_is_judged_the_same(tmp_path: Path) -> None:
    for number, run in enumerate(combine(BREAKING)):
        compare(open_run(run.history.write(tmp_path / str(number))))


@examples(2, 40)
@given(st.randoms(use_true_random=False), st.integers(3, 25))
def test_long_faulty_histories_are_judged_the_same(random: Random, offsets: int) -> None:
    count = 12 if IS_CAMPAIGN else 1
    compare_together([FaultyLog(random).history(random.randint(20, 120)) for _ in range(count)], offsets)


@pytest.mark.campaign
@given(st.randoms(use_true_random=False), st.integers(1, 10))
def test_random_histories_are_judged_the_same(random: Random, offsets: int) -> None:
    compare_together(random_texts(random, 30), offsets)


def test_most_rows_of_faulty_logs_are_left_out() -> None:
    assert compare_together([FaultyLog(Random(seed)).history(200) for seed in range(12)], 50) > 300


SENDS = " ".join(f"p:v{number}@{number}" for number in range(90))


def read(process: str, *missing: int, held: dict[int, str] | None = None) -> str:
    """Polls of five records each."""
    values = {number: f"v{number}" for number in range(90) if number not in missing} | (held or {})
    records = [f"{value}@{offset}" for offset, value in sorted(values.items())]
    return " ".join(f"{process}:<{','.join(records[at : at + 5])}" for at in range(0, len(records), 5))


# One breach in a log that is plain otherwise: the rules find it, and all but a few rows are left out.
BREACHES = {
    "a lost record": f"{SENDS} {read('c')} end=90 final:assign=0 {read('final', 45)}",
    "a lost record that a group had read": f"{GROUPS} {SENDS} {read('c')} c:commit=90 end=90 {read('final', 45)}",
    "a lost record that no group read": f"{GROUPS} {SENDS} {read('c', 45)} c:commit=90 end=90 {read('final', 45)}",
    "records that were replaced": f"{SENDS} {read('c')} q:x@45 q:y@46 end=90 {read('final', held={45: 'x', 46: 'y'})}",
    "a skipped record": f"{SENDS} {read('c', 45)} end=90 {read('final')}",
    "a consumer that went back": f"{SENDS} {read('c')} c:<v30@30 end=90 {read('final')}",
    "a late send": f"s:late.. {SENDS} r:low@90 s:..late@91 r:end@92 q:x@93 q:x2@92 {read('c')}",
    "a record without a send": f"{SENDS} {read('c', held={90: 'z'})} end=91 {read('final', held={90: 'z'})}",
    "a stale end": f"{SENDS} end=45 {read('c')} end=90 {read('final')}",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_judged_from_a_few_rows(name: str, tmp_path: Path) -> None:
    run = open_run(parse(BREACHES[name]).write(tmp_path))
    assert compare(run, 30) > 40
    assert len(judged(run, 0).findings())


@pytest.mark.parametrize("sends", [SENDS, SENDS.replace("p:v45@45", "p:v45~")])
def test_clocks_that_differ_are_judged_from_all_rows(sends: str, tmp_path: Path) -> None:
    """c's clock is behind, so its reads come before the sends; only all rows show which read proves that."""
    run = open_run(parse(f"{read('c')} {sends} end=90 {read('final')}").write(tmp_path))
    assert compare(run, 30) == 0
    reasons = [reason for summary in judged(run, 0).summaries for reason in summary["unjudged"].get("phantom-read", ())]
    assert "so their clocks differ" in reasons[0]


@pytest.mark.parametrize("reads", ["", read("d")])
def test_the_cause_of_a_lower_commit_needs_all_polls(reads: str, tmp_path: Path) -> None:
    """A member that read below the higher commit before it committed less did not commit late."""
    text = f"{GROUPS} {SENDS} {read('c')} {'' if reads else read('d')} c:commit=90 {reads} d:commit=45 end=90"
    run = open_run(parse(f"{text} {read('final')}").write(tmp_path))
    assert compare(run, 30) > 20
    [cause] = judged(run, 0).causes()
    assert cause.cause == ("unknown" if reads else "stale-commit")


def test_figures_of_all_rows_are_the_same(tmp_path: Path) -> None:
    run = open_run(parse(BREACHES["a lost record"]).write(tmp_path))
    plain, (condensed, _) = judged(run, 0), judged_by_ranges(run, 30)
    before, after = (merge_figures(one.summaries, one.context, run.settings) for one in (plain, condensed))
    assert {name: after[name] for name in SUMS} == {name: before[name] for name in SUMS}
    assert after["impact"] == before["impact"]


@pytest.mark.thorough
@pytest.mark.spark
def test_spark_judges_condensed_partitions_the_same(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges are shuffled once: suspects and retained rows are made of the stored blocks."""
    from logjudge.analysis.engines.spark import judge_run, ranges

    plans: list[str] = []
    of_units = ranges.of_units

    def planned(*arguments: Any) -> Any:
        frame = of_units(*arguments)
        plans.append(frame._jdf.queryExecution().executedPlan().toString())
        return frame

    monkeypatch.setattr(ranges, "of_units", planned)
    texts = [FaultyLog(Random(seed)).history(1_200) for seed in range(5)]
    folder = together(texts).write(tmp_path)
    run = open_run(folder, split_bytes=(folder / "history.jsonl").stat().st_size // 2)
    run = run.with_settings(range_offsets=100, large_rows=0)
    here, there = local.judge_run(run), judge_run(run, spark)
    of_stored = [plan.partition("InMemoryRelation") for plan in plans]
    assert [("Exchange" in before, bool(stored)) for before, stored, _ in of_stored] == [(False, True)] * 2
    assert there.findings().equals(here.findings())
    plain = json.loads(json.dumps([without_figures(one) for one in here.summaries]))
    assert [without_figures(one) for one in there.summaries] == plain


SECOND = 10**9
ORDINARY = [LastTimes("p", 500 * SECOND, SECOND, 600 * SECOND), LastTimes("q", 590 * SECOND, SECOND, 590 * SECOND)]


@pytest.mark.parametrize(
    ("others", "is_other"),
    [
        ([], False),
        ([LastTimes("r", 590_000, 1_000, 590_000)], True),  # milliseconds
        ([LastTimes("r", 10_000, 1_000, 10_000), LastTimes("r", 590_000, 11_000, 590_000)], True),  # in two ranges
        ([LastTimes("r", 10_000, 1_000, 590_000)], True),  # its last record is not plain, and may count or not
        ([LastTimes("r", MIN_INT64, 300 * SECOND, 590 * SECOND)], False),  # no record of it is plain
        ([LastTimes("r", 10_000, 1_000, 10_000)], False),  # it ended long before the others in any unit
    ],
)
def test_a_process_in_another_unit_is_noticed(others: list[LastTimes], is_other: bool) -> None:
    assert has_other_unit([*ORDINARY, *others]) == is_other


def invocations(*times: int) -> pl.DataFrame:
    rows = [("p", time, place) for place, time in enumerate(times)]
    return pl.DataFrame(rows, schema=["process", "invoked", "invoked_at"], orient="row")


def test_a_clock_that_was_set_back_is_noticed_within_a_range_and_between_ranges() -> None:
    assert clocks_of(invocations(0, HOUR_NS, 0)) is None
    before, after = (clocks_of(invocations(*times)) or [] for times in ((0, 2 * HOUR_NS), (HOUR_NS // 2, HOUR_NS)))
    after = [clock._replace(places=(2, 3)) for clock in after]
    assert was_set_back([*after, *before])
    assert not was_set_back(before)
    assert not was_set_back([*before, *(clock._replace(process="q") for clock in after)])
