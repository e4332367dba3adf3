"""Reads the common lines of Jepsen's kafka histories as columns, without Python objects for each line.

A common line is an operation map as Clojure prints it. Its entries are in an order of `_ORDERS`. Its processes, offsets
and values are integers, its keys are integers or keywords. Further entries (:error, :rebalance-log) may follow. A
regular expression of polars selects these lines. jepsen_operations.py reads the others, and polls with a duplicate key,
which a regular expression cannot find.

Tokens are the runs of bytes between blanks, commas and brackets. The role of a token in the value follows from the
bytes before it, that of any other token from its place, counted from an end of the line. numpy finds the tokens and
roles of all lines at once, and polars makes texts and numbers of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ...models.arrays import Bytes, Ints, Mask
from .. import arrow
from ..tables import EVENTS, POSITION, RECORD, STEP, Schema, complete
from . import edn
from .edn import INT, KEY, vector_of
from .jepsen_operations import notes
from .lines import MalformedError, texts

_ORDERS = (  # of the entries; op stands for :f and :value
    ("index", "time", "type", "process", "op"),  # jepsen.history's
    ("time", "type", "process", "op"),
    ("type", "op", "time", "process", "index"),  # older ones
    ("type", "op", "time", "process"),
    ("type", "op", "process", "time", "index"),
    ("type", "op", "process", "time"),
    ("process", "type", "op", "time", "index"),
    ("process", "type", "op", "time"),
)


_RECORD = rf"\[(?:{INT}|nil) {INT}\]"
_POLLED = rf"{KEY} {vector_of(_RECORD)}"
_SEND_STEP = rf"\[:send {KEY} (?:{INT}|{_RECORD})\]"
_POLL_STEP = rf"\[:poll(?: \{{(?:{_POLLED}(?:, {_POLLED})*)?\}})?\]"
_ENTRIES = {
    "index": rf":index {INT}",
    "time": rf":time {INT}",
    "type": r":type :(?:invoke|ok|fail|info)",
    "process": rf":process {INT}",
    "op": rf":f :(?:send, :value {vector_of(_SEND_STEP)}|poll, :value (?:nil|{vector_of(_POLL_STEP)})"
    rf"|txn, :value (?:nil|{vector_of(f'(?:{_SEND_STEP}|{_POLL_STEP})')})"
    rf"|(?:assign|subscribe|crash), :value (?:nil|{vector_of(KEY)}))",
    "silent": rf":f :debug-topic-partitions, :value (?:nil|{vector_of(KEY)})",  # makes no event
}
_ODD_KEYWORDS = [":nil", ":true", ":false"]  # text_of keeps their colons
_DELIMITERS = b" ,[]{}\n\r"
_IS_DELIMITER = bytes(byte in _DELIMITERS for byte in range(256))
_FUNCTIONS = ("send", "poll", "txn", "assign", "subscribe", "crash")
_SEND, _POLL, _TXN, _ASSIGN, _SUBSCRIBE, _CRASH = range(6)


def read(lines: list[bytes]) -> tuple[pl.DataFrame, Mask]:
    """The events of the common lines, in order, and a mask of these lines."""
    remaining = texts(lines).to_frame().with_row_index("line").cast({"line": pl.Int64})
    remaining = remaining.filter(~pl.col("text").str.contains_any(_ODD_KEYWORDS))  # also drops the nulls
    done = np.zeros(len(lines), dtype=bool)
    frames = [pl.DataFrame(schema=EVENTS)]
    for order in _ORDERS:
        candidates = remaining.filter(pl.col("text").str.starts_with(f"{{:{order[0]} "))
        if not candidates.height:
            continue
        plain = candidates["text"].str.contains(_pattern(order, "op"))
        rest = candidates.filter(~plain)
        annotated = _with_annotations(rest, order)
        common = candidates.filter(plain)
        if annotated.height:
            common = pl.concat([common, annotated], how="diagonal").sort("line")
        common, events = _events(common, order)
        frames.append(events)
        silent = rest.filter(pl.col("text").str.contains(_pattern(order, "silent")))
        for read_now in (common, silent):
            done[read_now["line"].to_numpy()] = True
        remaining = remaining.filter(~pl.Series(done).gather(remaining["line"]))
    events = pl.concat(frames, how="diagonal")
    return (events if events["line"].is_sorted() else events.sort("line")), done


def _pattern(order: tuple[str, ...], op: str) -> str:
    """The regular expression of a line with these entries."""
    return rf"^\{{{', '.join(_ENTRIES[op if name == 'op' else name] for name in order)}\}}\r?$"


def _with_annotations(lines: pl.DataFrame, order: tuple[str, ...]) -> pl.DataFrame:
    """The lines that begin with these entries, without their further entries, and with the columns of those."""
    if order[-1] == "op":  # in a poll's value, a list of records follows a comma and a key
        before = r"^(\{.*? :value .*?), :[a-z?-]+ (?:[^\[ ]|\[[^\[\]])"
    else:
        before = rf"^(\{{.*?:{order[-1]} {INT}), :"
    parts = lines.with_columns(head=pl.col("text").str.extract(before)).drop_nulls("head")
    after = pl.col("text").str.slice(pl.col("head").str.len_chars() + len(", "))
    parts = parts.select("line", text=pl.col("head") + "}", rest=after.str.extract(r"^(.*)\}\r?$"))
    parts = parts.filter(pl.col("text").str.contains(_pattern(order, "op"))).drop_nulls()
    names = {"f", "value", *order}
    notes_of = {rest: _notes(rest, names) for rest in parts["rest"].unique()}
    rows = [{"rest": rest, **columns} for rest, columns in notes_of.items() if columns is not None]
    schema: Schema = {"rest": pl.String, "error": pl.String, "rebalanced": pl.List(pl.String)}
    return parts.join(pl.DataFrame(rows, schema=schema), on="rest", maintain_order="left").drop("rest")


def _notes(rest: str, names: set[str]) -> dict[str, Any] | None:
    """The columns of further entries; None if they are malformed, repeat an earlier entry, or change the event."""
    try:
        entries = edn.by_name(edn.loads(f"{{{rest}}}"))
        # :seek-to-beginning? changes the event of an assignment.
        return None if {*names, "seek-to-beginning?"} & entries.keys() else notes(entries)
    except (edn.EdnError, MalformedError):
        return None


@dataclass(frozen=True)
class _Tokens:
    """The tokens of some lines, in one sequence."""

    data: Bytes  # the text of the lines
    start: Ints  # of each token, in the data
    end: Ints
    text: pl.Series
    first: Ints  # token of each line

    def byte(self, tokens: Ints, index: int) -> Bytes:
        """The byte with this index of each of these tokens; an index below 0 is that of a byte before the token."""
        return self.data[self.start[tokens] + index]


def _tokens(text: pl.Series) -> _Tokens:
    blob = b"\n" + text.str.join("\n").item().encode() + b"\n"
    data = np.frombuffer(blob, dtype=np.uint8)
    delimiter = np.frombuffer(blob.translate(_IS_DELIMITER), dtype=np.uint8)
    start = np.flatnonzero(delimiter[:-1] > delimiter[1:]) + 1
    end = np.flatnonzero(delimiter[:-1] < delimiter[1:]) + 1
    offsets = np.concatenate(([0], np.cumsum(end - start)))
    letters = pa.py_buffer(blob.translate(None, delete=_DELIMITERS))
    array = pa.LargeStringArray.from_buffers(len(start), pa.py_buffer(offsets), letters)
    lines = np.flatnonzero(data == ord("\n"))[:-1]
    return _Tokens(data, start, end, pl.Series(array), np.searchsorted(start, lines))


def _events(lines: pl.DataFrame, order: tuple[str, ...]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The lines that are common, and their events. A line with a duplicate key is dropped."""
    if not lines.height:
        return lines, pl.DataFrame(schema=EVENTS)
    tokens = _tokens(lines["text"])
    count = order.index("op")
    last = np.append(tokens.first[1:], len(tokens.start)) - 1
    at = {name: tokens.first + 2 * i + 1 for i, name in enumerate(order[:count])}
    at |= {name: last - 2 * i for i, name in enumerate(reversed(order[count + 1 :]))}
    function = _functions(tokens, tokens.first + 2 * count + 1)
    begin = tokens.first + 2 * count + 3
    values = _Values(tokens, begin, last + 1 - 2 * len(order[count + 1 :]), function)
    uncommon = values.lines_with_duplicate_key()
    if uncommon.size:
        keep = np.ones(lines.height, dtype=bool)
        keep[uncommon] = False
        return _events(lines.filter(keep), order)
    return lines, lines.drop("text").with_columns(
        time=tokens.text.gather(at["time"]).cast(pl.Int64),
        process=tokens.text.gather(at["process"]),
        type=tokens.text.gather(at["type"]).str.strip_prefix(":"),
        **values.columns(),
    )


