"""Measures calls of `check --state` on a history that grows: CPU seconds, peak and state of each, beside the whole.

    .venv/bin/python benchmarks/incremental.py [--operations 420000] [--calls 10]

The last call has the final reads, so it reads the whole history again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from generate import generate


def measured(*arguments: str) -> tuple[float, int]:
    """User and system CPU seconds, and the peak (MB), of a call of logjudge."""
    command = [str(Path(sys.executable).parent / "logjudge"), "check", *arguments, "--no-plots", "--quiet"]
    pid = os.posix_spawn(command[0], command, os.environ)
    _, _, usage = os.wait4(pid, 0)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10


def main() -> None:
    """Prints a row for each call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=420_000)
    parser.add_argument("--calls", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        whole = generate(Path(name) / "whole", options.operations)
        growing, state = Path(name) / "growing", Path(name) / "state"
        growing.mkdir()
        shutil.copy(whole / "run.json", growing)
        history = (whole / "history.jsonl").read_bytes()
        before_final = history.index(b'"process":"final"')
        cuts = [before_final * number // options.calls for number in range(1, options.calls + 1)]
        print("| call | MB read | CPU s | peak MB | state MB |\n|---|---:|---:|---:|---:|")
        written = 0
        for number, cut in enumerate([*cuts, len(history)], 1):
            with (growing / "history.jsonl").open("ab") as file:
                file.write(history[written:cut])
            seconds, peak = measured(str(growing), "--state", str(state), "--out", f"{name}/out")
            size = state.stat().st_size / 1e6
            print(f"| {number} | {(cut - written) / 1e6:.1f} | {seconds:.1f} | {peak} | {size:.1f} |", flush=True)
            written = cut
        seconds, peak = measured(str(whole), "--engine", "local", "--out", f"{name}/whole-out")
        print(f"| the whole, without a state | {len(history) / 1e6:.1f} | {seconds:.1f} | {peak} | |")


if __name__ == "__main__":
    main()
