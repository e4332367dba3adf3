"""Decodes and encodes Kafka's own records, such as those of `__cluster_metadata` and `__consumer_offsets`, by tables of
their fields, as Kafka's generated classes do.

From its first flexible version on, strings and arrays of a record are compact (KIP-482), and tagged fields follow its
fields: those that a table names are read, the others are skipped. An array that is null reads as empty, but a
tagged one as None, as there it means no change.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_INTEGERS = {"int8": (1, True), "int16": (2, True), "int32": (4, True), "int64": (8, True), "uint16": (2, False)}


class MalformedRecordError(Exception):
    """A record that cannot be decoded. Those who read the log report it as damage."""


class WireCursor:
    """Reads integers and varints from bytes, one after the other. Raises MalformedRecordError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.pos = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        if count < 0 or self.pos + count > len(self.data):
            raise MalformedRecordError(f"ends within a field at byte {self.pos} of the record")
        self.pos += count
        return self.data[self.pos - count : self.pos]

    def integer(self, width: int, signed: bool = True) -> int:
        """A big-endian integer of `width` bytes."""
        return int.from_bytes(self.take(width), "big", signed=signed)

    def varint(self) -> int:
        """An unsigned varint of at most 35 bits."""
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedRecordError(f"a varint at byte {self.pos} of the record does not end")


@dataclass(frozen=True)
class Field:
    """A field of a record: its type, the first and last versions that have it, and its tag if it is a tagged one."""

    name: str
    type: str  # int8 int16 int32 int64 uint16 bool uuid string bytes, an array ([int32], [] of the fields in `of`), or
    # struct: the fields in `of` or null, of a tagged field
    since: int = 0
    until: int = 32_767
    of: tuple[Field, ...] = ()
    tag: int | None = None
    default: Any = None  # of a field that the record lacks


def fields_of(text: str, **of: tuple[Field, ...]) -> tuple[Field, ...]:
    """The fields that a text lists: "id int32, logDirs [uuid] 3+ tag=0, members []"; `of` has those of its members.

    Versions are written as in Kafka's own tables: 3+ (since version 3), or 3 (no other one).
    """
    found = []
    for name, kind, *more in map(str.split, filter(None, text.split(", "))):
        about = {key: int(value) for key, _, value in (option.partition("=") for option in more) if value}
        for versions in (option for option in more if "=" not in option):
            about["since"] = int(versions.rstrip("+"))
            about |= {} if versions.endswith("+") else {"until": about["since"]}
        found.append(Field(name, kind, of=of.get(name, ()), **about))
    return tuple(found)


def read_fields(cursor: WireCursor, fields: tuple[Field, ...], version: int, flexible: bool) -> dict[str, Any]:
    """The fields of a record by name. Raises MalformedRecordError."""
    out = {field.name: field.default for field in fields}
    for field in _untagged_fields(fields, version):
        out[field.name] = _value(cursor, field, version, flexible)
    if flexible:
        tagged = {field.tag: field for field in fields if field.tag is not None}
        for _ in range(cursor.varint()):
            tag = cursor.varint()
            data = WireCursor(cursor.take(cursor.varint()))
            if tag in tagged:
                out[tagged[tag].name] = _value(data, tagged[tag], version, flexible)
    return out


def _untagged_fields(fields: tuple[Field, ...], version: int) -> list[Field]:
    return [field for field in fields if field.tag is None and field.since <= version <= field.until]


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


def control_type(key: bytes) -> str:
    """The type of a control record: commit, abort or other. Its key has a version and a type of two bytes each."""
    kind = int.from_bytes(key[2:4], "big") if len(key) >= 4 else -1
    return {0: "abort", 1: "commit"}.get(kind, "other")


def _value(cursor: WireCursor, field: Field, version: int, flexible: bool) -> Any:
    if field.type in _INTEGERS:
        size, signed = _INTEGERS[field.type]
        return cursor.integer(size, signed)
    if field.type == "bool":
        return cursor.integer(1) != 0
    if field.type == "uuid":
        # Kafka prints a Uuid as base64 for URLs, without padding.
        return base64.urlsafe_b64encode(cursor.take(16)).decode().rstrip("=")
    if field.type == "struct":
        return read_fields(cursor, field.of, version, flexible) if cursor.integer(1) > 0 else None
    length = cursor.varint() - 1 if flexible else cursor.integer(2 if field.type == "string" else 4)
    if length < 0:
        return [] if field.tag is None and field.type not in ("string", "bytes") else None
    if field.type == "string":
        return cursor.take(length).decode("utf-8", "replace")
    if field.type == "bytes":
        return cursor.take(length)
    if length > len(cursor.data):
        raise MalformedRecordError(f"an array of {length} entries in {len(cursor.data)} bytes")
    if field.of:
        return [read_fields(cursor, field.of, version, flexible) for _ in range(length)]
    item = _item(field)
    return [_value(cursor, item, version, flexible) for _ in range(length)]


def _item(array: Field) -> Field:
    return replace(array, type=array.type[1:-1])


def write_versioned(version: int, fields: tuple[Field, ...], data: Mapping[str, Any]) -> bytes:
    """The bytes of a key or value that begins with its version, which is not flexible."""
    return version.to_bytes(2, "big") + write_fields(fields, version, False, data)


def write_fields(fields: tuple[Field, ...], version: int, flexible: bool, data: Mapping[str, Any]) -> bytes:
    """The bytes of the fields in order, or of their defaults; then of the tagged fields in `data`."""
    plain = b"".join(
        _bytes(field, version, flexible, data.get(field.name, field.default))
        for field in _untagged_fields(fields, version)
    )
    if not flexible:
        return plain
    named = {field.tag: field for field in fields if field.tag is not None and field.name in data}
    tagged = [(tag, _bytes(field, version, flexible, data[field.name])) for tag, field in sorted(named.items())]
    parts = (varint(tag) + varint(len(value)) + value for tag, value in tagged)
    return plain + varint(len(tagged)) + b"".join(parts)


def varint(value: int) -> bytes:
    """An unsigned varint."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def _bytes(field: Field, version: int, flexible: bool, value: Any) -> bytes:
    if field.type in _INTEGERS:
        size, signed = _INTEGERS[field.type]
        return int(value).to_bytes(size, "big", signed=signed)
    if field.type == "bool":
        return bytes((bool(value),))
    if field.type == "uuid":
        return base64.urlsafe_b64decode(value + "==")
    if field.type == "struct":
        return b"\0" if value is None else b"\1" + write_fields(field.of, version, flexible, value)
    count, content = -1, b""
    if value is not None:
        if field.type in ("string", "bytes"):
            content = value.encode() if field.type == "string" else value
        elif field.of:
            content = b"".join(write_fields(field.of, version, flexible, entry) for entry in value)
        else:
            content = b"".join(_bytes(_item(field), version, flexible, entry) for entry in value)
        count = len(content if field.type in ("string", "bytes") else value)
    length = varint(count + 1) if flexible else count.to_bytes(2 if field.type == "string" else 4, "big", signed=True)
    return length + content
