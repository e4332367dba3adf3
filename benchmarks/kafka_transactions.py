"""Generates a native history of Kafka transactions of any size, each with one to three sends and a poll.

.venv/bin/python benchmarks/kafka_transactions.py FOLDER TRANSACTIONS [--cycle G0|G1c]
.venv/bin/logjudge check FOLDER --engine local --plots none

Up to six transactions are open at a time. Each writes and polls at one moment between its begin and its end, so
an order explains all of them, but their writes are often in another order than their ends. A client polls one
partition, with read_committed, so each record is read by one or two clients. --cycle adds two transactions, after 99 %
of the others, that no order explains. A million transactions take 0.6 GB; memory does not grow with their number.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

PARTITIONS, CLIENTS, OPEN, POLLED = 12, 16, 6, 40


class Log:
    """The records of a partition that some client has not polled yet."""

    def __init__(self) -> None:
        self.first, self.values = 0, list[str]()
        self.open: dict[int, int] = {}  # the first offset of each open transaction
        self.positions = dict[int, int]()  # of its clients

    def append(self, op: int, value: str) -> str:
        """Appends a record of a transaction and returns the send as JSON, but for the topic and partition."""
        offset = self.first + len(self.values)
        self.open.setdefault(op, offset)
        self.values.append(value)
        return f'"value":"{value}","offset":{offset}}}'

    def poll(self, client: int, number: int, is_committed: bool = True) -> str:
        """What a client reads next, as JSON: records before the first open transaction."""
        begin, end = self.positions[client], self.first + len(self.values)
        if is_committed:
            end = min(begin + POLLED, min(self.open.values(), default=end))
        records = [
            f'{{"topic":"t","partition":{number},"offset":{offset},"value":"{self.values[offset - self.first]}"}}'
            for offset in range(begin, end)
        ]
        self.positions[client] = max(begin, end)
        if (unread := min(self.positions.values())) > self.first + 4096:
            del self.values[: unread - self.first]
            self.first = unread
        return f'{{"f":"poll","records":[{",".join(records)}]}}'


class Generator:
    """Clients with one transaction at a time."""

    def __init__(self, count: int, cycle: str) -> None:
        self.count, self.cycle = count, cycle
        self.random = Random(count).random
        self.logs = [Log() for _ in range(PARTITIONS)]
        for client in range(CLIENTS):
            self.logs[client % PARTITIONS].positions[client] = 0
        self.time = self.began = 0

    def lines(self) -> Iterator[str]:
        """The lines of the history."""
        cycle_at = self.count * 99 // 100 if self.cycle else self.count
        yield from self._transactions(cycle_at)
        if self.cycle:
            yield from self._cycle_of_two()
            yield from self._transactions(self.count)

    def _transactions(self, until: int) -> Iterator[str]:
        """Transactions that overlap, until that many began and all of them ended."""
        random, logs = self.random, self.logs
        idle, started, acted = list(range(CLIENTS)), [], []
        while self.began < until or started or acted:
            if self.began < until and len(started) + len(acted) < OPEN and random() < 0.5:
                op, client = self.began, idle.pop(int(random() * len(idle)))
                sends = [(int(random() * PARTITIONS), f"{op}-{n}") for n in range(1 + int(random() * 3))]
                started.append((op, client, sends))
                self.began += 1
                yield self._invoke(op, client, sends)
            elif started and (not acted or random() < 0.5):
                op, client, sends = started.pop(int(random() * len(started)))
                number = client % PARTITIONS
                polled = logs[number].poll(client, number)
                acted.append((op, client, [self._send(op, *send) for send in sends], polled, sends))
            elif acted:
                op, client, sent, polled, sends = acted.pop(int(random() * len(acted)))
                for number, _ in sends:
                    logs[number].open.pop(op, None)
                idle.append(client)
                yield self._ok(op, client, [*sent, polled])

    def _cycle_of_two(self) -> Iterator[str]:
        """Two transactions that each read what the other wrote, or wrote in another order to each of two partitions."""
        one, other, (x, y) = self.began, self.began + 1, (0, 1)
        self.began += 2
        writes_only = self.cycle == "G0"
        order = [(one, x), (other, x), (other, y), (one, y)] if writes_only else [(one, y), (other, x)]
        sends = {op: [(number, f"{op}-{n}") for n, (by, number) in enumerate(order) if by == op] for op in (one, other)}
        yield self._invoke(one, x, sends[one])
        yield self._invoke(other, y, sends[other])
        done: dict[int, list[str]] = {one: [], other: []}
        for op, number in order:
            value = next(value for at, value in sends[op] if at == number)
            done[op].append(self._send(op, number, value))
        for op, client in ((one, x), (other, y)):
            polled = '{"f":"poll","records":[]}' if writes_only else self.logs[client].poll(client, client, False)
            yield self._ok(op, client, [*done[op], polled])
        for log in self.logs:
            log.open.clear()

    def _send(self, op: int, number: int, value: str) -> str:
        return f'{{"f":"send","topic":"t","partition":{number},{self.logs[number].append(op, value)}'

    def _invoke(self, op: int, client: int, sends: list[tuple[int, str]]) -> str:
        ops = "".join(f'{{"f":"send","topic":"t","partition":{at},"value":"{value}"}},' for at, value in sends)
        return self._line("invoke", op, client, ops + '{"f":"poll"}')

    def _ok(self, op: int, client: int, ops: list[str]) -> str:
        return self._line("ok", op, client, ",".join(ops))

    def _line(self, kind: str, op: int, client: int, ops: str) -> str:
        self.time += 1000
        about = f'"time":{self.time},"process":"p{client}","f":"txn","type":"{kind}","op":{op}'
        return f'{{{about},"ops":[{ops}]}}\n'


def main() -> None:
    """Writes the history and run.json."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    cycle = sys.argv[4] if sys.argv[3:4] == ["--cycle"] else ""
    folder.mkdir(parents=True, exist_ok=True)
    client = {"role": "producer", "acks": "all", "isolation.level": "read_committed"}
    processes = {f"p{number}": client for number in range(CLIENTS)}
    topics = {"t": {"partitions": PARTITIONS}}
    (folder / "run.json").write_text(json.dumps({"format": 1, "topics": topics, "processes": processes}))
    with (folder / "history.jsonl").open("w") as file:
        file.writelines(Generator(count, cycle).lines())


if __name__ == "__main__":
    main()
