"""Decodes Kafka's own records by tables of their fields, as its generated classes do.

From its first flexible version on, strings and arrays of a record are compact (KIP-482), and tagged fields follow its
fields: those that a table names are read, the others are passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .wire_cursor import MalformedRecordError, WireCursor

_WIDTHS = {"int8": 1, "int16": 2, "int32": 4, "int64": 8}


@dataclass(frozen=True)
class Field:
    """A field of a record: its type, the first and last versions that have it, and its tag if it is a tagged one."""

    name: str
    type: str  # int8 int16 int32 int64 string bytes, or an array: [int32], [] of the fields in `of`
    since: int = 0
    until: int = 32_767
    of: tuple[Field, ...] = ()
    tag: int | None = None  # integers only
    default: Any = None  # of a tagged field that is missing


def read_fields(cursor: WireCursor, fields: tuple[Field, ...], version: int, flexible: bool) -> dict[str, Any]:
    """The fields of a record by name. Raises MalformedRecordError."""
    out = {
        field.name: field.default if field.tag is not None else _value(cursor, field, version, flexible)
        for field in fields
        if field.since <= version <= field.until
    }
    if flexible:
        tagged = {field.tag: field for field in fields if field.tag is not None}
        for _ in range(cursor.varint()):
            tag = cursor.varint()
            data = WireCursor(cursor.take(cursor.varint()))
            if tag in tagged:
                out[tagged[tag].name] = _value(data, tagged[tag], version, flexible)
    return out


def read_versioned(data: bytes, fields: tuple[Field, ...], latest: int, flexible_since: int) -> dict[str, Any]:
    """The fields of a value that begins with its version, at most `latest`. Raises MalformedRecordError."""
    cursor = WireCursor(data)
    version = cursor.integer(2)
    if not 0 <= version <= latest:
        raise MalformedRecordError(f"found a value of version {version}, expected at most {latest}")
    return read_fields(cursor, fields, version, version >= flexible_since)


def read_key(data: bytes, fields: tuple[Field, ...]) -> dict[str, Any]:
    """The fields of a key, behind its first two bytes; none may be null. Raises MalformedRecordError."""
    cursor = WireCursor(data)
    named = read_fields(cursor, fields, cursor.integer(2), flexible=False)
    if any(part is None for part in named.values()):
        raise MalformedRecordError(f"found a key without {' or '.join(named)} in its {len(data)} bytes")
    return named


def _value(cursor: WireCursor, field: Field, version: int, flexible: bool) -> Any:
    if field.type in _WIDTHS:
        return cursor.integer(_WIDTHS[field.type])
    length = cursor.varint() - 1 if flexible else cursor.integer(2 if field.type == "string" else 4)
    if field.type == "string":
        return None if length < 0 else cursor.take(length).decode("utf-8", "replace")
    if field.type == "bytes":
        return None if length < 0 else cursor.take(length)
    if length > len(cursor.data):
        raise MalformedRecordError(f"an array of {length} entries in {len(cursor.data)} bytes")
    if field.of:
        return [read_fields(cursor, field.of, version, flexible) for _ in range(max(length, 0))]
    return [cursor.integer(_WIDTHS[field.type.strip("[]")]) for _ in range(max(length, 0))]
