"""Screening changes no result: the rules find nothing where premises prove that they find nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
import rules_corpus
from agreement import changed, in_notation, random_ops
from campaign import examples
from combined_corpus import HISTORIES, combine
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis import kernel
from logjudge.analysis.engines import local
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.inspect import open_partitions
from logjudge.analysis.rules import RULES
from logjudge.analysis.screening import premises, screen
from logjudge.analysis.verdict.document import report_of
from logjudge.histories.bundle import open_run
from notation import History, parse
from screened import compare, judged, screened
from simulated import Simulated

GROUPS = "{c.group.id=g d.group.id=g c.isolation.level=read_committed}"


def together(texts: Sequence[str]) -> History:
    """One run of these histories. Each has its own topic and processes; they share faults and the end of the run."""
    parsed = [parse(text, f"t{number}", f"t{number}.") for number, text in enumerate(texts)]
    config: dict[str, object] = {}
    for one in parsed:
        for name, value in one.config.items():
            before = config.get(name)
            config[name] = {**before, **value} if isinstance(before, dict) else value
    return History([event for one in parsed for event in one.events], config)


def compared(compare: Callable[..., int], texts: Sequence[str], *arguments: int) -> int:
    """The result of comparing a run, for the run of these histories."""
    with tempfile.TemporaryDirectory() as folder:
        return compare(open_run(together(texts).write(Path(folder))), *arguments)


compare_together = partial(compared, compare)


def test_no_finding_of_the_corpus_is_proved_away(tmp_path: Path) -> None:
    found = {case.history: {rules_corpus.rule_of(shown) for shown in case.found} for case in rules_corpus.load()}
    valid = 0
    for number, run in enumerate(combine(HISTORIES)):
        proved = screened(open_run(run.history.write(tmp_path / str(number))))
        for topic, text in run.topics.items():
            assert (topic, 0) not in proved.summaries or not found[text], text
            assert (topic, 0) not in proved.unproved or found[text] <= proved.unproved[topic, 0], text
        valid += len(proved.summaries)
    assert valid > 30


@pytest.mark.campaign
def test_the_corpus_is_judged_the_same() -> None:
    texts = [case.history for case in rules_corpus.load()]
    Random(1).shuffle(texts)
    assert sum(compare_together(texts[first : first + 30]) for first in range(0, len(texts), 30)) > 30


def group_history(random: Random) -> str:
    """Two consumers of a group that poll, handle, commit and hand the partition over, and some final reads."""
    tokens, read, written, owner, handles = [], 0, 0, "c", random.random() < 0.3
    for _ in range(random.randint(4, 14)):
        act = random.choice(("send", "send", "send", "lose", "poll", "poll", "commit", "move", "end", "kill"))
        if act == "send":
            tokens.append(f"p:v{written}@{written}")
            written += 1
        elif act == "lose":
            tokens.append(f"q:v{written}~")
            written += random.random() < 0.5
        elif act == "poll" and written > read:
            last = random.randint(read, written - 1)
            records = ",".join(f"v{offset}@{offset}" for offset in range(read, last + 1))
            tokens += [f"{owner}:<{records}"] + [f"{owner}:handle<{records}"] * handles
            read = last + 1
        elif act == "commit":
            tokens.append(f"{owner}:{random.choice(('commit', 'auto'))}={read}")
        elif act == "move":
            tokens.append(f"{owner}:revoked")
            owner = random.choice("cd")
            tokens.append(random.choice((f"{owner}:group={read}", f"{owner}:group=null", f"{owner}:crash")))
        elif act in ("end", "kill"):
            tokens.append(f"end={written}" if act == "end" else "nemesis:kill")
    if random.random() < 0.7:
        records = ",".join(f"v{offset}@{offset}" for offset in range(written))
        tokens += [f"end={written}", "final:assign=0"] + [f"final:<{records}"] * bool(written)
    return f"{GROUPS} {' '.join(tokens)}"


def mutated(text: str, random: Random) -> str:
    """A `group_history` with one operation left out, repeated, or exchanged with the next one."""
    tokens = text.removeprefix(GROUPS).split()
    at = random.randrange(len(tokens)) if tokens else 0
    tokens[at : at + 2] = random.choice(([], tokens[at : at + 1], tokens[at : at + 1] * 2, tokens[at : at + 2][::-1]))
    return f"{GROUPS} {' '.join(tokens)}"


def random_texts(random: Random, count: int) -> list[str]:
    """Histories of three kinds. About half have a random change, which may or may not be a breach."""
    texts = []
    for _ in range(count):
        kind = random.random()
        if kind < 0.4:
            ops = random_ops(random)
            texts.append(in_notation(changed(ops, random) if random.random() < 0.5 else ops))
        elif kind < 0.85:
            text = group_history(random)
            texts.append(mutated(text, random) if random.random() < 0.5 else text)
        else:
            texts.append(Simulated(random, random.choice((0, 0, 10))).history())
    return texts


@examples(2, 40)
@given(st.randoms(use_true_random=False))
def test_random_histories_are_judged_the_same(random: Random) -> None:
    compare_together(random_texts(random, 30))


# For each premise a partition that contradicts it, and nothing else.
CONTRADICTIONS = {
    "_log_only_grows_by_plain_sends": "p:(a@0) final:assign=0 final:<a@0",
    "_each_offset_has_one_record": "p:a@0 p:b@? final:assign=0 final:<a@0,b@1",
    "_final_reads_are_of_final_processes": "p:a@0 p:b@1 final:assign=1 final:<b@1",
    "_acknowledged_records_are_read": "p:a@0 p:b@1 final:assign=0 final:<a@0",
    "_ends_grow_in_the_order_of_time": "p:b@1 p:a@0 final:assign=0 final:<a@0,b@1",
    "_offsets_grow_with_each_producers_sends": "p:a.. p:b.. p:..b@0 p:..a@1 final:assign=0 final:<a@0,b@1",
    "_consumers_read_from_their_positions": "p:a@0 p:b@1 c:<b@1 c:<a@0 final:assign=0 final:<a@0,b@1",
    "_no_generations": "p:a@0 c:group=0^1 c:<a@0 final:assign=0 final:<a@0",
    "_groups_handle_what_they_commit": "p:a@0 p:b@1 c:<a@0 c:commit=2 final:assign=0 final:<a@0,b@1",
}


def rules_that_judge(text: str, folder: Path) -> frozenset[str]:
    """The rules that judge the one partition of a history after the screening."""
    return screened(open_run(parse(text).write(folder))).unproved.get(("x", 0), frozenset())


def test_each_premise_can_fail(tmp_path: Path) -> None:
    assert not rules_that_judge("p:a@0 p:b@1 c:<a@0 final:assign=0 final:<a@0,b@1", tmp_path / "valid")
    assert [premise.contradictions.__name__ for premise in premises.PREMISES] == list(CONTRADICTIONS)
    for premise, (name, text) in zip(premises.PREMISES, CONTRADICTIONS.items(), strict=True):
        assert set(premise.rules) <= rules_that_judge(text, tmp_path / name), name


def test_only_the_rules_of_a_failed_premise_judge(tmp_path: Path) -> None:
    jump = "p:a@0 p:b@1 p:e@2 c:<a@0 c:<e@2 final:assign=0 final:<a@0,b@1,e@2"
    assert rules_that_judge(jump, tmp_path) == set(premises.POLLS)


def test_a_rule_without_premises_judges_every_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(premises.PROVED) == {name for name, rule in RULES.items() if "native" in rule.judges}
    monkeypatch.setattr(screen, "PROVED", tuple(name for name in premises.PROVED if name != "duplicate"))
    assert rules_that_judge("p:a@0 final:assign=0 final:<a@0", tmp_path) == {"duplicate"}


def test_the_engine_reports_the_same_with_screening(tmp_path: Path) -> None:
    run = open_run(together(random_texts(Random(3), 20)).write(tmp_path))
    plain, batches = judged(run, 0), judged(run, 3)
    assert batches.findings().equals(plain.findings())
    assert report_of(batches, "local") == report_of(plain, "local")
    assert any("partitions" in (one["figures"] or {}) for one in batches.summaries)


@pytest.mark.thorough
def test_figures_of_all_partitions_are_the_same(tmp_path: Path) -> None:
    """The sums over all partitions; single partitions that are plainly valid are not drawn."""
    random = Random(7)
    texts = [group_history(random) for _ in range(30)] + ["p:a@0 p:b?~ final:assign=0 final:<a@0"]
    run = open_run(together(texts).write(tmp_path))
    figures = [
        merge_figures(results.summaries, results.context, run.settings) for results in (judged(run, 0), judged(run, 3))
    ]
    for name in ("span", "bins", "series", "latency", "impact", "heat", "times", "windows", "never_received"):
        assert figures[1][name] == figures[0][name], name


def test_the_largest_partitions_are_drawn(tmp_path: Path) -> None:
    texts = ["p:a@0 final:assign=0 final:<a@0", "p:a@0 p:b@1 final:assign=0 final:<a@0,b@1"]
    results = judged(open_run(together(texts).write(tmp_path)), 1, drawn=1)
    figures = merge_figures(results.summaries, results.context, results.run.settings)
    assert [partition["name"] for partition in figures["partitions"]] == ["t1-0"]
    assert figures["impact"]["acknowledged"] == 3


@pytest.mark.spark
def test_spark_screens_the_same(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large partition has its own blocks in some splits, and shares those of the small ones in others."""
    from logjudge.analysis.engines.spark import judge_run

    large = range(1_500)
    texts = [text for text in map(group_history, map(Random, range(30))) if "kill" not in text][:10]
    texts += ["p:a@0 p:b@1 c:<a@0 final:assign=0 final:<a@0,b@1"] * 60
    texts.append(" ".join([f"p:v{n}@{n}" for n in large] + ["c:<" + ",".join(f"v{n}@{n}" for n in large)]))
    folder = together(texts).write(tmp_path)
    run = open_run(folder, split_bytes=(folder / "history.jsonl").stat().st_size // 3)
    monkeypatch.setattr(local, "batches_of", lambda _: 3)
    monkeypatch.setattr("logjudge.analysis.engines.spark.plan.batches_of", lambda _: 3)
    here, there = local.judge_run(run), judge_run(run, spark)
    assert there.findings().equals(here.findings())
    assert there.summaries == json.loads(json.dumps(here.summaries))
    assert sum("partitions" in (one["figures"] or {}) for one in here.summaries) > 1


def test_explain_judges_no_partition_that_is_plainly_valid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["p:a@0 p:b@1 final:<a@0,b@1"] * 30
    folder = together([*texts, "p:a@0 p:b@1 c:<a@0,b@1 final:<b@1", *texts]).write(tmp_path)
    judging: list[str] = []

    def judge(p: Any, names: Any = None) -> Any:
        judging.append(p.name)
        return kernel.judge(p, names)

    monkeypatch.setattr(open_partitions, "judge", judge)
    opened = open_partitions.Inspected(folder)
    found = {name: {one.rule for one in opened.judged(opened.partition(name))[0]} for name in opened.names()}
    assert len(found) == 61
    assert {name: rules for name, rules in found.items() if rules} == {"t30-0": {"lost-write"}}
    assert judging == ["t30-0"]


def test_a_partition_that_is_read_at_once_is_screened_with_the_others(tmp_path: Path) -> None:
    records = range(1_100)  # more than SMALL_ROWS
    read = ",".join(f"v{n}@{n}" for n in records)
    text = " ".join([*(f"p:v{n}@{n}" for n in records), f"final:assign=0 final:<{read}"])
    run = open_run(together([text] * 5).write(tmp_path)).with_settings(batches=1)
    gathered = local.gather(run)
    assert not gathered.units
    assert len(local.screen_small(gathered)) == screen.MAX_DRAWN
    assert local.gather(run.with_settings(batches=0)).units
