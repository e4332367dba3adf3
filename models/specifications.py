"""The built-in models by name. To add one: a module, a name here, and a case in tests/test_porcupine.py."""

from __future__ import annotations

from typing import Any

from .append_log import APPEND_LOG
from .counter import COUNTER
from .key_value import KEY_VALUE
from .lock import LOCK
from .operations import Model
from .priority_queue import PRIORITY_QUEUE
from .queue import QUEUE
from .register import REGISTER
from .set import SET
from .stack import STACK

MODELS: dict[str, Model[Any]] = {
    model.name: model for model in (REGISTER, KEY_VALUE, SET, QUEUE, STACK, PRIORITY_QUEUE, COUNTER, LOCK, APPEND_LOG)
}
MODELS["cas-register"] = REGISTER  # Knossos's name for a register with compare-and-set


def models_for(functions: set[str]) -> list[Model[Any]]:
    """The models that have all of these functions, each once."""
    unique = {model.name: model for model in MODELS.values()}
    return [model for model in unique.values() if functions <= set(model.functions)]
