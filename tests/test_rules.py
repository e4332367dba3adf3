"""Every rule against the corpus: what is found, nothing else, and the verdicts that follow."""

from __future__ import annotations

from collections import Counter
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from combined_corpus import JudgedRun
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.rules import RULES
from logjudge.histories.settings import Settings
from notation import judge
from rules_corpus import Case, load, rule_of, shown

CORPUS = load()

# The other rules that the example of a rule breaks, and why.
ALSO_BROKEN = {
    "lost-write": {"inconsistent-offsets"},  # another value was written at the offset
    "inconsistent-offsets": {"lost-write"},  # the first of two acknowledged values is gone
    "nonmonotonic-send": {"realtime-order"},  # the two sends did not overlap
    "G0": {"int-send-skip"},  # the records of a transaction are not adjacent
    "G0-process": {"nonmonotonic-send", "realtime-order"},  # the transactions did not overlap
    "G0-realtime": {"realtime-order"},
    "stale-end-offset": {"lost-write"},  # an end below an acknowledged write proves that it is gone
}


# Judged in a run of its own: the whole run decides what is unknown or not judged.
OF_RUNS = [case for case in CORPUS if "run" in case.verdicts or {*case.verdicts.values()} - {"valid", "invalid"}]
OF_RULES = [case for case in CORPUS if case.verdicts and case not in OF_RUNS]


@pytest.fixture(scope="module")
def found_together(combined_corpus: list[JudgedRun]) -> dict[str, Counter[str]]:
    """The findings of each history in a run with many others."""
    assert not any(len(judged.results.quarantine()) for judged in combined_corpus)
    return {text: found for judged in combined_corpus for text, found in judged.shown_by_history().items()}


@pytest.fixture(scope="module")
def unjudged_together(combined_corpus: list[JudgedRun]) -> set[tuple[str, str]]:
    """Each history with the rules that cannot judge it."""
    summaries = [(judged.run.topics, summary) for judged in combined_corpus for summary in judged.results.summaries]
    return {(topics[summary["topic"]], rule) for topics, summary in summaries for rule in summary["unjudged"]}


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: f"{case.rule}: {case.history}")
def test_corpus(case: Case, found_together: dict[str, Counter[str]]) -> None:
    assert found_together[case.history] == Counter(case.found), case.why


@pytest.mark.parametrize("case", OF_RULES, ids=lambda case: case.history)
def test_verdicts_of_rules(case: Case, unjudged_together: set[tuple[str, str]]) -> None:
    broken = {rule_of(found) for found in case.found if ":" not in found.partition("@")[0]}
    for name, verdict in case.verdicts.items():
        assert (name in broken) == (verdict == "invalid"), case.why
        assert (case.history, name) not in unjudged_together, case.why


@pytest.mark.parametrize("case", OF_RUNS, ids=lambda case: case.history)
def test_verdicts_of_runs(case: Case, tmp_path: Path) -> None:
    judged = judge(case.history, tmp_path)
    assert Counter(map(shown, judged.findings)) == Counter(case.found), case.why
    rules = judged.verdict["rules"]
    verdicts = {name: judged.verdict["verdict"] if name == "run" else rules[name]["verdict"] for name in case.verdicts}
    assert verdicts == case.verdicts, case.why


# Rules on brokers' files have no example in the language of histories; tests/evidence has their cases.
OF_CLIENTS = [name for name, rule in RULES.items() if rule.example]


@pytest.mark.parametrize("name", OF_CLIENTS)
def test_the_example_breaks_its_rule(name: str, tmp_path: Path) -> None:
    judged = judge(RULES[name].example, tmp_path)
    assert {finding["rule"] for finding in judged.findings} == {name} | ALSO_BROKEN.get(name, set())
    severity = "note" if name == "int-send-skip" else "permitted" if name.startswith("G0") else "violation"
    assert {finding["severity"] for finding in judged.of(name)} == {severity}


def test_every_rule_has_cases_on_both_sides() -> None:
    found = Counter(case.rule for case in CORPUS if case.breaks)
    unbroken = Counter(case.rule for case in CORPUS if not case.breaks)
    assert set(found) == set(OF_CLIENTS)
    assert min(found.values()) >= 4
    assert min(unbroken[name] for name in OF_CLIENTS) >= 4
    assert len({case.history for case in CORPUS}) > 0.9 * len(CORPUS)


def test_observations_are_immutable() -> None:
    p = Partition("orders", 0, Settings())
    with pytest.raises(FrozenInstanceError):
        p.ambiguous = [("reads", "its generation is not known")]  # type: ignore[misc]
