"""Compares `check` with the truth of simulated runs, of every variant, setting and fault.

`check` must find exactly the lost, divergent, duplicated and reordered records of the simulator, and their causes. A
cause may be `unknown` but never wrong, and half of the simulator's causes must be found.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl
from logjudge.analysis.causes.cases import OffsetRange
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.results import Results
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.invariants import breaches
from logjudge.models.exploration.matrix import CELLS, space
from logjudge.models.exploration.schedule import PATTERNS, Draw
from logjudge.models.exploration.search import Space
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.faults.fault import Fault
from logjudge.models.replication.scenario import Scenario
from logjudge.models.replication.variants import VARIANTS

CELLS_IN_ORDER = [
    (setting, variant)
    for setting, cells in CELLS.items()
    if setting not in ("processing", "at-least-once", "compacted")  # the first two need a group, for the last see KEYED
    for variant in cells
]
CLIENTS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"acks": "1", "enable.idempotence": False},
    {"acks": "0", "enable.idempotence": False},
    {"enable.idempotence": False},
    {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1},
)
WIDE = 10_000_000
KEYED = 20_000_000
MIN_FOUND, MIN_CAUSES = 0.5, 40  # the share of causes to find, in runs with at least so many
OTHERS = (
    *("handover", "lagging-mark", "reassignment", "rolling-upgrade"),
    *("consumer-crash", "consumer-pause", "consumer-shutdown"),
)
KINDS = tuple(kind for kind in PATTERNS if kind not in OTHERS)


def scenario(seed: int) -> Scenario:
    """The scenario of a seed: even seeds run the cells of the matrix, odd ones mix all faults and clients.

    From WIDE on clusters are larger, and records are deleted, too. From KEYED on the topic is compacted.
    """
    if seed >= KEYED:
        return _keyed(seed)
    if seed >= WIDE:
        return _wide(seed)
    if seed % 2 == 0:
        setting, variant = CELLS_IN_ORDER[seed // 2 % len(CELLS_IN_ORDER)]
        cell = space(variant, setting)
        members = cell.options.get("simulation.classic.members", 0) + 1
        return replace(cell, options={**cell.options, "simulation.consumers": members}).scenario(seed)
    rng = Draw(seed)
    options = {
        **CLIENTS[rng.below(len(CLIENTS))],
        "num.partitions": rng.between(1, 2),
        "min.insync.replicas": rng.between(1, 2),
        "unclean.leader.election.enable": rng.chance(0.5),
        "simulation.commit": ("none", "after", "before")[rng.below(3)],
    }
    kinds = tuple(KINDS[rng.below(len(KINDS))] for _ in range(rng.between(1, 3)))
    return Space(list(VARIANTS)[seed // 2 % len(VARIANTS)], kinds, options, 4).scenario(seed)


def _wide(seed: int) -> Scenario:
    rng = Draw(seed)
    brokers = rng.between(3, 6)
    options = {
        **CLIENTS[rng.below(len(CLIENTS))],
        "simulation.brokers": brokers,
        "default.replication.factor": rng.between(1, brokers),
        "num.partitions": rng.between(1, 3),
        "min.insync.replicas": rng.between(1, 2),
        "unclean.leader.election.enable": rng.chance(0.5),
    }
    kinds = tuple(KINDS[rng.below(len(KINDS))] for _ in range(rng.between(1, 3)))
    drawn = Space(list(VARIANTS)[rng.below(len(VARIANTS))], kinds, options, 4).scenario(seed)
    if rng.chance(0.7) or "delete-records" in VARIANTS[drawn.variant].era.absent:
        return drawn
    deleted = Fault(rng.between(5, 15) * SECOND, "delete-records", amount=rng.between(1, 40))
    return drawn.with_faults(tuple(sorted((*drawn.faults, deleted), key=lambda fault: fault.at)))


def _keyed(seed: int) -> Scenario:
    """A compacted topic, with the faults and clients of a smaller seed."""
    drawn = scenario(2 * (seed - KEYED) + 1)
    rng = Draw(seed)
    options = {
        **drawn.options,
        "cleanup.policy": "compact",
        "segment.ms": rng.between(200, 2000),
        "log.cleaner.backoff.ms": rng.between(500, 3000),
        "min.cleanable.dirty.ratio": (0.1, 0.5)[rng.below(2)],
        "delete.retention.ms": rng.between(0, 4000),
        "simulation.keys": (5, 20, 100)[rng.below(3)],
        "simulation.tombstones": rng.between(0, 300),
    }
    faults = tuple(fault for fault in drawn.faults if fault.kind != "delete-records")
    return replace(drawn, options=options, faults=faults)


@dataclass
class Compared:
    """The differences, as sentences, and counts of the compared items."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def compare(self, what: str, true: set[Any], judged: set[Any]) -> None:
        """Counts the true items, and adds a sentence for missed and for invented ones."""
        self.counts[what] += len(true)
        for name, items in (("missed", true - judged), ("invented", judged - true)):
            if items:
                self.wrong.append(f"{what} {name}: {sorted(map(str, items))[:5]}, {len(items)} in all")


