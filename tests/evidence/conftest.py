"""Recorded runs for tests of the brokers' evidence, unpacked once, and what the tests need of them."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from judged_once import constant
from logjudge.analysis.causes import explain_duplicate
from logjudge.analysis.causes.cases import Explanation
from logjudge.analysis.causes.repeated_values import Repeated, records_at
from logjudge.analysis.partitions.common import faults_of
from logjudge.analysis.replicas.leaders import assigned_replicas, last_leader
from logjudge.analysis.replicas.replica_logs import SENT_RECORDS, ReplicaLogs, complete_sends, replica_logs_of
from logjudge.analysis.rules import RULES
from logjudge.analysis.rules.rule import Judgement
from logjudge.analysis.timelines.building import build_timeline
from logjudge.analysis.timelines.timeline import Builder, Timeline
from logjudge.histories.evidence.clock import Fault, clock_offsets
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.parts import Part
from logjudge.histories.evidence.tables import FINAL, LOG_EVENTS, METADATA, Block, empty
from logjudge.histories.observations import observe
from logjudge.histories.pairing import pair_remaining
from logjudge.histories.readers import native
from logjudge.histories.settings import Settings
from logjudge.histories.tables import Finding

DATA = Path(__file__).parent / "data"
RUNS = sorted(p.name.removesuffix(".tar.xz") for p in (DATA / "runs").glob("*.tar.xz"))
# Runs without a truth.json, or with one that has more than logs without clients can show.
BESIDE = ("custom-kraft", "backup-x", "bitflip-x", "txn-unclean-x")
Where = tuple[str | None, int | None]

LOG_JUDGES = {
    name: RULES[name].judges["native"].keywords["of_logs"]  # type: ignore[attr-defined]
    for name in ("replica-divergence", "acknowledged-absent", "epoch-order", "checkpoint-order", "log-corruption")
}
judge_divergence, judge_absence, judge_epochs, judge_checkpoints, judge_segments = LOG_JUDGES.values()


def gathered(blocks: Iterable[Block]) -> dict[Where, dict[str, pl.DataFrame]]:
    """Blocks by topic-partition and table."""
    frames: dict[Where, dict[str, list[pl.DataFrame]]] = {}
    for block in blocks:
        frames.setdefault((block.topic, block.partition), {}).setdefault(block.table, []).append(block.frame)
    return {where: {table: pl.concat(parts) for table, parts in tables.items()} for where, tables in frames.items()}


def judge_replicas(logs: ReplicaLogs, sends: pl.DataFrame) -> Judgement:
    """All rules on what brokers kept of one topic-partition."""
    sends = complete_sends(sends)
    judgements = [judge(logs, sends) for judge in LOG_JUDGES.values()]
    findings = [finding for judgement in judgements for finding in judgement.findings]
    return Judgement(tuple(findings), tuple(reason for judgement in judgements for reason in judgement.unknowns))


def duplicate_cause(timeline: Timeline, repeated: Repeated) -> Explanation:
    """The cause of a duplicate, with the records of the brokers' logs."""
    records = [row for rows in records_at(timeline, repeated.offsets).values() for row in rows]
    return explain_duplicate(timeline, repeated, records)


