"""Decompresses the LZ4 frames of Kafka. Those of message sets v0 have a wrong header checksum (KAFKA-3160).

Kafka 0.8 and 0.9 included the frame's magic number in the checksum, and later versions still do for v0. aiokafka and
cramjam refuse such frames, so the checksum is corrected first.
"""

from __future__ import annotations

import cramjam
import numpy as np

MAGIC = b"\x04\x22\x4d\x18"
CONTENT_SIZE_BIT = 0x08  # of the flags: eight bytes of size follow the block descriptor
MAX_RATIO = 255  # of decompressed to compressed bytes
_WORD = 0xFFFFFFFF
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def unpack(payload: bytes, max_bytes: int = 1 << 30) -> bytes:
    """The content of a frame. Raises cramjam's errors for damage, ValueError where it may exceed `max_bytes`."""
    at = 14 if payload[4:5] and payload[4] & CONTENT_SIZE_BIT else 6
    if payload[:4] == MAGIC and payload[at : at + 1] == checksum(payload[:at]):
        payload = payload[:at] + checksum(payload[4:at]) + payload[at + 1 :]
    content = np.empty(min(MAX_RATIO * len(payload), max_bytes), dtype=np.uint8)
    try:
        size = cramjam.lz4.decompress_into(payload, content.data)
    except cramjam.DecompressionError as error:
        if len(content) < max_bytes:
            raise
        raise ValueError(f"more than {max_bytes >> 20} MiB when decompressed, or broken: {error}") from error
    return content[:size].tobytes()


def checksum(header: bytes) -> bytes:
    """The second byte of xxHash-32 of fewer than 16 bytes, the size of the frame headers that Kafka writes."""
    words_end = len(header) // 4 * 4
    total = _PRIMES[4] + len(header)
    for at in range(0, words_end, 4):
        total = _rotate_left(total + int.from_bytes(header[at : at + 4], "little") * _PRIMES[2], 17) * _PRIMES[3]
    for byte in header[words_end:]:
        total = _rotate_left(total + byte * _PRIMES[4], 11) * _PRIMES[0]
    total &= _WORD
    total = (total ^ total >> 15) * _PRIMES[1] & _WORD
    total = (total ^ total >> 13) * _PRIMES[2] & _WORD
    return bytes([(total ^ total >> 16) >> 8 & 0xFF])


def _rotate_left(value: int, bits: int) -> int:
    value &= _WORD
    return (value << bits | value >> 32 - bits) & _WORD
