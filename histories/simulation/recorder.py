"""Writes history.jsonl line by line while a run goes on.

Lines are formatted by hand instead of by a JSON library: the fields are few, their order is fixed, and all texts are
ASCII without escapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TextIO

from ...models.replication.config import Config
from ...models.replication.ports import History, Records
from ...models.replication.producer_batch import ProducerBatch
from .names import source_key, value

# The kinds of faults that docs/format.md names differently.
KINDS = {"crash": "kill", "one-way": "partition"}
HEALS = {"crash": "restart", "power-loss": "restart", "shutdown": "restart", "disk-full": "restart"}


BUFFER = 1 << 20  # characters


class Recorder(History):
    """Writes native events. Times become nanoseconds."""

    def __init__(self, out: TextIO, config: Config) -> None:
        self._out = out
        self._topic = config.topic
        places = map(config.topic_of, range(config.data_partitions))
        self._places = [f'"topic":"{topic}","partition":{number}' for topic, number in places]
        self.sources: Mapping[tuple[int, int, int], tuple[int, int]] = {}  # of copies, see CopyLedger
        self._lines: list[str] = []
        self._size = 0  # characters in them: a poll's line may have 500 records
        self._nemesis = 0
        self._admin = 0
        self.lines = 0
        self.last_send = 0  # when a producer last sent a value, microseconds

    def _write(self, line: str) -> None:
        self._lines.append(line)
        self._size += len(line)
        if self._size >= BUFFER:
            self.flush()

    def flush(self) -> None:
        """Write the lines that are still in memory."""
        self.lines += len(self._lines)
        self._lines.append("")
        self._out.write("\n".join(self._lines))
        self._lines = []
        self._size = 0

    def _write_instant(self, time: int, process: str, op: int, rest: str) -> None:
        """Write an operation that takes no time: its invocation and its completion."""
        head = f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":'
        self._write(f'{head}"invoke",{rest}}}')
        self._write(f'{head}"ok",{rest}}}')

    # --- producers

    def send(self, time: int, process: str, op: int, producer: int, partition: int, number: int) -> None:
        self.last_send = time
        self._write(
            f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"invoke","f":"send",'
            f"{self._places[partition]}{self._content(producer, partition, number)}}}"
        )

    def _content(self, producer: int, partition: int, number: int) -> str:
        """The value of a record, and the key of a copy: where its source is."""
        source = self.sources.get((producer, partition, number))
        key = "" if source is None else f'"key":"{source_key(self._topic, *source)}",'
        return f',{key}"value":"{value(producer, partition, number)}"'

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        prefix = f'{{"time":{time * 1000},"process":"{process}","op":'
        middle = f',"type":"{outcome}","f":"send",{self._places[batch.partition]}'
        text = value(batch.producer, batch.partition, batch.first)[: -len(str(batch.first))]
        for index, op in enumerate(batch.ops):
            head = f'{prefix}{op}{middle},"value":"{text}{batch.first + index}"'
            if outcome == "ok":
                offset = "null" if base < 0 else str(base + index)
                self._write(f'{head},"offset":{offset}}}')
            else:
                self._write(f'{head},"error":"{error}"}}')

    def transact(
        self, time: int, process: str, op: int, producer: int, sends: list[tuple[int, int]], offsets: dict[int, int]
    ) -> None:
        self.last_send = time
        ops = self._steps(producer, [(partition, number, None) for partition, number in sends], offsets)
        self._write(f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"invoke","f":"txn","ops":[{ops}]}}')

    def transacted(
        self,
        time: int,
        process: str,
        op: int,
        producer: int,
        sends: list[tuple[int, int, int | None]],
        offsets: dict[int, int],
        outcome: str,
        error: str,
    ) -> None:
        more = f',"error":"{error}"' if error else ""
        self._write(
            f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"{outcome}","f":"txn",'
            f'"ops":[{self._steps(producer, sends, offsets)}]{more}}}'
        )

    def _steps(self, producer: int, sends: list[tuple[int, int, int | None]], offsets: dict[int, int]) -> str:
        """The micro-operations of a transaction."""
        steps = [
            f'{{"f":"send",{self._places[partition]}{self._content(producer, partition, number)}{_offset(offset)}}}'
            for partition, number, offset in sends
        ]
        if offsets:
            steps.append(f'{{"f":"commit","offsets":[{self._offsets(sorted(offsets.items()))}]}}')
        return ",".join(steps)

    # --- consumers

    def poll(self, time: int, process: str, op: int) -> None:
        self._write(f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"invoke","f":"poll"}}')

    def polled(self, time: int, process: str, op: int, records: Records) -> None:
        self._write(
            f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"ok","f":"poll",'
            f'"records":[{self._records(records)}]}}'
        )

    def handle(self, time: int, process: str, op: int, records: Records) -> None:
        self._write_instant(time, process, op, f'"f":"handle","records":[{self._records(records)}]')

    def _records(self, records: Records) -> str:
        found: list[str] = []
        for partition, batch in records:
            text = value(batch.producer, partition, batch.first)[: -len(str(batch.first))]
            tail = f',"leader_epoch":{batch.epoch}}}' if batch.epoch >= 0 else "}"
            head = f'{{{self._places[partition]},"offset":'
            shift = batch.first - batch.base
            found.extend(
                f'{head}{offset},"value":"{text}{offset + shift}"{tail}' for offset in range(batch.base, batch.end)
            )
        return ",".join(found)

    def commit(self, time: int, process: str, op: int, offsets: list[tuple[int, int]]) -> None:
        self._write_instant(time, process, op, f'"f":"commit","offsets":[{self._offsets(offsets)}]')

    def assign(self, time: int, process: str, op: int, offsets: list[tuple[int, int | None]]) -> None:
        self._write_instant(time, process, op, f'"f":"assign","offsets":[{self._offsets(offsets)}]')

    def committing(self, time: int, process: str, op: int, offsets: list[tuple[int, int]]) -> None:
        self._write(
            f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"invoke","f":"commit",'
            f'"offsets":[{self._offsets(offsets)}]}}'
        )

    def committed(
        self,
        time: int,
        process: str,
        op: int,
        offsets: list[tuple[int, int]],
        outcome: str,
        error: str,
        member: str,
        generation: int,
    ) -> None:
        more = f',"error":"{error}"' if error else _membership(member, generation)
        self._write(
            f'{{"time":{time * 1000},"process":"{process}","op":{op},"type":"{outcome}","f":"commit",'
            f'"offsets":[{self._offsets(offsets)}]{more}}}'
        )

    def assign_by_group(
        self,
        time: int,
        process: str,
        op: int,
        offsets: list[tuple[int, int | None]],
        assignment: tuple[int, ...],
        member: str,
        generation: int,
    ) -> None:
        owned = ",".join(f"{{{self._places[partition]}}}" for partition in assignment)
        rest = f'"f":"assign","group":true,"offsets":[{self._offsets(offsets)}],"assignment":[{owned}]'
        self._write_instant(time, process, op, rest + _membership(member, generation))

    def revoke(
        self, time: int, process: str, op: int, partitions: tuple[int, ...], member: str, generation: int
    ) -> None:
        places = self._offsets([(partition, None) for partition in partitions])
        rest = f'"f":"assign","group":true,"revoked":true,"offsets":[{places}]'
        self._write_instant(time, process, op, rest + _membership(member, generation))

    def seek(self, time: int, process: str, op: int, offsets: list[tuple[int, int | None]]) -> None:
        self._write_instant(time, process, op, f'"f":"seek","offsets":[{self._offsets(offsets)}]')

    def _offsets(self, offsets: Sequence[tuple[int, int | None]]) -> str:
        return ",".join(
            f'{{{self._places[partition]},"offset":{"null" if offset is None else offset}}}'
            for partition, offset in offsets
        )

    def crash(self, time: int, process: str, op: int) -> None:
        self._write_instant(time, process, op, '"f":"crash","reason":"killed"')

    # --- administrators and faults

    def end_offsets(self, invoked: int, time: int, offsets: dict[int, tuple[int, int]]) -> None:
        self._admin += 1
        text = ",".join(
            f'{{{self._places[p]},"offset":{end},"start":{start}}}' for p, (start, end) in sorted(offsets.items())
        )
        head = f'"process":"admin","op":{self._admin},"type":'
        self._write(f'{{"time":{invoked * 1000},{head}"invoke","f":"end_offsets"}}')
        self._write(f'{{"time":{time * 1000},{head}"ok","f":"end_offsets","offsets":[{text}]}}')

    def fault(self, time: int, kind: str, nodes: tuple[int, ...], heal: bool, extra: dict[str, object]) -> None:
        self._nemesis += 1
        name = HEALS.get(kind, KINDS.get(kind, kind)) if heal else KINDS.get(kind, kind)
        fault: dict[str, object] = {"kind": name, "nodes": [str(n) for n in nodes]}
        if kind.startswith("consumer-"):
            fault["nodes"] = [f"c{n}" for n in nodes]
        if not heal:
            fault.update(extra)
        if kind == "delete-records":
            fault["topic"] = self._topic
        function = "heal" if heal else "fault"
        self._write_instant(
            time,
            "nemesis",
            self._nemesis,
            f'"f":"{function}","fault":{json.dumps(fault, separators=(",", ":"))}',
        )


def _offset(offset: int | None) -> str:
    return "" if offset is None else f',"offset":{offset}'


def _membership(member: str, generation: int) -> str:
    return f',"member":"{member}","generation":{generation}' if member else ""
