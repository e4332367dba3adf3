"""Measures `logjudge check` on one hot partition in Parquet, valid or with lost records. One command:

    .venv/bin/python benchmarks/hot.py [--operations 1000000] [--master local[2]] [--whole]

Two consumers read all records; the final reads lack those that were lost: none, `one` in the middle, a `range` of 1 %,
or 1 % `scattered`. `--whole` judges all rows by the rules that are not proved, without condensing. Each measurement
has a process of its own. Prints Markdown for benchmarks/results.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from check import figures_of
from logjudge.histories.readers.parquet import write, writer
from logjudge.histories.tables import EVENTS, complete

WORK = Path(__file__).parent / "work"
CHUNK, WINDOW, BATCH = 64_000, 64, 500  # sends written together, in flight, records of a poll
STEP_NS = 2_000  # between two events
RECORD = ("topic", "partition", "offset", "key", "value", "timestamp")
LOST = ("none", "one", "range", "scattered")
PROGRAM = """
import resource, sys, time
from pathlib import Path
from logjudge.analysis.engines import local
from logjudge.histories.bundle import open_run

run, master, whole = open_run(Path(sys.argv[1])), sys.argv[2], sys.argv[3] == "whole"
arguments, judge_run = [], local.judge_run
if whole:
    local._condense = lambda *_: None
if master:
    from logjudge.analysis.engines import spark
    arguments, judge_run = [spark.open_session(master)], spark.judge_run
begun = time.perf_counter()
results = judge_run(run, *arguments)
wall = time.perf_counter() - begun
own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
records = sum(results.findings()["count"])
print("FIGURES", wall, own.ru_utime + own.ru_stime, own.ru_maxrss / 1000, len(results.findings()), records)
"""


def generate(folder: Path, operations: int, lost: str) -> Path:
    """Writes run.json and history.parquet, with so many acknowledged sends to one partition."""
    if (folder / "run.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with writer(folder / "history.parquet", "native") as file:
        for first in range(0, operations, CHUNK):
            offsets = np.arange(first, min(first + CHUNK, operations))
            until = 2 * STEP_NS * (first + len(offsets) + WINDOW)
            polls = [_polls(name, offsets, until + turn) for turn, name in enumerate(("c0", "c1"))]
            _write(pl.concat([_sends(offsets), *polls], how="diagonal"), file)
        end = 2 * STEP_NS * (operations + 2 * WINDOW)
        _write(_ends(operations, end), file)
        for first in range(0, operations, CHUNK):
            offsets = np.arange(first, min(first + CHUNK, operations))
            read = offsets[~_is_lost(offsets, operations, lost)]
            _write(_polls("final", read, end + 10 + first), file)
    processes: dict[str, dict[str, str]] = {f"p{number}": {"role": "producer", "acks": "all"} for number in range(8)}
    processes |= {"c0": {"role": "consumer"}, "c1": {"role": "consumer"}, "final": {"role": "final"}}
    topics = {"orders": {"partitions": 1, "min.insync.replicas": 1}}
    config = {"format": 1, "name": folder.name, "topics": topics, "processes": processes, "final": True}
    (folder / "run.json").write_text(json.dumps(config))
    return folder


def _write(events: pl.DataFrame, file: Any) -> None:
    write(complete(events, EVENTS).select(pl.col(name).cast(kind) for name, kind in EVENTS.items()), file)


def _is_lost(offsets: np.ndarray, operations: int, lost: str) -> np.ndarray:
    middle = operations // 2
    if lost == "scattered":
        return offsets % 100 == 50
    return (offsets >= middle) & (offsets < middle + {"none": 0, "one": 1, "range": operations // 100}[lost])


def _named(offsets: np.ndarray) -> pl.DataFrame:
    number = pl.col("offset")
    process = pl.format("p{}", number % 8)
    return pl.DataFrame({"offset": offsets}).with_columns(process=process, value=pl.format("{}-{}", process, number))


def _sends(offsets: np.ndarray) -> pl.DataFrame:
    """Windows of sends in flight: all invoked, then acknowledged."""
    begun = STEP_NS * (2 * WINDOW * (offsets // WINDOW) + offsets % WINDOW)
    of_both = _named(offsets).with_columns(op="offset", f=pl.lit("send"), topic=pl.lit("orders"), partition=0)
    invoked = of_both.with_columns(time=begun, type=pl.lit("invoke"), offset=pl.lit(None, pl.Int64))
    done = of_both.with_columns(time=begun + STEP_NS * WINDOW, type=pl.lit("ok"))
    return pl.concat([invoked, done]).sort("time")


def _polls(process: str, offsets: np.ndarray, time: int) -> pl.DataFrame:
    fields = {"topic": pl.lit("orders"), "partition": pl.lit(0), "key": pl.lit(None), "timestamp": pl.lit(None)}
    record = pl.struct(**{name: fields.get(name, pl.col(name)) for name in RECORD})
    polls = _named(offsets).group_by(op=pl.col("offset") // BATCH, maintain_order=True).agg(records=record)
    own = polls.with_columns(process=pl.lit(process), f=pl.lit("poll"), time=time + 2 * pl.int_range(pl.len()))
    invoked = own.drop("records").with_columns(type=pl.lit("invoke"))
    done = own.with_columns(time=pl.col("time") + 1, type=pl.lit("ok"))
    return pl.concat([invoked, done], how="diagonal").sort("time")


def _ends(operations: int, time: int) -> pl.DataFrame:
    rows = []
    for at, process, f, offset in ((time, "admin", "end_offsets", operations), (time + 3, "final", "assign", 0)):
        head = {"process": process, "op": -1, "f": f}
        offsets = [{"topic": "orders", "partition": 0, "offset": offset, "start": 0}]
        rows += [{"time": at, "type": "invoke", **head}, {"time": at + 1, "type": "ok", "offsets": offsets, **head}]
    return pl.DataFrame(rows)


def measure(run: Path, master: str, whole: bool) -> list[float]:
    """Wall and CPU seconds, peak MB, findings and records of the process that judges a run, without reports."""
    return figures_of("-c", PROGRAM, str(run), master, "whole" if whole else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--lost", nargs="*", choices=LOST, default=LOST)
    parser.add_argument("--master", default="")
    parser.add_argument("--whole", action="store_true")
    given = parser.parse_args()
    print(f"\n## a hot partition, {datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| lost of how many | wall s | CPU s | peak MB | findings | records |\n|---|---:|---:|---:|---:|---:|")
    for lost in given.lost:
        run = generate(WORK / f"hot-{lost}-{given.operations}", given.operations, lost)
        wall, cpu, peak, findings, records = measure(run, given.master, given.whole)
        row = f"| {lost} of {given.operations:,} | {wall:.1f} | {cpu:.1f} | {peak:,.0f} |"
        print(f"{row} {findings:,.0f} | {records:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
