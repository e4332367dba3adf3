"""Causes of transactions that hang, are torn, or are committed against their coordinator's decision."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from campaign import IS_CAMPAIGN
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.incidents.incident import Explained
from logjudge.analysis.incidents.joining import findings_in, incidents_of
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import space
from logjudge.models.exploration.trace import APPEND, Tracer
from logjudge.models.replication.scenario import Scenario

from .transaction_logs import SEGMENT, Events, Step, contact, send, state_log, transaction, write_run

DATA = Path(__file__).parent / "data" / "transactions"
PARTITIONS = [("x", 0), ("x", 1)]
RULES = ("aborted-read", "hanging-transaction", "torn-transaction")


def coordinated(*transactions: tuple[int, int, str]) -> list[Step]:
    """The coordinator's records of transactions of producer 7: when each began and was decided (ms), and how."""
    steps: list[Step] = [("t", 7, "empty", [], (0, 0))]
    for began, decided, outcome in transactions:
        steps.append(("t", 7, "ongoing", PARTITIONS, (began, began)))
        steps.append(("t", 7, f"prepare-{outcome}", PARTITIONS, (decided, began)))
        steps.append(("t", 7, f"complete-{outcome}", [], (decided + 1, began)))
    return steps


def written(*operations: tuple[str, str, tuple[int, int]]) -> Events:
    """Transactions of one client: the value that each writes to both partitions (a and A), its outcome and times."""
    events = []
    for op, (value, outcome, times) in enumerate(operations):
        offset = None if outcome != "ok" else 0
        events += transaction("t", op, [(0, value, offset), (1, value.upper(), offset)], outcome, times)
    return events


class Case(NamedTuple):
    logs: tuple[str, str]  # entry n of a log was written at n ms
    events: Events
    steps: list[Step]
    rule: str
    cause: str
    in_chain: tuple[str, ...] = ()  # parts of its sentences in their order; of an unknown cause: of what is missing


ABORTED = written(("a", "fail", (0, 4)))
TWO = [*ABORTED, *written(("a", "fail", (0, 4)), ("b", "info", (6, 9)))[2:]]
LATE = ("decided to abort", "an ABORT marker at offset 3", "behind its marker")
CASES = {
    "a late write hangs": Case(
        ("z z z 7~ 7a z", "z z 7A 7~"),
        [*ABORTED, *send("z", 5, 600, 0), *contact(5_000)],
        coordinated((1, 3, "abort")),
        "hanging-transaction",
        "late-write",
        LATE,
    ),
    "a late write is committed with the next transaction": Case(
        ("z z z 7~ 7a z 7b z 7!", "z z 7A 7~ z z 7B z 7!"),
        TWO,
        coordinated((1, 3, "abort"), (6, 8, "commit")),
        "torn-transaction",
        "late-write",
        (*LATE, "a COMMIT marker at offset 8, which ended it with"),
    ),
    "a repeated marker commits the next transaction": Case(
        ("7a z 7! 7b 7! z z 7~", "7A z 7! 7B z z z 7~"),
        [*written(("a", "info", (0, 2)), ("b", "fail", (3, 8)))],
        coordinated((0, 2, "commit"), (3, 7, "abort")),
        "torn-transaction",
        "repeated-marker",
        ("a COMMIT marker at offset 2", "is of the transaction", "offset 4, which repeats it", "decided to abort", "7"),
    ),
    "an operator aborts a transaction in one partition": Case(  # as in a run of Kafka 4.2
        ("7a z 7~ z 7!", "7A z z z 7!"),
        written(("a", "ok", (0, 5))),
        coordinated((0, 3, "commit")),
        "torn-transaction",
        "operator-abort",
        ("is of the transaction", "an ABORT marker at offset 2, which no coordinator", "decided to commit", "offset 4"),
    ),
    "an ABORT marker of a later epoch is the coordinator's": Case(
        ("7a z 7~^1 z 7!^1", "7A z z z 7!^1"),
        written(("a", "info", (0, 5))),
        coordinated((0, 3, "commit")),
        "torn-transaction",
        "unknown",
    ),
    "__transaction_state lost a transaction": Case(
        ("7a z 7! z 7b z", "7A z 7! z 7B z"),
        [*written(("a", "info", (0, 2)), ("b", "info", (4, 6))), *send("z", 5, 600, 0), *contact(2_000_000)],
        coordinated((0, 2, "commit")),
        "hanging-transaction",
        "transaction-state-lost",
        ("an older transaction of t with x-0, and none that began", "no marker ended it"),
    ),
    "only its marker was lost, which a log after it does not show": Case(
        ("7a z z", "7A z 7!"),
        [*written(("a", "info", (0, 2))), *send("z", 1, 600, 0), *contact(5_000)],
        coordinated((0, 2, "commit")),
        "hanging-transaction",
        "unknown",
        ("the marker of x-0 that carried out the decision",),
    ),
    "the decision is not known": Case(
        ("z z z 7~ 7a z 7b z 7!", "z z 7A 7~ z z 7B z 7!"),
        TWO,
        [],
        "torn-transaction",
        "unknown",
        ("the coordinator's decision about the transaction of t", "transactions of producer 7"),
    ),
    "two transactions may be that of the value": Case(
        ("z z z 7~ 7a z 7b z 7!", "z z 7A 7~ z z 7B z 7!"),
        written(("a", "fail", (0, 9)), ("b", "info", (6, 12))),
        coordinated((1, 3, "abort"), (6, 8, "commit")),
        "torn-transaction",
        "unknown",
        ("the coordinator's decision about the transaction of t",),
    ),
}


