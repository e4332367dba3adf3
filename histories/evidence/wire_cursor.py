"""Reads the wire types of Kafka's own records: those of `__cluster_metadata` and of `__consumer_offsets`."""

from __future__ import annotations


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
