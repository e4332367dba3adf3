"""Tests the judge with less evidence: simulated runs without some of their files, lines and settings, at random.

The results of `check` must still be true: it reports no record lost that is not, no verdict is valid where records are
lost, and a cause is the simulator's or `unknown`.

Run: python benchmarks/weakened.py [runs] [processes] [first seed]
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from judge import Compared, compare_causes, lost_values, scenario, tally, values_of
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.schedule import Draw

COPIES = 4  # of each run, each with one or two weaknesses

Weakness = Callable[[Path, Draw], None]


def without(*patterns: str) -> Weakness:
    """Removes files or folders, at the end of the run and in snapshots."""

    def weaken(run: Path, _: Draw) -> None:
        for pattern in patterns:
            for path in [*run.glob(pattern), *run.glob(f"snapshots/*/{pattern}")]:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    return weaken


def without_broker(part: str) -> Weakness:
    """Removes the files of a random broker, or a part of them."""
    return lambda run, rng: without(f"brokers/{rng.between(1, 4)}{part}")(run, rng)


def without_settings(name: str) -> Weakness:
    """Removes a setting of run.json."""

    def weaken(run: Path, _: Draw) -> None:
        config = json.loads((run / "run.json").read_text())
        config.pop(name, None)
        (run / "run.json").write_text(json.dumps(config))

    return weaken


def without_events(*kinds: str) -> Weakness:
    """Removes faults of these kinds from the history."""

    def weaken(run: Path, _: Draw) -> None:
        lines = (run / "history.jsonl").read_text().splitlines(keepends=True)
        faults = (json.loads(line).get("fault") for line in lines)
        remaining = (
            line for line, fault in zip(lines, faults, strict=True) if fault is None or fault["kind"] not in kinds
        )
        (run / "history.jsonl").write_text("".join(remaining))

    return weaken


def of_logs(keep: Callable[[list[str], Draw], Iterable[str]]) -> Weakness:
    """Reduces the brokers' text logs to some of their lines."""

    def weaken(run: Path, rng: Draw) -> None:
        for log in sorted(run.glob("brokers/*/*.log")):
            log.write_text("".join(keep(log.read_text().splitlines(keepends=True), rng)))

    return weaken


def without_lines(*words: str) -> Weakness:
    """Removes the lines with one of the words."""
    return of_logs(lambda lines, _: (line for line in lines if not any(word in line for word in words)))


def with_other_clock(run: Path, rng: Draw) -> None:
    """Moves the times in a broker's logs by seconds, minutes or hours, as of another clock or time zone."""
    by = timedelta(seconds=(0.3, 3, 60, 3600, 19_800)[rng.below(5)] * (1 if rng.chance(0.5) else -1))

    def moved(time: re.Match[str]) -> str:
        text = (datetime.strptime(time[1], "%Y-%m-%d %H:%M:%S,%f") + by).strftime("%Y-%m-%d %H:%M:%S,%f")
        return f"[{text[:-3]}]"

    for log in sorted(run.glob(f"brokers/{rng.between(1, 4)}/*.log")):
        log.write_text(re.sub(r"^\[([-\d]+ [:,\d]+)\]", moved, log.read_text(), flags=re.MULTILINE))


def rolled(run: Path, rng: Draw) -> None:
    """Splits each log into two files, as Kafka's appender rolls them by the hour."""
    for log in sorted(run.glob("brokers/*/*.log")):
        lines = log.read_text().splitlines(keepends=True)
        at = rng.below(len(lines) + 1)
        log.with_name(f"{log.name}.2026-01-01-00").write_text("".join(lines[:at]))
        log.write_text("".join(lines[at:]))


WEAKNESSES: dict[str, Weakness] = {
    "server.log": without("brokers/*/server.log"),
    "state-change.log": without("brokers/*/state-change.log"),
    "controller.log": without("brokers/*/controller.log"),
    "cluster metadata": without("brokers/*/data/__cluster_metadata-0"),
    "snapshots": without("snapshots"),
    "epoch files": without("brokers/*/data/*/leader-epoch-checkpoint"),
    "checkpoints": without("brokers/*/data/*-checkpoint"),
    "logs of records": without("brokers/*/data"),
    "a broker": without_broker(""),
    "a broker's data": without_broker("/data"),
    "version": without_settings("system"),
    "topics": without_settings("topics"),
    "start": without_settings("started_at"),
    "times of snapshots": without_settings("snapshots"),
    "failures of power": without_events("power-loss"),
    "deaths": without_events("kill", "power-loss"),
    "restarts": without_events("restart"),
    "truncations": without_lines("Truncat"),
    "loads": without_lines("Completed load", "Loaded log"),
    "ISR": without_lines("ISR"),
    "elections": without_lines("artition change", "OnlinePartition", "Selected new leader"),
    "random lines": of_logs(lambda lines, rng: [line for line in lines if rng.chance(0.7)]),
    "beginnings": of_logs(lambda lines, rng: lines[rng.below(len(lines) + 1) :]),
    "one file a log": rolled,
    "one clock": with_other_clock,
}


def compare(seed: int) -> Compared:
    """Judges a simulated run several times with less evidence; no comparison if no record is lost."""
    compared = Compared()
    rng = Draw(seed)
    with tempfile.TemporaryDirectory() as scratch:
        whole = write_bundle(scenario(seed), Path(scratch) / "whole").folder
        truth = json.loads((whole / "truth.json").read_text())
        for copy in range(COPIES if truth["lost_acked_count"] else 0):
            names = list(dict.fromkeys([*WEAKNESSES][rng.below(len(WEAKNESSES))] for _ in range(rng.between(1, 2))))
            weak = Path(scratch) / str(copy)
            shutil.copytree(whole, weak)
            for name in names:
                WEAKNESSES[name](weak, rng)
            wrong = len(compared.wrong)
            _judge(weak, truth, compared)
            compared.wrong[wrong:] = [f"without {', '.join(names)}: {sentence}" for sentence in compared.wrong[wrong:]]
    return compared


def _judge(run: Path, truth: dict[str, Any], compared: Compared) -> None:
    results = judge_run(open_run(run))
    found = results.findings()
    compared.counts["runs with less evidence"] += 1
    compare_causes(truth, results, found, compared)
    lost, on_no_replica = lost_values(truth)
    # The truth gives all tombstones of an offset the same name.
    judged = {value.partition("#")[0] for value in values_of(found, "lost-write", "acknowledged-absent")}
    if invented := judged - lost - on_no_replica:
        compared.wrong.append(f"lost records invented: {sorted(invented)[:5]}, {len(invented)} in all")
    if truth["final"] and verdict_of(results)["verdict"] == "valid":
        compared.wrong.append(f"{len(lost)} records are lost, but the verdict is valid")


def main(runs: int, jobs: int, first: int) -> int:
    began = time.perf_counter()
    counts, wrong = tally(compare, runs, jobs, first)
    named, known = counts["named"], counts["named"] + counts["unnamed"]
    print(f"{counts['runs with less evidence']} runs with less evidence; {named} of {known} causes are still found")
    print(f"{wrong} of {runs} seeds have wrong results; {time.perf_counter() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:4]]
    sys.exit(main(*numbers, *(400, 2, 0)[len(numbers) :]))
