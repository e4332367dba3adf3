"""The data folder, the register model and single searches, for the tests of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from logjudge.models.porcupine import Model, Operation
from logjudge.models.porcupine.history import number_actions
from logjudge.models.porcupine.steps import Budget, Steps
from logjudge.models.specifications import MODELS

DATA = Path(__file__).parent / "data" / "porcupine"
REGISTER = MODELS["register"]


def by_one_search(search: Any, model: Model[Any], operations: list[Operation]) -> Any:
    """The result of one search alone, the quick or the compiled one."""
    numbered = number_actions(model, operations)
    steps = Steps(model, numbered.actions, numbered.observes)
    searching = search(numbered.history(), steps, Budget(None, 1 << 30))
    return searching.result(searching.run())
