"""The native history: JSON lines of the run bundle (format 1).

Great blocks go through compiled loops that know the plain lines of the format (`native_scan.py`). What these leave,
and small blocks, for which loading the loops would cost more than it saves, go through polars' JSON reader, which is
strict once it is given a schema. What that refuses is taken line by line, so that one bad line costs no other.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson
import polars as pl

from ..tables import EVENTS, FUNCTIONS, MAX_OFFSET, QUARANTINE, TYPES, Schema, complete
from .contents import LOG

NAME = "native"
CONTENT = LOG

# What is read from the file; the rest of EVENTS is added.
_FIELDS: Schema = {name: kind for name, kind in EVENTS.items() if name not in ("line", "rebalanced", "synthetic")}
_INTEGERS = ("time", "op", "partition", "offset", "timestamp")
_LISTS = ("records", "ops", "offsets", "topics")
_FLAGS = ("group", "revoked", "auto")
# Bytes that a process parses before it loads the compiled loops: loading takes as long as parsing so many without them.
SCANNED_FROM = 8 << 20
MIN_SCANNED_BYTES = 64 << 10  # of a block that goes through the loops once they are loaded


def recognises(head: bytes) -> bool:
    """A JSON object with `process` and `type` among the first lines."""
    for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:50]:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict) and "process" in event and "type" in event and "f" in event:
            return True
    return False


def parse(blob: bytes, source: str = "") -> tuple[pl.DataFrame, pl.DataFrame]:  # noqa: ARG001
    """Whole lines to (EVENTS, QUARANTINE), `line` counting from 0. Never raises, whatever the bytes."""
    blob = blob.removeprefix(b"\xef\xbb\xbf")
    if not _is_worth_scanning(len(blob)) or not _is_utf8(blob):
        return _parse_lines(list(enumerate(blob.split(b"\n"))))
    from . import native_columns

    events, left = native_columns.read(blob)
    if not left:
        return events, pl.DataFrame(schema=QUARANTINE)
    others, bad = _parse_lines(left)
    return pl.concat([events, others]).sort("line"), bad


def _is_worth_scanning(size: int) -> bool:
    """Whether a block of so many bytes goes through the compiled loops. Counts the bytes that this process parses."""
    _parsed["bytes"] += size
    return _parsed["bytes"] >= SCANNED_FROM and size >= min(MIN_SCANNED_BYTES, SCANNED_FROM)


_parsed = {"bytes": 0}


def _is_utf8(blob: bytes) -> bool:
    try:
        return blob.isascii() or bool(blob.decode())
    except UnicodeDecodeError:
        return False


def _parse_lines(lines: Sequence[tuple[int, bytes]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Numbered lines by polars. Bad ones are told apart first: of a key given twice it would take the first."""
    good: list[tuple[int, bytes]] = []
    bad: list[tuple[int, str]] = []
    for number, line in lines:
        text = line.strip(b" \t\r")
        if not text:
            continue
        reason = _reason(text)
        if reason:
            bad.append((number, reason))
        else:
            good.append((number, text))
    accepted, refused = checked(_bisect(good, bad))
    quarantine = pl.DataFrame(bad, schema=QUARANTINE, orient="row")
    return accepted, pl.concat([quarantine, refused]).sort("line")


def _numbered(lines: list[tuple[int, bytes]]) -> pl.DataFrame:
    """A row a line. Raises PolarsError or ValueError where a line is no object or has a field of the wrong type."""
    blob = b"\n".join(text for _, text in lines)
    events = pl.read_ndjson(io.BytesIO(blob), schema=_FIELDS) if blob else pl.DataFrame(schema=_FIELDS)
    # A wrong number of rows is a ValueError: something was taken for more than one object.
    return events.insert_column(0, pl.Series("line", [number for number, _ in lines], dtype=pl.Int64))


def _bisect(lines: list[tuple[int, bytes]], bad: list[tuple[int, str]]) -> pl.DataFrame:
    """Reads the lines, halving at a failure until the lines that polars refuses stand alone."""
    try:
        return _numbered(lines)
    except (pl.exceptions.PolarsError, ValueError):
        if len(lines) == 1:
            bad.append((lines[0][0], _refusal(lines[0][1])))
            return pl.DataFrame(schema={"line": pl.Int64, **_FIELDS})
    half = len(lines) // 2
    return pl.concat([_bisect(lines[:half], bad), _bisect(lines[half:], bad)])


def _refusal(text: bytes) -> str:
    """Why polars refused a line, by field and shape: its own words name neither."""
    found = _odd_shape(orjson.loads(text), pl.Struct(_FIELDS), "")
    return found or "found an event that cannot be read, expected one as in docs/format.md"


def _odd_shape(value: Any, expected: Any, where: str) -> str:
    """The first part of a value that is not as the schema has it, or nothing. Null is allowed everywhere."""
    if value is None:
        return ""
    if isinstance(expected, pl.Struct):
        if not isinstance(value, dict):
            return f"{where}: expected an object, found {_kind(value)}"
        parts = [(value.get(field.name), field.dtype, f"{where}.{field.name}") for field in expected.fields]
    elif isinstance(expected, pl.List):
        if not isinstance(value, list):
            return f"{where}: expected a list, found {_kind(value)}"
        parts = [(item, expected.inner, f"{where}[{number}]") for number, item in enumerate(value)]
    else:
        for kinds, accepted, words in (
            (pl.Boolean, bool, "true or false"),
            (pl.Int64, int, "an integer of 64 bits"),
            (pl.Int32, int, "an integer of 32 bits"),
        ):
            is_wide = kinds == pl.Int32 and isinstance(value, int) and not -(2**31) <= value < 2**31
            if expected == kinds and (not isinstance(value, accepted) or is_wide or _is_odd_integer(value, accepted)):
                return f"{where}: expected {words}, found {_kind(value)}"
        return ""  # anything can be taken as text
    return next((odd for part in parts if (odd := _odd_shape(part[0], part[1], part[2].lstrip(".")))), "")


