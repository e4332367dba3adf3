"""Measures the segment reader: `python benchmarks/segments.py [MEGABYTES]`.

Writes segments with aiokafka's builder, reads each twice (the first reading compiles or loads the loops),
and prints megabytes and records a second on one core. With KAFKA_LIBS set to a folder of Kafka's jars
(scripts/fetch-kafka), kafka-dump-log reads the same files for comparison, as aiokafka's parser does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from logjudge.histories.evidence.segments import read_segment, split_segment

CASES = {"tiny": (8, 1000, 0), "values of 100 B": (100, 100, 0), "values of 1 KB": (1024, 15, 0),
         "1 KB, zstd": (1024, 15, 4), "1 KB, lz4": (1024, 15, 3)}  # fmt: skip


def write(path: Path, megabytes: int, value_size: int, per_batch: int, codec: int) -> int:
    """Writes a segment of about this size: one batch, repeated with later offsets. Returns the number of records."""
    written, offset = 0, 0
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 24)
    for i in range(per_batch):
        body = os.urandom(value_size // 2).hex().encode()[:value_size].ljust(value_size, b"x")
        builder.append(i, 1_700_000_000_000 + i, None, body, [])
    batch = bytes(builder.build())
    with path.open("wb") as out:
        while written < megabytes << 20:
            out.write(offset.to_bytes(8, "big") + batch[8:])
            written += len(batch)
            offset += per_batch
    return offset


def aiokafka_parse(path: Path) -> float:
    """The seconds in which aiokafka's parser reads offset, timestamp, key and value of each record."""
    start = time.perf_counter()
    records = MemoryRecords(path.read_bytes())
    while records.has_next():
        for record in records.next_batch():
            _ = record.offset, record.timestamp, record.key, record.value
    return time.perf_counter() - start


def dump_log(libs: str, path: Path) -> float:
    """The seconds in which kafka-dump-log prints the file, with the start of the JVM."""
    start = time.perf_counter()
    command = [
        "java",
        "-cp",
        f"{libs}/*",
        "kafka.tools.DumpLogSegments",
        "--print-data-log",
        "--files",
        str(path),
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 64
    libs = os.environ.get("KAFKA_LIBS")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{0:020d}.log"
        for name, (value_size, per_batch, codec) in CASES.items():
            total = write(path, megabytes, value_size, per_batch, codec)
            read_segment(path, 0, 1 << 20)
            start = time.perf_counter()
            split_segment(path, 1 << 20)
            split = time.perf_counter() - start
            start = time.perf_counter()
            found = sum(read_segment(path, a, b).records.height for a, b in split_segment(path, 16 << 20))
            took = time.perf_counter() - start
            assert found == total, (found, total)
            size = path.stat().st_size / 1e6
            line = f"{name:16} {size / took:7.0f} MB/s {total / took / 1e6:6.2f} M records/s"
            line += f"; headers alone {size / split:6.0f} MB/s"
            line += f"; aiokafka {size / aiokafka_parse(path):6.0f} MB/s"
            if libs:
                line += f"; kafka-dump-log {size / dump_log(libs, path):5.1f} MB/s"
            print(line, flush=True)


if __name__ == "__main__":
    main()
