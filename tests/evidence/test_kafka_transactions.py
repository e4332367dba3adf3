"""Transactions as Kafka's own tools print them: record by record, and the torn and hanging ones that follow."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.analysis.partitions.coordinators import log_transactions
from logjudge.analysis.replicas.replica_logs import is_of_copy
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.producer_files import read_aborted_index, read_producer_snapshot
from logjudge.histories.evidence.segments import raw_records
from logjudge.histories.evidence.transaction_records import STATES
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.request import simulate_request
from logjudge.histories.simulation.scenarios import load

from .kafka_tools import assert_decoded_alike, dumped_lines, needs_kafka

pytestmark = needs_kafka

RECORDED = ("transactions-a", "txn-unclean-x", "hanging")
SIMULATED = ("txn-hanging", "txn-coordinator-failover", "txn-zombie-fenced", "processing-exactly-once")
OVER = ("complete-commit", "complete-abort", "empty", "dead")
Place = tuple[str, int]


class Dumped(NamedTuple):
    """A transaction in the text of a partition's log, without a first offset if only its marker is there."""

    producer: int
    first: int | None
    last: int | None
    values: tuple[str, ...]
    outcome: str | None = None
    marker: int | None = None


class DumpedRun(NamedTuple):
    """A run, and the text that Kafka's tools print of it."""

    folder: Path
    logs: dict[str, dict[Place, list[Dumped]]]  # of each broker
    states: list[tuple[Path, list[str]]]  # the records of each __transaction_state


def transactions_in(lines: list[str]) -> list[Dumped]:
    """In order of the first offset, and of the marker where no record precedes it."""
    found: list[Dumped] = []
    open_records: dict[int, list[tuple[int, str]]] = defaultdict(list)
    producer, is_transactional = -1, False
    for line in lines:
        if line.startswith("baseOffset: "):
            [producer] = map(int, re.findall(r"producerId: (-?\d+)", line))
            is_transactional = "isTransactional: true" in line
        elif line.startswith("| offset: ") and is_transactional:
            offset = int(line.split()[2])
            if marker := re.search(r"endTxnMarker: (\w+)", line):
                ended = opened(producer, open_records.pop(producer, []))
                found.append(ended._replace(outcome=marker[1].lower(), marker=offset))
            else:
                open_records[producer].append((offset, line.partition(" payload: ")[2]))
    found += [opened(producer, records) for producer, records in open_records.items()]
    return sorted(found, key=lambda one: one.marker if one.first is None else one.first)


def opened(producer: int, records: list[tuple[int, str]]) -> Dumped:
    offsets = [offset for offset, _ in records]
    return Dumped(producer, min(offsets, default=None), max(offsets, default=None), tuple(text for _, text in records))


def dumped_run(folder: Path) -> DumpedRun:
    data = sorted(folder.glob("brokers/*/data/[!_]*/*.log"))
    logs: dict[str, dict[Place, list[Dumped]]] = defaultdict(dict)
    printed = dumped_lines("--print-data-log", files=data)
    for (broker, name), files in groupby(data, lambda path: (path.parts[-4], path.parent.name)):
        topic, _, number = name.rpartition("-")
        logs[broker][topic, int(number)] = transactions_in([line for file in files for line in printed[file]])
    states = sorted(folder.glob("brokers/*/data/__transaction_state-*/*.log"))
    decoded = dumped_lines("--transaction-log-decoder", files=states) if states else {}
    records = [(path, [line for line in decoded[path] if line.startswith("| offset: ")]) for path in states]
    return DumpedRun(folder, logs, records)


