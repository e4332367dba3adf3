"""A Bloom filter of the records of one partition that a history refers to: by value, key or offset.

Tasks that decode the batches of a large log only keep these records. The filter is small enough to be sent to each of
them. It may let other records pass, as hashes share bits, but it drops none that the history refers to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...models.arrays import Bytes, Ints
from ...models.compiled import compiled
from .tables import LOOKUPS

BITS_PER_TEXT = 16  # one hash a text: at most one in 16 other texts passes, below MAX_BITS
MIN_BITS, MAX_BITS = 1 << 12, 1 << 23  # of the filter, which is sent to every task
_VALUE, _KEY = 1, 2  # seeds, so that a key and an equal value have different hashes


@dataclass(frozen=True)
class BloomFilter:
    """The bits of the filter (their number is a power of two), and the sorted offsets, which are exact."""

    bits: Bytes
    offsets: Ints

    def matches(self, buf: Bytes, spans: Ints, offsets: Ints) -> Any:
        """A mask of the records that the history may refer to; batch_loops.decode_v2 fills `spans`."""
        key_starts, key_lengths, value_starts, value_lengths = spans[:, 2:6].T
        found = self._contains(buf, value_starts, value_lengths, _VALUE)
        found |= self._contains(buf, key_starts, key_lengths, _KEY)
        if len(self.offsets):
            at = np.searchsorted(self.offsets, offsets)
            found |= self.offsets[np.minimum(at, len(self.offsets) - 1)] == offsets
        return found

    def _contains(self, buf: Bytes, starts: Ints, lengths: Ints, seed: int) -> Any:
        byte, bit = _bit_positions(_hashes(buf, starts, lengths, seed), self.bits)
        return (lengths >= 0) & ((self.bits[byte] >> bit) & 1 == 1)


def lookups_of(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """One row of LOOKUPS: the records that observations or checkpoints of one partition refer to."""
    values, keys, offsets = (
        frame[name] if name in frame.columns and table != "checkpoints" else pl.Series(name, [], kind)
        for name, kind in (("value", pl.String), ("key", pl.String), ("offset", pl.Int64))
    )
    row = {
        "values": [_hashes_of(values, _VALUE)],
        "keys": [_hashes_of(keys, _KEY)],
        "offsets": [offsets.drop_nulls().unique()],
        "has_digests": [bool(values.str.starts_with("bytes:").any())],
        "cleaned": [table == "checkpoints" and "cleaned" in frame["name"]],
    }
    return pl.DataFrame(row, schema=LOOKUPS)


def record_filter_of(lookups: pl.DataFrame, compacted: bool | None) -> BloomFilter | None:
    """The filter of all rows of LOOKUPS; None if every record must be kept.

    If the history has digests in place of some values (`has_digests`), their hashes differ from those of the log. Keys
    only matter on compacted topics, where a later record of the same key replaces an earlier one. `compacted` is None
    if the topic's configuration is unknown: then they matter if a log has a cleaner checkpoint (`cleaned`).
    """
    if lookups["has_digests"].any():
        return None
    needs_keys = lookups["cleaned"].any() if compacted is None else compacted
    hashes = pl.concat([lookups[name].explode().drop_nulls() for name in ("values", *(["keys"] if needs_keys else []))])
    size = min(MAX_BITS, 1 << (max(BITS_PER_TEXT * len(hashes), MIN_BITS) - 1).bit_length())
    bits = np.zeros(size // 8, dtype=np.uint8)
    byte, bit = _bit_positions(hashes.to_numpy(), bits)
    np.bitwise_or.at(bits, byte, np.uint8(1) << bit)
    return BloomFilter(bits, lookups["offsets"].explode().drop_nulls().unique().sort().to_numpy())


def _bit_positions(hashes: Any, bits: Bytes) -> tuple[Any, Any]:
    """The byte and the bit of each hash in the filter."""
    position = hashes & np.uint64(8 * len(bits) - 1)
    return (position >> np.uint64(3)).astype(np.int64), (position & np.uint64(7)).astype(np.uint8)


def _hashes(buf: Bytes, starts: Ints, lengths: Ints, seed: int) -> Any:
    out = np.empty(len(starts), dtype=np.uint64)
    _hash_texts(buf, np.ascontiguousarray(starts), np.ascontiguousarray(lengths), seed, out)
    return out


def _hashes_of(texts: pl.Series, seed: int) -> pl.Series:
    """The hashes of the distinct texts."""
    array = texts.drop_nulls().unique().rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    _, bounds, data = array.buffers()
    ends = np.frombuffer(bounds, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    return pl.Series(_hashes(np.frombuffer(data, dtype=np.uint8), ends[:-1], np.diff(ends), seed))


@compiled
def _hash_texts(buf: Bytes, starts: Ints, lengths: Ints, seed: int, out: Any) -> None:
    """The hash of each slice, eight bytes at a time. A null (length -1) has a hash, too."""
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