def causes(folder: Path, *rules: str) -> tuple[list[dict[str, Any]], list[Explained]]:
    """The findings of a run, judged by some rules, and their explanations."""
    run = open_run(folder)
    results = judge_run(run.with_settings(rules=rules))
    return results.findings().filter(severity="violation").to_dicts(), results.causes()


@pytest.mark.parametrize("name", CASES)
def test_the_cause_of_an_ending(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = write_run(tmp_path, dict(enumerate(case.logs)), case.events, case.steps)
    findings, explanations = causes(folder, case.rule)
    [finding, *_] = [one for one in findings if one["partition"] == 0]
    [explanation] = [one for one in explanations if finding["id"] in one.findings]
    assert explanation.cause == case.cause
    assert finding["cause"] == (None if case.cause == "unknown" else case.cause)
    sentences = iter(explanation.missing or [fact.sentence for fact in explanation.chain])
    for part in case.in_chain:
        assert any(part in sentence for sentence in sentences), part


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("late-write-open", {"hanging-transaction"}),
        ("late-write-committed", {"aborted-read", "torn-transaction"}),
    ],
)
def test_a_late_write_to_real_brokers_is_named(name: str, rules: set[str], tmp_path: Path) -> None:
    shutil.unpack_archive(DATA / f"{name}.tar.xz", tmp_path)
    [run] = tmp_path.iterdir()
    findings, explanations = causes(run, *RULES)
    assert {(one["rule"], one["cause"]) for one in findings} == {(rule, "late-write") for rule in rules}
    [late, *_] = [fact for one in explanations for fact in one.chain if fact.kind == "records"]
    assert (late.partition, late.offset) == ("x-0", 4)
    [decided, *_] = [fact for one in explanations for fact in one.chain if fact.kind == "decided"]
    assert (decided.source, decided.byte) == (
        "brokers/1/data/__transaction_state-0/00000000000000000000.log",
        591,  # the PrepareAbort record; CompleteAbort is at byte 714
    )


def test_a_damaged_copy_of_transaction_state_proves_no_loss(tmp_path: Path) -> None:
    case = CASES["__transaction_state lost a transaction"]
    steps = [*case.steps, ("u", 8, "ongoing", [("x", 1)], (4, 4)), ("u", 8, "complete-commit", [], (5, 4))]
    folder = write_run(tmp_path, dict(enumerate(case.logs)), case.events, steps)
    segment = folder / "brokers" / "1" / "data" / "__transaction_state-0" / SEGMENT
    data = bytearray(segment.read_bytes())
    data[-20] ^= 1
    segment.write_bytes(data)
    _, explanations = causes(folder, case.rule)
    [missing] = [one.missing for one in explanations if one.cause == "unknown"]
    assert any("an undamaged copy of __transaction_state" in text for text in missing)
    assert {one.cause for one in explanations} == {"unknown"}


@pytest.mark.parametrize(
    "shift", [-3, 2, *(pytest.param(shift, marks=pytest.mark.campaign) for shift in (-7, -2, 3, 7))]
)
def test_a_coordinator_with_another_clock_leads_to_no_other_cause(shift: int, tmp_path: Path) -> None:
    """Operations take some milliseconds here, so that with this clock a transaction seems to be that of the next."""
    for number, case in enumerate(CASES.values()):
        steps = [(*step[:4], (step[4][0] + shift, step[4][1] + shift)) for step in case.steps]
        folder = write_run(tmp_path / str(number), dict(enumerate(case.logs)), case.events, steps)
        findings, explanations = causes(folder, case.rule)
        first = [one["id"] for one in findings if one["partition"] == 0][:1]
        found = {one.cause for one in explanations if list(one.findings) == first}
        assert found <= {case.cause, "unknown"}