def compare(seed: int) -> Compared:
    """Simulates and judges a seed, and compares the results."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "run"
        cluster = write_bundle(scenario(seed), folder).cluster
        # Read from the file, so that its content is compared.
        truth = json.loads((folder / "truth.json").read_text())
        results = judge_run(open_run(folder))
        maybe_compacted = _maybe_compacted(folder / "history.jsonl")
    found = results.findings()
    compared = Compared()
    compared.counts["runs"] += 1
    compared.counts["runs with final reads"] += truth["final"]
    compacted = seed >= KEYED
    document = verdict_of(results)
    is_unknown = document["rules"].get("unseen", {}).get("verdict") == "unknown"
    _losses(truth, found, compared, compacted, maybe_compacted if is_unknown else set())
    compare_causes(truth, results, found, compared)
    _divergence(truth, found, compared, compacted)
    _order(truth, found, compared)
    has_breach = _has_breach(truth) or breaches(cluster, ["no-committed-loss", "no-fenced-commit"])
    # Without acknowledged sends there is nothing to judge. Without a coordinator a transaction may stay open.
    verdict, rules = document["verdict"], sorted(set(found["rule"]))
    expected = ("valid", "unknown") if (truth.get("transactions") or {}).get("hanging") else ("valid",)
    if truth["final"] and truth["acknowledged"] and not has_breach and verdict not in expected:
        compared.wrong.append(f"the run has no breach, but the verdict is {verdict}: {rules}")
    return compared


def values_of(found: pl.DataFrame, *rules: str) -> set[str]:
    """The values of the findings of these rules."""
    breaches = found.filter(pl.col("rule").is_in(rules) & (pl.col("severity") != "note"))
    return set(breaches["values"].explode().drop_nulls())


def _maybe_compacted(history: Path) -> set[str]:
    """The values of keys with several sends: compaction may have removed any of their records."""
    of_key: dict[tuple[int, str | None], list[dict[str, Any]]] = {}
    for event in map(json.loads, history.read_text().splitlines()):
        if event["f"] == "send" and event["type"] == "invoke" and "value" in event:
            of_key.setdefault((event["partition"], event.get("key")), []).append(event)
    repeated = [own for own in of_key.values() if len(own) > 1]
    return {one["value"] for own in repeated for one in own if one["value"] is not None}


def lost_values(truth: dict[str, Any]) -> tuple[set[str], set[str]]:
    """The lost values, and those on no replica of a partition without leader."""
    lost, on_no_replica = (
        {value for values in truth[name].values() for _, value in values}
        for name in ("lost_acked", "absent_without_leader")
    )
    return lost, on_no_replica


def _losses(truth: dict[str, Any], found: pl.DataFrame, compared: Compared, compacted: bool, unknown: set[str]) -> None:
    lost, on_no_replica = lost_values(truth)
    absent = values_of(found, "acknowledged-absent")
    if compacted:
        lost, absent = _without_tombstones(lost), _without_tombstones(absent)
        unknown = ((lost | on_no_replica) & unknown) - values_of(found, "acknowledged-absent", "lost-write", "unseen")
        compared.counts["lost records that compaction may explain"] += len(unknown)
        lost, on_no_replica = lost - unknown, on_no_replica - unknown
    compared.compare("lost records, by brokers", lost | on_no_replica, absent)
    if truth["final"]:
        judged = values_of(found, "lost-write", "unseen")
        if compacted:
            # Compaction may explain a missing offset, but not in the brokers' logs that its key has no newer record.
            judged = _without_tombstones(judged | absent - on_no_replica)
        compared.compare("lost records, by clients", lost, judged)


def _without_tombstones(values: set[str]) -> set[str]:
    """The values of other records: compaction removes tombstones, too."""
    return {value for value in values if not value.startswith("tombstone@")}


def compare_causes(truth: dict[str, Any], results: Results, found: pl.DataFrame, compared: Compared) -> None:
    """Compares the causes of losses and divergences with the simulator's."""
    values = dict(zip(found["id"], found["values"].to_list(), strict=True))
    for judged in results.causes():
        if (span := judged.lost) is None:
            continue
        # Those of the first finding, as `lost` is; others with the same chain may have other generations of records.
        lost = set(values.get(judged.findings[0], ()))
        causes = {
            loss["cause"]
            for loss in truth["losses"]
            if loss["partition"] == span.partition
            and span.overlaps(OffsetRange(span.topic, span.partition, loss["first_offset"], loss["last_offset"]))
            and lost.intersection(loss["values"])
        }
        for cause in causes:
            compared.counts[f"cause {cause}, judged {judged.cause}"] += 1
            if cause != "unknown":
                compared.counts["named" if judged.cause == cause else "unnamed"] += 1
        if judged.cause != "unknown" and causes - {judged.cause}:
            of = f"{judged.findings[0]}@{span.first}-{span.last}"
            compared.wrong.append(f"{of} has the cause {judged.cause}, expected {', '.join(sorted(causes))}")
    by_epochs = dict.fromkeys(("kip-101", "kip-279"), "leader-epoch-divergence")
    diverged = {"high-watermark": "high-watermark-truncation", "no-controller-epoch": "split-brain", **by_epochs}
    # The truncation that lost records may have ended a difference, too.
    by_losses = {(loss["partition"], loss["cause"]) for loss in truth["losses"]}
    for row in found.filter(pl.col("rule") == "replica-divergence").iter_rows(named=True):
        is_of_loss = (row["partition"], row["cause"]) in by_losses
        if row["cause"] not in (None, diverged.get(truth["variant"])) and not is_of_loss:
            compared.wrong.append(f"{row['id']} has the cause {row['cause']} under {truth['variant']}")


