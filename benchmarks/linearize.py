"""Measures the linearizability engine against Go Porcupine: the same files, in one run, warm, search alone.

    python benchmarks/linearize.py [FOLDER] [--milliseconds N]

FOLDER holds histories as Porcupine's tests have them (*.log a register's, *.txt a key-value store's), at any
depth; without one, tests/data/porcupine and histories that are generated here. Go is needed, and downloads
Porcupine once. Prints Markdown. Either side checks each file again and again for so many milliseconds, in
three rounds, each of at least three checks unless one check takes a second, and its time is the least.
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
from pathlib import Path

from logjudge.histories.readers.operations import read_operations
from logjudge.models.porcupine import check_operations, warm_up
from logjudge.models.specifications import MODELS

HERE = Path(__file__).parent
WORK = HERE / "work" / "linearize"
TIMEOUT = 120  # seconds, of one search
ROUNDS = 3


def build_peer() -> Path:
    """Build the Go program; Go keeps what it built, so the second time is quick."""
    binary = WORK / "porcupine_go"
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=HERE / "peers" / "porcupine_go", check=True)
    return binary


def register_log(path: Path, count: int, processes: int, values: int, lost: float, seed: int) -> None:
    """Write a register's history in which each operation takes effect at a point of its interval."""
    rng = random.Random(seed)
    free = [(rng.random(), process) for process in range(processes)]
    names = processes
    points = []
    for _ in range(count):
        at, process = min(free)
        free.remove((at, process))
        point = at + rng.random()
        end = point + rng.random()
        gone = rng.random() < lost
        points.append((point, at, end, process, rng.choice(("read", "write", "cas")), gone))
        if gone:
            process, names = names, names + 1
        free.append((end + rng.random() / 2, process))
    state = "nil"
    lines = []
    for _, at, end, process, f, gone in sorted(points):
        happens = not gone or rng.random() < 0.5
        pair = rng.randrange(values), rng.randrange(values)
        asked = {"read": "nil", "write": str(pair[0]), "cas": f"[{pair[0]} {pair[1]}]"}[f]
        kind, answer = "ok", asked
        if f == "read":
            answer = state
        elif f == "write" and happens:
            state = str(pair[0])
        elif f == "cas" and state != str(pair[0]):
            kind = "fail"
        elif f == "cas" and happens:
            state = str(pair[1])
        lines.append((at, process, "invoke", f, asked))
        lines.append((end, process, "info", f, ":timed-out") if gone else (end, process, kind, f, answer))
    text = [f"INFO  jepsen.util - {process}\t:{kind}\t:{f}\t{value}" for _, process, kind, f, value in sorted(lines)]
    path.write_text("\n".join(text) + "\n")


def key_value_log(path: Path, count: int, clients: int, keys: int, seed: int) -> None:
    """Write a key-value store's history in which each operation takes effect at a point of its interval."""
    rng = random.Random(seed)
    free = [(rng.random(), client) for client in range(clients)]
    points = []
    for number in range(count):
        at, client = min(free)
        free.remove((at, client))
        point = at + rng.random()
        end = point + rng.random()
        f = rng.choice(("get", "get", "append", "append", "put"))
        points.append((point, at, end, client, f, str(rng.randrange(keys)), f"x {client} {number} y"))
        free.append((end + 20 * rng.random(), client))
    store: dict[str, str] = {}
    lines = []
    for _, at, end, client, f, key, value in sorted(points):
        if f == "get":
            value, answer = "", store.get(key, "")
        else:
            answer = value
            store[key] = store.get(key, "") + value if f == "append" else value
        lines.append((at, client, "invoke", f, key, value))
        lines.append((end, client, "ok", f, key, answer))
    text = [
        f'{{:process {client}, :type :{kind}, :f :{f}, :key "{key}", :value "{value}"}}'
        for _, client, kind, f, key, value in sorted(lines)
    ]
    path.write_text("\n".join(text) + "\n")


