"""Writes history.jsonl line by line during a run.

Lines are formatted by hand instead of by a JSON library: the fields are few, their order is fixed, and all texts are
ASCII without escapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TextIO

from ...models.replication.config import Config
from ...models.replication.copy_ledger import Copy, Source
from ...models.replication.keys import Keys
from ...models.replication.ports import (
    EventHead,
    History,
    Membership,
    OffsetRange,
    Positions,
    Records,
    SentRecord,
    SentValue,
)
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
        self._partitions = config.partitions
        places = map(config.topic_of, range(config.data_partitions))
        self._places = [f'"topic":"{topic}","partition":{number}' for topic, number in places]
        self.sources: Mapping[Copy, Source] = {}  # of copies
        self._keys = Keys(config) if config.compacts else None
        self._lines: list[str] = []
        self._size = 0  # characters in `_lines`, not their number: a poll's line may have 500 records
        self._nemesis = 0  # the last op of the process nemesis
        self._admin = 0  # the last op of the process admin
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

    def _event(self, head: EventHead, kind: str, fields: str) -> None:
        """Write an event; `fields` are those after its type."""
        self._write(f'{{"time":{head.time * 1000},"process":"{head.process}","op":{head.op},"type":"{kind}",{fields}}}')

    def _instant(self, head: EventHead, fields: str) -> None:
        """Write an operation that takes no time: its invocation and its completion."""
        self._event(head, "invoke", fields)
        self._event(head, "ok", fields)

    # --- producers

    def send(self, head: EventHead, producer: int, partition: int, number: int) -> None:
        self.last_send = head.time
        fields = f'"f":"send",{self._places[partition]}{self._content(producer, partition, number)}'
        self._event(head, "invoke", fields)

    def _content(self, producer: int, partition: int, number: int) -> str:
        """The value of a record, with its key on a compacted topic; the key of a copy is where its source is."""
        if self._keys is not None:
            key, is_tombstone = self._keys.of(producer, partition, number)
            text = "null" if is_tombstone else f'"{value(producer, partition, number)}"'
            return f',"key":"{key}","value":{text}'
        source = self.sources.get(Copy(producer, partition, number))
        key = "" if source is None else f'"key":"{source_key(self._topic, *source)}",'
        return f',{key}"value":"{value(producer, partition, number)}"'

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        prefix = f'{{"time":{time * 1000},"process":"{process}","op":'
        middle = f',"type":"{outcome}","f":"send",{self._places[batch.partition]}'
        value_prefix = _value_prefix(batch.producer, batch.partition, batch.first)
        for index, op in enumerate(batch.ops):
            if self._keys is None:
                head = f'{prefix}{op}{middle},"value":"{value_prefix}{batch.first + index}"'
            else:
                head = f"{prefix}{op}{middle}{self._content(batch.producer, batch.partition, batch.first + index)}"
            if outcome == "ok":
                offset = "null" if base < 0 else str(base + index)
                self._write(f'{head},"offset":{offset}}}')
            else:
                self._write(f'{head},"error":"{error}"}}')

    def transact(self, head: EventHead, producer: int, sends: list[SentValue], offsets: dict[int, int]) -> None:
        self.last_send = head.time
        ops = self._steps(producer, [SentRecord(*sent, None) for sent in sends], offsets)
        self._event(head, "invoke", f'"f":"txn","ops":[{ops}]')

    def transacted(
        self,
        head: EventHead,
        producer: int,
        records: list[SentRecord],
        offsets: dict[int, int],
        outcome: str,
        error: str,
    ) -> None:
        more = f',"error":"{error}"' if error else ""
        self._event(head, outcome, f'"f":"txn","ops":[{self._steps(producer, records, offsets)}]{more}')

    def _steps(self, producer: int, records: list[SentRecord], offsets: dict[int, int]) -> str:
        """The micro-operations of a transaction."""
        steps = [
            f'{{"f":"send",{self._places[partition]}{self._content(producer, partition, number)}{_offset(offset)}}}'
            for partition, number, offset in records
        ]
        if offsets:
            steps.append(f'{{"f":"commit",{self._offsets(sorted(offsets.items()))}}}')
        return ",".join(steps)

    # --- consumers

    def poll(self, head: EventHead) -> None:
        self._event(head, "invoke", '"f":"poll"')

    def polled(self, head: EventHead, records: Records) -> None:
        self._event(head, "ok", f'"f":"poll",{self._records(records)}')

    def handle(self, head: EventHead, records: Records) -> None:
        self._instant(head, f'"f":"handle",{self._records(records)}')

    def _records(self, records: Records) -> str:
        found: list[str] = []
        for partition, batch in records:
            value_prefix = _value_prefix(batch.producer, partition, batch.first)
            tail = f',"leader_epoch":{batch.epoch}}}' if batch.epoch >= 0 else "}"
            start = f'{{{self._places[partition]},"offset":'
            shift = batch.first - batch.base
            offsets = range(batch.base, batch.end)
            if self._keys is None:
                found.extend(f'{start}{offset},"value":"{value_prefix}{offset + shift}"{tail}' for offset in offsets)
            else:
                found.extend(f"{start}{o}{self._content(batch.producer, partition, o + shift)}{tail}" for o in offsets)
        return f'"records":[{",".join(found)}]'

    def commit(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        self._instant(head, f'"f":"commit",{self._offsets(offsets)}')

    def assign(self, head: EventHead, offsets: Positions) -> None:
        self._instant(head, f'"f":"assign",{self._offsets(offsets)}')

    def committing(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        self._event(head, "invoke", f'"f":"commit",{self._offsets(offsets)}')

    def committed(
        self, head: EventHead, offsets: list[tuple[int, int]], outcome: str, error: str, membership: Membership
    ) -> None:
        more = f',"error":"{error}"' if error else _member(membership)
        self._event(head, outcome, f'"f":"commit",{self._offsets(offsets)}{more}')

    def assign_by_group(
        self, head: EventHead, offsets: Positions, assignment: tuple[int, ...], membership: Membership
    ) -> None:
        owned = ",".join(f"{{{self._places[partition]}}}" for partition in assignment)
        fields = f'"f":"assign","group":true,{self._offsets(offsets)},"assignment":[{owned}]'
        self._instant(head, fields + _member(membership))

    def revoke(self, head: EventHead, partitions: tuple[int, ...], membership: Membership) -> None:
        places = self._offsets([(partition, None) for partition in partitions])
        self._instant(head, f'"f":"assign","group":true,"revoked":true,{places}{_member(membership)}')

    def seek(self, head: EventHead, offsets: Positions) -> None:
        self._instant(head, f'"f":"seek",{self._offsets(offsets)}')

    def _offsets(self, offsets: Sequence[tuple[int, int | None]]) -> str:
        places = ",".join(
            f'{{{self._places[partition]},"offset":{"null" if offset is None else offset}}}'
            for partition, offset in offsets
        )
        return f'"offsets":[{places}]'

    def crash(self, head: EventHead, reason: str) -> None:
        self._instant(head, f'"f":"crash","reason":"{reason}"')

    # --- administrators and faults

    def end_offsets(self, invoked: int, time: int, offsets: dict[int, OffsetRange]) -> None:
        self._admin += 1
        text = ",".join(
            f'{{{self._places[p]},"offset":{end},"start":{start}}}' for p, (start, end) in sorted(offsets.items())
        )
        self._event(EventHead(invoked, "admin", self._admin), "invoke", '"f":"end_offsets"')
        self._event(EventHead(time, "admin", self._admin), "ok", f'"f":"end_offsets","offsets":[{text}]')

    def fault(self, time: int, kind: str, nodes: tuple[str, ...], is_heal: bool, extra: dict[str, object]) -> None:
        self._nemesis += 1
        name = HEALS.get(kind, KINDS.get(kind, kind)) if is_heal else KINDS.get(kind, kind)
        fault: dict[str, object] = {"kind": name, "nodes": list(nodes)}
        if not is_heal:
            fault.update(extra)
        if kind in ("delete-records", "add-partitions"):
            fault["topic"] = self._topic
        if kind == "add-partitions":
            fault["partitions"] = self._partitions
        function = "heal" if is_heal else "fault"
        text = json.dumps(fault, separators=(",", ":"))
        self._instant(EventHead(time, "nemesis", self._nemesis), f'"f":"{function}","fault":{text}')


def _value_prefix(producer: int, partition: int, number: int) -> str:
    """A value without its number, which all values of a batch begin with."""
    return value(producer, partition, number).removesuffix(str(number))


def _offset(offset: int | None) -> str:
    return "" if offset is None else f',"offset":{offset}'


def _member(membership: Membership) -> str:
    member, generation = membership
    return f',"member":"{member}","generation":{generation}' if member else ""
