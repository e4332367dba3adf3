"""Measures `logjudge check`: engines against each other, growth, memory. One command:

    .venv/bin/python benchmarks/check.py [--operations 10000000] > /tmp/check.md

The figures are ratios within one run, on histories that generate.py makes from a seed. Each measurement has a separate
process, so the peak memory is of one run. Prints Markdown for benchmarks/results.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from generate import generate, generate_jepsen

WORK = Path(__file__).parent / "work"
JEPSEN_LINES = 1_000_000  # Jepsen's own checker takes 300 to 340 s and 11.3 GB for them
PROGRAM = """
import resource, sys, time
from pathlib import Path
from logjudge.analysis.engines import local
from logjudge.histories.bundle import open_run
run, engine, arguments, judge_run = open_run(Path(sys.argv[1])), sys.argv[2], [], local.judge_run
if engine == "unscreened":
    local.batches_of = lambda run: 0
elif engine == "one task":
    from logjudge.analysis.engines import spark
    arguments, judge_run = [spark.open_local_context()], spark.judge_here
    arguments[0].parallelize([1], 1).collect()
elif engine != "polars":
    from logjudge.analysis.engines import spark
    arguments, judge_run = [spark.open_session(engine)], spark.judge_run
    arguments[0].range(1).collect()
begun = time.perf_counter()
results = judge_run(run, *arguments)
wall = time.perf_counter() - begun
assert not len(results.findings()), "the generated history is valid"
used = resource.getrusage(resource.RUSAGE_SELF)
print("FIGURES", wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)
"""


def figures_of(*words: str) -> list[float]:
    """What a process of Python printed behind FIGURES."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("FIGURES")), None)
    if line is None:
        raise SystemExit(done.stderr[-3000:])
    return [float(figure) for figure in line.split()[1:]]


def judge(run: Path, engine: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MB of the process that judges a valid run, without reports.

    `engine` is "polars", "unscreened" (polars, every partition by all rules), "one task" (of Spark, on this machine),
    or Spark's master, for many tasks.
    """
    wall, cpu, peak = figures_of("-c", PROGRAM, str(run), engine)
    return wall, cpu, peak


def generated(name: str, operations: int, hot: bool = False) -> Path:
    """The folder of a generated run."""
    folder = WORK / f"{name}-{operations}"
    if not (folder / "run.json").exists():
        generate(folder, operations, hot=hot)
    return folder


def jepsen_history() -> Path:
    """The file of a generated history of Jepsen's kafka workload."""
    file = WORK / f"jepsen-{JEPSEN_LINES}.edn"
    return file if file.exists() else generate_jepsen(file, JEPSEN_LINES)


def as_parquet(run: Path) -> Path:
    """The run with its history as Parquet."""
    folder = run.with_name(run.name + "-parquet")
    if not (folder / "history.parquet").exists():
        folder.mkdir(exist_ok=True)
        shutil.copy(run / "run.json", folder)
        command = [sys.executable, "-m", "logjudge.cli", "convert", str(run), str(folder / "history.parquet")]
        subprocess.run(command, check=True, capture_output=True)
    return folder


def count_events(run: Path) -> int:
    """The number of lines of the run's history."""
    with (run / "history.jsonl").open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1_000_000)
    large = parser.parse_args().operations
    WORK.mkdir(exist_ok=True)
    even, small, hot = generated("even", large), generated("even", large // 10), generated("hot", large)
    size = (even / "history.jsonl").stat().st_size / 1e6
    print(f"\n## check, {datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print(f"{large:,} operations, {count_events(even):,} events, {size:,.0f} MB of JSON lines.\n")
    print("| what | wall s | CPU s of the driver | peak MB of the driver | events/s |\n|---|---:|---:|---:|---:|")
    figures = {}
    for name, run, engine in (
        ("polars, JSON lines", even, "polars"),
        ("polars, Parquet", as_parquet(even), "polars"),
        ("polars, a tenth of the operations", small, "polars"),
        ("polars, one hot partition", hot, "polars"),
        ("polars, a million lines of Jepsen's EDN", jepsen_history(), "polars"),
        ("Spark in one task, JSON lines, without start", even, "one task"),
        ("Spark local[*], JSON lines, without session start", even, "local[*]"),
        ("Spark local[*], one hot partition", hot, "local[*]"),
    ):
        figures[name] = wall, cpu, peak = judge(run, engine)
        counted = (
            JEPSEN_LINES
            if run.suffix == ".edn"
            else count_events(small if run == small else hot if run == hot else even)
        )
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | {peak:,.0f} | {counted / wall:,.0f} |", flush=True)
        time.sleep(1)
    local = figures["polars, JSON lines"]
    print()
    for name in (
        "Spark in one task, JSON lines, without start",
        "Spark local[*], JSON lines, without session start",
    ):
        print(f"- {name}, against polars on the same file: {figures[name][0] / local[0]:.2f} x")
    print(f"- ten times the operations: {local[0] / figures['polars, a tenth of the operations'][0]:.1f} x the time")
    million = figures["polars, a million lines of Jepsen's EDN"]
    print(f"- Jepsen's checker, at 300 s for such a history: {300 / million[0]:.0f} x the time")
    print(f"- a hot partition against even ones: {figures['polars, one hot partition'][2] / local[2]:.2f} x the memory")


if __name__ == "__main__":
    main()