@pytest.fixture(scope="module", params=[*RECORDED, *SIMULATED, "torn"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, unpacked: Any) -> DumpedRun:
    name = request.param
    folder = tmp_path_factory.mktemp("run") / name
    if name == "hanging":
        shutil.unpack_archive(Path(__file__).parent / "data" / "transactions" / "hanging.tar.xz", folder.parent)
    elif name in RECORDED:
        folder = unpacked(name)
    elif name == "torn":
        write_torn(folder)
    else:
        write_bundle(load(name), folder)
    return dumped_run(folder)


def write_torn(folder: Path) -> None:
    """Two partitions are led by different brokers, and an unclean election empties the tail of one."""
    settings = {"simulation.transactions": "own", "num.partitions": 2, "min.insync.replicas": 1}
    faults = ("unclean", "crash", "power-loss")
    simulate_request(folder, None, faults, 6, variant=None, seed=1, ops=400, settings=settings)


def test_every_record_of_the_coordinators_is_decoded_alike(run: DumpedRun) -> None:
    for path, lines in run.states:
        records, damage = raw_records(path)
        assert (len(records), damage) == (len(lines), [])
        for raw, line in zip(records, lines, strict=True):
            assert_decoded_alike(raw, line)
    assert run.states or run.folder.name in ("transactions-a", "txn-unclean-x")  # which have no such log


def test_the_transactions_of_every_copy_are_those_of_kafkas_text(run: DumpedRun) -> None:
    columns = ("producer_id", "first_offset", "last_offset", "records", "outcome", "marker")
    inspected, seen = Inspected(run.folder), 0
    for broker, logs in run.logs.items():
        for (topic, number), expected in logs.items():
            replica_logs = inspected.partition(f"{topic}-{number}").replica_logs
            assert replica_logs is not None
            ours = log_transactions(replica_logs, is_of_copy("", broker)).select(columns).rows()
            theirs = [(one.producer, one.first, one.last, len(one.values), one.outcome, one.marker) for one in expected]
            assert ours == theirs, (broker, topic, number)
            seen += len(theirs)
    assert seen > 20


def test_files_on_producers_are_read_alike(run: DumpedRun) -> None:
    files = [path for path in run.folder.glob("brokers/*/data/*/*.txnindex") if path.stat().st_size]
    files += run.folder.glob("brokers/*/data/[!_]*/*.snapshot")
    if not files:
        assert run.folder.name in ("transactions-a", "txn-unclean-x")  # which have none
        return
    for path, lines in dumped_lines(files=files).items():
        named = [dict(re.findall(r"(\w+): (?:OptionalLong[.\[])?(-?\w+)", line)) for line in lines]
        theirs = [{name: int(value) for name, value in row.items() if value != "empty"} for row in named]
        if path.suffix == ".txnindex":
            names = {"producer_id": "producerId", "first_offset": "firstOffset", "last_offset": "lastOffset"}
            names["last_stable_offset"] = "lastStableOffset"
            rows, damage = read_aborted_index(path)
        else:
            names = {"producer_id": "producerId", "producer_epoch": "producerEpoch", "timestamp": "lastTimestamp"}
            names["open_since"] = "currentTxnFirstOffset"
            rows, damage = read_producer_snapshot(path)
        assert not len(damage)
        assert rows.select(names.keys()).rows() == [tuple(row.get(name) for name in names.values()) for row in theirs]


def operations(folder: Path) -> Iterator[tuple[str, list[tuple[Place, str]]]]:
    """How each transaction ended for its client, and what it sent where."""
    sent: dict[tuple[str, int], list[tuple[Place, str]]] = {}
    ends: dict[tuple[str, int], str] = {}
    for line in (folder / "history.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["f"] != "txn":
            continue
        at = event["process"], event["op"]
        steps = [step for step in event.get("ops", []) if step["f"] == "send"]
        if steps:
            sent[at] = [((step["topic"], step["partition"]), step["value"]) for step in steps]
        if event["type"] != "invoke":
            ends[at] = event["type"]
    for at, sends in sent.items():
        yield ends.get(at, "info"), sends


def torn_in(run: DumpedRun, leaders: dict[Place, str]) -> dict[tuple[Place, str], int]:
    """How many records of torn transactions are in another state than their client recorded, by place and state."""
    states: dict[tuple[Place, str], str] = {}
    for place, leader in leaders.items():
        for one in run.logs[leader][place]:
            outcome = {"commit": "committed", "abort": "aborted"}.get(one.outcome or "", "open")
            states |= {(place, value): outcome for value in one.values}
    torn: dict[tuple[Place, str], int] = defaultdict(int)
    for outcome, sends in operations(run.folder):
        if outcome == "ok":
            found = [(place, states.get((place, value), "absent")) for place, value in sends]
        else:  # whether an absent record was written is not known
            found = [(place, states[place, value]) for place, value in sends if (place, value) in states]
        kinds = {state for _, state in found}
        if "committed" in kinds and kinds & {"aborted", "absent"}:
            usual = "aborted" if outcome == "fail" else "committed"
            for place, state in found:
                torn[place, state] += state not in (usual, "open")
    return {at: count for at, count in torn.items() if count}


def hanging_in(run: DumpedRun, leaders: dict[Place, str]) -> set[tuple[Place, int]]:
    """The places where transactions are open in a leader's log, although their coordinator has ended them."""
    last: dict[int, str] = {}
    for _, lines in run.states:
        for line in lines:
            data = json.loads(line.partition(" payload: ")[2])["data"]
            last[data["producerId"]] = STATES[data["transactionStatus"]]
    return {
        (place, one.first)
        for place, leader in leaders.items()
        for one in run.logs[leader][place]
        if one.outcome is None and one.first is not None and last.get(one.producer) in OVER
    }


def test_torn_and_hanging_transactions_are_those_of_kafkas_text(run: DumpedRun) -> None:
    inspected = Inspected(run.folder)
    leaders: dict[Place, str] = {}
    for place in {place for logs in run.logs.values() for place in logs}:
        logs = inspected.partition(f"{place[0]}-{place[1]}").replica_logs
        assert logs is not None
        leaders[place] = str(logs.leader)
    findings = judge_run(open_run(run.folder)).findings()
    at = ("topic", "partition")
    torn = {
        ((topic, number), sentence.partition(", but")[0].rpartition(" ")[2]): count
        for topic, number, sentence, count in findings.filter(rule="torn-transaction")
        .select(*at, "sentence", "count")
        .rows()
    }
    hanging = {
        ((topic, number), first)
        for topic, number, first in findings.filter(rule="hanging-transaction").select(*at, "first_offset").rows()
    }
    assert torn == torn_in(run, leaders)
    assert hanging == hanging_in(run, leaders)
    assert bool(torn) == (run.folder.name in ("txn-unclean-x", "torn"))
    assert bool(hanging) == (run.folder.name in ("hanging", "txn-hanging"))