def _divergence(truth: dict[str, Any], found: pl.DataFrame, compared: Compared, compacted: bool) -> None:
    true: dict[tuple[str, str, int], set[str]] = {}
    for snapshot, partitions in truth["divergent"].items():
        for name, pairs in partitions.items():
            for pair, about in pairs.items():
                for first, last in about["conflicting_offsets"]:
                    for offset in range(first, last + 1):
                        true.setdefault((snapshot, name, offset), set()).update(pair.split("/"))
    judged: dict[tuple[str, str, int], set[str]] = {}
    for row in found.filter(pl.col("rule") == "replica-divergence").iter_rows(named=True):
        for offset in range(row["first_offset"], row["last_offset"] + 1):
            key = (row["snapshot"] or "final", f"{row['topic']}-{row['partition']}", offset)
            is_inner = row["first_offset"] < offset < row["last_offset"]
            if is_inner and key not in true and compacted:
                continue  # compaction removed it between offsets that differ
            judged.setdefault(key, set()).update(row["replicas"])
    compared.compare(
        "divergent offsets",
        {(*key, *sorted(brokers)) for key, brokers in true.items()},
        {(*key, *sorted(brokers)) for key, brokers in judged.items()},
    )


def _order(truth: dict[str, Any], found: pl.DataFrame, compared: Compared) -> None:
    back = found.filter(pl.col("rule") == "nonmonotonic-send")
    pairs = {tuple(pair) for pair in truth["went_back"]}
    # The truth gives all tombstones of an offset the same name.
    judged_pairs = {tuple(value.partition("#")[0] for value in pair) for pair in back["values"].to_list()}
    compared.compare("sends out of order", pairs, judged_pairs)
    rivals = found.filter((pl.col("rule") == "epoch-order") & (pl.col("replicas").list.len() > 1))
    compared.compare(
        "leader epochs of two brokers",
        {(one["partition"], *one["brokers"]) for one in truth["led_by_two"]},
        {(f"{r['topic']}-{r['partition']}", *r["replicas"]) for r in rivals.iter_rows(named=True)},
    )
    judged = values_of(found, "duplicate")
    rewritten = set(truth["written_again"])
    if judged - rewritten:
        compared.wrong.append(f"called duplicate, but written once: {sorted(judged - rewritten)[:5]}")
    duplicated = {value for one in truth["duplicates"] for value in _numbered(one)}
    compared.counts["duplicated records"] += len(duplicated)
    if truth["final"] and duplicated - judged:
        compared.wrong.append(f"duplicates missed: {sorted(duplicated - judged)[:5]}")


