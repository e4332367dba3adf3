"""The time that `check` takes for 10^4 to 10^6 transactions on lists, in histories as Elle's generator makes them.

    .venv/bin/python benchmarks/transactions.py FOLDER [TRANSACTIONS...]

It writes FOLDER/append-N.edn, judges each in a process of its own, and prints seconds of CPU and peak memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from random import Random

CLIENTS = 20
KEYS, WRITES_PER_KEY, STEPS = 10, 32, 4


def write_history(path: Path, count: int) -> None:
    """A serializable history: each transaction takes effect as a whole, some time before it ends."""
    random = Random(count)
    lists: dict[int, list[int]] = {key: [] for key in range(KEYS)}
    next_key = KEYS
    running: list[tuple[int, str]] = []
    idle = list(range(CLIENTS))
    line = started = 0
    with path.open("w") as file:
        while started < count or running:
            if started < count and idle and (not running or random.random() < 0.5):
                process = idle.pop(random.randrange(len(idle)))
                steps, results = [], []
                for _ in range(random.randint(1, STEPS)):
                    key = random.choice(list(lists))
                    if random.random() < 0.5:
                        steps.append(f"[:r {key} nil]")
                        results.append(f"[:r {key} [{' '.join(map(str, lists[key]))}]]")
                        continue
                    lists[key].append(len(lists[key]) + 1)
                    steps.append(f"[:append {key} {len(lists[key])}]")
                    results.append(steps[-1])
                    if len(lists[key]) == WRITES_PER_KEY:
                        del lists[key]
                        lists[next_key] = []
                        next_key += 1
                started += 1
                running.append((process, " ".join(results)))
                kind, value = "invoke", " ".join(steps)
            else:
                process, value = running.pop(random.randrange(len(running)))
                idle.append(process)
                kind = "ok"
            head = f":index {line}, :time {line * 1000}, :type :{kind}, :process {process}"
            file.write(f"{{{head}, :f :txn, :value [{value}]}}\n")
            line += 1


def main() -> None:
    """Measures each size."""
    folder, sizes = Path(sys.argv[1]), [int(size) for size in sys.argv[2:]] or [10_000, 100_000, 1_000_000]
    folder.mkdir(parents=True, exist_ok=True)
    for size in sizes:
        path = folder / f"append-{size}.edn"
        if not path.exists():
            write_history(path, size)
        command = [sys.executable, "-m", "logjudge.cli", "check", str(path), "--engine", "local"]
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        out = str(folder / f"out-{size}")
        done = subprocess.run([*command, "--json", "--plots", "none", "--out", out], capture_output=True, check=False)
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"{size:>9,} transactions, {path.stat().st_size / 1e6:7.1f} MB: exit {done.returncode}, {seconds:6.1f} s,"
            f" {cpu:6.1f} s of CPU, {after.ru_maxrss / 1e6:.2f} GB"
        )


if __name__ == "__main__":
    main()
