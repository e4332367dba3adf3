"""Growth of the monitors: one object, 10^4 to 10^7 operations in arrays, valid and faulty; prints Markdown.

    python benchmarks/linearize_scale.py [LARGEST]

About eight operations overlap at any moment. The fault is at nine tenths of the history. Each case has a separate
process; memory is the peak beyond what the arrays of the history and the program take. CPU is user and system time of
the whole call.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import sys
import time
from pathlib import Path

import numpy as np
from logjudge.models.porcupine.columns import NULL, Columns, check_columns
from logjudge.models.specifications import MODELS
from numpy.typing import NDArray

OBJECTS = ("register", "queue", "stack", "priority-queue", "append-log", "set", "lock")


def levels(is_insert: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The size of a buffer after each operation, and which removals find it empty."""
    walk = np.cumsum(np.where(is_insert, 1, -1))
    least = np.minimum.accumulate(np.minimum(walk, 0))
    return walk - least, np.diff(least, prepend=0) < 0


def fill(name: str, count: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Functions, arguments and results of a sequential run."""
    f, value, result = rng.integers(0, 2, count), np.full(count, NULL), np.full(count, NULL)
    number = np.arange(count)
    if name == "register":
        value[f == 1] = number[f == 1]
        latest = np.maximum.accumulate(np.where(f == 1, number, -1))
        result[f == 0] = np.where(latest < 0, NULL, latest)[f == 0]
    elif name in ("queue", "stack"):
        size, empty = levels(f == 0)
        value[f == 0] = number[f == 0]
        takes = np.flatnonzero((f == 1) & ~empty)
        if name == "queue":
            result[takes] = number[f == 0][: len(takes)]
        else:
            level = np.where(f == 0, size, size + 1)
            level[empty] = -1
            order = np.argsort(level, kind="stable")
            before = np.empty(count, np.int64)
            before[order[1:]] = order[:-1]
            result[takes] = before[takes]
    elif name == "priority-queue":
        f = number // 8 % 2
        groups = count // 16 + 1
        ranks = np.argsort(rng.random((groups, 8)), axis=1)
        group = number // 16
        value[f == 0] = (ranks[group, number % 8] * groups + group)[f == 0]
        result[f == 1] = (number % 8 * groups + group)[f == 1]
    elif name == "append-log":
        offset = np.cumsum(f == 0) - 1
        value[f == 0], result[f == 0] = number[f == 0], offset[f == 0]
        f[(f == 1) & (offset < 0)] = 2
        reads = f == 1
        value[reads] = np.maximum(offset[reads] - rng.integers(0, 50, reads.sum()), 0)
        result[reads] = number[f == 0][value[reads]]
        result[f == 2] = 0
    elif name == "set":
        # Add a value; find one that was added long before; remove one; miss one that was removed long before.
        turn = number % 4
        f, value = np.array([0, 2, 1, 2])[turn], number // 4 - np.array([0, 20, 50, 80])[turn]
        result[f == 2] = (turn == 1)[f == 2] & (value[f == 2] >= 0)
    else:
        f, value = number % 2, number // 2 % 50
    return [f, value, result]


def history(name: str, count: int, faulty: bool) -> Columns:
    """A history of overlapping operations."""
    rng = np.random.default_rng(count)
    f, value, result = fill(name, count, rng)
    point = 10 * np.arange(count)
    call, end = point - rng.integers(0, 40, count), point + rng.integers(0, 40, count)
    if name == "lock":
        call, end = point - rng.integers(0, 4, count), point + rng.integers(0, 4, count)
    if faulty:
        at = 9 * count // 10
        if name == "lock":
            call[at], end[at] = call[at - 3], end[at - 3]
        else:
            first = {"register": 0, "append-log": 1, "set": 2}.get(name, 1)
            choice = np.flatnonzero((f == first) & (result != NULL))
            i, j = choice[np.searchsorted(choice, [at - count // 20, at])]
            if name in ("queue", "stack", "priority-queue"):
                result[[i, j]] = result[[j, i]]
            else:
                result[j] = 1 - result[j] if name == "set" else result[i]
    return Columns(f, value, result, call, end)


def measure(name: str, count: int, faulty: bool) -> str:
    """One row."""
    check_columns(MODELS[name], history(name, 1000, faulty=False))
    columns = history(name, count, faulty)
    gc.collect()
    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    wall, began = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    result = check_columns(MODELS[name], columns)
    wall, usage = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_SELF)
    peak = (usage.ru_maxrss * 1024 - held) / (1 << 20)
    seconds = usage.ru_utime + usage.ru_stime - began.ru_utime - began.ru_stime
    if result.verdict != ("illegal" if faulty else "ok"):
        raise RuntimeError(f"{count} operations of {name}, faulty: {faulty}: {result.verdict}")
    part = result.parts[-1]
    return (
        f"| {name} | {count:,} | {result.verdict} | {part.method} | {len(part.witness) or ''} "
        f"| {seconds:.2f} | {wall:.2f} | {peak:,.0f} |"
    )


def main() -> None:
    """Print the table."""
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    print("| object | operations | verdict | by | witness | s of CPU | s | MB beyond |")
    print("|---|---:|---|---|---:|---:|---:|---:|", flush=True)
    context = multiprocessing.get_context("spawn")
    for name in OBJECTS:
        for count in (10_000, 100_000, 1_000_000, 10_000_000):
            for faulty in (False, True):
                if count <= largest:
                    with context.Pool(1) as pool:
                        print(pool.apply(measure, (name, count, faulty)), flush=True)


if __name__ == "__main__":
    main()
