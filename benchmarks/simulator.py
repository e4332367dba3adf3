"""Measures the simulator: protocol events a second of processor time, and the time and memory of a million operations.

Run: python benchmarks/simulator.py [operations of the large run]
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.matrix import SETTINGS, space
from logjudge.models.exploration.search import explore
from logjudge.models.replication.scenario import Scenario


def memory() -> float:
    """The peak memory of the process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def protocol_only(ops: int) -> None:
    """Measures the model without history, facts and files."""
    for name, options in (
        ("one record a batch", {"linger.ms": 0, "simulation.send.interval.us": 4000}),
        ("linger.ms=5, 1000 records/s", {}),
        ("three partitions", {"num.partitions": 3}),
    ):
        scenario = Scenario("speed", "kraft", 1, {"simulation.ops": ops, **options})
        began = time.process_time()
        cluster = scenario.run()
        took = time.process_time() - began
        events = cluster.loop.processed
        print(f"{name:32} {events:>9} events {took:6.2f} s {events / took:>9.0f} events/s")


def searching(runs: int) -> None:
    """Measures the search for schedules."""
    began = time.process_time()
    explored = explore(space("kip-320", "clean"), range(runs), SETTINGS["clean"].invariants, False)
    took = time.process_time() - began
    print(
        f"search: {runs} schedules {took:6.2f} s {runs / took:.0f} schedules/s, "
        f"{explored.events / took:.0f} events/s, {len(explored.states)} distinct states"
    )


def large(ops: int) -> None:
    """Measures the time and peak memory of writing a bundle of many operations."""
    folder = Path(tempfile.mkdtemp(prefix="logjudge-"))
    try:
        before = memory()
        began = time.process_time()
        written = write_bundle(Scenario("large", "kraft", 1, {"simulation.ops": ops}), folder)
        took = time.process_time() - began
        size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6
        print(
            f"bundle: {ops} sends, {written.lines} lines of history, {size:.0f} MB on disk, {took:.1f} s, "
            f"peak memory {memory():.0f} MB (start {before:.0f} MB)"
        )
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    protocol_only(50_000)
    searching(300)
    large(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
