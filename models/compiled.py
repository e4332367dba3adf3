"""The numba decorators of all compiled loops, and the types of their arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., object])


def _compile(function: Function, **options: bool) -> Function:
    """Compile with numba; the machine code is cached on disk if a folder for it is writable."""
    try:
        return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function))
    except RuntimeError:  # "no locator available": neither beside the source nor in the user's cache
        return cast(Function, numba.njit(nogil=True, error_model="numpy", **options)(function))


def compiled(function: Function) -> Function:
    """Compile a function."""
    return _compile(function)


def compiled_in_place(function: Function) -> Function:
    """Compile a function that makes and returns no array, without reference counting.

    Each count is an atomic instruction, and a function that takes many arrays would spend most of its time on them.
    """
    return _compile(function, _nrt=False)
