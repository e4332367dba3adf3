"""Runs with transactions, whose segments are written batch by batch as a broker writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.batch_layout import CRC32C
from logjudge.histories.evidence.batch_loops import crc

SEGMENT = f"{0:020d}.log"
STARTED = 1_767_225_600_000  # ms: 2026-01-01
STARTED_AT = "2026-01-01T00:00:00+00:00"
CONTROL_BIT, CRC_AT, ATTRIBUTES_AT = 0x20, 17, 21
MS = 1_000_000  # ns
Events = list[dict[str, Any]]  # lines of a history
LEADS = (
    "[2026-01-01 00:00:00,000] INFO [Broker id={broker}] Leader {name} with topic id Some(abc) starts at leader epoch 0"
    " from offset 0 with partition epoch 0, high watermark 0, ISR [{broker}], adding replicas [] and removing replicas"
    " [] . Previous leader None and previous leader epoch was -1. (state.change.logger)\n"
)
STATES = {"empty": 0, "ongoing": 1, "prepare-commit": 2, "prepare-abort": 3, "complete-commit": 4, "complete-abort": 5}


def number(value: int, width: int) -> bytes:
    return value.to_bytes(width, "big", signed=True)


def batch(
    offset: int,
    value: bytes | None,
    key: bytes | None = None,
    producer: tuple[int, int] | None = None,
    leader_epoch: int = 0,
    is_control: bool = False,
    time: int = 0,
) -> bytes:
    """One record batch v2 with one record; a producer's is transactional. `time` in ms since the start."""
    pid, epoch = producer or (-1, -1)
    builder = DefaultRecordBatchBuilder(2, 0, int(producer is not None), pid, epoch, -1, 1 << 20)
    builder.append(0, STARTED + time, key, value, [])
    data = bytearray(builder.build())
    data[:8] = number(offset, 8)
    data[12:16] = number(leader_epoch, 4)
    data[ATTRIBUTES_AT + 1] |= CONTROL_BIT * is_control
    data[CRC_AT:ATTRIBUTES_AT] = crc(CRC32C.tolist(), bytes(data), ATTRIBUTES_AT, len(data)).to_bytes(4, "big")
    return bytes(data)


def log(text: str) -> bytes:
    """A segment: `7a` is value a of producer 7's transaction, `a` one outside, `7!` a COMMIT marker, `7~` an ABORT.

    A blank separates offsets; `@2` after an entry is its leader epoch, `^3` its producer epoch, `-` leaves one out.
    """
    out = []
    for offset, entry in enumerate(text.split()):
        body, _, leader = entry.partition("@")
        body, _, epoch = body.partition("^")
        value = body.lstrip("0123456789")
        pid = body[: len(body) - len(value)]
        producer = (int(pid), int(epoch or 0)) if pid else None
        about: dict[str, Any] = {"producer": producer, "leader_epoch": int(leader or 0), "time": offset}
        if value in ("!", "~"):
            marker = number(0, 2) + number(int(value == "!"), 2)
            out.append(batch(offset, number(0, 2) + number(0, 4), marker, is_control=True, **about))
        elif value != "-":
            out.append(batch(offset, value.encode(), **about))
    return b"".join(out)


def aborted_index(*entries: tuple[int, int, int]) -> bytes:
    """A .txnindex: producer id, first offset and marker of each aborted transaction."""
    return b"".join(
        number(0, 2) + number(pid, 8) + number(first, 8) + number(last, 8) + number(last + 1, 8)
        for pid, first, last in entries
    )


def transaction_key(name: str) -> bytes:
    return number(0, 2) + number(len(name), 2) + name.encode()


def transaction_value(
    state: int,
    partitions: list[tuple[str, int]],
    producer: tuple[int, int] = (7, 0),
    times: tuple[int, int] = (0, 0),
    timeout: int = 60_000,
    version: int = 1,
) -> bytes:
    """A value of __transaction_state; `times`: when it was updated and when it began, ms since the start."""
    flexible = version >= 1
    tags = b"\1\2\2\0\2" if flexible else b""  # the transaction version of the client
    out = number(version, 2) + number(producer[0], 8) + number(producer[1], 2) + number(timeout, 4) + number(state, 1)
    out += bytes([len(partitions) + 1]) if flexible else number(len(partitions), 4)
    for topic, partition in partitions:
        out += (bytes([len(topic) + 1]) if flexible else number(len(topic), 2)) + topic.encode()
        out += (bytes([2]) if flexible else number(1, 4)) + number(partition, 4) + (b"\0" if flexible else b"")
    return out + number(STARTED + times[0], 8) + number(STARTED + times[1], 8) + tags


