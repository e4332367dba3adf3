"""The messages inside a compressed message of the formats v0 and v1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...models.arrays import Bytes, Ints
from .batch_headers import APPEND_TIME_BIT, walk_headers
from .batch_layout import ATTRIBUTES, BASE, BASE_TIMESTAMP, BYTE, LAST, MAGIC, MAX_TIMESTAMP
from .tables import Row, damage_row
from .unpacking import unpack


class MessageSet(NamedTuple):
    """The messages inside a compressed message."""

    content: bytes
    headers: Ints  # with the offset of each message in the log, and the byte of the compressed message
    begins: Ints  # in `content`


def message_set(data: Bytes, header: Ints, at: int, damage: list[Row]) -> MessageSet | None:
    """The messages inside the compressed message of a header; None, with a row of damage, if they cannot be read.

    The compressed message has the offset of its last message. Inside, offsets of v1 count from 0 (KIP-31), those of v0
    are absolute. `at` is the byte in the file at which `data` begins.
    """
    magic, position, last = int(header[MAGIC]), int(header[BYTE]), int(header[BASE])
    value_at = position + (26 if magic == 1 else 18)
    value_at += 4 + max(_int32(data, value_at), 0)  # the key
    payload = data[value_at + 4 : value_at + 4 + max(_int32(data, value_at), 0)].tobytes()
    unpacked = unpack(payload, header, at, damage)
    if unpacked is None:
        return None
    found, broken = walk_headers(np.frombuffer(unpacked, dtype=np.uint8))
    if broken or not len(found):
        reason = "the message set inside the compressed message is broken"
        damage.append(damage_row("decode", reason, at + position, last, int(header[LAST])))
        return None
    begins = found[:, BYTE].copy()
    offsets = found[:, BASE] + (last - int(found[-1, BASE]) if magic == 1 else 0)
    found[:, BASE] = found[:, LAST] = offsets
    found[:, BYTE] = position
    if header[ATTRIBUTES] & APPEND_TIME_BIT:
        found[:, BASE_TIMESTAMP] = header[MAX_TIMESTAMP]
    return MessageSet(unpacked, found, begins)


def _int32(data: Bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4].tobytes(), "big", signed=True)
