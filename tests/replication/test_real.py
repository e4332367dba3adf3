"""A simulated run is judged as the recorded run of its kind: the same verdicts, the same causes.

Recordings without brokers' files are compared with simulated runs without these files. (The whole recordings agree
too; they are too large for the repository.)
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load

ROOT = Path(__file__).parents[2]
REAL = ROOT / "tests" / "data" / "real"
RULES = ("lost-write", "acknowledged-absent", "replica-divergence", "consumer-loss")
PAIRS = [
    ("min-insync-1", ROOT / "examples" / "unclean-election", ["unclean-election"]),
    ("min-insync-1", REAL / "unclean-election-a", []),
    ("acks1-failover", REAL / "acks1-failover-a", []),
    ("kip-101-loss", REAL / "kip-101-c", []),
    ("commit-before-handle", REAL / "group-rebalance-a", ["commit-before-handle"]),
]


def judged(folder: Path) -> tuple[dict[str, str], set[str]]:
    """The verdicts of the rules about lost records, and the causes of their findings."""
    results = judge_run(open_run(folder))
    findings = results.findings()
    named = zip(findings["rule"], findings["cause"], strict=True)
    verdicts = {name: rule["verdict"] for name, rule in verdict_of(results)["rules"].items() if name in RULES}
    return verdicts, {cause for rule, cause in named if rule in RULES and cause is not None}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "recorded", "causes"), PAIRS, ids=lambda item: getattr(item, "name", str(item)))
def test_a_simulated_run_is_judged_as_the_recorded_one(
    name: str, recorded: Path, causes: list[str], tmp_path: Path
) -> None:
    write_bundle(load(name), tmp_path / name)
    if not (recorded / "brokers").exists():
        shutil.rmtree(tmp_path / name / "brokers")
        shutil.rmtree(tmp_path / name / "snapshots", ignore_errors=True)
    (verdicts, found), (recorded_verdicts, recorded_causes) = judged(tmp_path / name), judged(recorded)
    assert verdicts == recorded_verdicts
    assert "invalid" in verdicts.values()
    assert found == set(causes)
    assert found <= recorded_causes  # group-rebalance-a lost in a second way too
