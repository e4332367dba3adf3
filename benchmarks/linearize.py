"""Measures the linearizability engine against Go Porcupine: the same files, in one run, warm, only the search.

    python benchmarks/linearize.py [FOLDER] [--milliseconds N]
    python benchmarks/linearize.py --long

FOLDER contains histories as in Porcupine's tests (*.log of a register, *.txt of a key-value store), at any depth.
Without it, the files are tests/data/porcupine and generated histories. Needs Go, which downloads Porcupine once.
Prints Markdown. Both engines check each file repeatedly for N milliseconds in three rounds, each of at least three
checks unless one takes a second. The shortest time counts.

--long measures this engine alone: registers' histories of up to a million operations, valid or with the first failure
near the end, and budgets of time and memory for a search that does not end. Each case has a separate process. Its
memory is the peak beyond the memory before the search, which includes the operations.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import json
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from logjudge.analysis.linearizability.minimal import minimal_failure
from logjudge.histories.operation_history import read_operations
from logjudge.models.porcupine import Action, Operation, check_operations, warm_up
from logjudge.models.specifications import MODELS

HERE = Path(__file__).parent
WORK = HERE / "work" / "linearize"
TIMEOUT = 120  # seconds, of one search
ROUNDS = 3


def build_peer() -> Path:
    """Build the Go program. Go caches the build."""
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
        is_lost = rng.random() < lost
        points.append((point, at, end, process, rng.choice(("read", "write", "cas")), is_lost))
        if is_lost:
            process, names = names, names + 1
        free.append((end + rng.random() / 2, process))
    state = "nil"
    lines = []
    for _, at, end, process, f, is_lost in sorted(points):
        happens = not is_lost or rng.random() < 0.5
        pair = rng.randrange(values), rng.randrange(values)
        argument = {"read": "nil", "write": str(pair[0]), "cas": f"[{pair[0]} {pair[1]}]"}[f]
        kind, result = "ok", argument
        if f == "read":
            result = state
        elif f == "write" and happens:
            state = str(pair[0])
        elif f == "cas" and state != str(pair[0]):
            kind = "fail"
        elif f == "cas" and happens:
            state = str(pair[1])
        lines.append((at, process, "invoke", f, argument))
        lines.append((end, process, "info", f, ":timed-out") if is_lost else (end, process, kind, f, result))
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
            value, result = "", store.get(key, "")
        else:
            result = value
            store[key] = store.get(key, "") + value if f == "append" else value
        lines.append((at, client, "invoke", f, key, value))
        lines.append((end, client, "ok", f, key, result))
    text = [
        f'{{:process {client}, :type :{kind}, :f :{f}, :key "{key}", :value "{value}"}}'
        for _, client, kind, f, key, value in sorted(lines)
    ]
    path.write_text("\n".join(text) + "\n")


def generated() -> list[Path]:
    """Larger histories than Porcupine's, the same in each run."""
    folder = WORK / "generated"
    folder.mkdir(parents=True, exist_ok=True)
    registers = (("1k", 1_000, 5, 0.0), ("1k-lost", 1_000, 5, 0.02), ("10k", 10_000, 5, 0.0))
    for name, count, processes, lost in registers:
        register_log(folder / f"register-{name}.log", count, processes, 5, lost, seed=count)
    for name, count, clients in (("c10", 1_000, 10), ("c50", 1_500, 50)):
        key_value_log(folder / f"key-value-{name}.txt", count, clients, 10, seed=count)
    return sorted(folder.iterdir())


def measure_logjudge(files: list[Path], length: float) -> dict[str, tuple[float, str]]:
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


def measure_go(binary: Path, files: list[Path], length: float) -> dict[str, tuple[float, str]]:
    """Seconds and verdict of Go Porcupine by file."""
    command = [str(binary), str(round(1000 * length)), str(TIMEOUT), *map(str, files)]
    outcomes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {name: (each["seconds"], each["verdict"]) for name, each in outcomes.items()}


def measure_cold_start(file: Path) -> tuple[float, float]:
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