def _functions(tokens: _Tokens, at: Ints) -> Ints:
    """The function of each line (an index of _FUNCTIONS) by its first letters."""
    by_letter = np.zeros(256, dtype=np.int64)
    for number, name in enumerate(_FUNCTIONS):
        by_letter[ord(name[0])] = number
    function = by_letter[tokens.byte(at, 1)]
    function[(function == _SUBSCRIBE) & (tokens.byte(at, 2) == ord("e"))] = _SEND
    return function


class _Values:
    """The tokens of the values of all lines, in one sequence, and the role of each.

    In `[[:send 7 [0 5]] [:poll {8 [[3 9] [4 nil]]}]]` :send and :poll are steps, 8 is the key of a poll, 0, 3 and 4 are
    offsets, and 5, 9 and nil are values. 7 has no role, as the key of a send follows its step.
    """

    def __init__(self, tokens: _Tokens, begin: Ints, stop: Ints, function: Ints) -> None:
        has_no_value = tokens.byte(np.minimum(begin, len(tokens.start) - 1), -1) == ord(" ")  # nil, without a bracket
        count = np.where(has_no_value, 0, stop - begin)
        self.tokens = tokens
        self.function = function  # of each line
        self.token = np.arange(count.sum()) + np.repeat(begin - np.cumsum(count) + count, count)
        self.line = np.repeat(np.arange(len(count)), count)
        before = tokens.byte(self.token, -1)
        self.is_keyword = tokens.byte(self.token, 0) == ord(":")
        has_steps = (function <= _TXN)[self.line]
        in_vector = has_steps & (before == ord("["))
        self.is_step = in_vector & self.is_keyword
        self.is_send = self.is_step & (tokens.byte(self.token, 1) == ord("s"))
        after_comma = (before == ord(" ")) & (tokens.byte(self.token, -2) == ord(","))
        self.is_poll_key = has_steps & ((before == ord("{")) | after_comma)
        is_send_key = np.append(False, self.is_step[:-1]) & ~self.is_step & ~self.is_poll_key
        self.is_offset = in_vector & ~self.is_step
        self.is_value = has_steps & ~(self.is_step | self.is_poll_key | self.is_offset | is_send_key)
        self.step = np.cumsum(self.is_step) - 1  # the number of the step that has the token

    def lines_with_duplicate_key(self) -> Ints:
        """The lines with a poll that has a key twice."""
        at = np.flatnonzero(self.is_poll_key)
        step = self.step[at]
        at = at[np.bincount(step)[step] > 1] if at.size else at
        keys = pl.DataFrame({"step": self.step[at], "key": self._text(at)})
        return np.unique(self.line[at[keys.is_duplicated().to_numpy()]])

    def columns(self) -> dict[str, pl.Series]:
        """The columns of the events that come from the values."""
        records, steps, function = self._records(), self._steps(), self.function
        record = _complete(records, RECORD).to_struct()
        is_poll_step = (steps["f"] == "poll").to_numpy()
        steps = steps.with_columns(records=_lists(record, records["step"].to_numpy(), is_poll_step))
        step = _complete(steps, STEP)
        count = np.bincount(self.line[self.is_step], minlength=len(function))
        is_single = (function == _SEND) & (count == 1)
        is_txn = (function == _TXN) | (function == _SEND) & ~is_single
        sent = {}
        if step.height:
            first = step[(np.cumsum(count) - count).clip(0, step.height - 1)]
            sent = {name: _where(is_single, first[name]) for name in ("topic", "partition", "offset", "value")}
        assigned, subscribed = (np.flatnonzero((function == f)[self.line]) for f in (_ASSIGN, _SUBSCRIBE))
        position = _complete(pl.DataFrame({"topic": self._topic(assigned)}), POSITION).to_struct()
        return sent | {
            "f": pl.Series(_FUNCTIONS, dtype=pl.String).gather(np.where(is_txn, _TXN, function)),
            "records": _lists(record, records["line"].to_numpy(), function == _POLL),
            "ops": _lists(step.to_struct(), steps["line"].to_numpy(), is_txn),
            "offsets": _lists(position, self.line[assigned], function == _ASSIGN),
            "topics": _lists(self._topic(subscribed), self.line[subscribed], function == _SUBSCRIBE),
        }

    def _text(self, at: Ints) -> pl.Series:
        return self.tokens.text.gather(self.token[at])

    def _topic(self, at: Ints) -> pl.Series:
        topic = self._text(at)
        return topic.str.strip_prefix(":") if self.is_keyword[at].any() else topic

    def _records(self) -> pl.DataFrame:
        """The records of all polls: line, step, topic, offset, value. A key without records has one with nulls."""
        keys = np.flatnonzero(self.is_poll_key)
        after = self.tokens.end[self.token[keys]] + len(" [")
        is_of_send = np.append(self.is_send[self.is_step], False)  # the last: of tokens before any step
        is_record = self.is_value & ~is_of_send[self.step]
        is_record[keys[self.tokens.data[after] == ord("]")]] = True
        at = np.flatnonzero(is_record)
        key = np.maximum.accumulate(np.where(self.is_poll_key, np.arange(len(is_record)), 0))[at]
        has_value = self.is_value[at]
        return pl.DataFrame(
            {
                "line": self.line[at],
                "step": self.step[at],
                "topic": self._topic(key),
                "offset": _where(has_value, self._text(at - has_value)).cast(pl.Int64, strict=False),  # of nil: null
                "value": _where(has_value, self._text(at)),
            }
        )

    def _steps(self) -> pl.DataFrame:
        """The sends and polls: line, f, and topic, offset and value of a send."""
        at = np.flatnonzero(self.is_step)
        is_send, last = self.is_send[at], len(self.token) - 1
        third = np.minimum(at + 2, last)
        has_offset = is_send & self.is_offset[third]
        return pl.DataFrame(
            {
                "line": self.line[at],
                "f": pl.Series(("poll", "send")).gather(is_send.astype(np.int64)),
                "topic": _where(is_send, self._topic(np.minimum(at + 1, last))),
                "offset": _where(has_offset, self._text(third)).cast(pl.Int64, strict=False),
                "value": _where(is_send, self._text(np.minimum(at + 2 + has_offset, last))),
            }
        )


def _complete(rows: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """The rows with the columns of the schema. Jepsen's keys are topics of one partition; what is missing is null."""
    partition = pl.when(pl.col("topic").is_not_null()).then(pl.lit(0, pl.Int32))
    return complete(rows.with_columns(partition=partition), schema)


def _where(present: Mask, series: pl.Series) -> pl.Series:
    """The series, null where not present."""
    if present.all():
        return series
    return series.zip_with(pl.Series(present), pl.Series([None], dtype=series.dtype))


def _lists(items: pl.Series, owner: Ints, present: Mask) -> pl.Series:
    """A list of items for each owner (a number from 0). The items are ordered by owner.

    Owners that are not present have null, and their items are left out.
    """
    has_owner = present[owner]
    if not has_owner.all():
        items, owner = items.filter(has_owner), owner[has_owner]
    ends = np.cumsum(np.bincount(owner, minlength=len(present)))
    return pl.Series(arrow.lists(ends, items.to_arrow(compat_level=pl.CompatLevel.newest()), present))