def generated() -> list[Path]:
    """Larger histories than Porcupine's, always the same."""
    folder = WORK / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    registers = (("1k", 1_000, 5, 0.0), ("1k-lost", 1_000, 5, 0.02), ("10k", 10_000, 5, 0.0))
    for name, count, processes, lost in registers:
        register_log(folder / f"register-{name}.log", count, processes, 5, lost, seed=count)
    for name, count, clients in (("c10", 1_000, 10), ("c50", 1_500, 50)):
        key_value_log(folder / f"key-value-{name}.txt", count, clients, 10, seed=count)
    return sorted(folder.iterdir())


def ours(files: list[Path], length: float) -> dict[str, tuple[float, str]]:
    """Seconds and verdict of this engine by file."""
    outcomes = {}
    for path in files:
        model = MODELS["register" if path.suffix == ".log" else "key-value"]
        operations = read_operations(str(path)).operations
        best = float("inf")
        began, repeats = time.perf_counter(), 0
        while repeats < 3 or time.perf_counter() - began < length:
            repeats += 1
            result = check_operations(model, operations, TIMEOUT)
            best = min(best, result.seconds)
            if result.seconds > 1:
                break
        outcomes[str(path)] = best, result.verdict
    return outcomes


def theirs(binary: Path, files: list[Path], length: float) -> dict[str, tuple[float, str]]:
    """Seconds and verdict of Go Porcupine by file."""
    command = [str(binary), str(round(1000 * length)), str(TIMEOUT), *map(str, files)]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {name: (each["seconds"], each["verdict"]) for name, each in told.items()}


def cold(file: Path) -> tuple[float, float]:
    """Seconds of the whole command, with nothing compiled yet and with everything."""
    command = [sys.executable, "-m", "logjudge.cli", "linearize", str(file), "--json"]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        times = []
        for _ in range(2):
            start = time.perf_counter()
            subprocess.run(command, env=environment, capture_output=True, check=False)
            times.append(time.perf_counter() - start)
    return times[0], times[1]


def main() -> None:
    """Run both, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--milliseconds", type=int, default=200)
    arguments = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    folder = arguments.folder or HERE.parent / "tests" / "data" / "porcupine"
    files = sorted(path.resolve() for path in folder.rglob("*") if path.suffix in (".log", ".txt"))
    if arguments.folder is None:
        files += generated()
    binary = build_peer()
    warm_up()
    # In turns, since other work on the machine comes and goes.
    length = arguments.milliseconds / 1000 / ROUNDS
    rounds = [(theirs(binary, files, length), ours(files, length)) for _ in range(ROUNDS)]
    go, here = ({name: min(each[side][name] for each in rounds) for name in rounds[0][side]} for side in (0, 1))
    rows = []
    for name, (seconds, verdict) in here.items():
        if verdict != go[name][1]:
            print(f"**The verdicts on {name} differ: {verdict} here, {go[name][1]} by Go Porcupine.**")
        rows.append((seconds / go[name][0], Path(name).name, go[name][0], seconds, verdict))
    rows.sort(reverse=True)
    print("| file | verdict | Go Porcupine, ms | here, ms | ratio |\n|---|---|---:|---:|---:|")
    shown = rows if len(rows) <= 24 else rows[:12] + rows[-6:]
    for ratio, name, peer, seconds, verdict in shown:
        print(f"| {name} | {verdict} | {peer * 1e3:.3f} | {seconds * 1e3:.3f} | {ratio:.2f} |")
    totals = sum(row[2] for row in rows), sum(row[3] for row in rows)
    print(f"| all {len(rows)} files | | {totals[0] * 1e3:.1f} | {totals[1] * 1e3:.1f} |", end="")
    print(f" {totals[1] / totals[0]:.3f} |")
    first, second = cold(files[0])
    print(f"\nThe worst file takes {rows[0][0]:.2f} times as long. From a cold start the command")
    print(f"takes {first:.1f} s the first time, when it is compiled, and {second:.2f} s later.")


if __name__ == "__main__":
    main()
