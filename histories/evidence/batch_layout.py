"""The layout of record batches for the loops that read them: positions, statuses, columns, tables of CRCs."""

from __future__ import annotations

import numpy as np

from ...models.arrays import Ints

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


def _tables(polynomial: int) -> Ints:
    """Eight tables of 256 entries, one after the other, to compute a CRC from eight bytes at a time."""
    table: list[int] = []
    for crc in range(256):
        for _ in range(8):
            crc = (crc >> 1) ^ polynomial if crc & 1 else crc >> 1
        table.append(crc)
    for before in range(256 * 7):
        table.append((table[before] >> 8) ^ table[table[before] & 0xFF])
    return np.array(table, dtype=np.int64)


CRC32 = _tables(0xEDB88320)  # v0 and v1
CRC32C = _tables(0x82F63B78)  # v2
