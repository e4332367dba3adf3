"""Measures `logjudge linearize` on a history with many keys: the local engine and Spark.

    python benchmarks/linearize_keys.py [--operations N] [--keys N ...] [--folder FOLDER] [--engines local spark]

A register for each key, 20 clients, unique values, JSON lines. Prints Markdown: the seconds of CPU of all processes,
and the peak memory of the driver, of Spark's JVM, and of the largest worker. /proc is sampled twice a second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CLIENTS = 20
TICKS = os.sysconf("SC_CLK_TCK")


def lines_of(operations: int, keys: int) -> Iterator[str]:
    """The events of operations that take effect when they complete."""
    rng = random.Random(7)
    states: dict[int, int] = {}
    running: dict[int, tuple[str, int, int | None]] = {}
    begun = 0
    while begun < operations or running:
        client = rng.randrange(CLIENTS)
        if client not in running:
            if begun == operations:
                continue
            begun += 1
            f, key = rng.choice(("read", "write")), rng.randrange(keys)
            running[client] = f, key, begun if f == "write" else None
            yield json.dumps({"process": client, "type": "invoke", "f": f, "key": key, "value": running[client][2]})
            continue
        f, key, value = running.pop(client)
        if value is not None:
            states[key] = value
        yield json.dumps({"process": client, "type": "ok", "f": f, "key": key, "value": states.get(key)})


def processes(root: int) -> Iterator[tuple[int, str, float, int]]:
    """The process and its descendants: number, name, seconds of CPU, and peak memory in bytes."""
    children: dict[int, list[int]] = {}
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (folder / "stat").read_text().rsplit(") ", 1)
            fields = rest.split()
            peak = [line for line in (folder / "status").read_text().splitlines() if line.startswith("VmHWM")]
        except OSError:
            continue
        number = int(folder.name)
        children.setdefault(int(fields[1]), []).append(number)
        seconds = (int(fields[11]) + int(fields[12])) / TICKS
        found[number] = name.partition("(")[2], seconds, 1024 * int(peak[0].split()[1]) if peak else 0
    waiting = [root]
    while waiting:
        number = waiting.pop()
        waiting += children.get(number, [])
        if number in found:
            yield number, *found[number]


def measure(path: Path, engine: str) -> str:
    """Judges the history with an engine: a row of the table."""
    command = [sys.executable, "-m", "logjudge.cli", "linearize", str(path), "--model", "register", "--json"]
    running = subprocess.Popen([*command, "--engine", engine], stdout=subprocess.PIPE, text=True)
    cpu: dict[int, float] = {}
    peaks = {"driver": 0, "java": 0, "worker": 0}
    while running.poll() is None:
        for number, name, seconds, peak in processes(running.pid):
            cpu[number] = max(cpu.get(number, 0), seconds)
            role = "driver" if number == running.pid else "java" if name == "java" else "worker"
            peaks[role] = max(peaks[role], peak)
        time.sleep(0.5)
    assert running.stdout is not None
    (report,) = json.loads(running.stdout.read())["files"].values()
    memory = " | ".join(f"{peak / 1e6:,.0f}" for peak in peaks.values())
    return f"| {engine} | {report['verdict']} | {sum(cpu.values()):.1f} | {report['seconds']:.2f} | {memory} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--engines", nargs="+", default=["local", "spark"])
    arguments = parser.parse_args()
    print("| operations, keys, MB | engine | verdict | CPU, s | search, wall s | driver, MB | JVM, MB | worker, MB |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    for keys in arguments.keys:
        path = arguments.folder / f"linearize-{arguments.operations}-{keys}.jsonl"
        with path.open("w") as file:
            file.writelines(line + "\n" for line in lines_of(arguments.operations, keys))
        for engine in arguments.engines:
            row = measure(path, engine)
            print(f"| {arguments.operations:,}, {keys:,}, {path.stat().st_size / 1e6:.0f} {row}", flush=True)
        path.unlink()


if __name__ == "__main__":
    main()
