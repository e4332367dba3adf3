"""Measures the time of recording: sends of a client that does nothing else, recorded and unrecorded, in turn.

The client encodes a value, chooses a partition by its CRC and keeps it in a queue, as a producer's `send` does before
its thread takes over. Prints the recorded sends (invocation and completion) a second, and the ratio of the times.

    python benchmarks/recorder.py [SENDS] [THREADS]
"""

from __future__ import annotations

import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

from logjudge.histories.recording.recorder import Recorder

ROUNDS = 5


class Client:
    """A producer without a network."""

    def __init__(self) -> None:
        self._queue: deque[tuple[int, bytes]] = deque(maxlen=10_000)

    def send(self, value: str) -> int:
        encoded = value.encode()
        partition = zlib.crc32(encoded) % 12
        self._queue.append((partition, encoded))
        return partition


def unrecorded(client: Client, worker: int, sends: int) -> None:
    for number in range(sends):
        client.send(f"p{worker}-{number}")


def recorded(recorder: Recorder, client: Client, worker: int, sends: int) -> None:
    process = f"p{worker}"
    for number in range(sends):
        value = f"p{worker}-{number}"
        with recorder.send(process, "orders", value) as op:
            op.ok(client.send(value), number)


def seconds(work: Callable[[int], None], threads: int) -> float:
    begun = time.perf_counter()
    if threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    return time.perf_counter() - begun


def main(sends: int = 200_000, threads: int = 1) -> None:
    client, each = Client(), sends // threads
    plain: list[float] = []
    with_recorder: list[float] = []
    for _ in range(ROUNDS):
        plain.append(seconds(lambda worker: unrecorded(client, worker, each), threads))
        with tempfile.TemporaryDirectory() as folder:
            recorder = Recorder(Path(folder) / "run")
            begun = time.perf_counter()
            seconds(lambda worker, to=recorder: recorded(to, client, worker, each), threads)  # type: ignore[misc]
            recorder.finish()
            with_recorder.append(time.perf_counter() - begun)
    base, cost = median(plain), median(with_recorder)
    print(
        f"{sends:,} sends, {threads} threads: {sends / cost:,.0f} recorded sends/s, {cost / sends * 1e6:.1f} µs each, "
        f"{cost / base:.1f} times the unrecorded loop ({sends / base:,.0f} sends/s)"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
