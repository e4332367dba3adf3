"""Transactions in the simulator: logs, invariants under faults, and bundles with their verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import json_lines, verdict_of_run
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.search import Space
from logjudge.models.exploration.truth import transaction_truth
from logjudge.models.replication.config import ConfigError
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.storage.batches import Batch
from logjudge.models.replication.storage.replica_log import ReplicaLog
from logjudge.models.replication.storage.transactions import FIRST_TRANSACTIONAL, MARKER, committed_batches, readable

INVARIANTS = (
    "atomic-transactions",
    "no-aborted-read",
    "no-hanging-transaction",
    "one-producer-epoch",
    "no-acknowledged-loss",
    "no-consumer-loss",
    "no-duplicates",
)
QUICK = {
    "num.partitions": 3,
    "min.insync.replicas": 2,
    "simulation.transactions": "own",
    "isolation.level": "read_committed",
    "transaction.timeout.ms": 4000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
    "simulation.send.interval.us": 60000,
    "simulation.ops": 120,
}


def scenario(seed: int, variant: str = "kraft", **options: object) -> Scenario:
    """Two transactional producers under the faults of a seed."""
    return Space(variant, options={**QUICK, **options}).scenario(seed)


class Writes:
    """A log, written step by step: producers 0 to 2 write, commit and abort."""

    def __init__(self) -> None:
        self.log = ReplicaLog()
        self.values: dict[int, list[int]] = {}  # producer -> offsets of its open transaction
        self.outcomes: list[tuple[list[int], bool, int]] = []  # offsets, committed, the marker's offset
        self._sequences = [0, 0, 0]

    def write(self, producer: int, count: int) -> None:
        base, pid = self.log.end, FIRST_TRANSACTIONAL + producer
        sequence = self._sequences[producer]
        self.log.append(Batch(base, base + count, producer, sequence, 0, 0, base, pid, 0, sequence))
        self._sequences[producer] += count
        self.values.setdefault(producer, []).extend(range(base, base + count))

    def end(self, producer: int, commit: bool) -> None:
        base, pid = self.log.end, FIRST_TRANSACTIONAL + producer
        self.outcomes.append((self.values.pop(producer, []), commit, base))
        self.log.append(Batch(base, base + 1, MARKER, 2 * base + commit, 0, 0, base, pid, 0, -2))

    def stable_end(self, mark: int) -> int:
        """The definition: the first offset of a transaction whose marker is not below the high watermark."""
        undecided = [offsets[0] for offsets in self.values.values()]
        undecided += [offsets[0] for offsets, _, marker in self.outcomes if offsets and marker >= mark]
        return min([mark, *undecided])


steps = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "commit", "abort"]), st.integers(1, 3)))


@given(steps, st.integers(0, 40), st.integers(0, 40))
def test_a_log_has_a_stable_offset_and_readable_ranges(plan: list[tuple[int, str, int]], mark: int, start: int) -> None:
    writes = Writes()
    for producer, step, count in plan:
        if step == "write":
            writes.write(producer, count)
        else:
            writes.end(producer, step == "commit")
    log = writes.log
    mark, start = min(mark, log.end), min(start, log.end)
    stable = log.transactions.stable_end(mark)
    assert stable == writes.stable_end(mark)
    visible = {o for offsets, commit, marker in writes.outcomes if commit and marker < log.end for o in offsets}
    whole = log.transactions.stable_end(log.end)
    below = {o for batch in committed_batches(log.batches(), whole) for o in range(batch.base, batch.end)}
    assert below == {o for o in visible if o < whole}
    fetched = log.read(start, 1000, stable)
    aborted = log.transactions.aborted_between(start, fetched[-1].end) if fetched else []
    read = {o for batch in readable(fetched, aborted) for o in range(batch.base, batch.end)}
    assert read == {o for o in visible if start <= o < stable}
    rebuilt = ReplicaLog()
    for batch in log.batches():
        rebuilt.append(batch)
    log.append(Batch(log.end, log.end + 1, 9, 0, 0, 0, 999, 9, 0, 0))
    log.truncate(log.end - 1)
    assert log.transactions.open == rebuilt.transactions.open
    assert log.transactions.aborted == rebuilt.transactions.aborted


@pytest.mark.parametrize("variant", ["kraft", "kip-966"])
@pytest.mark.parametrize("seed", range(6))
def test_transactions_survive_faults(seed: int, variant: str) -> None:
    cluster = scenario(seed, variant).run()
    assert cluster.final
    assert breaches(cluster, INVARIANTS) == {}
    truth = transaction_truth(cluster)
    assert truth is not None
    assert truth["committed"] + truth["aborted"] == len(cluster.transactions.transactions)
    assert truth["committed"] > 10


@pytest.mark.campaign
def test_transactions_survive_many_schedules() -> None:
    for seed in range(1000, 1300):
        assert breaches(scenario(seed, "kip-966").run(), INVARIANTS) == {}, seed


def test_a_late_commit_ends_the_next_transaction_of_the_same_epoch() -> None:
    """A slow broker handles a repeated EndTxn when the producer is in its next transaction. With an epoch for each
    transaction (KIP-890, part 2) it is refused."""
    assert set(breaches(scenario(1229, "kraft").run(), INVARIANTS)) == {"atomic-transactions"}
    assert breaches(scenario(1229, "kip-966").run(), INVARIANTS) == {}


@pytest.mark.parametrize("variant", ["kip-320", "kip-966"])
def test_the_judge_sees_the_transactions(variant: str, tmp_path: Path) -> None:
    written = write_bundle(scenario(1, variant), tmp_path / "run")
    report = verdict_of_run(written.folder)
    assert report["verdict"] == "valid"
    rules = ("lost-write", "aborted-read", "precommitted-read", "duplicate", "replica-divergence")
    assert {rule: report["rules"][rule]["verdict"] for rule in rules} == dict.fromkeys(rules, "valid")
    truth = json.loads((written.folder / "truth.json").read_text())["transactions"]
    lines = json_lines(written.folder / "history.jsonl")
    ended = [line["type"] for line in lines if line["f"] == "txn" and line["type"] != "invoke"]
    assert {kind: ended.count(kind) for kind in set(ended)} == truth["known_as"]
    assert truth["known_as"] == {"ok": truth["committed"], "fail": truth["aborted"]}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("txn-zombie-fenced", set()),
        ("txn-zombie-not-fenced", set()),
        ("txn-coordinator-failover", set()),
        ("txn-hanging", {"hanging-transaction", "unseen"}),
        ("txn-late-write", {"aborted-read", "torn-transaction"}),
    ],
)
def test_the_judge_finds_what_happened(name: str, broken: set[str], tmp_path: Path) -> None:
    written = write_bundle(load(name), tmp_path / "run")
    report = verdict_of_run(written.folder)
    assert {rule for rule, found in report["rules"].items() if found["verdict"] == "invalid"} == broken
    if not broken:
        assert report["verdict"] == "valid"


def test_only_a_producer_with_the_same_id_is_fenced() -> None:
    """The zombie ends, or continues next to the instance that replaced it."""
    fenced, own = (load(f"txn-zombie-{name}").run() for name in ("fenced", "not-fenced"))
    back = 14_000_000
    late = [
        [one for one in cluster.transactions.transactions if one.process == "p0" and one.decided > back]
        for cluster in (fenced, own)
    ]
    assert not any(one.decision == "commit" for one in late[0])
    assert any(one.decision == "commit" for one in late[1])
    assert (fenced.transactions.fenced, own.transactions.fenced) == (1, 0)


def test_the_next_coordinator_commits_what_was_prepared() -> None:
    events: list[ClusterEvent] = []
    cluster = load("txn-coordinator-failover").run(listener=events.append)
    loaded = [event.details for event in events if event.kind == "transactions-loaded"]
    assert loaded[-1][2] == 1
    held = [one for one in cluster.transactions.transactions if one.decided >= 13_000_000 > one.began]
    assert held[0].began < 5_540_000
    assert (held[0].decision, held[0].outcome) == ("commit", "ok")


@pytest.mark.parametrize("name", ["txn-hanging", "txn-late-write"])
@pytest.mark.parametrize("variant", ["kraft", "kip-966"])
def test_verified_transactions_do_not_hang(name: str, variant: str) -> None:
    assert breaches(replace(load(name), variant=variant).run(), INVARIANTS) == {}


def test_consumers_that_read_uncommitted_see_what_was_aborted() -> None:
    cluster = scenario(1, **{"isolation.level": "read_uncommitted"}).run()
    aborted = [one for one in cluster.transactions.transactions if one.decision == "abort" and one.values]
    partition, value = next(value for one in aborted for value in one.values)
    seen = cluster.ledger.polled_values[partition][aborted[0].producer]
    assert any(low <= value < high for low, high in seen)


def test_transactions_need_kraft() -> None:
    with pytest.raises(ConfigError, match="KRaft only"):
        scenario(0, "kip-101").config()
