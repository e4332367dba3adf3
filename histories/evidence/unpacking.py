"""Compressed batches decompress: what is broken, or becomes too much, is damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cramjam

from ..errors import describe_error
from ..files import decompress
from . import lz4_frames
from .batch_headers import CODEC_BITS, Ints
from .batch_kernels import ATTRIBUTES, BASE, BYTE, LAST
from .tables import damage_row

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MAX_UNPACKED = 1 << 30  # bytes of a batch: what becomes more is a bomb
XERIAL = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2  # begins blocks of snappy, each behind its size
DECODERS: dict[int, Callable[[bytes], bytes]] = {
    1: lambda payload: decompress(payload, "gzip", MAX_UNPACKED),
    2: lambda payload: unsnappy(payload, MAX_UNPACKED),
    3: lambda payload: lz4_frames.unpack(payload, MAX_UNPACKED),
    4: lambda payload: decompress(payload, "zstd", MAX_UNPACKED),
}


def unpack(payload: bytes, row: Ints, at: int, damage: list[dict[str, object]]) -> bytes | None:
    """The payload of a batch (`row` of HEADERS, in a range at byte `at`); None, and a row of damage, where broken."""
    codec = int(row[ATTRIBUTES]) & CODEC_BITS
    try:
        return DECODERS[codec](payload)
    except Exception as error:
        name = CODECS[codec] if codec < len(CODECS) else f"codec {codec}"
        reason = f"{name} does not unpack the batch: {describe_error(error)}"
        damage.append(damage_row("decode", reason, at + int(row[BYTE]), None, int(row[BASE]), int(row[LAST])))
        return None


def unsnappy(payload: bytes, most: int) -> bytes:
    """Raises cramjam's errors where it is damaged, ValueError where it says that it becomes more than `most` bytes."""
    data, room = bytearray(), most
    for block in _snappy_blocks(payload):
        room -= cramjam.snappy.decompress_raw_len(block)
        if room < 0:
            raise ValueError(f"more than {most >> 20} MiB when decompressed")
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
