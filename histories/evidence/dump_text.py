"""Reads the text that kafka-dump-log prints, for runs without the segments themselves.

Reads `--print-data-log` (records as text), plain dumps (only batches) and `--cluster-metadata-decoder` (payloads are
JSON), in the wordings of 0.9 to 4.1. A batch is a line that begins with `baseOffset:`, followed by its `| offset:`
lines; before 2.0 each record is one `offset:` line. A payload may contain line feeds. Header values are not printed,
so a record with headers has no digest.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ...models.internal_topics import METADATA_TOPIC
from ..tables import Schema
from .batch_loops import loops_for
from .cluster_metadata import MetadataRecord, replay_records
from .metadata_records import NAMES
from .tables import BATCHES, DAMAGE, RECORDS, Row, damage_row, unreadable_row

PAIR = re.compile(r"(\w+): (-?\d+|\w+|\[.*?\])(?= |$)")
FOLDER = re.compile(r"(?:^|[/\\])(?P<topic>[\w.\-]+)-(?P<partition>\d+)[/\\](?P<file>\d+)\.log\s*$")
BEGINS = ("baseOffset: ", "| offset: ", "offset: ", "Dumping ", "Log starting offset", "Starting offset", "| ")


def _limits(schema: Schema) -> dict[str, tuple[int, int]]:
    """The least and the greatest number of each column of integers."""
    sizes = {name: np.iinfo(str(dtype).lower()) for name, dtype in schema.items() if dtype.is_integer()}
    return {name: (int(size.min), int(size.max)) for name, size in sizes.items()}


BATCH_LIMITS, RECORD_LIMITS = _limits(BATCHES), _limits(RECORDS)


@dataclass
class Dump:
    """One dumped file: its topic-partition, if the dump names it, and its tables."""

    topic: str | None
    partition: int | None
    batches: pl.DataFrame
    records: pl.DataFrame
    metadata: pl.DataFrame
    damage: pl.DataFrame


@dataclass
class _State:
    topic: str | None = None
    partition: int | None = None
    batches: list[dict[str, Any]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    metadata: list[MetadataRecord] = field(default_factory=list)
    damage: list[Row] = field(default_factory=list)
    lacks_batch: bool = False  # the last record; such records in a row are one damage


def is_dump(head: str) -> bool:
    """Whether a file begins as a dump does."""
    return head.startswith("Dumping ") or bool(re.match(r"(\| )?(baseOffset|offset): \d+ ", head))


def read_dump(path: Path) -> list[Dump]:
    """The dumped files: kafka-dump-log may print several into one text."""
    try:
        text = path.read_bytes().decode("utf-8-sig", "replace")  # a payload may have carriage returns
    except OSError as error:
        return [_dump(_State(damage=[unreadable_row(error)]))]
    return parse_dump(text)


def dumped_files(path: Path) -> set[tuple[str, int, str]]:
    """The topic, the partition and the segment's number of each file that the text names as dumped."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        named = (FOLDER.search(line) for line in lines if line.startswith("Dumping "))
        return {(found["topic"], int(found["partition"][:9]), found["file"]) for found in named if found}


def parse_dump(text: str) -> list[Dump]:
    """The dumped files in a text, as `read_dump`."""
    states: list[_State] = []
    for number, line in _join_lines(text):
        if line.startswith("Dumping "):
            state = _State()
            found = FOLDER.search(line)
            if found:
                state.topic, state.partition = found["topic"], int(found["partition"][:9])
            states.append(state)
            continue
        if not states:
            states.append(_State())
        if line.startswith(("Log starting offset", "Starting offset")) or not line.strip():
            continue
        try:
            _read_line(states[-1], number, line)
        except (KeyError, ValueError, OverflowError) as error:
            reason = f"found {line[:80]!r}, expected a line of kafka-dump-log ({type(error).__name__})"
            states[-1].damage.append(damage_row("syntax", reason, line=number))
    return [_dump(state) for state in states]


def _join_lines(text: str) -> list[tuple[int, str]]:
    """The entries with the numbers of their first lines. Other lines continue the payload before them.

    A carriage return at the end of a line belongs to the payload, unless the first line has one, too.
    """
    entries: list[tuple[int, list[str]]] = []
    lines = text.split("\n")
    if lines[0].endswith("\r"):
        lines = [line.removesuffix("\r") for line in lines]
    for number, line in enumerate(lines if lines[-1] else lines[:-1], 1):
        if line.startswith(BEGINS) or not entries or " payload: " not in entries[-1][1][0]:
            entries.append((number, [line]))
        else:
            entries[-1][1].append(line)
    return [(number, "\n".join(parts)) for number, parts in entries]


def _read_line(state: _State, number: int, line: str) -> None:
    body, has_payload, payload = line.partition(" payload: ")
    body, has_key, key = body.partition(" key: ")
    pairs = {name.lower(): value for name, value in PAIR.findall(body)}
    if line.startswith("baseOffset: "):
        state.batches.append(_batch(pairs))
        state.lacks_batch = False
        return
    if line.startswith("| offset: "):
        last = state.batches[-1] if state.batches else None
        if last is None or not last["base_offset"] <= int(pairs["offset"]) <= last["last_offset"]:
            if not state.lacks_batch:
                reason = f"found {line[:80]!r} without the line of its batch, expected all lines of kafka-dump-log"
                state.damage.append(damage_row("syntax", reason, line=number))
            state.lacks_batch = True
            return
        batch = last
    elif line.startswith("offset: "):
        # Before 2.0 each record is one line, with the fields of its batch.
        batch = _batch({**pairs, "baseoffset": pairs["offset"], "lastoffset": pairs["offset"], "count": "1"})
        state.batches.append(batch)
    else:
        raise ValueError(line)
    record = _record(pairs, batch, key if has_key else None, payload if has_payload else None)
    if record["value"] is not None and record["value"].startswith('{"type":"'):
        _add_metadata(state, record)
    _check_limits(record, RECORD_LIMITS)
    marker = re.search(r"endTxnMarker: (\w+)", line)
    if batch["control"]:
        record["control"] = {"COMMIT": "commit", "ABORT": "abort"}.get(marker[1] if marker else "", "other")
        record["key"] = record["value"] = record["digest"] = None
    state.records.append(record)


