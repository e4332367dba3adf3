"""Sets of values and of operations as intervals of 64-bit keys: a hash of a text, plus the number after it.

So p0-1, p0-2, … p0-1000000 are one interval. Values without such numbers take 16 bytes each. Two values with the same
key only cost time: their partition is judged by its rules. (A Bloom filter is smaller for random values, but not for
these, and its false positives grow with the run.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from ..partitions.ranges import Ranges, union_of

Keys = npt.NDArray[np.uint64]
_NONE = np.empty(0, np.uint64)
_LAST_NUMBER = r"(0|[1-9][0-9]{0,17})$"


class KeySet(NamedTuple):
    """Disjoint intervals of keys, in order; both ends are inclusive."""

    first: Keys = _NONE
    last: Keys = _NONE

    def holds_any(self, keys: Keys) -> bool:
        """Whether one of the keys is in the set."""
        return bool(Ranges(*self).hold(keys).any())

    def with_keys(self, keys: Keys) -> KeySet:
        """The set with more keys."""
        return KeySet(*union_of(*(np.concatenate([ends, keys]) for ends in self)))


def keys_of(values: pl.Series) -> Keys:
    """The keys of values, in order."""
    number = pl.col("value").str.extract(_LAST_NUMBER, 1)
    parts = pl.DataFrame({"value": values.drop_nulls()}).select(
        text=pl.col("value").str.strip_suffix(number.fill_null("")).hash(),
        number=number.cast(pl.UInt64).fill_null(pl.lit(2**64 - 1, pl.UInt64)),
    )
    keys: Keys = parts["text"].to_numpy() + parts["number"].to_numpy() + np.uint64(1)
    return np.sort(keys)


def operation_keys(events: pl.DataFrame) -> Keys:
    """The keys of the operations that are invoked, in order: process and op. Those without op have none."""
    invoked = events.filter(pl.col("op").is_not_null(), type="invoke")
    numbers = invoked["op"].cast(pl.UInt64, wrap_numerical=True).to_numpy()
    return np.sort(invoked["process"].hash().to_numpy() + numbers)
