"""The numba decorators of all compiled loops, and the types of their arrays.

Compiling takes a minute of the first run after an installation, so that inner functions, which only compiled ones
call, get no entry for Python (numba spends a quarter of the time on entries), and no function is compiled once more
because an integer has 32 bits, or is a constant, where it is called from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., object])


def _compile(function: Function, **options: bool) -> Function:
    """Compile with numba; the machine code is cached on disk if a folder for it is writable."""
    try:
        dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # "no locator available": neither beside the source nor in the user's cache
        dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(function)
    template_of = dispatcher.get_call_template
    dispatcher.get_call_template = lambda types, named: template_of(tuple(map(_widened, types)), named)
    return cast(Function, dispatcher)


def _widened(kind: Any) -> Any:
    """The type as which compiled code hands on an argument: of integers and truth values there is one each."""
    if kind is numba.int32 or isinstance(kind, numba.types.IntegerLiteral):
        return numba.int64
    return numba.boolean if isinstance(kind, numba.types.BooleanLiteral) else kind


def compiled(function: Function) -> Function:
    """Compile a function."""
    return _compile(function)


def compiled_in_place(function: Function) -> Function:
    """Compile a function that makes and returns no array.

    numba then counts no references. A function that takes many arrays otherwise spends most of its time on that, as
    each count is an atomic instruction.
    """
    return _compile(function, _nrt=False)


def inner(function: Function) -> Function:
    """Compile a function that only compiled functions call. Python must not: the process would end."""
    return _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inner_in_place(function: Function) -> Function:
    """Compile a function that makes and returns no array, and that only compiled functions call."""
    return _compile(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)
