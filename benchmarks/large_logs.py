"""Measures `check` on large logs: `python benchmarks/large_logs.py [--gigabytes 10] [--partitions 6] [--history]`.

Writes three replicas of some partitions in segments of at most 1 GiB; one partition has half of all bytes. The segments
repeat batches of 16 KB with later offsets, which the CRC does not cover. The tail of one replica has another epoch, so
there is a divergence to find. Then `logjudge check` judges the folder, while the resident memory of the driver, its JVM
and their workers is sampled from /proc. The files are deleted. With `--history` there is a history with a few sends, so
the batches of one replica are decoded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

REPLICAS, SEGMENT, PER_BATCH, VALUE = 3, 1 << 30, 15, 1024
DIVERGENT = 20  # batches at the end of the hot partition that differ on one replica


def batch(epoch: int, seed: int) -> bytes:
    """A batch of PER_BATCH records."""
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 24)
    for i in range(PER_BATCH):
        builder.append(i, 1_700_000_000_000 + i, None, f"{seed}-{i}".encode().ljust(VALUE, b"x"), [])
    raw = bytes(builder.build())
    return raw[:12] + epoch.to_bytes(4, "big") + raw[16:]


def write_log(folder: Path, size: int, other_tail: bool) -> None:
    """Writes the log of a partition, of about `size` bytes."""
    folder.mkdir(parents=True)
    first, usual, other = batch(0, 0), batch(0, 1), batch(1, 2)
    total = size // len(usual)
    offset, out, room = 0, None, 0
    for number in range(total):
        body = other if other_tail and number >= total - DIVERGENT else usual if number else first
        if room < len(body):
            if out is not None:
                out.close()
            out, room = (folder / f"{offset:020d}.log").open("wb"), SEGMENT
        out.write(offset.to_bytes(8, "big") + body[8:])
        room -= len(body)
        offset += PER_BATCH
    out.close()


def write_cluster(root: Path, gigabytes: float, partitions: int) -> int:
    """Writes half of the bytes to orders-0, the rest to the other partitions. Returns the number of bytes."""
    each = int(gigabytes * 1e9 / REPLICAS)
    for broker in range(1, REPLICAS + 1):
        for number in range(partitions):
            size = each // 2 if number == 0 else each // 2 // (partitions - 1)
            write_log(root / "brokers" / str(broker) / "data" / f"orders-{number}", size, broker == 3 and number == 0)
    return sum(file.stat().st_size for file in root.rglob("*.log"))


def write_history(root: Path, partitions: int) -> None:
    """Writes one acknowledged send for each partition, of the value that only offset 0 has."""
    value = "0-0".ljust(VALUE, "x")
    with (root / "history.jsonl").open("w") as out:
        for number in range(partitions):
            send = {"process": "p0", "op": number, "f": "send", "topic": "orders", "partition": number, "value": value}
            out.write(json.dumps({"time": 2 * number, "type": "invoke", **send}) + "\n")
            out.write(json.dumps({"time": 2 * number + 1, "type": "ok", "offset": 0, **send}) + "\n")


def resident(pid: int) -> tuple[float, float, float]:
    """MB of the process, of the JVMs below it and of their Python workers (shared memory in proportion)."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    sizes, pending = {"driver": 0.0, "java": 0.0, "python": 0.0}, [(pid, "driver")]
    while pending:
        process, kind = pending.pop()
        try:
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text()
            name = Path(f"/proc/{process}/comm").read_text().strip()
        except OSError:
            continue
        kind = "java" if name == "java" else "python" if process != pid else kind
        sizes[kind] += next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1024
        pending += [(child, kind) for child in children.get(process, [])]
    return sizes["driver"], sizes["java"], sizes["python"]


def judge(root: Path, out: Path, engine: str) -> dict[str, float]:
    """Judges the folder and checks the findings. Returns seconds and peak memory (MB)."""
    options = ["--engine", engine, "--out", str(out), "--json"]
    command = [sys.executable, "-m", "logjudge.cli", "check", str(root), *options]
    start = time.perf_counter()
    with (out.parent / "verdict.json").open("wb") as verdict:
        process = subprocess.Popen(command, stdout=verdict, stderr=subprocess.DEVNULL)
        peaks = {"all": 0.0, "driver": 0.0, "JVM": 0.0, "Python workers": 0.0}
        while process.poll() is None:
            now = resident(process.pid)
            for name, size in zip(peaks, (sum(now), *now), strict=True):
                peaks[name] = max(peaks[name], size)
            time.sleep(0.5)
    took = time.perf_counter() - start
    found = json.loads((out.parent / "verdict.json").read_bytes())
    divergence = [row for row in found["findings"] if row["rule"] == "replica-divergence"]
    assert len(divergence) == 1, found["rules"]["replica-divergence"]
    assert divergence[0]["count"] == DIVERGENT * PER_BATCH, divergence
    assert found["counts"]["kept records"] > 0
    return {"seconds": took, **peaks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=10)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="logjudge-evidence-") as folder:
        size = write_cluster(Path(folder) / "run", options.gigabytes, options.partitions)
        if options.history:
            write_history(Path(folder) / "run", options.partitions)
        measured = judge(Path(folder) / "run", Path(folder) / "out", options.engine)
    took = measured.pop("seconds")
    peaks = ", ".join(f"{name} {size:,.0f} MB" for name, size in measured.items())
    rate = f"{size / 1e6 / took:,.0f} MB/s with the session's start"
    beside = " beside a history" if options.history else ""
    what = f"{size / 1e9:.2f} GB{beside} on {options.engine}, {os.cpu_count()} cores"
    print(f"{what}: {took:.1f} s, {rate}; peak of {peaks}")


if __name__ == "__main__":
    main()