def _one_line(message: str) -> str:
    return message.split("\n", 1)[0][:200]


def _reason(text: bytes) -> str:
    """Why a line is no event as JSON, or nothing. Types are checked here only to say it in plain words."""
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"no JSON: {_one_line(str(error))}"
    if not isinstance(event, dict):
        return f"found {_kind(event)}, expected a JSON object"
    if text.count(b'":') != _keys(event) and (twice := _key_given_twice(text)):
        return f"found {twice} twice in one object, expected it once"
    for names, wanted, accepted in (
        (_INTEGERS, "an integer of 64 bits", int),
        (_LISTS, "a list", list),
        (_FLAGS, "true or false", bool),
    ):
        for name in names:
            value = event.get(name)
            if value is not None and (not isinstance(value, accepted) or _is_odd_integer(value, accepted)):
                return f"found {_kind(value)} as {name}, expected {wanted}"
    return ""


def _keys(value: Any) -> int:
    """How many keys the objects in a JSON value have, however deep."""
    number, inside = 0, [value]
    while inside:
        one = inside.pop()
        if isinstance(one, dict):
            number += len(one)
            one = one.values()
        inside.extend(inner for inner in one if isinstance(inner, dict | list))
    return number


def _key_given_twice(text: bytes) -> str:
    """The first key that an object of the line has twice, or nothing."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _ in pairs)
        found.extend(name for name, count in counts.items() if count > 1)

    json.loads(text, object_pairs_hook=look)
    return found[0] if found else ""


def _is_odd_integer(value: Any, accepted: type) -> bool:
    return accepted is int and (isinstance(value, bool) or not -(2**63) <= value < 2**63)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else str(orjson.dumps(value), "utf-8", "replace")[:40]


def checked(events: pl.DataFrame, numbered: bool = True, placed: bool = True) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Splits rows into events and quarantine by what every event must have.

    Histories of other origin may have operations without number, and Jepsen's have records that are not `placed`.
    """
    of_records = ("topic", "partition", "offset") if placed else ("topic", "partition")
    no_topic = (pl.col("f") == "send") & pl.col("topic").is_null()
    reason = (
        pl.when(pl.col("time").is_null())
        .then(pl.lit("found no time, expected nanoseconds since the start"))
        .when(pl.col("process").is_null())
        .then(pl.lit("found no process, expected the name of a client"))
        .when(pl.col("op").is_null() & pl.lit(numbered))
        .then(pl.lit("found no op, expected the number of the operation"))
        .when(pl.col("type").is_in(TYPES).not_() | pl.col("type").is_null())
        .then(pl.format("found type {}, expected one of " + ", ".join(TYPES), pl.col("type").fill_null("null")))
        .when(pl.col("f").is_in(FUNCTIONS).not_() | pl.col("f").is_null())
        .then(pl.format("found f {}, expected one of " + ", ".join(FUNCTIONS), pl.col("f").fill_null("null")))
        .when(no_topic)
        .then(pl.lit("found a send without topic"))
        .when((pl.col("partition") < 0) | (pl.col("offset") < 0) | (pl.col("offset") > MAX_OFFSET))
        .then(pl.lit("found a partition or offset below 0, or beyond any log"))
        .when(_bad_items(events, "records", of_records))
        .then(pl.lit("found a record without topic, partition or offset"))
        .when(_bad_items(events, "offsets", ("topic", "partition")))
        .then(pl.lit("found an offset without topic or partition"))
        .when(_bad_items(events, "ops", ("f",)))
        .then(pl.lit("found a step of a transaction without f"))
    )
    judged = events.with_columns(reason.alias("reason"))
    if judged["reason"].null_count() == len(judged):
        return complete(events, EVENTS), pl.DataFrame(schema=QUARANTINE)
    return (
        complete(events.filter(judged["reason"].is_null()), EVENTS),
        judged.filter(pl.col("reason").is_not_null()).select(list(QUARANTINE)),
    )


def _bad_items(events: pl.DataFrame, column: str, needed: tuple[str, ...]) -> pl.Expr:
    """Rows whose list has an item without one of the needed fields."""
    items = events.select("line", column).filter(pl.col(column).list.len() > 0).explode(column)
    wrong = items.filter(
        pl.any_horizontal(pl.col(column).struct.field(name).is_null() for name in needed)
        | pl.any_horizontal(
            (~pl.col(column).struct.field(name).is_between(0, MAX_OFFSET)).fill_null(False)
            for name in needed
            if name in ("partition", "offset")
        )
        if column != "ops"
        else pl.col(column).struct.field("f").is_null()
    )
    return pl.col("line").is_in(wrong["line"].unique().implode()) if len(wrong) else pl.lit(False)
