"""Reads the JSON lines of Kafka's VerifiableProducer and VerifiableConsumer (org.apache.kafka.tools).

    {"timestamp":1795253745865,"name":"producer_send_success","key":"1","value":"7.1","topic":"t","partition":0,"offset":0}
    {"timestamp":1795253745840,"name":"record_data","key":"0","value":"7.0","topic":"t","partition":2,"offset":0}

Times are converted from milliseconds to nanoseconds since 1970. The names become these events:

- `producer_send_success`: a send with ok. An offset of -1 (acks=0: the broker returns none) becomes null.
- `producer_send_error`: a send with info, as a timeout or a lost connection leaves the outcome indeterminate.
- `record_data` (the consumer's --verbose): a poll of one record. `records_consumed` repeats these as sums.
- `offsets_committed`: a commit with ok, or else info.
- `partitions_assigned`, `partitions_revoked`: an assign by the group. Without partitions they make no event, as a
  revocation without partitions means all of them in EVENTS.
- `offsets_acknowledged` is malformed: VerifiableShareConsumer prints it, and a share group skips and repeats records.
- All other names make no event.

The tools only write completions. The reader adds an invocation before each, with its time and line, and `synthetic`
set: rules that need the time of invocation are unknown. `op` is null, as completion and invocation are adjacent.

A line does not name its process, and a file has one process. So the process is the stem of the file's name, or
`producer` or `consumer` where there is no name. Of a duplicate key in a JSON object, the last value counts.

A regular expression selects the frequent lines for polars; orjson parses the others one by one. polars alone is too
lenient: it accepts lone surrogates, and takes the first of two equal keys.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import orjson
import polars as pl

from ..errors import shortened
from ..tables import EVENTS, RECORD, Schema
from .contents import LOG
from .lines import INT64, MalformedError, decode_line, parse_each, texts
from .unrecognised import is_of_share_consumer

NAME = "verifiable"
CONTENT = LOG
_NAMED = re.compile(
    rb'^(?:\xef\xbb\xbf)?[ \t\r]*\{[^\n]*"name"\s*:\s*"'
    rb"(?:startup_complete|shutdown_complete|tool_data|producer_send_success|producer_send_error|record_data"
    rb'|records_consumed|offsets_committed|partitions_assigned|partitions_revoked)"',
    re.MULTILINE,
)
_SUFFIXES = frozenset((".gz", ".zst", ".json", ".jsonl", ".ndjson", ".log", ".txt", ".out"))
_MILLISECONDS = range(INT64.start // 1_000_000 + 1, INT64.stop // 1_000_000)  # that fit 64 bits as nanoseconds
_INT32 = range(1 << 31)

# The frequent lines as Jackson writes them. orjson parses all other spellings.
_TIME = r'"timestamp":(?:[1-9][0-9]{0,11}|[1-8][0-9]{12})'
_TEXT = r'"[^"\\\x00-\x1f]*"'
_KEY_VALUE = rf'"key":(?:null|{_TEXT}),"value":(?:null|{_TEXT})'
_PLACE = rf'"topic":{_TEXT},"partition":(?:0|[1-9][0-9]{{0,8}})'
_OFFSET = r'"offset":(?:0|[1-9][0-9]{0,17})'
_FREQUENT = (
    rf'^\{{{_TIME},"name":(?:"record_data",{_KEY_VALUE},{_PLACE},{_OFFSET}'
    rf'|"producer_send_success",{_KEY_VALUE},{_OFFSET},{_PLACE})\}}\r?$'
)
_FIELDS: Schema = {"name": pl.String, **RECORD}
_RECORD = ("topic", "partition", "offset", "key", "value")  # the tools do not print a record's own timestamp


def recognises(head: bytes) -> bool:
    """Whether a line is an object with a name of these tools. Share consumers print some of the same names."""
    return _NAMED.search(head) is not None and not is_of_share_consumer(head)


def parse(blob: bytes, source: str = "") -> tuple[pl.DataFrame, pl.DataFrame]:
    """EVENTS and QUARANTINE of complete lines of the file `source`."""
    lines = blob.split(b"\n")
    text = texts(lines)
    frequent = text.str.contains(_FREQUENT).fill_null(False)
    rows, malformed = parse_each(lines, (~frequent).arg_true().to_list(), completion)
    completions = [pl.DataFrame(rows, schema=EVENTS)]
    if frequent.any():
        completions.append(_columns(text.filter(frequent), frequent.arg_true()))
    return _with_invocations(pl.concat(completions, how="diagonal"), _process(source)), malformed


def _columns(text: pl.Series, line: pl.Series) -> pl.DataFrame:
    """The completions of frequent lines."""
    objects = pl.read_ndjson(io.BytesIO(text.str.join("\n").item().encode()), schema=_FIELDS)
    send = pl.col("name") == "producer_send_success"
    return objects.select(
        line=line.cast(pl.Int64),
        time=pl.col("timestamp") * 1_000_000,
        type=pl.lit("ok"),
        f=pl.when(send).then(pl.lit("send")).otherwise(pl.lit("poll")),
        **{name: pl.when(send).then(name) for name in _RECORD},
        records=pl.when(~send).then(pl.concat_list(pl.struct(*_RECORD, timestamp=pl.lit(None, pl.Int64)))),
    )


def _with_invocations(completions: pl.DataFrame, process: pl.Expr) -> pl.DataFrame:
    """The completions, each after an invocation with the fields that were known before it."""
    completions = completions.with_columns(process=process)
    unknown = {name: pl.lit(None, EVENTS[name]) for name in ("partition", "offset", "error", "records")}
    invocations = completions.with_columns(type=pl.lit("invoke"), synthetic=pl.lit(True), **unknown)
    return pl.concat([invocations, completions]).sort("line", maintain_order=True)


def _process(source: str) -> pl.Expr:
    name = PurePosixPath(source).name
    while (suffix := PurePosixPath(name).suffix) in _SUFFIXES:
        name = name.removesuffix(suffix)
    if name:
        return pl.lit(name)
    return pl.when(f="send").then(pl.lit("producer")).otherwise(pl.lit("consumer"))


def completion(line: bytes) -> dict[str, Any] | None:
    """The completion of one line (a row of EVENTS without line and process), or None."""
    text = decode_line(line).strip(" \t\r")
    if not text:
        return None
    try:
        entries = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise MalformedError(f"found {error.msg} at character {error.pos}, expected a JSON object") from None
    if not isinstance(entries, dict):
        raise MalformedError(f"found {_shown(entries)}, expected a JSON object")
    name = _string(entries, "name")
    if name not in _DATA:
        return None
    time = _integer(entries, "timestamp", _MILLISECONDS) * 1_000_000
    data = _DATA[name](entries)
    return None if data is None else {"time": time, "type": "ok", **data}


def _sent(entries: dict[str, Any]) -> dict[str, Any]:
    record = _record(entries)
    return {"f": "send", **record, "offset": None if record["offset"] == -1 else record["offset"]}


def _send_error(entries: dict[str, Any]) -> dict[str, Any]:
    kind = (_string_or_none(entries, "exception") or "").removeprefix("class ").rpartition(".")[2]
    parts = (kind, _string_or_none(entries, "message"))
    return {
        "type": "info",
        "f": "send",
        "topic": _string(entries, "topic"),
        "key": _string_or_none(entries, "key"),
        "value": _string_or_none(entries, "value"),
        "error": ": ".join(part for part in parts if part) or None,
    }


def _committed(entries: dict[str, Any]) -> dict[str, Any]:
    success = entries.get("success")
    if not isinstance(success, bool):
        raise MalformedError(f"found {_shown(success)} as success, expected true or false")
    offsets = [_place(entry) | {"offset": _integer(entry, "offset", INT64)} for entry in _objects(entries, "offsets")]
    if success:
        return {"f": "commit", "offsets": offsets}
    return {"type": "info", "f": "commit", "offsets": offsets, "error": _string_or_none(entries, "error")}


def _acknowledged(_: dict[str, Any]) -> dict[str, Any]:
    raise MalformedError("found offsets_acknowledged of VerifiableShareConsumer, expected lines of VerifiableConsumer")


def _assigned(entries: dict[str, Any], **fields: bool) -> dict[str, Any] | None:
    offsets = [_place(entry) for entry in _objects(entries, "partitions")]
    return {"f": "assign", "group": True, "offsets": offsets, **fields} if offsets else None


_DATA: dict[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "producer_send_success": _sent,
    "producer_send_error": _send_error,
    "record_data": lambda entries: {"f": "poll", "records": [_record(entries)]},
    "offsets_committed": _committed,
    "offsets_acknowledged": _acknowledged,
    "partitions_assigned": _assigned,
    "partitions_revoked": lambda entries: _assigned(entries, revoked=True),
}


def _record(entries: dict[str, Any]) -> dict[str, Any]:
    return {
        **_place(entries),
        "offset": _integer(entries, "offset", INT64),
        "key": _string_or_none(entries, "key"),
        "value": _string_or_none(entries, "value"),
    }


def _place(entries: dict[str, Any]) -> dict[str, Any]:
    return {"topic": _string(entries, "topic"), "partition": _integer(entries, "partition", _INT32)}


def _objects(entries: dict[str, Any], name: str) -> list[dict[str, Any]]:
    objects = entries.get(name)
    if not isinstance(objects, list) or not all(isinstance(entry, dict) for entry in objects):
        raise MalformedError(f"found {_shown(objects)} as {name}, expected a list of objects")
    return objects


def _integer(entries: dict[str, Any], name: str, allowed: range) -> int:
    number = entries.get(name)
    if isinstance(number, bool) or not isinstance(number, int) or number not in allowed:
        raise MalformedError(
            f"found {_shown(number)} as {name}, expected an integer from {allowed[0]} to {allowed[-1]}"
        )
    return number


def _string(entries: dict[str, Any], name: str) -> str:
    text = entries.get(name)
    if not isinstance(text, str):
        raise MalformedError(f"found {_shown(text)} as {name}, expected a string")
    return text


def _string_or_none(entries: dict[str, Any], name: str) -> str | None:
    return None if entries.get(name) is None else _string(entries, name)


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):  # may be deeply nested or long
        return "an object" if isinstance(value, dict) else "a list"
    return shortened(orjson.dumps(value).decode())
