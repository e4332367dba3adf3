"""Measures `logjudge check` on small runs: whole commands, with start, report and plots. One command:

    .venv/bin/python benchmarks/small.py [--base OTHER/.venv/bin/logjudge] [--repeat 3] [--spark] > /tmp/small.md

With --base another version runs the same in turns, so that the ratio holds on a shared machine. Prints the least of the
repetitions as Markdown for benchmarks/results.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from generate import generate, generate_jepsen

WORK = Path(__file__).parent / "work"
EXAMPLE = Path(__file__).parents[1] / "examples" / "unclean-election"
RUNS = 500  # in one call


def command_of(logjudge: str, arguments: list[str], out: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one call of `logjudge check`, with all its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # As installed: Python keeps its byte code.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    words = [logjudge, "check", *arguments, "--out", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(done.stderr[-3000:])
    shutil.rmtree(out)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cases(with_spark: bool) -> dict[str, list[str]]:
    """The arguments of each case, by its name in the table."""
    valid, faulty, history = WORK / "small-valid", WORK / "small-faulty", WORK / "jepsen-faulty-75.edn"
    generate(valid, 4000)
    generate(faulty, 4000, faulty=True)
    if not history.exists():
        generate_jepsen(history, 100_000, keys=75, faulty=True)
    many = [WORK / "small-many" / f"run-{number}" for number in range(RUNS)]
    for number, folder in enumerate(many):
        if not (folder / "history.jsonl").exists():
            generate(folder, 400, seed=number)
    found = {
        "example, 7,000 events with brokers' files": [str(EXAMPLE)],
        "example, without plots": [str(EXAMPLE), "--no-plots"],
        "4,000 sends, valid": [str(valid)],
        "4,000 sends, faulty": [str(faulty)],
        "100,000 lines of Jepsen, 75 faulty keys, without plots": [str(history), "--no-plots"],
        f"{RUNS} runs of 400 sends in one call": list(map(str, many)),
    }
    local = {name: [*words, "--engine", "local"] for name, words in found.items()}
    spark = {"example on Spark": [str(EXAMPLE)], "4,000 sends on Spark": [str(valid)]} if with_spark else {}
    return {**local, **spark}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", help="the command of the version to compare with")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--only", default="", help="a part of the names of the cases to measure")
    options = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    versions = {"now": str(Path(sys.executable).with_name("logjudge"))}
    versions |= {"before": options.base} if options.base else {}
    print(f"\n## small runs, {datetime.date.today()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| what | wall s | CPU s | wall s before | CPU s before | ratio of CPU |\n|---|---:|---:|---:|---:|---:|")
    for name, arguments in cases(options.spark).items():
        if options.only not in name:
            continue
        measured: dict[str, list[tuple[float, float]]] = {version: [] for version in versions}
        with tempfile.TemporaryDirectory() as scratch:
            for _ in range(options.repeat):
                for version, logjudge in versions.items():
                    measured[version].append(command_of(logjudge, arguments, Path(scratch) / "out"))
        best = {version: [min(column) for column in zip(*rows, strict=True)] for version, rows in measured.items()}
        cells = [f"{value:.1f}" for version in versions for value in best[version]] + ["", ""] * (2 - len(versions))
        ratio = f"{best['before'][1] / best['now'][1]:.1f}" if options.base else ""
        print(f"| {name} | {' | '.join(cells)} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
