"""Decides whether a history is linearizable with respect to a sequential specification, as Go Porcupine does.

from logjudge.models.porcupine import Action, Operation, check_operations
from logjudge.models.register import REGISTER
write, read = Action("write", 1), Action("read", None, 1)
check_operations(REGISTER, [Operation(write, 0, 10), Operation(read, 5, 12)])
"""

from ..operations import UNKNOWN, Action, Event, Model, ModelError, Operation
from .check import DEFAULT_MEMORY, check_events, check_operations, warm_up
from .result import Part, Result, Verdict

__all__ = [
    "DEFAULT_MEMORY",
    "UNKNOWN",
    "Action",
    "Event",
    "Model",
    "ModelError",
    "Operation",
    "Part",
    "Result",
    "Verdict",
    "check_events",
    "check_operations",
    "warm_up",
]
