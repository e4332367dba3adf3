"""Values that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


class HasMemo(Protocol):
    """Something that keeps what is derived from it."""

    @property
    def memo(self) -> dict[Any, Any]:
        """The results by function and arguments."""


Source = TypeVar("Source", bound=HasMemo)


def once(
    function: Callable[Concatenate[Source, Arguments], Value],
) -> Callable[Concatenate[Source, Arguments], Value]:
    """Caches a function with its first argument, such as a partition; the others must be hashable."""

    @wraps(function)
    def cached(source: Source, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        key = (function, *args, *kwargs.items())
        if key not in source.memo:
            source.memo[key] = function(source, *args, **kwargs)
        result: Value = source.memo[key]
        return result

    return cached


class cached_property(Generic[Value]):  # noqa: N801
    """functools.cached_property without its lock, which Python 3.11 holds for all instances while it computes a value.

    With the lock, threads deadlock: one that holds it may, within a query of polars, take up work that needs it.
    Two threads that need the same value at once both compute it.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Value:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