def _flag(pairs: dict[str, str], name: str) -> bool:
    return pairs.get(name) == "true"


def _known_number(pairs: dict[str, str], name: str) -> int | None:
    value = int(pairs.get(name, "-1"))
    return value if value >= 0 else None


def _timestamp(pairs: dict[str, str]) -> int | None:
    created = _known_number(pairs, "createtime")
    return _known_number(pairs, "logappendtime") if created is None else created


def _check_limits(row: dict[str, Any], limits: dict[str, tuple[int, int]]) -> None:
    """Raises OverflowError if a number does not fit its column."""
    for name, (least, greatest) in limits.items():
        if (value := row.get(name)) is not None and not least <= value <= greatest:
            raise OverflowError(name)


def _batch(pairs: dict[str, str]) -> dict[str, Any]:
    row = {
        "base_offset": int(pairs["baseoffset"]),
        "last_offset": int(pairs["lastoffset"]),
        "leader_epoch": _known_number(pairs, "partitionleaderepoch"),
        "magic": int(pairs.get("magic", "2")),
        "producer_id": _known_number(pairs, "producerid"),
        "producer_epoch": _known_number(pairs, "producerepoch"),
        "base_sequence": _known_number(pairs, "basesequence"),
        "codec": pairs.get("compresscodec", "none").lower().replace("nocompression", "none"),
        "append_time": "logappendtime" in pairs,
        "transactional": _flag(pairs, "istransactional"),
        "control": _flag(pairs, "iscontrol"),
        "crc": _known_number(pairs, "crc"),
        "crc_ok": _flag(pairs, "isvalid"),
        "max_timestamp": _timestamp(pairs),
        "count": int(pairs.get("count", "1")),
        "byte": int(pairs.get("position", "0")),
        "size": int(pairs.get("size", "0")),
    }
    _check_limits(row, BATCH_LIMITS)
    return row


def _record(pairs: dict[str, str], batch: dict[str, Any], key: str | None, payload: str | None) -> dict[str, Any]:
    # keySize and valueSize are -1 for null. A dump without payloads has no values.
    key = key if int(pairs.get("keysize", "0" if key else "-1")) >= 0 else None
    size = int(pairs.get("valuesize", pairs.get("payloadsize", "-1")))
    value = payload if size >= 0 and payload is not None else None
    is_whole = size < 0 or value is None or len(value.encode("utf-8", "surrogatepass")) == size  # else it is no UTF-8
    has_digest = is_whole and pairs.get("headerkeys", "[]") == "[]"
    return {
        "offset": int(pairs["offset"]),
        "leader_epoch": batch["leader_epoch"],
        "timestamp": _timestamp(pairs),
        "key": key,
        "value": value,
        "digest": text_digest(key, value) if has_digest else None,
        "producer_id": batch["producer_id"],
        "producer_epoch": batch["producer_epoch"],
        "transactional": batch["transactional"],
        "control": None,
        "byte": batch["byte"],
    }


def text_digest(key: str | None, value: str | None) -> int:
    """The digest of a record with this key and value and no headers, as in segments.py."""
    parts = [None if part is None else part.encode("utf-8", "surrogatepass") for part in (key, value)]
    lengths = [-1 if part is None else len(part) for part in parts]
    buf = np.frombuffer(b"".join(part or b"" for part in parts), dtype=np.uint8)
    start = max(lengths[0], 0)
    spans = np.array([[0, 0, 0, lengths[0], start, lengths[1], len(buf), len(buf)]], dtype=np.int64)
    out = np.empty(1, dtype=np.uint64)
    loops_for(buf).digests(buf, spans, out)
    return int(out[0])


def _add_metadata(state: _State, record: dict[str, Any]) -> None:
    try:
        parsed = json.loads(record["value"])
        name, data = parsed["type"], parsed["data"]
        is_known = name in NAMES and isinstance(data, dict)
    except (ValueError, KeyError, TypeError):
        return  # a message of another topic that looks like a metadata record
    if is_known:
        offset, time = record["offset"], record["timestamp"] or 0
        state.metadata.append(MetadataRecord(offset, time, name, data, record["byte"]))


def _dump(state: _State) -> Dump:
    is_metadata = state.topic == METADATA_TOPIC or (
        state.topic is None and bool(state.metadata) and len(state.metadata) * 2 > len(state.records)
    )
    metadata, broken = replay_records(state.metadata if is_metadata else [])
    damage = pl.DataFrame(state.damage, schema=DAMAGE)
    batches, records = pl.DataFrame(state.batches, schema=BATCHES), pl.DataFrame(state.records, schema=RECORDS)
    damage = pl.concat([damage, broken.drop("file")])
    return Dump(state.topic, state.partition, batches, records, metadata.drop("file"), damage)
