"""The events that readers of general operations yield, whatever the format."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ...models.operations import UNKNOWN


class OperationLine(NamedTuple):
    """One event of a history. An annotation has the process None, and its text in `value`."""

    line: int  # from 1
    process: Hashable
    type: str  # of tables.TYPES
    f: str
    value: Any = None
    key: Hashable = None
    result: Any = UNKNOWN  # of a completion, where the format has it beside the value
    time: float | None = None  # where the format has it; any unit
    client: Hashable = None  # the client of the operation, where that is not the process
