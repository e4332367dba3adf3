"""Generates a native history of Kafka transactions of any size, each with one to three sends and a poll.

.venv/bin/python benchmarks/kafka_transactions.py FOLDER TRANSACTIONS
.venv/bin/python -m logjudge.cli check FOLDER --engine local --plots none
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

PARTITIONS, CLIENTS, OPEN, POLLED = 12, 16, 6, 20


def lines(count: int) -> Iterator[str]:
    """The events of transactions that overlap; each client polls two partitions, with read_committed."""
    random = Random(count)
    logs: list[list[tuple[int, str]]] = [[] for _ in range(PARTITIONS)]
    positions = [[0] * PARTITIONS for _ in range(CLIENTS)]
    running: dict[int, tuple[int, list[tuple[int, str]]]] = {}
    idle = list(range(CLIENTS))
    began = time = 0
    while began < count or running:
        time += 1000
        if idle and len(running) < OPEN and began < count:
            client = idle.pop(random.randrange(len(idle)))
            sends = [(random.randrange(PARTITIONS), f"{began}-{n}") for n in range(random.randint(1, 3))]
            running[client] = began, sends
            ops = [{"f": "send", "topic": "t", "partition": number, "value": value} for number, value in sends]
            event = {"type": "invoke", "op": began, "ops": [*ops, {"f": "poll"}]}
            began += 1
        else:
            client = random.choice(list(running))
            op, sends = running.pop(client)
            idle.append(client)
            records = []
            for number in (client % PARTITIONS, (client + 5) % PARTITIONS):
                first = positions[client][number]
                read = logs[number][first : first + POLLED]
                positions[client][number] += len(read)
                records += [{"topic": "t", "partition": number, "offset": at, "value": value} for at, value in read]
            ops = []
            for number, value in sends:
                logs[number].append((len(logs[number]), value))
                about = {"topic": "t", "partition": number, "value": value, "offset": len(logs[number]) - 1}
                ops.append({"f": "send", **about})
            event = {"type": "ok", "op": op, "ops": [*ops, {"f": "poll", "records": records}]}
        yield json.dumps({"time": time, "process": f"p{client}", "f": "txn", **event}, separators=(",", ":")) + "\n"


def main() -> None:
    """Writes the history and run.json."""
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    client = {"role": "producer", "acks": "all", "isolation.level": "read_committed"}
    processes = {f"p{number}": client for number in range(CLIENTS)}
    topics = {"t": {"partitions": PARTITIONS}}
    (folder / "run.json").write_text(json.dumps({"format": 1, "topics": topics, "processes": processes}))
    with (folder / "history.jsonl").open("w") as file:
        file.writelines(lines(count))


if __name__ == "__main__":
    main()
