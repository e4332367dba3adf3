"""The numba decorators of all compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types
from numba.core.typing.templates import infer_global

Function = TypeVar("Function", bound=Callable[..., object])


def _widen(kind: Any) -> Any:
    """int64 for the type of a constant or of a shorter whole number."""
    return types.int64 if isinstance(kind, types.IntegerLiteral) or kind == types.int32 else kind


def _compile(function: Function, **options: Any) -> Any:
    """Compile with numba; the machine code is cached on disk if a folder for it is writable.

    Compiled code passes whole numbers as int64: numba would compile a function anew for each constant, and for each
    mixture of int32 and int64 among its arguments.
    """
    if numba.config.DISABLE_JIT:
        return function
    options |= {"nogil": True}
    try:
        dispatcher = numba.njit(cache=True, error_model="numpy", **options)(function)
    except RuntimeError:  # "no locator available": neither beside the source nor in the user's cache
        dispatcher = numba.njit(error_model="numpy", **options)(function)
    exact = dispatcher.get_call_template
    dispatcher.get_call_template = lambda args, kws: exact(tuple(map(_widen, args)), kws)
    return dispatcher


def compiled(function: Function) -> Function:
    """Compile a function."""
    return cast(Function, _compile(function))


def compiled_without_refcounts(function: Function) -> Function:
    """Compile a function that makes and returns no array, without reference counting.

    Each count is an atomic instruction, and a function that takes many arrays would spend most of its time on them.
    """
    return cast(Function, _compile(function, _nrt=False))


def _compile_inner(function: Function, **options: Any) -> Function:
    """Compile for compiled callers only; a call from Python runs the function uncompiled.

    This leaves out numba's wrapper for calls from Python, which takes as long to compile as a short function.
    """
    dispatcher = _compile(function, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)
    if dispatcher is not function:
        infer_global(function, types.Dispatcher(dispatcher))
        function.dispatcher = dispatcher  # type: ignore[attr-defined]  # numba's type of it is a weak reference
    return function


def compiled_inner(function: Function) -> Function:
    """`compiled` for what compiled functions call and Python seldom does."""
    return _compile_inner(function)


def compiled_inner_without_refcounts(function: Function) -> Function:
    """`compiled_without_refcounts` for what compiled functions call and Python seldom does."""
    return _compile_inner(function, _nrt=False)


def compiled_into_callers(function: Function) -> Function:
    """Like `compiled_inner_without_refcounts`, as a part of each caller: a call passes ten words for each array."""
    return _compile_inner(function, _nrt=False, inline="always")
