"""Records and offsets as Kafka's clients have them, as the dictionaries of the history format.

Accepted are dictionaries with the format's own names, tuples, and the objects of confluent-kafka, aiokafka and
kafka-python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from ..errors import UsageError
from .event_log import Fields

_RECORD = ("topic", "partition", "offset", "value", "key")
_POSITION = ("topic", "partition", "offset", "start")
_RECORD_FIELDS = (*_RECORD, "timestamp", "leader_epoch")
_EXPECTED_RECORD = (
    "a dictionary with topic, partition, offset and value, (topic, partition, offset, value[, key]), or a client's "
    "record; the value of a tombstone is None"
)
_EXPECTED_POSITION = (
    "a dictionary with topic and partition, (topic, partition[, offset[, start]]), or a client's TopicPartition"
)
_EXPECTED_OFFSET = "an offset, as in (topic, partition, offset); None if it is not known"


def text_of(value: Any, field: str) -> str | int | None:
    """A key or value as the history format has it. Raises UsageError."""
    if value is None:
        return None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise UsageError(f"{field}: found text that is not Unicode, expected text that UTF-8 can encode") from error
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value if -(2**63) <= value < 2**63 else str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError as error:
            raise UsageError(
                f"{field}: found bytes that are not UTF-8, expected text; record an identifier of the message"
            ) from error
    raise UsageError(f"{field}: found {type(value).__name__}, expected str, bytes, int or None")


def offset_of(offset: Any) -> int | None:
    """An offset, or None for a negative number, which clients use for no offset."""
    return None if offset is None or int(offset) < 0 else int(offset)


def records_of(found: Any) -> list[Fields]:
    """The records of a poll's result: a record, an iterable of records, a dictionary of them by partition, or None."""
    return [record for item in _items(found) if (record := _record(item)) is not None]


def _items(found: Any) -> Iterable[Any]:
    if isinstance(found, Mapping) and "topic" not in found:
        return chain.from_iterable(found.values())
    return [] if found is None else [found] if _is_one(found) else found


def _is_one(found: Any) -> bool:
    """Whether it is one record or position: a dictionary, an object with a topic, or a tuple that begins with one."""
    is_named = isinstance(found, Mapping) or hasattr(found, "topic")
    return is_named or (isinstance(found, tuple) and bool(found) and isinstance(found[0], str))


def _record(item: Any) -> Fields | None:
    """One record; None for a message of confluent-kafka that carries an error instead."""
    if callable(getattr(item, "error", None)) and item.error() is not None:
        return None
    fields = _fields(item, _RECORD, _RECORD_FIELDS, _EXPECTED_RECORD)
    if int(fields["partition"]) < 0 or int(fields["offset"]) < 0:
        raise UsageError(f"found {item!r:.80}, expected a record with a partition and an offset from 0")
    record = {
        "topic": fields["topic"],
        "partition": int(fields["partition"]),
        "offset": int(fields["offset"]),
        "value": text_of(fields.get("value"), "value"),
    }
    if fields.get("key") is not None:
        record["key"] = text_of(fields["key"], "key")
    if isinstance(fields.get("timestamp"), tuple):
        fields["timestamp"] = fields["timestamp"][1]  # after its type, by confluent-kafka; -1 without one
    for name in ("timestamp", "leader_epoch"):
        if isinstance(fields.get(name), int) and fields[name] >= 0:
            record[name] = fields[name]
    return record


def positions_of(found: Any, needs_offset: bool = False) -> list[Fields]:
    """Partitions with offsets: of an iterable, or of a dictionary from partition to offset.

    Raises UsageError, with `needs_offset` also for a tuple or a dictionary without an offset.
    """
    if isinstance(found, Mapping) and "topic" not in found:
        return [_position(item, offset) for item, offset in found.items()]
    items = list(_items(found))
    for item in items if needs_offset else ():
        is_short = isinstance(item, tuple | list) and not hasattr(item, "topic") and len(item) == 2
        if is_short or (isinstance(item, Mapping) and "offset" not in item):
            raise UsageError(f"found {item!r:.80}, expected {_EXPECTED_OFFSET}")
    return [_position(item) for item in items]


def partitions_of(found: Any) -> list[Fields]:
    """Topics and partitions alone: of what `positions_of` takes."""
    return [{"topic": place["topic"], "partition": place["partition"]} for place in positions_of(found)]


def _position(item: Any, given: Any = None) -> Fields:
    fields = _fields(item, _POSITION, _POSITION, _EXPECTED_POSITION)
    offset = fields.get("offset") if given is None else getattr(given, "offset", given)
    position: Fields = {"topic": fields["topic"], "partition": int(fields["partition"]), "offset": offset_of(offset)}
    if fields.get("start") is not None:
        position["start"] = int(fields["start"])
    return position


def _fields(item: Any, order: tuple[str, ...], names: tuple[str, ...], expected: str) -> Fields:
    """The named fields of an item. Raises UsageError if topic, partition, or a record's offset or value is missing."""
    if isinstance(item, Mapping):
        fields = {name: item[name] for name in names if name in item}
    elif hasattr(item, "topic"):
        values = {name: getattr(item, name) for name in names if hasattr(item, name)}
        # Those of confluent-kafka's Message are methods.
        fields = {name: value() if callable(value) else value for name, value in values.items()}
    elif isinstance(item, tuple | list):
        fields = dict(zip(order, item, strict=False))
    else:
        fields = {}
    needed = order[:3] if order is _RECORD else order[:2]
    lacks_value = order is _RECORD and "value" not in fields
    if not isinstance(fields.get("topic"), str) or any(fields.get(name) is None for name in needed) or lacks_value:
        raise UsageError(f"found {item!r:.80}, expected {expected}")
    return fields