def test_a_transaction_that_ended_as_decided_needs_no_cause(tmp_path: Path) -> None:
    """A broker without the index of aborted transactions may return aborted records to a consumer."""
    folder = write_run(
        tmp_path,
        {0: "z 7a z 7~", 1: "z 7A z 7~"},
        [*ABORTED, *polled("a", 1)],
        coordinated((1, 3, "abort")),
        processes={"c": {"isolation.level": "read_committed"}},
    )
    [finding], explanations = causes(folder, "aborted-read")
    assert (finding["rule"], explanations) == ("aborted-read", [])


def polled(value: str, offset: int) -> Events:
    records = [{"topic": "x", "partition": 0, "offset": offset, "value": value}]
    about = {"process": "c", "op": 0, "f": "poll"}
    return [
        {"time": 10_000_000, "type": "invoke", **about},
        {"time": 11_000_000, "type": "ok", **about, "records": records},
    ]


def test_a_read_and_the_torn_transaction_of_its_record_are_one_incident(tmp_path: Path) -> None:
    case = CASES["a late write is committed with the next transaction"]
    folder = write_run(
        tmp_path,
        dict(enumerate(case.logs)),
        [*case.events, *polled("a", 4)],
        case.steps,
        processes={"c": {"isolation.level": "read_committed"}},
    )
    run = open_run(folder)
    results = judge_run(run.with_settings(rules=("aborted-read", "torn-transaction")))
    [incident] = incidents_of(findings_in(results.findings().filter(severity="violation")), results.causes())
    assert incident.cause == "late-write"
    assert [one.rule for one in incident.rules] == ["aborted-read", "torn-transaction"]
    assert "torn-transaction of the same transactions" in incident.headline


def test_records_behind_a_hanging_transaction_are_no_incident_of_their_own(tmp_path: Path) -> None:
    results = judge_run(open_run(write_bundle(load("txn-hanging"), tmp_path / "run").folder))
    found = results.findings().filter(severity="violation")
    incidents = incidents_of(findings_in(found), results.causes())
    assert {one.cause for one in incidents} == {"late-write"}
    assert {tuple(rule.rule for rule in one.rules) for one in incidents} == {("hanging-transaction", "unseen")}


def late_values(scenario: Scenario) -> set[str]:
    """The values that the simulator's leaders appended after the decision about their transaction."""
    tracer = Tracer()
    cluster = scenario.run(tracer, prepare=tracer.attach)
    decided = {
        (one.producer, *value): one.decided
        for one in cluster.transactions.transactions
        for value in one.values
        if one.decided >= 0
    }
    return {
        f"p{event.producer}-{event.partition}-{number}"
        for event in tracer.events
        if event.step.action == APPEND
        for number in range(event.first, event.end)
        if event.time > decided.get((event.producer, event.partition, number), event.time)
    }


def value_at(run: Inspected, partition: str, offset: int) -> str:
    logs = run.partition(partition).replica_logs
    assert logs is not None
    return str(logs.last_records.filter(broker=logs.leader, offset=offset)["value"].item())


# Variants and seeds of the matrix's setting "transactions". The last one has no late write, but a repeated marker.
SEEDS = [("kip-320", 1012), ("kraft", 1220)]


def scenarios() -> Iterator[Scenario]:
    yield from map(load, ("txn-hanging", "txn-late-write"))
    seeds = [(variant, seed) for variant in ("kip-320", "kraft") for seed in range(4000)] if IS_CAMPAIGN else SEEDS
    for variant, seed in seeds:
        cell = space(variant, "transactions")
        drawn = replace(cell, options={**cell.options, "simulation.consumers": 1}).scenario(seed)
        if not IS_CAMPAIGN or breaches(
            drawn.run(), ("atomic-transactions", "no-aborted-read", "no-hanging-transaction")
        ):
            yield drawn


def test_late_writes_are_those_of_the_simulator(tmp_path: Path) -> None:
    seen = Counter[str]()
    for number, scenario in enumerate(scenarios()):
        late, folder = late_values(scenario), write_bundle(scenario, tmp_path / str(number)).folder
        findings, explanations = causes(folder, *RULES)
        run = Inspected(folder)
        for one in explanations:
            if one.cause == "late-write":
                [records] = [fact for fact in one.chain if fact.kind == "records"]
                assert value_at(run, str(records.partition), records.offset) in late
        for finding in findings:
            first = value_at(run, f"orders-{finding['partition']}", finding["first_offset"])
            assert (first in late) == (finding["cause"] == "late-write"), (scenario.name, finding["sentence"])
            seen[finding["cause"]] += 1
    assert seen["late-write"] >= 5
    assert seen["repeated-marker"] > 0


