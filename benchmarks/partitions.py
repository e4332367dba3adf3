"""Measures many small partitions: with and without screening, on the local engine and on Spark. One command:

    .venv/bin/python benchmarks/partitions.py [--partitions 2000 50000] [--spark] > /tmp/partitions.md

Each partition has 20 records, which a group polls and commits and a final reader reads. The figures are ratios within
one run. Without screening only UNSCREENED partitions are judged, as their time grows with their number. Prints Markdown
for benchmarks/results.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from check import judge

WORK = Path(__file__).parent / "work"
UNSCREENED = 200
RECORDS, TOGETHER, PRODUCERS = 20, 50, 8  # records of a partition; partitions of a poll; producers


def generate(folder: Path, partitions: int, seed: int = 1) -> Path:
    """Write a valid run with many partitions, if the folder has none."""
    if not (folder / "run.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        processes: dict[str, dict[str, str]] = {f"p{n}": {"role": "producer"} for n in range(PRODUCERS)}
        processes |= {"c0": {"role": "consumer", "group.id": "g"}, "c1": {"role": "consumer", "group.id": "g"}}
        config = {"format": 1, "processes": {**processes, "final": {"role": "final"}}, "final": True}
        with (folder / "history.jsonl").open("w") as file:
            file.writelines(_lines(partitions, Random(seed)))
        (folder / "run.json").write_text(json.dumps(config))
    return folder


def _lines(partitions: int, random: Random) -> Iterator[str]:
    time, operations = 0, 0

    def event(process: str, operation: int, kind: str, f: str, **more: object) -> str:
        nonlocal time
        time += random.randrange(1_000, 20_000)
        common = {"time": time, "process": process, "op": operation, "type": kind, "f": f}
        return json.dumps({**common, **more}, separators=(",", ":")) + "\n"

    def both(process: str, f: str, **more: object) -> Iterator[str]:
        nonlocal operations
        operations += 1
        yield event(process, operations, "invoke", f)
        yield event(process, operations, "ok", f, **more)

    for first in range(0, partitions, TOGETHER):
        here = [
            {"topic": f"orders{n // 100}", "partition": n % 100}
            for n in range(first, min(first + TOGETHER, partitions))
        ]
        logs: list[list[dict[str, object]]] = [[] for _ in here]
        for offset in range(RECORDS):
            begun = []
            for where in here:
                operations += 1
                send = (f"p{operations % PRODUCERS}", operations, {**where, "value": f"v{operations}"})
                begun.append(send)
                yield event(send[0], operations, "invoke", "send", **send[2])
            for log, (process, operation, record) in zip(logs, begun, strict=True):
                log.append({**record, "offset": offset})
                yield event(process, operation, "ok", "send", **log[-1])
            if offset % (RECORDS // 2) == RECORDS // 2 - 1:
                for consumer in (0, 1):
                    polled = [record for log in logs[consumer::2] for record in log[-RECORDS // 2 :]]
                    yield from both(f"c{consumer}", "poll", records=polled)
                    commits = [{**where, "offset": offset + 1} for where in here[consumer::2]]
                    yield from both(f"c{consumer}", "commit", offsets=commits)
        yield from both("admin", "end_offsets", offsets=[{**where, "offset": RECORDS, "start": 0} for where in here])
        yield from both("final", "assign", offsets=[{**where, "offset": 0} for where in here])
        yield from both("final", "poll", records=[record for log in logs for record in log])


def measure(partitions: int, engine: str) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MB of the process that judges a generated run (the driver, on Spark)."""
    return judge(generate(WORK / f"partitions-{partitions}", partitions), engine)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, nargs="+", default=[2_000, 50_000])
    parser.add_argument("--spark", action="store_true")
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"\n## Small partitions, {datetime.date.today()}, {os.cpu_count()} cores, load {load:.1f}\n")
    print("| what | partitions | wall s | CPU ms a partition | peak MB |\n|---|---:|---:|---:|---:|")
    base = 0.0
    for engine, partitions in [("unscreened", UNSCREENED), *(("polars", number) for number in chosen.partitions)]:
        wall, cpu, peak = measure(partitions, engine)
        each = 1000 * cpu / partitions
        base = base or each
        name = "unscreened" if engine == "unscreened" else "screened"
        ratio = f" ({base / each:.0f} x less)" if engine == "polars" else ""
        print(f"| polars, {name} | {partitions:,} | {wall:.1f} | {each:.2f}{ratio} | {peak:,.0f} |", flush=True)
    for partitions in chosen.partitions if chosen.spark else ():
        wall, _, peak = measure(partitions, "local[2]")
        print(f"| Spark local[2], screened | {partitions:,} | {wall:.1f} | | {peak:,.0f} (driver) |", flush=True)


if __name__ == "__main__":
    main()
