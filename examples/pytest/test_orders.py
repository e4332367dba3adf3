"""Orders are sent by two threads and read back; logjudge judges whether an acknowledged one is missing."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import logjudge
import pytest

LOSE = int(os.environ.get("LOSE", "0"))  # drop every so many acknowledged records


class Log:
    """A log of one partition. Replace it with the clients of your system."""

    def __init__(self) -> None:
        self._records: dict[int, str] = {}
        self._end = 0
        self._lock = Lock()

    def send(self, value: str) -> int:
        """Append a record and return its offset."""
        with self._lock:
            offset = self._end
            self._end += 1
            if not LOSE or offset % LOSE:
                self._records[offset] = value
            return offset

    def read(self) -> tuple[list[tuple[int, str]], int]:
        """All records with their offsets, and the end of the log."""
        with self._lock:
            return sorted(self._records.items()), self._end


@pytest.mark.logjudge(topics={"orders": {"partitions": 1, "cleanup.policy": "delete"}})
def test_no_acknowledged_order_is_lost(recorder: logjudge.Recorder) -> None:
    log = Log()

    def produce(process: str) -> None:
        for number in range(100):
            value = f"{process}-{number}"
            with recorder.send(process, "orders", value, partition=0) as op:
                op.ok(partition=0, offset=log.send(value))

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(produce, ("p0", "p1")))

    recorder.assign("final", [("orders", 0, 0)])
    with recorder.poll("final") as poll:
        records, end = log.read()
        poll.ok([("orders", 0, offset, value) for offset, value in records])
    with recorder.end_offsets("final") as ends:
        ends.ok([("orders", 0, end, 0)])
    recorder.finish(final_read="final")

    logjudge.assert_valid(recorder)