@pytest.mark.spark
def test_causes_of_torn_transactions_are_the_same_on_spark(spark: Any, tmp_path: Path) -> None:
    from logjudge.analysis.engines import spark as engine

    case = CASES["a repeated marker commits the next transaction"]
    run = open_run(write_run(tmp_path, dict(enumerate(case.logs)), case.events, case.steps))
    here, there = judge_run(run), engine.judge_run(run, spark)
    assert there.causes() == here.causes()
    assert "repeated-marker" in here.findings()["cause"].to_list()
    assert there.findings().to_dicts() == here.findings().to_dicts()


TIMEOUT = {"transaction.timeout.ms": 60_000}
EMPTIED = {
    "all copies of all partitions are empty": ((0, 1, 2), range(5), {}, "transaction-state-lost"),
    "one copy was not collected": ((0, 1), range(5), {}, "unknown"),
    "one partition was not collected": ((0, 1, 2), range(4), {}, "unknown"),
    "the partition of the id is empty": ((0, 1, 2), (4,), {"transactional.id": "r"}, "transaction-state-lost"),
    "the partition of another id is empty": ((0, 1, 2), (4,), {"transactional.id": "t"}, "unknown"),
}


@pytest.mark.parametrize("name", EMPTIED)
def test_an_emptied_transaction_state_explains_a_hanging_transaction(name: str, tmp_path: Path) -> None:
    copies, numbers, about, cause = EMPTIED[name]
    events = [*written(("a", "info", (4, 6))), *send("z", 2, 600, 0), *contact(2_000_000)]
    folder = write_run(tmp_path, {0: "z 7a z", 1: "z 7A z"}, events, processes={"t": {**TIMEOUT, **about}})
    config = json.loads((folder / "run.json").read_text())
    config["topics"]["__transaction_state"] |= {"replication.factor": 3, "partitions": 5}
    (folder / "run.json").write_text(json.dumps(config))
    for broker, number in product(copies, numbers):
        state = folder / "brokers" / str(broker) / "data" / f"__transaction_state-{number}"
        state.mkdir(parents=True)
        (state / SEGMENT).touch()
    _, explanations = causes(folder, "hanging-transaction")
    assert {one.cause for one in explanations} == {cause}
    if cause != "unknown":
        assert "are empty (brokers 0, 1, 2)" in explanations[0].chain[0].sentence


OTHERS: list[Step] = [("u", 8, "ongoing", PARTITIONS, (9, 9)), ("u", 8, "complete-commit", [], (10, 9))]
BEGUN_ANEW = {
    "it has all records, of another producer": (0, OTHERS, "transaction-state-lost"),
    "its first records were compacted": (3, OTHERS, "unknown"),
    "the producer wrote there in another transaction": (0, [*OTHERS, *coordinated((9, 10, "commit"))], "unknown"),
}


@pytest.mark.parametrize("name", BEGUN_ANEW)
@pytest.mark.parametrize("text", ["z 7a z", "7y 7! 7a z"])
def test_a_transaction_state_that_began_anew_explains_a_hanging_transaction(
    name: str, text: str, tmp_path: Path
) -> None:
    """A marker that ended other records is no marker of the open transaction, whenever it was written."""
    compacted, steps, cause = BEGUN_ANEW[name]
    number = text.split().index("7a")
    before = transaction("t", 9, [(0, "y", 0)], "ok", (0, 1)) if "7y" in text else []
    mine = transaction("t", 10, [(0, "a", None)], "info", (1, 2_000))
    folder = write_run(
        tmp_path,
        {0: text},
        [*before, *mine, *send("z", number + 1, 600, 0), *contact(2_000_000)],
        processes={"t": {**TIMEOUT, "transactional.id": "t"}},
    )
    state = folder / "brokers" / "1" / "data" / "__transaction_state-0"
    state.mkdir()
    (state / f"{compacted:020}.log").write_bytes(state_log(steps, compacted))
    _, explanations = causes(folder, "hanging-transaction")
    assert {one.cause for one in explanations} == {cause}
    if cause != "unknown":
        known = "have every record since offset 0, and none of producer id 7 (broker 1)"
        assert known in explanations[0].chain[0].sentence


def test_a_late_write_is_not_explained_by_an_emptied_transaction_state(tmp_path: Path) -> None:
    case = CASES["a late write hangs"]
    events = [*case.events[:-2], *contact(2_000_000)]
    folder = write_run(tmp_path, dict(enumerate(case.logs)), events, processes={"t": TIMEOUT})
    topics = json.loads((folder / "run.json").read_text())["topics"]
    assert topics["__transaction_state"]["replication.factor"] == 1
    (state := folder / "brokers" / "1" / "data" / "__transaction_state-0").mkdir()
    (state / SEGMENT).touch()
    _, explanations = causes(folder, "hanging-transaction")
    assert {one.cause for one in explanations} == {"unknown"}
