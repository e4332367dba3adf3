"""Histories of Jepsen's kafka workload: EDN, one operation map a line, as `history.edn` of a Jepsen store is.

    {:index 4, :time 2720, :type :ok, :process 0, :f :txn, :value [[:send 6 [10 1]] [:poll {:x [[0 2]]}]]}

Source: jepsen/tests/kafka.clj of github.com/jepsen-io/jepsen. How an operation becomes an event:

- Keys are topics, each with the partition 0. A key or value becomes text by `text_of` in
  jepsen_operations.py: integers and keywords plain (`1`, `x`), and whatever could be taken for one of these
  marked, so that different EDN scalars are different texts.
- The time is `:time`, or `:index` where there is none. An operation without both is malformed.
- `:send` with one send is f `send`; `:poll` is f `poll` with the records of all its polls in order; `:txn`,
  and `:send` with several sends or none, is f `txn`. Jepsen looks at the sends of `:send` and `:txn` and at
  the polls of `:poll` and `:txn` alone: a poll inside `:send`, or a send inside `:poll`, is left out here.
- `{:x []}` in a poll becomes a record of topic x without offset and value: polled, and gave nothing.
- `:assign` and `:subscribe` carry keys, `:crash` nothing; `:rebalance-log [{:keys […]} …]` becomes
  `rebalanced`.
- Processes other than integers are no clients: what they do is a fault (`:start`, `:heal` and the like: a
  heal).
- Other `:f` of clients (`:debug-topic-partitions`) make no event; other entries of an operation are ignored.

Operations have no identifiers: an event's completion is the next event of its process (`op` is null).
Malformed lines are quarantined. Nothing depends on the lines before, so that a history may be parsed in
pieces.

The lines that such histories mostly consist of are read as columns (jepsen_columns.py), the others one by
one in Python (jepsen_operations.py, edn.py), with the same result. On one core of the machine it was written
on, columns take 300,000 lines a second, the parser of edn.py 15,000, and edn-format 0.8, which is pure
Python too, 1,900.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import polars as pl

from ..tables import EVENTS, QUARANTINE
from . import jepsen_columns
from .contents import LOG
from .jepsen_operations import event
from .lines import one_by_one

NAME = "jepsen"
CONTENT = LOG
_BLOCK = 6 << 20  # bytes; the arrays of a block stay in a processor's cache

_KAFKA = re.compile(
    rb"^(?:\xef\xbb\xbf)?[\s,]*(?:#[\w.]+\s*)?\{\s*:[^\n]*"
    rb"(?::f\s+:(?:send|poll|assign|subscribe|crash|debug-topic-partitions)\b|\[:(?:send|poll)\b)",
    re.MULTILINE,
)


def recognises(head: bytes) -> bool:
    """Whether a line begins a map and holds an operation of the kafka workload."""
    return _KAFKA.search(head) is not None


def parse(blob: bytes, source: str = "") -> tuple[pl.DataFrame, pl.DataFrame]:  # noqa: ARG001
    """The events and the malformed lines of whole lines."""
    events = [pl.DataFrame(schema=EVENTS)]
    malformed = [pl.DataFrame(schema=QUARANTINE)]
    first = 0
    for block in _blocks(blob):
        lines = block.split(b"\n")
        if not lines[-1]:
            lines.pop()
        found, quarantined = _parse(lines)
        events.append(found.with_columns(pl.col("line") + first))
        malformed.append(quarantined.with_columns(pl.col("line") + first))
        first += len(lines)
    return pl.concat(events), pl.concat(malformed)


def _blocks(blob: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(blob):
        stop = blob.find(b"\n", start + _BLOCK) + 1 or len(blob)
        yield blob[start:stop]
        start = stop


def _parse(lines: list[bytes]) -> tuple[pl.DataFrame, pl.DataFrame]:
    events, read = jepsen_columns.read(lines)
    rows, malformed = one_by_one(lines, (~read).nonzero()[0].tolist(), event)
    if rows:
        events = pl.concat([events, pl.DataFrame(rows, schema=EVENTS)]).sort("line")
    return events, malformed
