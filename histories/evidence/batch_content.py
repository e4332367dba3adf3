"""The content of one record batch, as `logjudge show` prints it: its header, and its records with decoded values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...models.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from . import group_records, metadata_records, transaction_records
from .record_schema import MalformedRecordError, control_type
from .segments import RawRecord, raw_records, read_headers

Row = dict[str, Any]
HEADER = (
    *("base_offset", "last_offset", "leader_epoch", "magic", "producer_id", "producer_epoch", "base_sequence"),
    *("codec", "transactional", "control", "crc_ok", "max_timestamp", "count", "size"),
)


def headers_of(path: Path) -> list[Row]:
    """The batches of a segment in order: `byte` and the columns HEADER of BATCHES."""
    return read_headers(path).batches.select("byte", *HEADER).to_dicts()


def records_at(path: Path, byte: int) -> list[Row]:
    """The records of the batch that begins at a position of a segment; none if it is damaged.

    A record has offset, timestamp (ms), and either marker (commit, abort, other) or key and value: text, "bytes:" with
    hexadecimal digits, or for Kafka's own topics the decoded fields. `malformed` has the reason where these cannot be.
    """
    decode = DECODERS.get(path.resolve().parent.name.rpartition("-")[0], lambda _: None)
    return [_content(record, decode) for record in raw_records(path).records if record.byte == byte]


Decoder = Callable[[RawRecord], Row | None]


def _content(record: RawRecord, decode: Decoder) -> Row:
    at: Row = {"offset": record.offset, "timestamp": record.timestamp}
    if record.is_control:
        return {**at, "marker": control_type(record.key or b"")}
    try:
        decoded = decode(record)
    except MalformedRecordError as error:
        decoded = {"malformed": str(error)}
    return {**at, **({"key": _text(record.key), "value": _text(record.value)} if decoded is None else decoded)}


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + data.hex()


def _transaction(record: RawRecord) -> Row | None:
    found = transaction_records.decode(record.key or b"", record.value)
    return None if found is None else {"key": found.transactional_id, "state": found.state, "value": found.value}


def _group(record: RawRecord) -> Row | None:
    found = group_records.decode(record.key or b"", record.value)
    return None if found is None else {"key": found.key, "value": found.value}


def _metadata(record: RawRecord) -> Row | None:
    found = metadata_records.decode(record.value or b"")
    return None if found is None else {"key": found.name, "value": found.fields}


DECODERS: dict[str, Decoder] = {
    TRANSACTIONS_TOPIC: _transaction,
    OFFSETS_TOPIC: _group,
    METADATA_TOPIC: _metadata,
}
