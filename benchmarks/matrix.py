"""Runs each cell of the matrix many times, as for a night. Prints the results; exits with 1 if a cell is wrong.

Run: python benchmarks/matrix.py [runs for each sound cell] [processes] [first seed] [setting or setting/variant ...]
A cell that breaks an invariant gets at most MAX_BROKEN_RUNS runs, which are more than enough to find the breach.
"""

from __future__ import annotations

import sys
import time

from logjudge.cli.search import search
from logjudge.models.exploration.matrix import CELLS, SETTINGS, space
from logjudge.models.exploration.matrix_text import differences

MAX_BROKEN_RUNS = 2000


def main(runs: int, jobs: int, first: int, chosen: list[str]) -> int:
    sentences: list[str] = []
    for setting, cells in CELLS.items():
        for variant, cell in cells.items():
            if chosen and setting not in chosen and f"{setting}/{variant}" not in chosen:
                continue
            began = time.perf_counter()
            seeds = range(first, first + (min(runs, MAX_BROKEN_RUNS) if cell.broken else runs))
            found = search(space(variant, setting), seeds, SETTINGS[setting].invariants, jobs, stop=False)
            counts = ", ".join(f"{name} {count}" for name, count in found.broken.items()) or "nothing broken"
            took = time.perf_counter() - began
            print(
                f"{setting:14}{variant:20}{found.runs} runs, {len(found.states)} states, {took:7.1f} s  {counts}",
                flush=True,
            )
            sentences += differences(setting, variant, found)
    print("\n".join(sentences) or "every cell is as it should be")
    return 1 if sentences else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:4]]
    sys.exit(main(*numbers, *(1000, 2, 0)[len(numbers) :], sys.argv[4:]))
