"""The headline of a run: what was lost, what was broken, and no more than was judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import LOSSY, check
from figure_cases import judged
from logjudge.analysis.incidents.headlines import headline as incident_headline
from logjudge.analysis.incidents.incident import Explained
from logjudge.analysis.timelines.facts import Fact
from logjudge.histories.tables import Finding
from logjudge.plots.report import headline
from notation import judge, parse


@pytest.mark.parametrize(
    ("lost", "read", "expected"),
    [
        (1, 0, "1 acknowledged write of 9 was lost. No recorded consumer had read it."),
        (1, 1, "1 acknowledged write of 9 was lost. A consumer had already read it."),
        (3, 0, "3 acknowledged writes of 9 were lost. No recorded consumer had read them."),
        (3, 1, "3 acknowledged writes of 9 were lost. Consumers had already read 1 of them."),
        (3, 3, "3 acknowledged writes of 9 were lost. Consumers had already read all of them."),
    ],
)
def test_the_headline_counts_what_was_lost(lost: int, read: int, expected: str) -> None:
    impact = {"lost": lost, "lost_read": read, "acknowledged": 9}
    assert headline({"counts": {"operations": 9}}, impact) == expected


def test_the_headline_names_a_setting_on_which_losses_depend(tmp_path: Path) -> None:
    """Compaction may have removed a before the truncation, if the topic is compacted."""
    text = "p:a@0#k p:b@1#k c:<a@0,b@1 end=0 p:x@0 p:y@1 end=2"
    verdict = judge(text, tmp_path).verdict
    expected = "But run.json does not set cleanup.policy of x, taken as delete, and verdicts depend on that."
    assert headline(verdict, {"lost": 2, "lost_read": 2, "acknowledged": 4}).endswith(f"all of them. {expected}")


@pytest.mark.parametrize(
    ("lost", "read", "expected"),
    [
        (3, 0, "No recorded consumer had read them; 30 lines of the evidence are missing."),
        (3, 1, "Consumers had already read at least 1 of them; 30 lines of the evidence are missing."),
        (3, 3, "Consumers had already read all of them."),
    ],
)
def test_the_headline_counts_missing_lines(lost: int, read: int, expected: str) -> None:
    impact = {"lost": lost, "lost_read": read, "acknowledged": 9}
    assert headline({"counts": {"operations": 9, "quarantined": 30}}, impact).endswith(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "p:a@0 p:b@? p:e@? end=1 final:<a@0",
            "2 acknowledged writes of 3 were never read, although the final reads reached the end.",
        ),
        (
            "p:a@0 p:b@? c:<a@0 c:<a@0 end=1 final:<a@0",
            "1 acknowledged write of 2 was never read, although the final reads reached the end. Guarantees were"
            " broken, too: nonmonotonic-poll (1 record).",
        ),
        (
            "p:a@0 c:<a@0 c:<a@0 end=1 final:<a@0",
            "No acknowledged write was lost, but guarantees were broken: nonmonotonic-poll (1 record).",
        ),
        (
            "p:a~ p:b~ end=1 final:<a@0",
            "No breach: every guarantee that this run can show was kept. No send was acknowledged, so loss was not"
            " judged.",
        ),
    ],
)
def test_the_headline_claims_only_what_was_judged(text: str, expected: str, tmp_path: Path) -> None:
    run = judged(parse(text).write(tmp_path))
    assert headline(run.verdict, run.figures["impact"]) == expected


def _damage(number: int, intact: str) -> tuple[Finding, Explained]:
    text = f"2/a.log at byte {number}: CRC"
    one = Finding("log-corruption", text, "orders", 0, count=2, id=f"{number}")
    facts = [Fact("", "damaged", broker="2"), *([Fact("", "intact", brokers=frozenset(intact))] if intact else [])]
    return one, Explained("corruption", facts, sentence=text, findings=(one.id,))


@pytest.mark.parametrize(
    ("intact", "expected"),
    [
        (["13"], "2 records of orders-0 are damaged on broker 2; brokers 1, 3 have them intact"),
        (["13", "3"], "4 records of orders-0 are damaged in 2 places on broker 2; broker 3 has them intact"),
        (["13", ""], "4 records of orders-0 are damaged in 2 places on broker 2"),
    ],
)
def test_damage_is_counted_with_its_broker_and_the_intact_replicas(intact: list[str], expected: str) -> None:
    findings, explanations = zip(*(_damage(*one) for one in enumerate(intact)), strict=True)
    text = incident_headline([], findings, explanations)
    assert text == expected
    rules = {"log-corruption": {"verdict": "invalid", "findings": len(findings)}}
    incidents = [{"severity": "violation", "headline": text}]
    verdict = {"counts": {"evidence files": 1}, "rules": rules, "incidents": incidents, "causes": []}
    assert headline(verdict, {}).startswith(f"The brokers' files violate log-corruption: {expected}. Without a client")


def test_a_report_of_damage_in_brokers_files_repeats_no_finding_as_a_heading(tmp_path: Path) -> None:
    shutil.copytree(LOSSY / "brokers", tmp_path / "run")
    segment = next((tmp_path / "run" / "2").rglob("orders-0/*.log"))
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    check(tmp_path / "run", "--out", tmp_path / "out")
    text = (tmp_path / "out" / "report.md").read_text()
    assert text.count("12 records of orders-0 are damaged in 2 places on broker 2") == 3  # headline, cause, findings
    assert text.count("CRC 0x9dde22d7 does not match") == 2  # as a step of the cause, and as a finding
    assert "\n\n\n" not in text


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [
        ("x.cleanup.policy=delete ", "retention or delete-records"),
        ("", "retention, delete-records or compaction"),
        ("x.cleanup.policy=compact,delete ", "compaction"),
    ],
)
def test_only_what_the_cleanup_policy_permits_may_have_removed_truncated_records(
    policy: str, reasons: str, tmp_path: Path
) -> None:
    history = f"{{{policy}x.retention.bytes=0}} p:a@0#k p:b@1#k c:<a@0,b@1 nemesis:kill q:x@0 q:y@1 final:<x@0,y@1"
    items = judge(history, tmp_path).verdict["assumptions"]
    [doubt] = [item["says"] for item in items if item["name"] == "evidence sufficient"]
    assert f"the log was truncated below them, but {reasons} may have removed them before that" in doubt
