"""The corpus as a few runs: each history has a topic and processes of its own, so that judging all of them is cheap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logjudge.analysis.engines import local
from logjudge.analysis.results import Results
from logjudge.histories.bundle import open_run
from notation import Event, History, parse, undrawn
from rules_corpus import load, shown

HISTORIES = list(dict.fromkeys(case.history for case in load()))
# One history that breaks each rule, and one for each rule that does not.
BREAKING = list({case.rule: case.history for case in load() if case.breaks}.values())
SOUND = list({case.rule: case.history for case in load() if not case.breaks}.values())
_CALM = 1_000_000_000_000  # ns: by then the last fault of every history is over


@dataclass
class CombinedRun:
    """Histories in one run, and the topic of each."""

    history: History = field(default_factory=lambda: History([], {"format": 1, "topics": {}, "processes": {}}))
    topics: dict[str, str] = field(default_factory=dict)  # topic -> history of the corpus

    def add(self, text: str, number: int) -> None:
        """Add a history as topic x<number>, with h<number>. before the names of its processes."""
        added = parse(text, f"x{number}", f"h{number}.")
        config = self.history.config
        self.topics[f"x{number}"] = text
        config["topics"] |= added.config["topics"]
        config["processes"] |= added.config["processes"]
        config["final"] = added.config.get("final", False)
        config["finished"] = added.config.get("finished", True)
        for event in _calmed(added):
            nemesis = {"op": number * 1000 + event["op"]} if event["process"] == "nemesis" else {}
            self.history.events.append({**event, **nemesis})


@dataclass(frozen=True)
class JudgedRun:
    """A combined run on disk, as the local engine judges it."""

    run: CombinedRun
    folder: Path
    results: Results

    def findings_by_history(self) -> dict[str, list[dict[str, Any]]]:
        """The findings of each history, with the names of its processes and groups."""
        found: dict[str, list[dict[str, Any]]] = {text: [] for text in self.run.topics.values()}
        for finding in self.results.findings().iter_rows(named=True):
            prefix = f"h{finding['topic'].removeprefix('x')}."
            processes = [name.removeprefix(prefix) for name in finding["processes"]]
            found[self.run.topics[finding["topic"]]].append({**finding, "processes": processes})
        return found

    def shown_by_history(self) -> dict[str, Counter[str]]:
        """The findings of each history, as the corpus writes them."""
        return {text: Counter(map(shown, found)) for text, found in self.findings_by_history().items()}


def combine(texts: list[str]) -> list[CombinedRun]:
    """All of these histories in as few runs as possible."""
    runs: dict[Any, CombinedRun] = {}
    for number, text in enumerate(texts):
        runs.setdefault(_kind(parse(text)), CombinedRun()).add(text, number)
    for run in runs.values():
        run.history.events.sort(key=lambda event: event["time"])
    return list(runs.values())


def judge_combined(texts: list[str], folder: Path, *rules: str) -> list[JudgedRun]:
    """Combine histories, write the runs below the folder and judge them on the local engine; nothing is drawn.

    `rules`: those to judge, all by default.
    """
    judged = []
    with undrawn():
        for number, run in enumerate(combine(texts)):
            written = run.history.write(folder / str(number))
            judged.append(JudgedRun(run, written, local.judge_run(open_run(written).with_settings(rules=rules))))
    return judged


def _kind(history: History) -> tuple[Any, ...]:
    """The properties of a whole run: histories that differ in one cannot share a run."""
    named = any(event["process"] == "final" for event in history.events)
    handles = any(event["f"] == "handle" for event in history.events)
    level = history.config["processes"].get("final", {}).get("isolation.level")
    senders = {event["process"] for event in history.events if event["f"] in ("send", "txn")}
    producers = {name for name, about in history.config["processes"].items() if about.get("role") == "producer"}
    without_steps = tuple(event["time"] for event in history.events if event["f"] == "txn" and not event.get("ops"))
    declared = history.config.get("final") is True, history.config.get("finished")
    has_silent_reader = not named and "final" in history.config["processes"]
    acks = [event for event in history.events if event["f"] == "send" and event["type"] == "ok"]
    lacks_offsets = bool(acks) and all(event.get("offset") is None for event in acks)
    return named, declared, handles, level, producers <= senders, without_steps, has_silent_reader, lacks_offsets


def _calmed(history: History) -> Iterator[Event]:
    """The events; those after the last fault are moved behind the last fault of all histories of the run."""
    faults = [number for number, event in enumerate(history.events) if event["f"] in ("fault", "heal")]
    for number, event in enumerate(history.events):
        yield {**event, "time": event["time"] + (_CALM if number > max(faults, default=-1) else 0)}