def _numbered(one: dict[str, Any]) -> list[str]:
    stem, _, first = one["first_value"].rpartition("-")
    return [f"{stem}-{int(first) + index}" for index in range(one["count"])]


def _has_breach(truth: dict[str, Any]) -> bool:
    """Whether the simulator recorded any breach."""
    fields = (
        "lost_acked_count",
        "duplicates",
        "written_again",
        "reordered",
        "went_back",
        "consumer_resets",
        "led_by_two",
    )
    return any(truth.get(name) for name in fields) or any(map(bool, truth["divergent"].values()))


def tally(judged: Callable[[int], Compared], runs: int, jobs: int, first: int) -> tuple[Counter[str], int]:
    """Judges seeds in processes and prints differences. Returns all counts and the number of seeds with differences."""
    counts: Counter[str] = Counter()
    wrong = 0
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for seed, compared in enumerate(pool.imap(judged, range(first, first + runs), chunksize=4), first):
            counts += compared.counts
            wrong += bool(compared.wrong)
            for sentence in compared.wrong:
                print(f"seed {seed}, {scenario(seed).variant}: {sentence}", flush=True)
    return counts, wrong


def main(runs: int, jobs: int, first: int) -> int:
    began = time.perf_counter()
    counts, wrong = tally(compare, runs, jobs, first)
    named, known = counts.pop("named", 0), counts.pop("unnamed", 0)
    known += named
    for name in sorted(counts):
        print(f"{counts[name]:9,} {name}")
    print(f"{named} of {known} causes of the simulator are found")
    print(f"{wrong} runs of {runs} disagree; {time.perf_counter() - began:.0f} s")
    return 1 if wrong or (known >= MIN_CAUSES and named < MIN_FOUND * known) else 0


def numbers_from_arguments(description: str | None, runs: int) -> list[int]:
    """The numbers of runs and processes, and the first seed. `runs` is the default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"runs": runs, "processes": 2, "first_seed": 0}.items():
        parser.add_argument(name, type=int, nargs="?", default=default, help=f"by default {default}")
    return [*vars(parser.parse_args()).values()]


if __name__ == "__main__":
    sys.exit(main(*numbers_from_arguments(__doc__, 1000)))
