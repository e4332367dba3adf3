"""The layout of record batches for the loops that read them: positions, statuses, columns, tables of CRCs."""

from __future__ import annotations

from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

OK, TORN, BAD_LENGTH, BAD_MAGIC, ZEROS = 0, 1, 2, 3, 4

V2_OVERHEAD = 61
# Smallest size field of a message: v0 without key and value (crc, magic, attributes, two lengths).
MIN_LEGACY_LENGTH = 14

# The columns of the array that `scan` fills, one row for each batch. `crc2` is twice the stored CRC, plus one if it
# is right.
HEADERS = (
    *("base_offset", "last_offset", "leader_epoch", "magic", "producer_id", "producer_epoch", "base_sequence"),
    *("attributes", "crc2", "max_timestamp", "count", "byte", "size", "base_timestamp"),
)
BASE, LAST, EPOCH, MAGIC, PRODUCER, PRODUCER_EPOCH, SEQUENCE, ATTRIBUTES = range(8)
CRC2, MAX_TIMESTAMP, COUNT, BYTE, SIZE, BASE_TIMESTAMP = range(8, len(HEADERS))


def _tables(polynomial: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Eight tables to compute a CRC from eight bytes at a time."""
    table = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ polynomial if crc & 1 else crc >> 1
        table[0, byte] = crc
    for byte in range(256):
        for row in range(1, 8):
            before = int(table[row - 1, byte])
            table[row, byte] = (before >> 8) ^ int(table[0, before & 0xFF])
    return table


CRC32 = _tables(0xEDB88320)  # v0 and v1
CRC32C = _tables(0x82F63B78)  # v2

# A value that is not UTF-8 becomes "bytes:" and 16 hexadecimal digits.
DIGEST_TEXT_LENGTH = 22
