"""logjudge: judges replicated logs, from Python (docs/python.md).

    import logjudge

    result = logjudge.check("run")
    result.assert_valid()

Importing it is quick: a name's module is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import aiokafka, confluent, spark
    from .histories.errors import InputError, LogjudgeError, MissingComponentError, UsageError
    from .histories.recording.recorder import Recorder
    from .judging import assert_valid, check
    from .linearizability import Linearizability, linearizable
    from .models.operations import UNKNOWN, Action, Model, Operation
    from .result import Result
    from .simulation import simulate

# The public names by module, below this package; a name that is a module has none.
_NAMES = {
    "": ("aiokafka", "confluent", "spark"),
    "histories.errors": ("InputError", "LogjudgeError", "MissingComponentError", "UsageError"),
    "histories.recording.recorder": ("Recorder",),
    "judging": ("assert_valid", "check"),
    "linearizability": ("Linearizability", "linearizable"),
    "models.operations": ("UNKNOWN", "Action", "Model", "Operation"),
    "result": ("Result",),
    "simulation": ("simulate",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "UNKNOWN",
    "Action",
    "InputError",
    "Linearizability",
    "LogjudgeError",
    "MissingComponentError",
    "Model",
    "Operation",
    "Recorder",
    "Result",
    "UsageError",
    "aiokafka",
    "assert_valid",
    "check",
    "confluent",
    "linearizable",
    "simulate",
    "spark",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    found = getattr(import_module(f".{module}", __name__), name) if module else import_module(f".{name}", __name__)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
