"""Finds a model: one of logjudge's, by its name or by functions, or a user's own in a Python file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...histories.errors import UsageError
from ...models.operations import Model, ModelError
from ...models.specifications import MODELS, models_for


def _from_file(path: str, name: str) -> Any:
    """The object of that name in a Python file. The file is run; every failure raises UsageError."""
    if not Path(path).is_file():
        raise UsageError(f"--model {path}:{name}: no file {path}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"--model {path}:{name}: {path} is no Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise UsageError(f"--model {path}:{name}: running {path} raised {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise UsageError(f"--model {path}:{name}: {path} has no {name}")
    return getattr(module, name)


def _guard(name: str, field: str, hook: Any) -> Callable[[Any], Any]:
    """The function of a user's model; each exception becomes a ModelError that names the field and its argument."""
    if not callable(hook):
        raise UsageError(f"--model {name}: {field} is {hook!r}, expected a function of an operation")

    def call(argument: Any) -> Any:
        try:
            return hook(argument)
        except Exception as error:
            raise ModelError(f"{field}({argument!r}) raised {type(error).__name__}: {error}") from error

    return call


def model_for(functions: set[str], source: str) -> Model[Any]:
    """The only model that has all functions of a history. Raises UsageError."""
    fitting = models_for(functions)
    if len(fitting) == 1 or (fitting and not functions):
        return fitting[0]
    if not fitting and functions == {"txn"}:
        hint = f"`logjudge check {source}` judges them if they are on lists or registers, as Elle's are"
        raise UsageError(f"{source}: found transactions, which no model has; {hint}")
    candidates = [model.name for model in fitting] or list(MODELS)
    fits = "more than one model fits" if fitting else "no model fits"
    raise UsageError(
        f"{source}: {fits} the operations {', '.join(sorted(functions))}; "
        f"choose one with --model, of {', '.join(candidates)}"
    )


def load_model(name: str) -> Model[Any]:
    """The model that --model names.

    A user's model is `FILE.py:NAME`: a Model, or a class or object with `initial` and `step(state, operation)`. It may
    have any other field of Model; a class is instantiated without arguments. Raises UsageError for anything else.
    """
    if name in MODELS:
        return MODELS[name]
    path, colon, attribute = name.rpartition(":")
    if not colon or not path:
        raise UsageError(f"no model {name!r}; there are {', '.join(MODELS)}, or your own as FILE.py:NAME")
    found = _from_file(path, attribute)
    if isinstance(found, type) and not isinstance(found, Model):
        try:
            found = found()
        except TypeError as error:
            raise UsageError(f"--model {name}: {attribute} needs to be made without arguments: {error}") from error
    if isinstance(found, Model):
        return found
    step: Callable[[Any, Any], Any] | None = getattr(found, "step", None)
    if not callable(step) or not hasattr(found, "initial"):
        raise UsageError(f"--model {name}: {attribute} needs an `initial` state and a `step(state, operation)`")
    try:
        hash(found.initial)
    except TypeError as error:
        raise UsageError(f"--model {name}: the initial state cannot be hashed: {error}") from error
    optional = {
        field: getattr(found, field)
        for field in ("functions", "partition", "observes", "problem", "describe", "describe_state")
        if hasattr(found, field)
    }
    for field in ("partition", "observes", "problem"):
        if optional.get(field) is not None:
            optional[field] = _guard(name, field, optional[field])
    optional.setdefault("partition", None)
    return Model(name=attribute, initial=found.initial, step=step, **optional)