Step = tuple[str, int, str, list[tuple[str, int]], tuple[int, int]]  # id, producer, state, partitions, times


def state_log(steps: list[Step], first: int = 0) -> bytes:
    """A segment of __transaction_state that begins at offset `first`."""
    return b"".join(
        batch(
            offset,
            transaction_value(STATES[state], partitions, (producer, 0), times),
            transaction_key(name),
            time=times[0],
        )
        for offset, (name, producer, state, partitions, times) in enumerate(steps, first)
    )


def event(time: int, process: str, op: int, kind: str, f: str, **fields: Any) -> dict[str, Any]:
    """A line of a history; `time` in ms."""
    return {"time": time * MS, "process": process, "op": op, "type": kind, "f": f, **fields}


def transaction(
    process: str, op: int, sends: list[tuple[int, str, int | None]], outcome: str, times: tuple[int, int]
) -> Events:
    """A transaction of a history; `sends` are partition, value and offset."""
    ops = [
        {"f": "send", "topic": "x", "partition": partition, "value": value, **({} if at is None else {"offset": at})}
        for partition, value, at in sends
    ]
    invoked = [{name: value for name, value in each.items() if name != "offset"} for each in ops]
    return [
        event(times[0], process, op, "invoke", "txn", ops=invoked),
        event(times[1], process, op, outcome, "txn", ops=ops),
    ]


def send(value: str, offset: int, time: int, op: int) -> Events:
    about = {"topic": "x", "partition": 0, "value": value}
    return [
        event(time - 1, "p", op, "invoke", "send", **about),
        event(time, "p", op, "ok", "send", **about, offset=offset),
    ]


def contact(time: int) -> Events:
    """A client asks the leader for its end offset."""
    offsets = [{"topic": "x", "partition": 0, "offset": 1}]
    return [event(time - 1, "e", 0, "invoke", "end_offsets"), event(time, "e", 0, "ok", "end_offsets", offsets=offsets)]


FINAL_READER = {"final": {"role": "final", "isolation.level": "read_committed"}}


def final_reads(polled: list[tuple[int, int, str]], ends: dict[int, int]) -> Events:
    """What the final reader polled (partition, offset and value), and the end of each partition."""
    places = {partition: {"topic": "x", "partition": partition} for partition in ends}
    steps = (
        ("assign", {"offsets": [{**place, "offset": 0} for place in places.values()]}),
        ("poll", {"records": [{**places[partition], "offset": at, "value": value} for partition, at, value in polled]}),
        ("end_offsets", {"offsets": [{**place, "offset": ends[p], "start": 0} for p, place in places.items()]}),
    )
    return [
        event(900 + 10 * op, "final", op, kind, f, **(fields if kind == "ok" else {}))
        for op, (f, fields) in enumerate(steps)
        for kind in ("invoke", "ok")
    ]


def judged(folder: Path, rule: str, *others: str) -> tuple[list[dict[str, Any]], str]:
    """The findings and the verdict of a rule; `others` judge, too."""
    run = open_run(folder)
    results = judge_run(run.with_settings(rules=(rule, *others)))
    found = [finding for finding in results.findings().to_dicts() if finding["rule"] == rule]
    return found, verdict_of(results)["rules"][rule]["verdict"]


def write_run(
    folder: Path,
    logs: dict[int, str],
    events: Events,
    steps: list[Step] = [],  # noqa: B006
    **config: Any,
) -> Path:
    """A bundle with one broker that leads all partitions of topic x."""
    folder.mkdir(parents=True, exist_ok=True)
    topics = {"x": {"cleanup.policy": "delete", "replication.factor": 1, "partitions": len(logs)}}
    topics["__transaction_state"] = {"cleanup.policy": "compact", "replication.factor": 1, "partitions": 1}
    about = {"format": 1, "started_at": STARTED_AT, "topics": topics, **config}
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "history.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    data = folder / "brokers" / "1" / "data"
    for partition, text in logs.items():
        (data / f"x-{partition}").mkdir(parents=True)
        (data / f"x-{partition}" / SEGMENT).write_bytes(log(text))
    if steps:
        (data / "__transaction_state-0").mkdir()
        (data / "__transaction_state-0" / SEGMENT).write_bytes(state_log(steps))
    lines = [LEADS.format(broker=1, name=f"x-{partition}") for partition in logs]
    (data.parent / "server.log").write_text("".join(lines))
    return folder
