"""Decompresses batches. Broken batches, and those that become too large, are damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cramjam

from ...models.arrays import Ints
from ..errors import describe_error
from ..files import decompress
from . import lz4_frames
from .batch_headers import CODEC_BITS
from .batch_layout import ATTRIBUTES, BASE, BYTE, LAST
from .tables import Row, damage_row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_BATCH_BYTES = 1 << 30  # of a decompressed batch; a larger one is a decompression bomb
# The header before blocks of snappy. Each block follows its size.
XERIAL = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
DECODERS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda payload: decompress(payload, "gzip", MAX_BATCH_BYTES),
    2: lambda payload: decompress_snappy(payload, MAX_BATCH_BYTES),
    3: lambda payload: lz4_frames.unpack(payload, MAX_BATCH_BYTES),
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
