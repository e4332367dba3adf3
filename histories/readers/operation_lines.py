"""The events that all readers of general operations yield."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ...models.operations import UNKNOWN


class OneLine:
    """The process of an operation that one line records whole. It is only equal to itself."""

    __slots__ = ()


class OperationLine(NamedTuple):
    """One event of a history. An annotation has the process None, and its text in `value`."""

    line: int  # from 1
    process: Hashable
    type: str  # of tables.TYPES
    f: str
    value: Any = None
    key: Hashable = None
    result: Any = UNKNOWN  # of a completion, if the format separates it from the value
    time: float | None = None  # None: the format has none; any unit
    client: Hashable = None  # if the process is a OneLine
