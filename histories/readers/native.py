"""The native history: JSON lines of the run bundle (format 1).

Compiled loops (native_scan.py) read the plain lines of large blocks. polars' JSON reader reads their other lines and
small blocks, for which loading the loops takes longer than it saves. With a schema this reader is strict. Lines that
it refuses are read one by one, so that a malformed line does not affect others.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson
import polars as pl

from ..errors import describe_error
from ..files import count
from ..tables import EVENTS, FUNCTIONS, MAX_OFFSET, MAX_PARTITION, QUARANTINE, REASONS, TYPES, Schema, complete, no_rows
from .contents import LOG
from .lines import BOM

NAME = "native"
CONTENT = LOG

# The columns that a file has; the other columns of EVENTS are added.
_FIELDS: Schema = {name: kind for name, kind in EVENTS.items() if name not in ("line", "rebalanced", "synthetic")}


class _Kind(NamedTuple):
    """What a type takes from JSON."""

    accepted: type  # Python's
    bits: int  # of an integer; 0 for others
    words: str  # for messages


# Every value can be text.
_KINDS: dict[Any, _Kind] = {
    pl.Struct: _Kind(dict, 0, "an object"),
    pl.List: _Kind(list, 0, "a list"),
    pl.Boolean: _Kind(bool, 0, "true or false"),
    pl.Int64: _Kind(int, 64, "an integer of 64 bits"),
    pl.Int32: _Kind(int, 32, "an integer of 32 bits"),
}
_TYPES = {name: _KINDS[kind.base_type()] for name, kind in _FIELDS.items() if kind.base_type() in _KINDS}
_CONTAINERS = (dict, list)
NO_JSON = "no JSON"
# The greatest numbers that a log can have, by field.
MAX_NUMBERS = {"partition": MAX_PARTITION, "offset": MAX_OFFSET}
CUT = "; the file ends here without a line feed: was it cut, or is it still being written?"
# Bytes that a process parses before it loads the compiled loops: loading them takes as long as parsing these bytes.
SCANNED_FROM = 8 << 20
MIN_SCANNED_BYTES = 64 << 10  # of a block that goes through the loops once they are loaded


def recognises(head: bytes) -> bool:
    """Whether one of the first lines is a JSON object with `process`, `type` and `f`."""
    for line in head.removeprefix(BOM).split(b"\n")[:50]:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(event, dict) and "process" in event and "type" in event and "f" in event:
            return True
    return False


def parse(blob: bytes, source: str = "") -> tuple[pl.DataFrame, pl.DataFrame]:  # noqa: ARG001
    """EVENTS and QUARANTINE of complete lines; `line` counts from 0. Raises nothing, whatever the bytes."""
    blob = blob.removeprefix(BOM)
    events, malformed = _parse(blob)
    return events, _with_cut_line(malformed, blob)


def _parse(blob: bytes) -> tuple[pl.DataFrame, pl.DataFrame]:
    """`parse` without a byte order mark."""
    _parsed["bytes"] += len(blob)
    is_large = _parsed["bytes"] >= SCANNED_FROM and len(blob) >= min(MIN_SCANNED_BYTES, SCANNED_FROM)
    if not is_large or not _is_utf8(blob):
        return _parse_lines(list(enumerate(blob.split(b"\n"))))
    from . import native_columns

    events, remaining = native_columns.read(blob)
    if not remaining:
        return events, pl.DataFrame(schema=QUARANTINE)
    others, malformed = _parse_lines(remaining)
    return pl.concat([events, others]).sort("line"), malformed


def _with_cut_line(malformed: pl.DataFrame, blob: bytes) -> pl.DataFrame:
    """The malformed lines; the last one has CUT if it is no JSON and lacks a line feed, as only a file's end may."""
    last = blob[blob.rfind(b"\n") + 1 :]
    if not len(malformed) or not _malformed_reason(last.strip()).startswith(NO_JSON):
        return malformed
    number = count(blob, b"\n")
    cut = pl.when(pl.col("line") == number).then(pl.col("reason") + CUT).otherwise("reason")
    return malformed.with_columns(reason=cut)