@dataclass
class Run:
    """A run as rules and causes take it, read without the pipeline."""

    root: Path
    about: dict[str, Any]
    tables: dict[Where, dict[str, pl.DataFrame]]
    sends: dict[Where, pl.DataFrame]
    faults: list[Fault]
    events: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    @property
    def truth(self) -> dict[str, Any]:
        return json.loads((self.root / "truth.json").read_text())  # type: ignore[no-any-return]

    @property
    def started(self) -> int | None:
        text = self.about.get("started_at")
        return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000)

    def table(self, name: str, *places: Where) -> pl.DataFrame:
        found = [self.tables[at][name] for at in places if name in self.tables.get(at, {})]
        return pl.concat(found) if found else empty({"metadata": METADATA, "log_events": LOG_EVENTS}[name], True)

    @cached_property
    def judged(self) -> dict[tuple[str, str, int], Judgement]:
        """The judgement of each rule on logs, by rule, topic and partition."""
        return {
            (rule, *at): judge(self.replica_logs(*at), self.sent(*at))
            for at in self.partitions()
            for rule, judge in LOG_JUDGES.items()
        }

    def findings(self, rule: str) -> list[Finding]:
        return [one for (name, *_), judged in self.judged.items() if name == rule for one in judged.findings]

    def partitions(self) -> list[tuple[str, int]]:
        return sorted((t, p) for t, p in self.tables if t is not None and p is not None)

    def sent(self, topic: str, partition: int) -> pl.DataFrame:
        return complete_sends(self.sends.get((topic, partition), pl.DataFrame(schema=dict(SENT_RECORDS))))

    def replica_logs(self, topic: str, partition: int) -> ReplicaLogs:
        here = (topic, partition)
        config = self.about.get("topics", {}).get(topic, {})
        dated = self.about.get("snapshots", {})
        names = {n for frame in self.tables.get(here, {}).values() for n in frame["snapshot"].unique()}
        order = sorted(names - set(dated) - {FINAL}) + sorted(dated, key=lambda name: dated[name]["time"])
        metadata, log_events = self.table("metadata", here), self.table("log_events", here)
        policy = config.get("cleanup.policy")
        return replica_logs_of(
            topic,
            partition,
            self.tables.get(here, {}),
            snapshots=(*order, FINAL),
            times={name: dated[name]["time"] for name in dated},
            leader=last_leader(metadata, log_events),
            replicas=assigned_replicas(metadata, log_events, config.get("replica.assignment"), partition),
            is_compacted=None if policy is None else "compact" in policy,
        )

    def timeline(self, topic: str, partition: int) -> Timeline:
        here = (topic, partition)
        everywhere = self.table("log_events", *self.tables)
        config = dict(self.about.get("topics", {}).get(topic, {}))
        clocks = clock_offsets(everywhere, self.faults, self.started)
        logs = self.replica_logs(topic, partition)
        return build_timeline(
            Builder(logs, clocks, self.faults, config=config, started=self.started),
            self.table("metadata", here, (topic, None), (None, None)),
            self.table("log_events", here, (None, None)),
            self.about.get("system", {}).get("version"),
        )


def _observed(history: bytes, about: dict[str, Any]) -> tuple[dict[Where, pl.DataFrame], list[Fault]]:
    """The ok sends of a history by topic-partition, and its faults. Their place is the number of their line."""
    events, _ = native.parse(history)
    placed = events.rename({"line": "place"}).with_columns(pl.col("place") + 1)
    observed = observe(pair_remaining(placed).operations, Settings(config=about))
    record = ["topic", "partition", "offset", "value"]
    reads = observed.reads.select(*record, read=pl.lit(True)).unique()
    sends = observed.sends.filter(outcome="ok").rename({"at": "place"})
    sends = sends.join(reads, on=record, how="left", nulls_equal=True, maintain_order="left")
    by_partition = sends.with_columns(pl.col("read").fill_null(False)).partition_by(record[:2], as_dict=True)
    return {(where[0], where[1]): complete_sends(rows) for where, rows in by_partition.items()}, faults_of(
        observed.context
    )


def read_run(root: Path, keep: Callable[[Part], bool] = lambda _: True) -> Run:
    about = json.loads((root / "run.json").read_text()) if (root / "run.json").exists() else {}
    history = b"".join(gzip.decompress(path.read_bytes()) for path in root.glob("history.jsonl.gz"))
    history = history or b"".join(path.read_bytes() for path in root.glob("history.jsonl"))
    blocks = [block for part in find_parts(root) if keep(part) for block in read_part(part)]
    events = [(number, json.loads(line)) for number, line in enumerate(history.splitlines(), 1)]
    return Run(root, about, gathered(blocks), *_observed(history, about), events)


@pytest.fixture(scope="session")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a recorded run."""
    base = constant(tmp_path_factory.mktemp("runs"))

    def unpack(name: str) -> Path:
        if not (base / name).exists():
            shutil.unpack_archive(DATA / "runs" / f"{name}.tar.xz", base)
        return base / name

    return unpack


@pytest.fixture(scope="session")
def recorded(unpacked: Callable[[str], Path]) -> Callable[[str], Run]:
    """A recorded run, read."""
    read: dict[str, Run] = {}

    def get(name: str) -> Run:
        if name not in read:
            read[name] = read_run(unpacked(name))
        return read[name]

    return get


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run_name" in metafunc.fixturenames:
        metafunc.parametrize("run_name", [name for name in RUNS if name not in BESIDE])
