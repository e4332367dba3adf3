"""Reads server.log, controller.log and state-change.log: lines that match log_patterns.py become events.

Times are milliseconds since the epoch, with the wall clock of the line read as UTC: a broker logs in its local time and
does not record the time zone. clock.py finds the offset to the history's clock.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from ..files import MAX_DECOMPRESSED_BYTES, Split, blocks
from .log_patterns import PATTERNS, Pattern
from .log_prefixes import STAMP, in_kafkas_layout, split_prefix
from .tables import DAMAGE, LOG_EVENTS, Row, damage_row, unreadable_row

LITERALS = sorted({p.literal for p in PATTERNS})
MAX_LINE = 1 << 20  # bytes; a longer line cannot be of a broker
CONTEXT_BYTES = 128 << 10  # read before a range, to find the time of the line before it
MAX_LINES_BACK = 1_000  # to the time of a stack trace or a configuration; lines of other sources may be between
OVERLONG = re.compile(r"(?<!\d)0*[1-9]\d{18}(?!\w*\.log)")  # a number that is more than Kafka counts
COLUMNS = ("topic", "partition", "subject")


class LineRange(NamedTuple):
    """Complete lines of a file."""

    start: int  # byte
    end: int  # byte, exclusive
    first_line: int  # its number, from 1


def split_log(path: Path, target_bytes: int) -> list[LineRange]:
    """The file as ranges of complete lines."""
    size, start, line = path.stat().st_size, 0, 1
    ranges: list[LineRange] = []
    with path.open("rb") as opened:
        while start < size:
            opened.seek(start)
            chunk = opened.read(target_bytes)
            if start + len(chunk) < size:
                chunk += opened.readline(MAX_LINE)  # a longer line is cut and reported as damage
            if not chunk:
                break
            ranges.append(LineRange(start, start + len(chunk), line))
            line += int(np.count_nonzero(np.frombuffer(chunk, dtype=np.uint8) == 10))
            start += len(chunk)
    return ranges


def read_server_log(
    path: Path, start: int = 0, end: int | None = None, first_line: int = 1, source: str | None = None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables LOG_EVENTS and DAMAGE of a range of complete lines, or of an entire gzipped file.

    Of a log with prefixes (log_prefixes.py) the lines of one source.
    """
    if path.suffix == ".gz":
        return _read_gzipped(path, source)
    try:
        with path.open("rb") as opened:
            opened.seek(max(start - CONTEXT_BYTES, 0))
            before = opened.read(start - max(start - CONTEXT_BYTES, 0))
            raw = opened.read() if end is None else opened.read(end - start)
    except OSError as error:
        return pl.DataFrame(schema=LOG_EVENTS), pl.DataFrame([unreadable_row(error, start)], schema=DAMAGE)
    context = pl.Series(before.decode("utf-8", "replace").rstrip("\n").split("\n"), dtype=pl.String)
    frame = parse_log(raw.decode("utf-8", "replace"), first_line, _time(context, len(context) - 1, source), source)
    return frame, pl.DataFrame(_overlong(raw, start), schema=DAMAGE)


