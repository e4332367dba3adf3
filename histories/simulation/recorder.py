"""Writes history.jsonl line by line during a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import orjson

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


class Recorder(History):
    """Writes native events. Times become nanoseconds."""

    def __init__(self, out: BinaryIO, config: Config) -> None:
        self._out = out
        self._topic = config.topic
        self._partitions = config.partitions
        places = map(config.topic_of, range(config.data_partitions))
        self._places = [{"topic": topic, "partition": number} for topic, number in places]
        self.sources: Mapping[Copy, Source] = {}  # of copies
        self._keys = Keys(config) if config.compacts else None
        self._nemesis = 0  # the last op of the process nemesis
        self._admin = 0  # the last op of the process admin
        self.lines = 0
        self.last_send = 0  # when a producer last sent a value, microseconds

    def _event(self, head: EventHead, kind: str, function: str, **fields: Any) -> None:
        time = head.time * 1000
        event = {"time": time, "process": head.process, "op": head.op, "type": kind, "f": function, **fields}
        self._out.write(orjson.dumps(event, option=orjson.OPT_APPEND_NEWLINE))
        self.lines += 1

    def _instant(self, head: EventHead, function: str, **fields: Any) -> None:
        """Write an operation that takes no time: its invocation and its completion."""
        self._event(head, "invoke", function, **fields)
        self._event(head, "ok", function, **fields)

    # --- producers

    def send(self, head: EventHead, producer: int, partition: int, number: int) -> None:
        self.last_send = head.time
        content = self._sent_content(producer, partition, number)
        self._event(head, "invoke", "send", **self._places[partition], **content)

    def _content(self, producer: int, partition: int, number: int) -> dict[str, str | None]:
        """The value of a record, with its key on a compacted topic."""
        text = value(producer, partition, number)
        if self._keys is None:
            return {"value": text}
        key, is_tombstone = self._keys.of(producer, partition, number)
        return {"key": key, "value": None if is_tombstone else text}

    def _sent_content(self, producer: int, partition: int, number: int) -> dict[str, str | None]:
        """The content of a record that is being sent; the key of a copy is where its source is."""
        content = self._content(producer, partition, number)
        source = self.sources.get(Copy(producer, partition, number))
        return content if source is None else {"key": source_key(self._topic, *source), **content}

    def sent(self, time: int, process: str, batch: ProducerBatch, outcome: str, error: str, base: int) -> None:
        for index, op in enumerate(batch.ops):
            content = self._content(batch.producer, batch.partition, batch.first + index)
            end = {"offset": None if base < 0 else base + index} if outcome == "ok" else {"error": error}
            head = EventHead(time, process, op)
            self._event(head, outcome, "send", **self._places[batch.partition], **content, **end)

    def transact(self, head: EventHead, producer: int, sends: list[SentValue], offsets: dict[int, int]) -> None:
        self.last_send = head.time
        steps = self._steps(producer, [SentRecord(*sent, None) for sent in sends], offsets)
        self._event(head, "invoke", "txn", ops=steps)

    def transacted(
        self,
        head: EventHead,
        producer: int,
        records: list[SentRecord],
        offsets: dict[int, int],
        outcome: str,
        error: str,
    ) -> None:
        self._event(head, outcome, "txn", ops=self._steps(producer, records, offsets), **_error(error))

    def _steps(self, producer: int, records: list[SentRecord], offsets: dict[int, int]) -> list[dict[str, Any]]:
        """The micro-operations of a transaction."""
        steps: list[dict[str, Any]] = []
        for partition, number, offset in records:
            content = self._sent_content(producer, partition, number)
            end = {} if offset is None else {"offset": offset}
            steps.append({"f": "send", **self._places[partition], **content, **end})
        if offsets:
            steps.append({"f": "commit", "offsets": self._offsets(sorted(offsets.items()))})
        return steps

    # --- consumers

    def poll(self, head: EventHead) -> None:
        self._event(head, "invoke", "poll")

    def polled(self, head: EventHead, records: Records) -> None:
        self._event(head, "ok", "poll", records=self._records(records))

    def handle(self, head: EventHead, records: Records) -> None:
        self._instant(head, "handle", records=self._records(records))

    def _records(self, records: Records) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for partition, batch in records:
            place, epoch = self._places[partition], {"leader_epoch": batch.epoch} if batch.epoch >= 0 else {}
            for offset, number in enumerate(range(batch.first, batch.values_end), batch.base):
                content = self._content(batch.producer, partition, number)
                found.append({**place, "offset": offset, **content, **epoch})
        return found

    def commit(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        self._instant(head, "commit", offsets=self._offsets(offsets))

    def assign(self, head: EventHead, offsets: Positions) -> None:
        self._instant(head, "assign", offsets=self._offsets(offsets))

    def committing(self, head: EventHead, offsets: list[tuple[int, int]]) -> None:
        self._event(head, "invoke", "commit", offsets=self._offsets(offsets))

    def committed(
        self, head: EventHead, offsets: list[tuple[int, int]], outcome: str, error: str, membership: Membership
    ) -> None:
        end = _error(error) or _member(membership)
        self._event(head, outcome, "commit", offsets=self._offsets(offsets), **end)

    def assign_by_group(
        self, head: EventHead, offsets: Positions, assignment: tuple[int, ...], membership: Membership
    ) -> None:
        owned = [self._places[partition] for partition in assignment]
        places = self._offsets(offsets)
        self._instant(head, "assign", group=True, offsets=places, assignment=owned, **_member(membership))

    def revoke(self, head: EventHead, partitions: tuple[int, ...], membership: Membership) -> None:
        places = self._offsets((partition, None) for partition in partitions)
        self._instant(head, "assign", group=True, revoked=True, offsets=places, **_member(membership))

    def seek(self, head: EventHead, offsets: Positions) -> None:
        self._instant(head, "seek", offsets=self._offsets(offsets))

    def _offsets(self, offsets: Iterable[tuple[int, int | None]]) -> list[dict[str, Any]]:
        return [{**self._places[partition], "offset": offset} for partition, offset in offsets]

    def crash(self, head: EventHead, reason: str) -> None:
        self._instant(head, "crash", reason=reason)

    # --- administrators and faults

    def end_offsets(self, invoked: int, time: int, offsets: dict[int, OffsetRange]) -> None:
        self._admin += 1
        ends = [{**self._places[p], "offset": end, "start": start} for p, (start, end) in sorted(offsets.items())]
        self._event(EventHead(invoked, "admin", self._admin), "invoke", "end_offsets")
        self._event(EventHead(time, "admin", self._admin), "ok", "end_offsets", offsets=ends)

    def fault(self, time: int, kind: str, nodes: tuple[str, ...], is_heal: bool, extra: dict[str, object]) -> None:
        self._nemesis += 1
        name = HEALS.get(kind, KINDS.get(kind, kind)) if is_heal else KINDS.get(kind, kind)
        fault: dict[str, object] = {"kind": name, "nodes": nodes}
        if not is_heal:
            fault.update(extra)
        if kind in ("delete-records", "add-partitions"):
            fault["topic"] = self._topic
        if kind == "add-partitions":
            fault["partitions"] = self._partitions
        self._instant(EventHead(time, "nemesis", self._nemesis), "heal" if is_heal else "fault", fault=fault)


def _error(error: str) -> dict[str, Any]:
    return {"error": error} if error else {}


def _member(membership: Membership) -> dict[str, Any]:
    member, generation = membership
    return {"member": member, "generation": generation} if member else {}
