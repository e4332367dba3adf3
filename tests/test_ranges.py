"""Ranges change no result: they prove nothing that the partition's rules contradict."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from campaign import examples
from combined_corpus import JudgedRun
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.engines import local, store
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.results import Results
from logjudge.analysis.screening import premises
from logjudge.analysis.screening.ranges import Proof
from logjudge.histories.bundle import Run, open_run
from notation import parse
from screened import judged, reporting_in, without_figures
from test_screening import GROUPS, compared, random_texts, together

OFFSETS = 3  # of a range in these tests: most histories have several
Proofs = dict[tuple[str, int], Proof]


def judged_by_ranges(run: Run, offsets: int = OFFSETS, held: int = 1 << 30) -> tuple[Results, Proofs]:
    """The results of the local engine with ranges of so many offsets, and what these prove."""
    proofs: Proofs = {}
    prove = local.proof_of

    def proof_of(topic: str, partition: int, *args: Any) -> Proof:
        proofs[topic, partition] = proof = prove(topic, partition, *args)
        return proof

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "proof_of", proof_of)
        patch.setattr(store, "MAX_BYTES", held)
        return judged(run.with_settings(range_offsets=offsets, large_rows=0), 0), proofs


def compare(run: Run, offsets: int = OFFSETS, held: int = 1 << 30) -> int:
    """Asserts that ranges of so many offsets change nothing; the number of partitions that they prove to be valid."""
    plain = judged(run, 0)
    results, proofs = judged_by_ranges(run, offsets, held)
    assert results.findings().equals(plain.findings())
    for before, after in zip(plain.summaries, results.summaries, strict=True):
        assert without_figures(after) == without_figures(before), (before["topic"], before["partition"])
    return count_proved(proofs, plain)


def count_proved(proofs: Proofs, plain: Results) -> int:
    """The number of partitions that ranges prove to be valid; asserts that no finding is proved away."""
    for summary in plain.summaries:
        proof = proofs.get((summary["topic"], summary["partition"]))
        if proof and proof.summary is None:
            assert reporting_in(summary) <= proof.unproved, (summary["topic"], summary["partition"])
        elif proof:
            assert without_figures(proof.summary or {}) == without_figures(summary), summary["topic"]
    return sum(proof.summary is not None for proof in proofs.values())


compare_together = partial(compared, compare)


@pytest.mark.thorough
@pytest.mark.parametrize("offsets", [2, pytest.param(10, marks=pytest.mark.campaign)])
def test_no_finding_of_the_corpus_is_proved_away(offsets: int, combined_corpus: list[JudgedRun]) -> None:
    """Most of these histories fit into a range of ten offsets; many breaches lie between ranges of two."""
    valid = 0
    for one in combined_corpus:
        run = one.results.run
        run = run.with_settings(range_offsets=offsets, large_rows=0, batches=0)
        gathered = local.gather(run)
        proved = local._prove_large(gathered.units, gathered.common, lambda *_: None)
        valid += count_proved({unit: proof for unit, proof, *_ in proved}, one.results)
    assert valid > 25


@pytest.mark.thorough
@examples(2, 40)
@given(st.randoms(use_true_random=False), st.integers(1, 10))
def test_random_histories_are_judged_the_same(random: Random, offsets: int) -> None:
    compare_together(random_texts(random, 30), offsets)


@pytest.mark.thorough
def test_verdicts_are_the_same_where_memory_is_short(tmp_path: Path) -> None:
    run = open_run(together(random_texts(Random(5), 20)).write(tmp_path))
    assert compare(run, OFFSETS, held=0)


# Histories without a breach within a range of two offsets, and the rules that must judge what lies between ranges.
BETWEEN = {
    "a value sent twice": ("p:a@0 p:b@1 p:a@2", premises.PROVED),
    "one indeterminate value at two offsets": ("p:a?~ p:b@1 c:<a@0 d:<a@2", premises.PROVED),
    "sends that do not follow": ("p:a.. p:b.. p:..b@0 p:..a@2", premises.SENDS),
    "a jump of a consumer": ("p:a@0 p:b@1 p:d@2 p:e@3 c:<a@0 c:<e@3", premises.POLLS),
    "a consumer that goes back": ("p:a@0 p:b@1 p:d@2 c:<a@0,b@1,d@2 c:<a@0", premises.POLLS),
    "an assignment elsewhere": ("p:a@0 p:b@1 p:d@2 c:assign=1 c:<d@2", premises.POLLS),
    "an earlier record behind a later one": ("p:b@2 p:a@0", premises.TIME),
    "an end offset beyond a later record": ("end=4 p:a@0", premises.TIME),
    "an end offset beyond a later one": ("p:a@0 end=5 end=1", premises.TIME),
    "an unread record before others": ("p:a@0 p:b@1 p:d@2 c:<d@2", premises.LOSS),
    "final reads that begin late": ("p:a@0 p:b@1 p:d@2 final:assign=2 final:<d@2", premises.LOSS),
    "final reads of some records": ("p:a@0 p:b@1 p:d@2 final:assign=0 final:<a@0,b@1", premises.LOSS),
    "a commit over a record": (f"{GROUPS} p:a@0 p:b@1 p:d@2 c:<a@0,b@1 c:commit=3", premises.GROUPS),
    "a commit beyond the log": (f"{GROUPS} p:a@0 c:<a@0 c:commit=5", premises.GROUPS),
    "a commit that goes back": (f"{GROUPS} p:a@0 p:b@1 p:d@2 c:<a@0,b@1,d@2 c:commit=3 d:commit=1", premises.GROUPS),
    "a record below a group's first": (f"{GROUPS} p:a@0 p:b@1 p:d@2 d:group=2 d:<d@2", premises.GROUPS),
    "a group without a name": ("p:a@0 p:b@1 p:d@2 c:<a@0,b@1,d@2 c:commit=3", premises.GROUPS),
    "a deletion": ("p:a@0 p:b@1 p:d@2 delete=1", premises.PROVED),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_a_rule_is_judged_if_two_ranges_contradict_its_premise(name: str, tmp_path: Path) -> None:
    text, rules = BETWEEN[name]
    _, proofs = judged_by_ranges(open_run(parse(text).write(tmp_path)), 2)
    assert set(rules) <= proofs["x", 0].unproved


def test_a_valid_partition_is_proved_by_its_ranges(tmp_path: Path) -> None:
    sends = " ".join(f"p:v{number}@{number}" for number in range(9))
    reads = ",".join(f"v{number}@{number}" for number in range(9))
    text = f"{GROUPS} {sends} p:w?~ c:group=0 c:<{reads} c:commit=7 end=9 final:assign=0 final:<{reads}"
    results, proofs = judged_by_ranges(open_run(parse(text).write(tmp_path)), 2)
    assert proofs["x", 0].unproved == frozenset()
    figures = merge_figures(results.summaries, results.context, results.run.settings)
    assert (sum(figures["series"]["ok"]), sum(figures["series"]["info"]), sum(figures["series"]["read"])) == (9, 1, 18)
    assert figures["impact"]["acknowledged"] == 9


@pytest.mark.sampled(1)
@pytest.mark.spark
@pytest.mark.parametrize("large_rows", [0, None])
def test_spark_proves_the_same(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_rows: int | None
) -> None:
    """Large partitions have ranges: those of the valid one prove it, and the other one is judged. The tasks that judge
    a partition prove it where it is not large enough for a task for each range; figures show that both engines do."""
    from logjudge.analysis.engines.spark import judge_run

    texts = [*random_texts(Random(11), 6), "p:a~ p:b~", "p:a@0 p:b@1 c:<a@0 final:assign=0 final:<a@0,b@1"]
    large = range(1_500 if large_rows == 0 else 5_200)  # in some splits they are among the small ones
    for skipped in (None, 700):
        read = ",".join(f"v{n}@{n}" for n in large if n != skipped)
        texts.append(" ".join([f"p:v{n}@{n}" for n in large] + [f"c:<{read}"]))
    folder = together(texts).write(tmp_path)
    run = open_run(folder, split_bytes=(folder / "history.jsonl").stat().st_size // 3)
    settings = replace(run.settings, range_offsets=100, **({} if large_rows is None else {"large_rows": large_rows}))
    run = replace(run, settings=settings)
    monkeypatch.setattr(local, "batches_of", lambda _: 3)
    monkeypatch.setattr("logjudge.analysis.engines.spark.plan.batches_of", lambda _: 3)
    here, there = local.judge_run(run), judge_run(run, spark)
    assert there.findings().equals(here.findings())
    compared = without_figures if large_rows == 0 else dict
    expected = json.loads(json.dumps([compared(one) for one in here.summaries]))
    assert [compared(one) for one in there.summaries] == expected