_parsed = {"bytes": 0}  # by this process


def _is_utf8(blob: bytes) -> bool:
    try:
        return blob.isascii() or bool(blob.decode())
    except UnicodeDecodeError:
        return False


def _parse_lines(lines: Sequence[tuple[int, bytes]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """EVENTS and QUARANTINE of numbered lines. Checks each line first, as polars takes the first of two equal keys."""
    valid: list[tuple[int, bytes]] = []
    malformed: list[tuple[int, str]] = []
    for number, line in lines:
        text = line.strip(b" \t\r")
        if not text:
            continue
        reason = _malformed_reason(text)
        if reason:
            malformed.append((number, reason))
        else:
            valid.append((number, text))
    accepted, refused = check_events(_bisect(valid, malformed))
    quarantine = complete(pl.DataFrame(malformed, schema=REASONS, orient="row"), QUARANTINE)
    return accepted, pl.concat([quarantine, refused]).sort("line")


def _read_with_polars(lines: list[tuple[int, bytes]]) -> pl.DataFrame:
    """One row for each line. Raises PolarsError or ValueError for a line that is not an object or has a wrong type."""
    blob = b"\n".join(text for _, text in lines)
    events = pl.read_ndjson(io.BytesIO(blob), schema=_FIELDS) if blob else pl.DataFrame(schema=_FIELDS)
    # A wrong number of rows raises ValueError: a line had more than one object.
    return events.insert_column(0, pl.Series("line", [number for number, _ in lines], dtype=pl.Int64))


def _bisect(lines: list[tuple[int, bytes]], malformed: list[tuple[int, str]]) -> pl.DataFrame:
    """Reads the lines; after a failure in halves, until each line that polars refuses is in `malformed`."""
    try:
        return _read_with_polars(lines)
    except (pl.exceptions.PolarsError, ValueError):
        if len(lines) == 1:
            number, text = lines[0]
            # The error of polars names neither the field nor the expected type.
            reason = _schema_mismatch(orjson.loads(text), pl.Struct(_FIELDS), "")
            reason = reason or "found an event that cannot be read, expected one as in docs/format.md"
            malformed.append((number, reason))
            return pl.DataFrame(schema={"line": pl.Int64, **_FIELDS})
    half = len(lines) // 2
    return pl.concat([_bisect(lines[:half], malformed), _bisect(lines[half:], malformed)])


def _schema_mismatch(value: Any, expected: Any, where: str) -> str:
    """The first part of a value that does not match the schema, or nothing. Null matches everything."""
    accepted, bits, wanted = _KINDS.get(expected.base_type(), (object, 0, ""))
    if value is None or accepted is object:
        return ""
    if _has_other_type(value, accepted, bits):
        return f"{where}: expected {wanted}, found {_excerpt(value)}"
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(expected, pl.Struct):
        parts = [(value.get(field.name), field.dtype, f"{where}.{field.name}".lstrip(".")) for field in expected.fields]
    elif isinstance(expected, pl.List):
        parts = [(item, expected.inner, f"{where}[{number}]") for number, item in enumerate(value)]
    return next((mismatch for part in parts if (mismatch := _schema_mismatch(*part))), "")


def _malformed_reason(text: bytes) -> str:
    """What is wrong with a line; empty if it is an event. polars checks types too, with unclear errors."""
    try:
        event = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return f"{NO_JSON}: {describe_error(error)}"
    if not isinstance(event, dict):
        return f"found {_excerpt(event)}, expected a JSON object"
    keys = len(event) if text.count(b"{") == 1 else _count_keys(event)
    if text.count(b'":') != keys and (twice := _duplicate_key(text)):
        return f"found {twice} twice in one object, expected it once"
    for name, value in event.items():
        if name in _TYPES and value is not None:
            accepted, bits, wanted = _TYPES[name]
            if _has_other_type(value, accepted, bits):
                return f"found {_excerpt(value)} as {name}, expected {wanted}"
    return ""


def _count_keys(value: Any) -> int:
    """The number of keys in all objects of a JSON value, at any depth."""
    count, waiting = 0, [value]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            count += len(container)
            container = container.values()
        waiting += [item for item in container if isinstance(item, _CONTAINERS)]
    return count


def _duplicate_key(text: bytes) -> str:
    """The first key that occurs twice in one object of the line, or nothing."""
    found: list[str] = []

    def collect(pairs: list[tuple[str, Any]]) -> None:
        counts = Counter(name for name, _ in pairs)
        found.extend(name for name, count in counts.items() if count > 1)

    json.loads(text, object_pairs_hook=collect)
    return found[0] if found else ""


def _has_other_type(value: Any, accepted: type, bits: int) -> bool:
    """Whether a value is not of the type. Python's true and false are integers; JSON's are not."""
    if not bits:
        return not isinstance(value, accepted)
    return not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1


def _excerpt(value: Any) -> str:
    """A value in a message: what it is, or the first characters of its JSON."""
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else str(orjson.dumps(value), "utf-8", "replace")[:40]


def check_events(
    events: pl.DataFrame, needs_op: bool = True, needs_offset: bool = True
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """EVENTS and QUARANTINE of rows: checks the fields that every event needs.

    Without `needs_op` operations may lack a number; without `needs_offset` records may lack an offset, as in Jepsen's.
    """
    of_records = ("topic", "partition", "offset") if needs_offset else ("topic", "partition")
    col = pl.col
    checks: list[tuple[pl.Expr, pl.Expr | str]] = [
        (col("time").is_null(), "found no time, expected nanoseconds since the start"),
        (col("process").is_null(), "found no process, expected the name of a client"),
        (col("op").is_null() & pl.lit(needs_op), "found no op, expected the number of the operation"),
        _not_one_of("type", TYPES),
        _not_one_of("f", FUNCTIONS),
        ((col("f") == "send") & col("topic").is_null(), "found a send without topic, expected its topic"),
        *(_outside(name, pl.col(name)) for name in MAX_NUMBERS),
    ]
    of_items = {
        "records": (of_records, "found a record without topic, partition or offset, expected all three"),
        "offsets": (("topic", "partition"), "found an offset without topic or partition, expected both"),
        "assignment": (("topic", "partition"), "found an assignment without topic or partition, expected both"),
        "ops": (("f",), "found a step of a transaction without f, expected its function"),
    }
    for column, (needed, text) in of_items.items():
        if events[column].null_count() < len(events):
            lacks = pl.any_horizontal(pl.element().struct.field(name).is_null() for name in needed)
            checks += [(col(column).list.eval(lacks).list.any(), text)]
            checks += [_items_outside(column, name) for name in needed if name in MAX_NUMBERS]
    if not events.select(pl.any_horizontal(wrong for wrong, _ in checks).any()).item():
        return complete(events, EVENTS), no_rows(QUARANTINE)
    messages = [pl.when(wrong).then(pl.lit(text) if isinstance(text, str) else text) for wrong, text in checks]
    reasons = events.select("line", reason=pl.coalesce(messages))
    is_malformed = reasons["reason"].is_not_null()
    return complete(events.filter(~is_malformed), EVENTS), complete(reasons.filter(is_malformed), QUARANTINE)


def _not_one_of(column: str, words: tuple[str, ...]) -> tuple[pl.Expr, pl.Expr]:
    """A filter of rows with another word in the column, and the message about them."""
    found = pl.col(column).fill_null("null")
    return ~pl.col(column).is_in(words).fill_null(False), pl.format(
        f"found {column} {{}}, expected one of {', '.join(words)}", found
    )


def _outside(name: str, value: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """A filter of rows with a number that a log cannot have, and the message about them."""
    most = MAX_NUMBERS[name]
    return ~value.is_between(0, most), pl.format(f"found {name} {{}}, expected one from 0 to {most}", value)


def _items_outside(column: str, name: str) -> tuple[pl.Expr, pl.Expr]:
    """A filter of rows with such a number in an item of the list, and the message about the first one."""
    number = pl.element().struct.field(name)
    wrong, text = _outside(name, number)
    return pl.col(column).list.eval(wrong).list.any(), pl.col(column).list.eval(text.filter(wrong)).list.first()
