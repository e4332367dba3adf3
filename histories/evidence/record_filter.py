"""What a history speaks of in the log of a partition: hashes of values and keys, and offsets.

It is small enough to go with every task that decodes batches of the log, which keeps these records alone. A record more
may be kept, as hashes share bits; one less never.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numba import njit

from .batch_headers import Bytes, Ints
from .tables import ASKED

BITS_EACH = 16  # of the filter for a text, so that of others one in sixteen is kept
LEAST_BITS, MAX_BITS = 1 << 12, 1 << 23  # of the filter: it goes with every task
_VALUE, _KEY = 1, 2  # where hashes begin, so that a key is no value


@dataclass(frozen=True)
class BloomFilter:
    """The filter, whose number of bits is a power of two, and the offsets in their order."""

    bits: Bytes
    offsets: Ints

    def among(self, buf: Bytes, spans: Ints, offsets: Ints) -> Any:
        """Which records are sought; spans as batch_kernels.decode_v2 fills them, offsets beside them."""
        found = self._holds(buf, spans[:, 4], spans[:, 5], _VALUE) | self._holds(buf, spans[:, 2], spans[:, 3], _KEY)
        if len(self.offsets):
            at = np.searchsorted(self.offsets, offsets)
            found |= self.offsets[np.minimum(at, len(self.offsets) - 1)] == offsets
        return found

    def _holds(self, buf: Bytes, starts: Ints, lengths: Ints, seed: int) -> Any:
        byte, bit = _places(_hashes(buf, starts, lengths, seed), self.bits)
        return (lengths >= 0) & ((self.bits[byte] >> bit) & 1 == 1)


def lookups_of(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """ASKED, one row: what observations or checkpoints of one partition ask of its logs."""
    values, keys, offsets = (
        frame[name] if name in frame.columns and table != "checkpoints" else pl.Series(name, [], kind)
        for name, kind in (("value", pl.String), ("key", pl.String), ("offset", pl.Int64))
    )
    row = {
        "values": [_hashes_of(values, _VALUE)],
        "keys": [_hashes_of(keys, _KEY)],
        "offsets": [offsets.drop_nulls().unique()],
        "stand_ins": [bool(values.str.starts_with("bytes:").any())],
        "cleaned": [table == "checkpoints" and "cleaned" in frame["name"]],
    }
    return pl.DataFrame(row, schema=ASKED)


def record_filter_of(asked: pl.DataFrame, compacted: bool | None) -> BloomFilter | None:
    """What all rows of ASKED ask; None where every record may be meant. Keys matter only to compaction, which takes a
    record where a later one has its key; `compacted` is None where nobody knows whether the topic is.
    """
    if asked["stand_ins"].any():
        return None
    keyed = asked["cleaned"].any() if compacted is None else compacted
    hashes = pl.concat([asked[name].explode().drop_nulls() for name in ("values", *(["keys"] if keyed else []))])
    size = min(MAX_BITS, 1 << max(BITS_EACH * len(hashes), LEAST_BITS).bit_length())
    bits = np.zeros(size // 8, dtype=np.uint8)
    byte, bit = _places(hashes.to_numpy(), bits)
    np.bitwise_or.at(bits, byte, np.uint8(1) << bit)
    return BloomFilter(bits, asked["offsets"].explode().drop_nulls().unique().sort().to_numpy())


def _places(hashes: Any, bits: Bytes) -> tuple[Any, Any]:
    """Byte and bit of each hash."""
    place = hashes & np.uint64(8 * len(bits) - 1)
    return (place >> np.uint64(3)).astype(np.int64), (place & np.uint64(7)).astype(np.uint8)


def _hashes(buf: Bytes, starts: Ints, lengths: Ints, seed: int) -> Any:
    out = np.empty(len(starts), dtype=np.uint64)
    _hash_texts(buf, np.ascontiguousarray(starts), np.ascontiguousarray(lengths), seed, out)
    return out


def _hashes_of(texts: pl.Series, seed: int) -> pl.Series:
    """Of each text once."""
    array = texts.drop_nulls().unique().rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, data = array.buffers()
    ends = np.frombuffer(bounds, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return pl.Series(_hashes(np.frombuffer(data, dtype=np.uint8), ends[:-1], np.diff(ends), seed))


@njit(cache=True, nogil=True)
def _hash_texts(buf, starts, lengths, seed, out):  # type: ignore[no-untyped-def]
    """A hash of each slice, eight bytes at a time; of a slice of length -1 that of none."""
    prime = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(starts)):
        length = lengths[i]
        h = (np.uint64(seed) ^ np.uint64(length)) * prime
        at = starts[i]
        end = at + length
        while at + 8 <= end:
            word = np.uint64(0)
            for j in range(8):
                word |= np.uint64(buf[at + j]) << np.uint64(8 * j)
            h = (h ^ word) * prime
            h ^= h >> np.uint64(32)
            at += 8
        while at < end:
            h = (h ^ np.uint64(buf[at])) * prime
            h ^= h >> np.uint64(32)
            at += 1
        out[i] = h
