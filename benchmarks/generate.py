"""Generates seeded histories of any size: valid or with a lost tail, with even partitions or one hot partition.

A simple simulated log: producers send, brokers acknowledge with rising offsets, two consumers and the final reader
poll in batches. Equal arguments give equal bytes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

PARTITIONS, PRODUCERS, BATCH = 12, 8, 500
JEPSEN_KEYS, JEPSEN_PROCESSES = 20, 10


def generate(folder: Path, operations: int, hot: bool = False, faulty: bool = False, seed: int = 1) -> Path:
    """Writes folder/history.jsonl and run.json, with about 2.4 events for each operation, most of them of sends."""
    folder.mkdir(parents=True, exist_ok=True)
    processes: dict[str, dict[str, object]] = {f"p{i}": {"role": "producer", "acks": "all"} for i in range(PRODUCERS)}
    processes |= {"c0": {"role": "consumer"}, "c1": {"role": "consumer"}, "final": {"role": "final"}}
    config = {
        "format": 1,
        "name": folder.name,
        "topics": {"orders": {"partitions": PARTITIONS, "min.insync.replicas": 1}},
        "processes": processes,
        "final": True,
    }
    (folder / "run.json").write_text(json.dumps(config))
    with (folder / "history.jsonl").open("w") as file:
        file.writelines(_lines(operations, hot, faulty, random.Random(seed)))
    return folder


def generate_jepsen(file: Path, lines: int, seed: int = 1, keys: int = JEPSEN_KEYS, faulty: bool = False) -> Path:
    """Writes a history in the EDN of Jepsen's kafka workload: sends and polls of random processes.

    With `faulty` each key loses records in the middle of the run, which were acknowledged and partly read.
    """
    rng = random.Random(seed)
    logs: list[list[int]] = [[] for _ in range(keys)]
    positions = [[0] * keys for _ in range(JEPSEN_PROCESSES)]
    index = 0
    with file.open("w") as out:

        def write(process: int, kind: str, f: str, value: str) -> None:
            nonlocal index
            head = f"{{:index {index}, :time {1000 * index}, :type :{kind}, :process {process}"
            out.write(
                f"{head}, :f :{f}, :value [[:{f} {value}]]}}\n" if value else f"{head}, :f :{f}, :value [[:{f}]]}}\n"
            )
            index += 1

        def poll(process: int, keys: list[int]) -> None:
            write(process, "invoke", "poll", "")
            read = []
            for key in keys:
                at = positions[process][key]
                records = " ".join(f"[{offset} {value}]" for offset, value in enumerate(logs[key][at : at + 50], at))
                positions[process][key] = min(len(logs[key]), at + 50)
                read += [f"{key} [{records}]"] if records else []
            write(process, "ok", "poll", "{" + ", ".join(read) + "}")

        while index < lines:
            if faulty and index >= lines // 2:
                faulty = False
                for key, log in enumerate(logs):
                    del log[len(log) - max(len(log) // 50, 1) :]
                    for at in positions:
                        at[key] = min(at[key], len(log))
            process = rng.randrange(JEPSEN_PROCESSES)
            if rng.random() < 0.5:
                key = rng.randrange(keys)
                write(process, "invoke", "send", f"{key} {index}")
                logs[key].append(index - 1)
                write(process, "ok", "send", f"{key} [{len(logs[key]) - 1} {index - 1}]")
            else:
                poll(process, sorted(rng.sample(range(keys), 4)))
        for key in range(keys):
            while positions[0][key] < len(logs[key]):
                poll(0, [key])
    return file


def _lines(operations: int, hot: bool, faulty: bool, rng: random.Random) -> Iterator[str]:
    logs: list[list[str]] = [[] for _ in range(PARTITIONS)]
    read = {name: [0] * PARTITIONS for name in ("c0", "c1")}
    time, op = 0, 0
    ops = dict.fromkeys(("c0", "c1", "final", "admin"), 0)
    for name in read:
        yield from _assign(time, name, ops)
    while op < operations:
        # A window of sends in flight: all invoked, then acknowledged in another order.
        window = []
        for _ in range(min(64, operations - op)):
            time += rng.randrange(1_000, 20_000)
            producer = op % PRODUCERS
            partition = 0 if hot and rng.random() < 0.9 else rng.randrange(PARTITIONS)
            window.append((producer, op, partition))
            yield (
                f'{{"time":{time},"process":"p{producer}","op":{op},"type":"invoke","f":"send","topic":"orders",'
                f'"partition":{partition},"value":"p{producer}-{op}"}}\n'
            )
            op += 1
        for producer, number, partition in window:
            time += rng.randrange(1_000, 20_000)
            offset = len(logs[partition])
            logs[partition].append(f"p{producer}-{number}")
            yield (
                f'{{"time":{time},"process":"p{producer}","op":{number},"type":"ok","f":"send","topic":"orders",'
                f'"partition":{partition},"value":"p{producer}-{number}","offset":{offset}}}\n'
            )
        if op % (64 * 40) == 0 or op >= operations:
            for name, positions in read.items():
                for partition, log in enumerate(logs):
                    time += 1_000
                    yield from _polls(time, name, ops, partition, log, positions)
        if faulty and op == (operations // 128) * 64:
            for log in logs:
                del log[len(log) - len(log) // 100 :]
            for positions in read.values():
                positions[:] = [min(position, len(log)) for position, log in zip(positions, logs, strict=True)]
    ends = [{"topic": "orders", "partition": p, "offset": len(log), "start": 0} for p, log in enumerate(logs)]
    yield from _pair(time + 1, "admin", ops, "end_offsets", {"offsets": ends})
    yield from _assign(time + 3, "final", ops)
    start = [0] * PARTITIONS
    for partition, log in enumerate(logs):
        yield from _polls(time + 10 + partition, "final", ops, partition, log, start)


def _assign(time: int, name: str, ops: dict[str, int]) -> Iterator[str]:
    offsets = [{"topic": "orders", "partition": p, "offset": 0} for p in range(PARTITIONS)]
    yield from _pair(time, name, ops, "assign", {"offsets": offsets})


def _polls(
    time: int, name: str, ops: dict[str, int], partition: int, log: list[str], positions: list[int]
) -> Iterator[str]:
    while positions[partition] < len(log):
        first = positions[partition]
        values = log[first : first + BATCH]
        records = [
            {"topic": "orders", "partition": partition, "offset": first + i, "value": value}
            for i, value in enumerate(values)
        ]
        positions[partition] = first + len(values)
        yield from _pair(time, name, ops, "poll", {"records": records})


def _pair(time: int, name: str, ops: dict[str, int], f: str, result: dict[str, object]) -> Iterator[str]:
    ops[name] += 1
    common = {"process": name, "op": ops[name], "f": f}
    yield json.dumps({"time": time, **common, "type": "invoke"}, separators=(",", ":")) + "\n"
    yield json.dumps({"time": time + 1, **common, "type": "ok", **result}, separators=(",", ":")) + "\n"
