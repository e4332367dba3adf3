"""Runs for the tests of figures, plots and reports: real ones, small made-up ones, and hostile ones."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.verdict.document import finds_all_losses, report_of
from logjudge.histories.bundle import open_run
from notation import History

REAL = sorted((Path(__file__).parent / "data" / "real").iterdir())
SECOND = 10**9

HOSTILE = [
    "<script>alert(1)</script>",
    "../../../../etc/x",
    "nul\x00bell\x07",
    "\u202egnp.exe\u2066",
    "[click](javascript:alert(1)) ![i](http://evil/x.png) https://evil/ www.evil.org",
    "| a | b |\n# heading\n---\n`code` **b** $x$ @everyone {{ 7*7 }} {% raw %}",
    "x" * 5000,
    "\"'><svg onload=alert(2)>&amp;",
]


class Judged(NamedTuple):
    """The values that `check` has when it writes a report."""

    summaries: list[dict[str, Any]]
    context: pl.DataFrame
    settings: Any
    findings: pl.DataFrame
    verdict: dict[str, Any]

    @property
    def figures(self) -> dict[str, Any]:
        return merge_figures(self.summaries, self.context, self.settings, finds_all_losses(self.verdict))


@cache
def judged(path: Path, split_bytes: int = 1 << 26) -> Judged:
    run = open_run(path, split_bytes=split_bytes)
    results = judge_run(run)
    return Judged(results.summaries, results.context, run.settings, results.findings(), report_of(results, "local"))


def figures_of(folder: Path) -> dict[str, Any]:
    """The figures of a run, as figures.json has them."""
    results = judge_run(open_run(folder))
    return dict(json.loads(json.dumps(merge_figures(results.summaries, results.context, results.run.settings))))


def write_run(folder: Path, events: list[dict[str, Any]], config: dict[str, Any] | None = None) -> Path:
    """Writes a run whose events are a second apart, unless they have times."""
    timed = [{"time": number * SECOND, **event} for number, event in enumerate(events)]
    return History(timed, {"format": 1, "name": folder.name, **(config or {})}).write(folder)


class Script:
    """Writes events: each call is an invocation and its completion. Unlike notation.parse, it accepts any text."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []

    def _both(self, kind: str, process: str, call: dict[str, Any], answer: dict[str, Any]) -> Script:
        op = len(self.events)
        self.events.append({"process": process, "op": op, "type": "invoke", **call})
        self.events.append({"process": process, "op": op, "type": kind, **call, **answer})
        return self

    def send(self, process: str, value: str, offset: int | None, topic: str = "orders", kind: str = "ok") -> Script:
        call = {"f": "send", "topic": topic, "partition": 0, "value": value}
        return self._both(kind, process, call, {"offset": offset} if kind == "ok" else {"error": "unknown"})

    def poll(self, process: str, *records: tuple[int, str], topic: str = "orders") -> Script:
        read = [{"topic": topic, "partition": 0, "offset": offset, "value": value} for offset, value in records]
        return self._both("ok", process, {"f": "poll"}, {"records": read})

    def handle(self, process: str, offset: int, value: str) -> Script:
        record = {"topic": "orders", "partition": 0, "offset": offset, "value": value}
        return self._both("ok", process, {"f": "handle", "records": [record]}, {})

    def end(self, offset: int, topic: str = "orders") -> Script:
        end = {"topic": topic, "partition": 0, "offset": offset}
        return self._both("ok", "final", {"f": "end_offsets", "offsets": [end]}, {})

    def fault(self, kind: str, *nodes: str, heal: bool = False) -> Script:
        call = {"f": "heal" if heal else "fault", "fault": {"kind": kind, "nodes": list(nodes)}}
        return self._both("ok", "nemesis", call, {})


FINAL = {"final": True, "processes": {"final": {"role": "final"}}}


def lossy(topic: str = "orders", values: tuple[str, ...] = ("a", "b", "c"), process: str = "p") -> list[dict[str, Any]]:
    """The log keeps a; b was read by c0 and replaced by x; c is gone from the log end, and was not read."""
    a, b, c = values
    script = Script().send(process, a, 0, topic).send(process, b, 1, topic).send(process, c, 2, topic)
    script.poll("c0", (0, a), (1, b), topic=topic).fault("kill", "1").send("q", "x", 1, topic)
    script.fault("restart", "1", heal=True).poll("final", (0, a), (1, "x"), topic=topic)
    return script.end(2, topic).events
