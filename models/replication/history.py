"""What a run tells its recorder about the clients. A recorder is anything with these methods."""

from __future__ import annotations

from typing import Protocol

from .batches import Batch
from .producer import ProducerBatch

Given = list[tuple[int, Batch]]  # partition and records


class History(Protocol):
    """Times are simulated microseconds; operations are numbered by each process for itself."""

    def send(self, time: int, process: str, op: int, partition: int, value: int) -> None: ...

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None: ...

    def poll(self, time: int, process: str, op: int) -> None: ...

    def polled(self, time: int, process: str, op: int, given: Given) -> None: ...

    def handle(self, time: int, process: str, op: int, given: Given) -> None: ...

    def commit(self, time: int, process: str, op: int, offsets: list[tuple[int, int]]) -> None: ...

    def assign(self, time: int, process: str, op: int, offsets: list[tuple[int, int | None]]) -> None: ...

    def crash(self, time: int, process: str, op: int) -> None: ...

    def end_offsets(self, invoked: int, time: int, offsets: dict[int, tuple[int, int]]) -> None: ...

    def fault(self, time: int, kind: str, nodes: tuple[int, ...], heal: bool, extra: dict[str, object]) -> None: ...
