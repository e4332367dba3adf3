"""Our rules and their naive twins find the same in random histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
import twin_jepsen
import twins_groups
from campaign import IS_CAMPAIGN, Selection
from combined_corpus import judge_combined
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.rules import RULES
from logjudge.analysis.rules.cycles import RULES_OF_CYCLES
from logjudge.histories.bundle import open_run
from notation import parse
from simulated import Simulated
from twin_events import sends_of
from twins import Breach, Twin

# The compared parts of a finding. If neighbours are one finding, each record of it is compared.
BREACHES: dict[str, Callable[[dict[str, Any]], Iterator[Any]]] = {
    **dict.fromkeys(
        ("lost-write", "unseen", "aborted-read", "phantom-read", "precommitted-read"),
        lambda f: ((value,) for value in f["values"]),
    ),
    "duplicate": lambda f: iter([(*f["values"], f["first_offset"], f["last_offset"])]),
    **dict.fromkeys(
        ("poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll"),
        lambda f: iter([(*f["processes"], f["first_offset"], f["last_offset"])]),
    ),
    **dict.fromkeys(
        ("nonmonotonic-send", "int-nonmonotonic-send", "int-send-skip"), lambda f: iter([tuple(f["values"])])
    ),
    **dict.fromkeys(
        ("stale-end-offset", "commit-regression", "commit-beyond-end"),
        lambda f: iter([(f["first_offset"], f["last_offset"])]),
    ),
}
# For these the twin also has the offset of each read.
BY_ENTRY = ("aborted-read", "phantom-read", "precommitted-read")
SEVERITIES = ("violation", "permitted", "note")
COMPARED = BREACHES.keys() | {"inconsistent-offsets", "consumer-loss", "realtime-order"}
SEEDS = 5000 if IS_CAMPAIGN else 2000
RARE = [  # what random histories lack: a crash between two sends, and polls of a process that are open at once
    "p:a.. p:crash p:b.. p:..b@0 p:..a@1",
    "p:a@0 p:b@1 p:e@2 c:<a@0.. c:<b@1 c:..<a@0 c:<e@2 d:<a@0,b@1,e@2",
]


def kinds_of(breaches: set[Breach]) -> set[tuple[str, str]]:
    """The rules that a history breaks, with the severity if the twin has one."""
    return {(breach[0], breach[1] if breach[1] in SEVERITIES else "") for breach in breaches}


def test_rules_and_twins_agree(tmp_path: Path) -> None:
    selection, theirs = Selection(2), {}
    simulated = (Simulated(Random(seed), (0, 10, 20, 30)[seed % 4]).history() for seed in range(SEEDS))
    for text in chain(RARE, simulated):
        twin = Twin(parse(text))
        if len({send.value for send in twin.sends}) < len(twin.sends):
            continue  # values do not identify messages: the run is unknown, and either may be taken for the other
        breaches = {*twin.breaches(), *twins_groups.breaches(twin)}
        if selection.takes(kinds_of(breaches)):
            theirs[text] = breaches
    assert {rule for rule, _ in kinds_of(set().union(*theirs.values()))} >= COMPARED
    for judged in judge_combined(list(theirs), tmp_path):
        for text, findings in judged.findings_by_history().items():
            compare(text, findings, theirs[text])


@pytest.mark.thorough
def test_rules_and_twins_agree_on_values_that_were_sent_again(tmp_path: Path) -> None:
    selection, theirs, has_repeated = Selection(10), {}, {}
    for seed in range(SEEDS // 20):
        text = Simulated(Random(seed), (0, 10)[seed % 2], again=30).history()
        twin = Twin(parse(text))
        placed = [step["value"] for op in twin.ops for step in sends_of(op) if step.get("partition") is not None]
        values = [send.value for send in twin.sends]
        repeats = len({*placed} - {None}) < len([value for value in placed if value is not None])
        if any("#attempt" in value for value in values) and len(set(values)) == len(values):
            theirs[text] = {*twin.breaches(), *twins_groups.breaches(twin)}
        if text in theirs or selection.takes({repeats}):
            has_repeated[text] = repeats
    assert {rule for rule, _ in kinds_of(set().union(*theirs.values()))} >= {"duplicate", "lost-write"}
    for judged in judge_combined(list(has_repeated), tmp_path):
        for summary in judged.results.summaries:
            if summary["partition"] == 0:
                text = judged.run.topics[summary["topic"]]
                assert (summary["repeated_values"] > 0) == has_repeated[text], text
        for text, findings in judged.findings_by_history().items():
            if text in theirs:
                compare(text, findings, theirs[text])


def test_rules_and_twins_agree_on_transactions_that_consume_and_produce(tmp_path: Path) -> None:
    histories = list(dict.fromkeys(_pipeline(Random(seed)) for seed in range(100)))
    theirs = {text: set(twins_groups.breaches(Twin(parse(text)))) for text in histories}
    notes = [
        breach for breaches in theirs.values() for breach in breaches if breach[:2] == ("commit-regression", "note")
    ]
    assert 10 < len(notes) < 90
    for judged in judge_combined(histories, tmp_path, "commit-regression"):
        for text, findings in judged.findings_by_history().items():
            found = {(finding["severity"], finding["first_offset"], finding["last_offset"]) for finding in findings}
            assert found == {breach[1:] for breach in theirs[text] if breach[0] == "commit-regression"}, text


def _pipeline(random: Random) -> str:
    """Two members of one group, or of two, copy four records in transactions."""
    tokens = [f"{{p.group.id=g q.group.id={random.choice('gggh')}}}", *(f"z:v{number}@{number}" for number in range(4))]
    for number in range(random.randint(2, 3)):
        first, last = sorted(random.choices(range(4), k=2))
        records = "+".join(f"v{offset}@{offset}" for offset in range(first, last + 1))
        steps = [f"<{records}", f"w{number}@{4 + 2 * number}", f"commit={random.choice((last, last + 1, last + 1))}"]
        tokens.append(f"{random.choice('pq')}:({','.join(steps)}){random.choice(('', '', '', '!', '~'))}")
    return " ".join(tokens)


def compare(text: str, findings: list[dict[str, Any]], naive: set[Breach]) -> None:
    """Assert that a history has the findings that the twins find in it."""
    for rule in RULES.keys() - RULES_OF_CYCLES.keys():  # test_cycles.py has their twin
        ours = [finding for finding in findings if finding["rule"] == rule]
        theirs = {breach[1:] for breach in naive if breach[0] == rule}
        if rule == "consumer-loss":
            for group in {breach[2] for breach in theirs} | {_group(finding) for finding in ours}:
                mine = [finding for finding in ours if _group(finding) == group]
                _compare_ranges(mine, {breach[:2] for breach in theirs if breach[2] == group}, text)
            continue
        if rule == "inconsistent-offsets":
            _compare_ranges(ours, theirs, text)
            continue
        if rule == "realtime-order":
            _compare_appends(ours, theirs, text)
            continue
        found = {(finding["severity"], *breach) for finding in ours for breach in BREACHES[rule](finding)}
        if rule in BY_ENTRY:
            _compare_spans(ours, theirs, text)
            theirs = {breach[:2] for breach in theirs}
        assert found == theirs, f"{rule} in {text}"


def _group(finding: dict[str, Any]) -> str:
    return str(finding["processes"][0]) if finding["processes"] else ""


def _compare_ranges(findings: list[dict[str, Any]], breaches: set[Breach], text: str) -> None:
    """Each offset of a breach lies in exactly one finding, which begins and ends with one and counts them."""
    for severity in SEVERITIES:
        offsets = {breach[1] for breach in breaches if breach[0] == severity}
        for finding in (finding for finding in findings if finding["severity"] == severity):
            mine = {offset for offset in offsets if finding["first_offset"] <= offset <= finding["last_offset"]}
            assert {finding["first_offset"], finding["last_offset"]} <= mine, text
            assert finding["count"] == len(mine), text
            offsets -= mine
        assert not offsets, f"{severity} at {offsets} in {text}"


def _compare_appends(findings: list[dict[str, Any]], breaches: set[Breach], text: str) -> None:
    """Each append of a breach lies in exactly one finding, which begins and ends with one, names and counts them."""
    for finding in findings:
        mine = {breach for breach in breaches if finding["first_offset"] <= breach[2] <= finding["last_offset"]}
        assert {finding["first_offset"], finding["last_offset"]} <= {offset for _, _, offset in mine}, text
        assert {value for _, value, _ in mine} <= {*finding["values"]}, text
        assert finding["count"] == len(mine), text
        breaches = breaches - mine
    assert not breaches, f"{breaches} in {text}"


def _compare_spans(findings: list[dict[str, Any]], breaches: set[Breach], text: str) -> None:
    for finding in findings:
        offsets = {breach[2] for breach in breaches if breach[1] in finding["values"]}
        assert {finding["first_offset"], finding["last_offset"]} <= offsets, text


JEPSEN: dict[str, Callable[[dict[str, Any], list[int]], Breach]] = {
    **dict.fromkeys(("lost-write", "unseen", "aborted-read"), lambda f, _: (f["topic"], *f["values"])),
    "inconsistent-offsets": lambda f, _: (f["topic"], f["first_offset"], *sorted(f["values"])),
    "duplicate": lambda f, _: (f["topic"], *f["values"], f["first_offset"], f["last_offset"]),
    "precommitted-read": lambda _, ops: (ops[0],),
    **dict.fromkeys(("poll-skip", "nonmonotonic-poll"), lambda f, ops: (f["severity"], f["topic"], *ops)),
    "nonmonotonic-send": lambda f, ops: (f["topic"], *ops),
    **dict.fromkeys(
        ("int-poll-skip", "int-nonmonotonic-poll", "int-send-skip", "int-nonmonotonic-send"),
        lambda f, ops: (f["topic"], *f["values"], ops[-1]),
    ),
}
BY_INDEX = set(JEPSEN) - {"unseen", "aborted-read", "inconsistent-offsets", "duplicate", "precommitted-read"}


def test_jepsens_rules_and_twins_agree(tmp_path: Path) -> None:
    selection = Selection(2)
    for seed in range(SEEDS // 3):
        ops, edn = twin_jepsen.random_history(Random(seed), (0, 5, 15, 30)[seed % 4])
        breaches = set(twin_jepsen.breaches(ops, "xy"))
        if selection.takes(kinds_of(breaches)):
            compare_with_jepsen(edn, breaches, tmp_path / "history.edn")
    assert {kind[0] for kind in selection.met} >= JEPSEN.keys()


def compare_with_jepsen(edn: str, breaches: set[Breach], file: Path) -> None:
    """Assert that a history has the findings that the twins find in it."""
    file.write_text(edn)
    findings = judge_run(open_run(file)).findings().to_dicts()
    # Either of two values at an offset may be taken, so only the values of that key are compared.
    vague = {finding["topic"] for finding in findings if finding["rule"] == "inconsistent-offsets"}
    ours = {
        (finding["rule"], *JEPSEN[finding["rule"]](finding, [item["line"] - 1 for item in finding["evidence"]]))
        for finding in findings
        if finding["topic"] not in vague or finding["rule"] not in BY_INDEX
    }
    assert ours == breaches, edn