def _read_gzipped(path: Path, source: str | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables of a gzipped file, read block by block to bound the memory. Lines before damage are read."""
    frames, damage, at, before = [pl.DataFrame(schema=LOG_EVENTS)], [], 0, None
    for block in blocks(Split(0, str(path), "", "gzip", 0, 0), max_line_bytes=MAX_LINE):
        damage += _overlong(block.data, at)
        text = block.data.decode("utf-8", "replace")
        frames.append(parse_log(text, block.first_line + 1, before, source))
        lines = pl.Series(text.rstrip("\n").rsplit("\n", MAX_LINES_BACK))
        at, before = at + len(block.data), _time(lines, len(lines) - 1, source)
        too_large = f"more than {MAX_DECOMPRESSED_BYTES >> 30} GiB" if at > MAX_DECOMPRESSED_BYTES else ""
        if problem := block.damage or too_large:
            damage.append(damage_row("unreadable", f"gzip breaks off: {problem}", byte=0))
            break
    return pl.concat(frames), pl.DataFrame(damage, schema=DAMAGE)


def _overlong(raw: bytes, start: int) -> list[Row]:
    """Damage for the first line that is too long to be of a broker. Such lines are not parsed."""
    if len(raw) <= MAX_LINE:
        return []
    feeds = np.flatnonzero(np.frombuffer(raw, np.uint8) == 10)
    begins = np.append(0, feeds + 1)
    long = np.flatnonzero(np.diff(np.append(begins, len(raw))) > MAX_LINE)
    return [
        damage_row("unreadable", f"a line of more than {MAX_LINE >> 20} MiB", byte=start + int(begins[n]))
        for n in long[:1]
    ]


def parse_log(
    text: str, first_line: int = 1, time_before: int | None = None, source: str | None = None
) -> pl.DataFrame:
    """Table LOG_EVENTS of the text of a log, or of one source in it; `time_before` is that of the line before (ms)."""
    lines = pl.Series(text.split("\n"), dtype=pl.String)
    rows: list[dict[str, Any]] = []
    for index in (lines.str.contains_any(LITERALS) & (lines.str.len_bytes() <= MAX_LINE)).arg_true():
        line = _line_of(lines[index].rstrip("\r"), source)
        for pattern in PATTERNS:
            if pattern.literal not in line:
                continue
            found = pattern.regex.search(line)
            if found is None or any(OVERLONG.search(value or "") for value in found.groups()):
                continue
            event = _event(pattern, found, first_line + index, _time(lines, index, source) or time_before)
            if pattern.kind in ("boot", "configured"):
                event["fields"] = json.dumps({"alive_until": _time(lines, index - 1, source) or time_before})
            rows.append(event)
            break
    return pl.DataFrame(rows, schema=LOG_EVENTS)


def _event(pattern: Pattern, found: re.Match[str], number: int, time: int | None) -> dict[str, Any]:
    """The row of LOG_EVENTS of a line that matched a pattern."""
    groups = {name: value for name, value in found.groupdict().items() if value is not None}
    tp = groups.pop("tp", None) or groups.pop("tp_old", None)
    groups.pop("tp_old", None)
    if tp is not None:
        name, _, partition = tp.strip("[]").rpartition("," if tp.startswith("[") else "-")
        groups["topic"], groups["partition"] = name, partition
    fields = {name: _typed(name, value) for name, value in groups.items() if name not in COLUMNS}
    if pattern.kind == "partition-change":
        fields.update(_changes(fields.pop("change", "")))
        fields["unclean"] = "unclean" in fields
    partition_number = int(groups.get("partition", 2**31))
    return {
        "time": time,
        "kind": pattern.kind,
        "topic": groups.get("topic"),
        "partition": partition_number if partition_number < 2**31 else None,
        "subject": groups.get("subject"),
        "fields": json.dumps(fields, sort_keys=True),
        "line": number,
    }


def _typed(name: str, value: str) -> Any:
    """The value of a captured field: a list of brokers, a number, or text."""
    if name in ("isr", "elr", "old", "replicas", "adding", "removing"):
        value = ",".join(re.findall(r"brokerId=(\d+)", value)) if "brokerId" in value else value
        return _brokers(value)
    return int(value) if value.lstrip("-").isdecimal() and len(value) < 19 else value


def _brokers(text: str) -> list[int]:
    return [int(part) for part in text.replace(" ", "").split(",") if part]


CHANGE = re.compile(r"(\w+): (\[[\d, ]*\]|[\w\-]+) -> (\[[\d, ]*\]|[\w\-]+)")


def _changes(text: str) -> dict[str, Any]:
    """`isr: [3] -> [2], leader: -1 -> 2` as {"isr": [2], "isr_before": [3], "leader": 2, …}."""
    out: dict[str, Any] = {}
    for name, before, after in CHANGE.findall(text):
        for suffix, value in (("_before", before), ("", after)):
            is_list = value.startswith("[")
            out[name + suffix] = _brokers(value.strip("[]")) if is_list else _typed("", value)
    return out


def _line_of(line: str, source: str | None) -> str:
    """The line in Kafka's own layout, without a prefix; "" for one of another source."""
    if source is None:
        return in_kafkas_layout(line)
    name, text = split_prefix(line)
    return text if name == source else ""


def _time(lines: pl.Series, index: int, source: str | None) -> int | None:
    """The time of a line in ms. A line of a stack trace has the time of the line above the trace."""
    for back in range(index, max(index - MAX_LINES_BACK, -1), -1):
        found = STAMP.match(_line_of(lines[back], source))
        if found:
            try:
                year, month, day, hour, minute, second, _ = map(int, found.groups())
                when = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError:
                return None
            return int(when.timestamp()) * 1000 + int(found.group(7))
    return None
