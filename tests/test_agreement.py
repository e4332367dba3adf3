"""Linearizability and the rules agree on thousands of small histories, as docs/rules.md claims."""

from __future__ import annotations

from collections import Counter
from random import Random

from agreement import IMPLY, SESSION, disagreement, judge_all, random_histories
from campaign import IS_CAMPAIGN
from logjudge.analysis.rules import RULES
from logjudge.cli.rules import document

COUNT = 5000 if IS_CAMPAIGN else 80  # histories; some 40 a second


def test_rules_and_the_log_model_agree() -> None:
    rng = Random(6)
    found: Counter[str] = Counter()
    seen: Counter[tuple[bool, bool, bool]] = Counter()
    for start in range(0, COUNT, 500):
        for judged in judge_all(random_histories(rng, min(500, COUNT - start))):
            assert disagreement(judged) is None
            found.update(judged.rules)
            seen[judged.linearizable, judged.dense, bool(judged.rules)] += 1
    # Both verdicts were met, and most rules have spoken. A log without holes is the stronger promise.
    assert set(found) <= IMPLY | SESSION
    assert len(found) >= 9
    assert seen[True, True, False] > COUNT // 4
    assert seen[False, False, True] > COUNT // 8
    assert seen[True, False, False] > 0
    assert not any(dense and not linearizable for linearizable, dense, _ in seen)


def test_the_document_relates_each_rule_to_linearizability() -> None:
    text = document().partition("## Rules and linearizability")[2]
    assert all(f"`{rule}`" in text for rule in (IMPLY | SESSION) & set(RULES))
