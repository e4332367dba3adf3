"""Reads histories of Jepsen's kafka workload: EDN, one operation map a line, as `history.edn` of a Jepsen store.

    {:index 4, :time 2720, :type :ok, :process 0, :f :txn, :value [[:send 6 [10 1]] [:poll {:x [[0 2]]}]]}

Source: jepsen/tests/kafka.clj of github.com/jepsen-io/jepsen. An operation becomes an event as follows:

- Keys are topics, each with the partition 0. `text_of` in jepsen_operations.py makes texts of keys and values: integers
  and keywords are plain (`1`, `x`), and scalars that look like one of these are marked, so different EDN scalars have
  different texts.
- The time is `:time`, or else `:index`. An operation without both is malformed.
- `:send` with one send is f `send`; `:poll` is f `poll` with the records of all its polls in order; `:txn`, and `:send`
  with several sends or none, is f `txn`. Jepsen only looks at the sends of `:send` and `:txn` and at the polls of
  `:poll` and `:txn`. So a poll inside `:send` and a send inside `:poll` are left out.
- A completion of `:send` with the value nil is indeterminate; one of `:txn` has no steps.
- A malformed line of the nemesis cannot hide an operation of a client (`of_nemesis` of QUARANTINE).
- `{:x []}` in a poll becomes a record of topic x without offset and value: x was polled and returned no records.
- `:assign` and `:subscribe` have keys, `:crash` has none. `:assign` with `:seek-to-beginning? true` sets offset 0.
- `:rebalance-log [{:keys […]} …]` becomes `rebalanced`.
- Processes other than integers are not clients: their operations are faults or heals (`:start`, `:heal` and the like).
- Other `:f` of clients (`:debug-topic-partitions`) make no event; other entries of an operation are ignored.
- An operation may have several lines if all but its first begin with a blank. pprint writes it so, and Clojure writes
  the `#error` of an exception so. It is an event of its first line. If a block of a large file ends within it, it is
  malformed.

Operations have no identifiers: the completion of an event is the next event of its process (`op` is null). Malformed
lines are quarantined. A line is parsed without those before it, so a history may be parsed in pieces.

jepsen_columns.py reads the common lines as columns, jepsen_operations.py and edn.py the others one by one, with the
same result. On one core, columns take 300,000 lines a second, the parser of edn.py 15,000, and edn-format 0.8, which
is pure Python too, 1,900.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import polars as pl

from ..tables import EVENTS, QUARANTINE
from . import edn
from .contents import LOG
from .jepsen_operations import event
from .lines import MalformedError, decode_line, lines_of, parse_each

NAME = "jepsen"
CONTENT = LOG
_BLOCK = 6 << 20  # bytes; the arrays of a block fit into the processor's cache
_END = re.compile(rb"\n(?![ \t])")  # of an operation's last line

_KAFKA = re.compile(
    rb"^(?:\xef\xbb\xbf)?[ \t\r,]*(?:#[\w.]+\s*)?\{\s*:(?:[^\n]*|[^{}]*?)"
    rb"(?::f\s+:(?:send|poll|assign|subscribe|crash|debug-topic-partitions)\b|\[:(?:send|poll)\b)",
    re.MULTILINE,
)


def recognises(head: bytes) -> bool:
    """Whether a line begins a map with an operation of the kafka workload."""
    return _KAFKA.search(head) is not None


def parse(blob: bytes, source: str = "") -> tuple[pl.DataFrame, pl.DataFrame]:  # noqa: ARG001
    """EVENTS and QUARANTINE of complete lines."""
    events = [pl.DataFrame(schema=EVENTS)]
    malformed = [pl.DataFrame(schema=QUARANTINE)]
    first = 0
    for block in _blocks(blob):
        lines = lines_of(block)
        found, quarantined = _parse(lines)
        events.append(found.with_columns(pl.col("line") + first))
        malformed.append(quarantined.with_columns(pl.col("line") + first))
        first += len(lines)
    return pl.concat(events), pl.concat(malformed)


def _blocks(blob: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(blob):
        end = _END.search(blob, start + _BLOCK)
        stop = end.end() if end else len(blob)
        yield blob[start:stop]
        start = stop


def _parse(lines: list[bytes]) -> tuple[pl.DataFrame, pl.DataFrame]:
    from . import jepsen_columns  # pyarrow, which it uses, takes a while to load

    events, is_read = jepsen_columns.read(lines)
    unread = (~is_read).nonzero()[0].tolist()
    joined = _operations_of_several_lines(lines, unread)
    continuations = {number + more for number, text in joined.items() for more in range(1, text.count(b"\n") + 1)}
    texts = [joined.get(number, line) for number, line in enumerate(lines)] if joined else lines
    rows, malformed = parse_each(texts, [number for number in unread if number not in continuations], event)
    if rows:
        events = pl.concat([events, pl.DataFrame(rows, schema=EVENTS)]).sort("line")
    return events, malformed


def _operations_of_several_lines(lines: list[bytes], unread: list[int]) -> dict[int, bytes]:
    """The texts of forms that go on in lines that begin with a blank, by the number of their first line."""
    runs: list[list[int]] = []  # adjacent lines, all but the first with a blank
    for before, number in pairwise([-2, *unread]):
        if number - 1 == before and lines[number][:1] in (b" ", b"\t"):
            runs[-1].append(number)
        else:
            runs.append([number])
    several = [run for run in runs if len(run) > 1]
    return {run[0] + first: text for run in several for first, text in _forms_of_several_lines(lines, run)}


def _forms_of_several_lines(lines: list[bytes], numbers: list[int]) -> Iterator[tuple[int, bytes]]:
    """The forms in adjacent lines that have several of these: the first one (from 0), and the text."""
    joined = b"\n".join(lines[number] for number in numbers)
    try:
        text = decode_line(joined)
        starts = [text.count("\n", 0, position) for position, _ in edn.forms(text)]
    except (edn.EdnError, MalformedError):
        return
    for first, stop in pairwise([*starts, len(numbers)]):
        if stop - first > 1:
            yield first, b"\n".join(lines[number] for number in numbers[first:stop])
