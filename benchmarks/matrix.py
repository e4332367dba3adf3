"""The whole matrix with many runs for each cell, for a night: prints what it found, exits 1 if a cell is
wrong.

Run: python benchmarks/matrix.py [runs for each cell] [processes]
"""

from __future__ import annotations

import sys
import time

from logjudge.cli.search import search
from logjudge.models.replication.matrix import CELLS, SETTINGS, space, wrong


def main(runs: int, jobs: int) -> int:
    sentences: list[str] = []
    for setting, cells in CELLS.items():
        for variant in cells:
            began = time.perf_counter()
            found = search(space(variant, setting), range(runs), SETTINGS[setting].invariants, jobs, stop=False)
            counts = ", ".join(f"{name} {count}" for name, count in found.broken.items()) or "nothing broken"
            took = time.perf_counter() - began
            print(f"{setting:14}{variant:20}{runs} runs {took:7.1f} s  {counts}", flush=True)
            sentences += wrong(setting, variant, found)
    print("\n".join(sentences) or "every cell is as it should be")
    return 1 if sentences else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000, int(sys.argv[2]) if len(sys.argv) > 2 else 2))
