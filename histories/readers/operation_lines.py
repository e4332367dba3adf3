"""One line of a history of operations, the same for every format: what the readers give and operations.py pairs."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ...models.operations import UNKNOWN

TYPES = ("invoke", "ok", "fail", "info")


class Line(NamedTuple):
    """One event. `process` None is an annotation, and `value` its text."""

    line: int
    process: Hashable
    type: str
    f: str
    value: Any = None
    key: Hashable = None
    result: Any = UNKNOWN  # of a completion, where the format has it beside the value
    time: float | None = None  # where the format has it; any unit
    client: Hashable = None  # the client of the operation, where that is not the process
