"""Arrow arrays over numpy's memory.

Not `pa.array(values)`: it imports pandas to check the type of its argument, which costs each command half a second.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..models.arrays import Ints, Mask


def validity(present: Mask | None) -> pa.Buffer | None:
    """The validity bitmap of an array; None if all values are present."""
    return None if present is None or present.all() else _bits(present)


def numbers(values: npt.NDArray[Any], present: Mask | None = None) -> pa.Array:
    """An array of numbers, null where not present."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [validity(present), pa.py_buffer(np.ascontiguousarray(values))])


def flags(values: Mask, present: Mask | None) -> pa.Array:
    """An array of booleans, null where not present."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity(present), _bits(values)])


def lists(ends: Ints, items: pa.Array, present: Mask) -> pa.Array:
    """One list for each row: `ends` has the exclusive end of each in `items`. Null where not present."""
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [validity(present), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(pa.large_list(items.type), len(ends), buffers, children=[items])


def _bits(values: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
