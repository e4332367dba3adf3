"""`check` finds exactly the losses, divergences, duplicates and reorderings of simulated runs, and their causes.

A few seeds over all variants, settings and faults; `python benchmarks/judge.py 2000 2` takes as many as wanted.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.incidents.chains import election_of
from logjudge.analysis.incidents.joining import findings_in, incidents_of
from logjudge.analysis.timelines.terms import is_last_known_leader
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.schedule import QUICK
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import weakened
from judge import KEYED, WIDE, compare, scenario

# Each variant with mixed faults; then runs that were judged wrongly once: double losses, stale leaders, brokers that
# come back in their own epoch, partitions that no broker may lead, logs that are empty in the end; a dead broker that
# is still in the ISR, losses of all in-sync replicas before an unclean election, acknowledgements of a replaced leader;
# neighbouring records that were lost by several causes; logs that grew again after a truncation; committed records of
# acks=0 that a power loss removed; a majority with one member that never had the record; a broker that truncated
# nothing above its high watermark; an unclean election after all other in-sync replicas had lost their tails; a record
# that an asynchronous leader alone had when all in-sync replicas lost theirs; a replaced leader without the records
# that its successor acknowledged; an unclean election of a paused broker that ran again after its term; a leader that
# restarted after its replacement, and truncated what the new leader had acknowledged and lost with its power; records
# below the log start that differ, and truncated ones at offsets that were deleted later; acknowledgements of a leader
# that missed two elections, the second one unclean; a compacted log that came back after clients had read another;
# acknowledgements of a replaced leader just before its successor lost its tail; an ISR of a leader without the records;
# two unclean elections, after the first of which the elected broker never led; older records at the lost
# offsets of an electable replica; replicas that lost their tails one after the other; a record that was compacted after
# its log had been copied, also if nothing dates the truncation.
MIXED = (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23)
ONCE_WRONG = (
    *(40, 62, 66, 67, 70, 72, 83, 85, 104, 106, 118, 145, 214, 247, 254, 543, 662, 670, 1029, 1183),
    *(1426, 2325, 20431, 20455, 30169, 30337, 70100, 70105, 90337, 90543),
    *(95174, 96265, 105079, 107043, 110061, 270283, 731335, 731353, 842011, 842141, 442235),
    *(WIDE + 3038, WIDE + 930021, WIDE + 960199, WIDE + 970001, WIDE + 1650059, KEYED + 800044),
    *(KEYED + 900051, KEYED + 900071, KEYED + 1000004, KEYED + 1570209, KEYED + 1571025),
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "seed", [*MIXED[:6], *ONCE_WRONG, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in MIXED[6:])]
)
def test_the_judge_agrees_with_the_simulator(seed: int) -> None:
    assert compare(seed).wrong == []


# Seeds with losses, in small clusters and in large ones.
@pytest.mark.parametrize(
    "seed",
    [
        *(66, WIDE + 100352),
        *(pytest.param(seed, marks=pytest.mark.campaign) for seed in (40, 62, WIDE + 100425)),
    ],
)
def test_less_evidence_leads_to_no_wrong_finding_or_cause(seed: int) -> None:
    compared = weakened.compare(seed)
    assert compared.counts["runs with less evidence"] == weakened.COPIES
    assert compared.wrong == []


def test_each_of_two_unclean_elections_is_named_for_the_records_that_it_lost(tmp_path: Path) -> None:
    """Offsets 3 to 9 were lost in epoch 5, and written again up to offset 11, which were lost in epoch 6."""
    drawn = scenario(436975)
    options = {**drawn.options, "unclean.leader.election.enable": True}
    run = write_bundle(replace(drawn, options=options), tmp_path / "run").folder
    results = judge_run(open_run(run))
    incidents = incidents_of(findings_in(results.findings()), results.causes())
    lost_by = {
        (one.first, one.last): election_of(incident.chain)
        for incident in incidents
        for one in incident.lost
        if (incident.cause, one.name) == ("unclean-election", "orders-0")
    }
    assert (lost_by[3, 9], lost_by[3, 11]) == (5, 6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [9, 67, 70105, 107043, 842141, WIDE + 3038, WIDE + 970001])
def test_without_clients_the_committed_losses_are_those_of_the_ledger(seed: int, tmp_path: Path) -> None:
    cluster = write_bundle(scenario(seed), tmp_path / "run").cluster
    breaches = [one for one in cluster.ledger.breaches if one.invariant == "no-committed-loss"]
    lost = {(one.partition, offset) for one in breaches for offset in range(one.base, one.end)}
    (tmp_path / "run" / "history.jsonl").unlink()
    found = judge_run(open_run(tmp_path / "run")).findings().filter(rule="committed-absent")
    rows = found.select("partition", "first_offset", "last_offset").iter_rows()
    judged = {(partition, offset) for partition, first, last in rows for offset in range(first, last + 1)}
    assert judged
    assert judged <= lost


@pytest.mark.parametrize(("name", "found"), [("zombie-controller", [["1", "2"]]), ("zombie-controller-fenced", [])])
def test_two_leaders_of_one_leader_epoch_are_found(name: str, found: list[list[str]], tmp_path: Path) -> None:
    results = judge_run(open_run(write_bundle(load(name), tmp_path / name).folder))
    assert [row["replicas"] for row in results.findings().to_dicts()] == found


@pytest.mark.parametrize("logs", [True, False])
@pytest.mark.parametrize(("setting", "cause"), [("true", "unclean-election"), (None, "unknown")])
def test_a_last_known_leader_is_elected_uncleanly_while_others_are_eligible(
    logs: bool, setting: str | None, cause: str, tmp_path: Path
) -> None:
    """Broker 1 led last and comes back without its unflushed tail, while broker 3 is in the ELR and dead.

    The same record elects the last known leader if unclean elections are disabled, and broker 3 just left the ELR.
    """
    options = {**QUICK, "min.insync.replicas": 2, "unclean.leader.election.enable": True, "simulation.ops": 60}
    faults = (
        Fault(4 * SECOND, "crash", (2,), 60 * SECOND),
        Fault(5 * SECOND, "crash", (3,), 60 * SECOND),
        Fault(9 * SECOND, "power-loss", (1,), 3 * SECOND),
    )
    scenario = Scenario("uncleanly", "kip-966", 1, options, {}, faults)
    written = write_bundle(scenario, tmp_path / "run")
    truth = json.loads((written.folder / "truth.json").read_text())
    assert truth["causes"] == ["unclean-election"]
    if logs:
        for log in written.folder.rglob("__cluster_metadata-0/*.log"):
            log.unlink()
    run = json.loads((written.folder / "run.json").read_text())
    assert run["topics"]["orders"]["unclean.leader.election.enable"] is True
    if setting is None:
        del run["topics"]["orders"]["unclean.leader.election.enable"]
        (written.folder / "run.json").write_text(json.dumps(run))
    causes = judge_run(open_run(written.folder)).causes()
    assert {one.cause for one in causes} == {cause}
    is_missing = [any("unclean.leader.election.enable" in text for text in one.missing) for one in causes]
    assert is_missing == [setting is None] * len(causes)


def test_a_last_known_leader_needs_empty_isr_and_elr() -> None:
    """canElectLastKnownLeader; the change that elects it may be the one that empties the ELR."""
    none, one, three = frozenset[str](), frozenset({"1"}), frozenset({"3"})
    for enabled, sync, elr, known, expected in (
        (True, none, none, one, True),
        (True, none, three, one, False),
        (False, none, three, one, True),
        (False, three, none, one, False),
        (False, none, none, three, False),
        (False, none, one, one, False),
        (None, none, none, one, True),
        (None, none, three, one, None),
        (None, three, none, one, False),
    ):
        only_clean = None if enabled is None else not enabled
        assert is_last_known_leader(only_clean, "1", sync, elr, known) == expected


def test_the_comparison_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison fails if the judge misses a loss or names another cause."""
    import judge
    import polars as pl
    from logjudge.analysis.results import Results

    findings = Results.findings
    lost = pl.col("rule").is_in(["lost-write", "acknowledged-absent"])
    monkeypatch.setattr(Results, "findings", lambda self: findings(self).filter(~lost))
    assert Counter(sentence.split(":")[0] for sentence in judge.compare(66).wrong) == {
        "lost records, by brokers missed": 1,
        "lost records, by clients missed": 1,
    }
    causes = Results.causes
    monkeypatch.setattr(Results, "findings", findings)
    monkeypatch.setattr(
        Results, "causes", lambda self: [replace(one, cause="unclean-election") for one in causes(self)]
    )
    wrong = [*judge.compare(66).wrong, *weakened.compare(66).wrong]
    assert len(wrong) > weakened.COPIES
    assert all("has the cause unclean-election" in sentence for sentence in wrong)


@pytest.mark.parametrize(("seed", "tombstones"), [(KEYED + 31029, 2), (KEYED + 31074, 0)])
def test_lost_tombstones_are_explained_in_the_logs_as_to_clients(seed: int, tombstones: int, tmp_path: Path) -> None:
    """Compaction may have removed those of the second run, so there no finding about the logs lists them."""
    found = judge_run(open_run(write_bundle(scenario(seed), tmp_path / "run").folder)).findings()
    losses = found.filter(pl.col("rule").is_in(["lost-write", "acknowledged-absent"])).explode("values")
    lost = {rule: rows for (rule,), rows in losses.group_by("rule")}
    absent = lost["acknowledged-absent"]
    assert absent["values"].str.starts_with("tombstone@").sum() == tombstones
    both = absent.join(lost["lost-write"], on="values")
    assert both.height == absent.height
    assert both.filter(pl.col("cause").ne_missing(pl.col("cause_right"))).is_empty()
