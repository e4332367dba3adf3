"""Arrow arrays over numpy's memory.

`pa.array` of a numpy array would do, but it imports pandas to look whether it is one of its own: half a second of
each command.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Mask = npt.NDArray[np.bool_]


def validity(present: Mask | None) -> pa.Buffer | None:
    """The bitmap of what is present, None where all is."""
    return None if present is None or present.all() else _bits(present)


def numbers(values: npt.NDArray[Any], present: Mask | None = None) -> pa.Array:
    """Numbers, null where they are not present."""
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [validity(present), pa.py_buffer(np.ascontiguousarray(values))])


def flags(values: Mask, present: Mask | None = None) -> pa.Array:
    """Truth values, null where they are not present."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [validity(present), _bits(values)])


def lists(ends: npt.NDArray[np.int64], items: pa.Array, present: Mask) -> pa.Array:
    """A list a row, which ends before the item that `ends` says; null where it is not present."""
    bounds = np.concatenate([[0], ends]).astype(np.int64)
    buffers = [validity(present), pa.py_buffer(bounds)]
    return pa.Array.from_buffers(pa.large_list(items.type), len(ends), buffers, children=[items])


def _bits(values: Mask) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))