def long_register(count: int, values: int | None, stale: bool) -> list[Operation]:
    """A register's history, five at once; `values` None: each write a new one. A stale read at nine tenths."""
    rng = random.Random(count)
    free = [(rng.random(), process) for process in range(5)]
    points = []
    for _ in range(count):
        at, process = heapq.heappop(free)
        point = at + rng.random()
        end = point + rng.random()
        points.append((point, at, end, process))
        heapq.heappush(free, (end + rng.random() / 2, process))
    written: list[int | None] = [None]
    operations = []
    for number, (_, at, end, process) in enumerate(sorted(points)):
        if stale and number >= 0.9 * count and written[-30] != written[-1]:
            action, stale = Action("read", None, -1 if values else written[-30]), False
        elif rng.random() < 0.5:
            written.append(rng.randrange(values) if values else number)
            action = Action("write", written[-1], None)
        else:
            action = Action("read", None, written[-1])
        operations.append(Operation(action, at, end, process))
    return operations


def endless() -> list[Operation]:
    """Forty concurrent adds, and a sum that no choice of them has: 2**40 configurations."""
    adds = [Operation(Action("add", 1 << (i + 1)), 0, 100) for i in range(40)]
    return [*adds, Operation(Action("read", None, 1), 0, 100)]


LONG = [
    *((f"register, {values or 'new'} values{', stale read' * stale}", count, values, stale, None, 2048)
      for values, stale in ((5, False), (None, False), (5, True), (None, True)) for count in (100_000, 1_000_000)),
    ("register, 5 values, a budget of 100 MB", 1_000_000, 5, True, None, 100),
    ("register, 5 values, a budget of 400 MB", 1_000_000, 5, True, None, 400),
    ("register, 5 values, a budget of 1 s", 1_000_000, 5, True, 1.0, 2048),
    *((f"endless, a budget of {memory} MB", 41, None, False, None, memory) for memory in (20, 200, 1000)),
    *((f"endless, a budget of {seconds} s", 41, None, False, seconds, 4096) for seconds in (0.5, 5.0)),
]  # fmt: skip


def measure_long(case: tuple[str, int, int | None, bool, float | None, int]) -> str:
    """One row of the table."""
    name, count, values, stale, timeout, memory = case
    model = MODELS["counter" if count == 41 else "register"]
    operations = endless() if count == 41 else long_register(count, values, stale)
    warm_up()
    gc.collect()
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    began, worked = time.perf_counter(), time.process_time()
    result = check_operations(model, operations, timeout, memory << 20)
    seconds, work = time.perf_counter() - began, time.process_time() - worked
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - held) / (1 << 20)
    part = result.parts[0]
    shrunk = ""
    if result.verdict == "illegal":
        began = time.perf_counter()
        minimal = minimal_failure(model, operations, part)
        shrunk = f"{len(minimal.operations) if minimal else 'none'} in {time.perf_counter() - began:.1f} s"
    verdict = f"{result.verdict}{': ' * bool(part.reason)}{part.reason}"
    return (
        f"| {name} | {count:,} | {verdict} | {part.configurations:,} | {seconds:.1f} | {work:.1f} "
        f"| {peak:,.0f} | {shrunk} |"
    )


def main_long() -> None:
    """Print the table of long histories."""
    print("| history | operations | verdict | configurations | s | s of CPU | MB beyond | minimal failure |")
    print("|---|---:|---|---:|---:|---:|---:|---|", flush=True)
    context = multiprocessing.get_context("spawn")
    for case in LONG:
        with context.Pool(1) as pool:
            print(pool.apply(measure_long, (case,)), flush=True)


def main() -> None:
    """Run both, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--milliseconds", type=int, default=200)
    parser.add_argument("--long", action="store_true")
    arguments = parser.parse_args()
    if arguments.long:
        main_long()
        return
    WORK.mkdir(parents=True, exist_ok=True)
    folder = arguments.folder or HERE.parent / "tests" / "data" / "porcupine"
    found = sorted(path.resolve() for path in folder.rglob("*") if path.suffix in (".log", ".txt"))
    files = [path for path in found if path.stat().st_size]  # etcd did not start up in Porcupine's etcd_095.log
    if arguments.folder is None:
        files += generated()
    binary = build_peer()
    warm_up()
    # In turns, since other work on the machine comes and goes.
    length = arguments.milliseconds / 1000 / ROUNDS
    rounds = [(measure_go(binary, files, length), measure_logjudge(files, length)) for _ in range(ROUNDS)]
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
    first, second = measure_cold_start(files[0])
    print(f"\nThe worst file takes {rows[0][0]:.2f} times as long. From a cold start the command")
    print(f"takes {first:.1f} s the first time, when it is compiled, and {second:.2f} s later.")


if __name__ == "__main__":
    main()
