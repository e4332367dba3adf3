"""Ways to lose evidence of a run: files, lines and settings are missing, or times are of another clock.

Each changes the run's folder, at random where it has a choice.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path

from logjudge.models.exploration.schedule import Draw

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


def of_history(keep: Callable[[list[str], Draw], Iterable[str]]) -> Weakness:
    """Reduces the history to some of its lines, if the run has one."""

    def weaken(run: Path, rng: Draw) -> None:
        if (history := run / "history.jsonl").exists():
            history.write_text("".join(keep(history.read_text().splitlines(keepends=True), rng)))

    return weaken


def without_events(*kinds: str) -> Weakness:
    """Removes faults of these kinds from the history."""

    def is_left(line: str) -> bool:
        fault = json.loads(line).get("fault")
        return fault is None or fault["kind"] not in kinds

    return of_history(lambda lines, _: filter(is_left, lines))


def without_some(share: float, *words: str) -> Weakness:
    """Removes a share of the lines of the history that have all of the words."""
    return of_history(
        lambda lines, rng: [line for line in lines if not (all(word in line for word in words) and rng.chance(share))]
    )


def part_of_lines(lines: list[str], rng: Draw) -> list[str]:
    """The lines between two random places: at least a third of them."""
    first = rng.below(len(lines) // 3 + 1)
    return lines[first : first + len(lines) // 3 + rng.below(len(lines) // 2 + 1)]


def with_some_settings(run: Path, rng: Draw) -> None:
    """Removes settings of run.json at random, and settings of topics."""
    config = json.loads((run / "run.json").read_text())
    for topic, settings in (config.get("topics") or {}).items():
        config["topics"][topic] = {name: value for name, value in settings.items() if rng.chance(0.7)}
    (run / "run.json").write_text(json.dumps({name: value for name, value in config.items() if rng.chance(0.7)}))


def with_some_snapshots(run: Path, rng: Draw) -> None:
    """Removes snapshots at random."""
    for snapshot in sorted(run.glob("snapshots/*")):
        if rng.chance(0.5):
            shutil.rmtree(snapshot)


def choose(weaknesses: dict[str, Weakness], most: int, rng: Draw) -> list[str]:
    """The names of one to `most` random weaknesses, each once."""
    return list(dict.fromkeys([*weaknesses][rng.below(len(weaknesses))] for _ in range(rng.between(1, most))))


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
# Further ones, most of them of the clients' history.
OF_RECORDED_RUNS: dict[str, Weakness] = {
    "history": without("history.jsonl"),
    "parts of the history": of_history(part_of_lines),
    "events": without_some(0.02, '"f"'),
    "acknowledgements": without_some(0.2, '"ok"', '"send"'),
    "polls": without_some(0.2, '"poll"'),
    "faults": without_some(1, '"nemesis"'),
    "final reads": without_some(1, '"final"'),
    "settings": with_some_settings,
    "some snapshots": with_some_snapshots,
    "ends": of_logs(lambda lines, rng: lines[: rng.below(len(lines) + 1)]),
}
