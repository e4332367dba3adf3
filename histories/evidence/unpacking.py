"""Decompresses batches. Broken batches, and those that become too large, are damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cramjam
import numpy as np

from ...models.arrays import Ints
from ..errors import describe_error
from ..files import decompress
from .batch_headers import CODEC_BITS
from .batch_layout import ATTRIBUTES, BASE, BYTE, LAST
from .tables import Row, damage_row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_BATCH_BYTES = 1 << 30  # of a decompressed batch; a larger one is a decompression bomb
# The header before blocks of snappy. Each block follows its size.
XERIAL = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
# Of frames of LZ4, and of the checksum of their headers.
LZ4_MAGIC = b"\x04\x22\x4d\x18"
CONTENT_SIZE_BIT = 0x08  # of the flags: eight bytes of size follow the block descriptor
MAX_RATIO = 255  # of decompressed to compressed bytes
_WORD = 0xFFFFFFFF
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
DECODERS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda payload: decompress(payload, "gzip", MAX_BATCH_BYTES),
    2: lambda payload: decompress_snappy(payload, MAX_BATCH_BYTES),
    3: lambda payload: decompress_lz4(payload, MAX_BATCH_BYTES),
    4: lambda payload: decompress(payload, "zstd", MAX_BATCH_BYTES),
}


def unpack(payload: bytes, row: Ints, at: int, damage: list[Row]) -> bytes | None:
    """The decompressed payload of a batch (`row` of HEADERS, in a range at byte `at`); None and damage if broken."""
    codec = int(row[ATTRIBUTES]) & CODEC_BITS
    try:
        return DECODERS[codec](payload)
    except Exception as error:
        name = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
        reason = f"{name} cannot decompress the batch: {describe_error(error)}"
        damage.append(damage_row("decode", reason, at + int(row[BYTE]), int(row[BASE]), int(row[LAST])))
        return None


def decompress_snappy(payload: bytes, max_bytes: int) -> bytes:
    """The content of snappy blocks. Raises cramjam's errors for damage, ValueError beyond `max_bytes`."""
    data, room = bytearray(), max_bytes
    for block in _snappy_blocks(payload):
        room -= cramjam.snappy.decompress_raw_len(block)
        if room < 0:
            raise ValueError(f"more than {max_bytes >> 20} MiB when decompressed")
        data += memoryview(cramjam.snappy.decompress_raw(block))
    return bytes(data)


def _snappy_blocks(payload: bytes) -> Iterator[bytes]:
    if not payload.startswith(XERIAL):
        yield payload
        return
    at = len(XERIAL)
    while at < len(payload):
        size = int.from_bytes(payload[at : at + 4], "big")
        yield payload[at + 4 : at + 4 + size]
        at += 4 + size


def decompress_lz4(payload: bytes, max_bytes: int = MAX_BATCH_BYTES) -> bytes:
    """The content of a frame of LZ4. Raises cramjam's errors for damage, ValueError where it may exceed `max_bytes`.

    Those of message sets v0 have a wrong header checksum (KAFKA-3160): Kafka 0.8 and 0.9 included the frame's magic
    number in it, and later versions still do for v0. aiokafka and cramjam refuse such frames, so it is corrected first.
    """
    at = 14 if payload[4:5] and payload[4] & CONTENT_SIZE_BIT else 6
    if payload[:4] == LZ4_MAGIC and payload[at : at + 1] == checksum(payload[:at]):
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
