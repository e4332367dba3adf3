"""`logjudge.linearizable`: decides whether a history of operations is linearizable by a sequential specification."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from .analysis.linearizability.linearize import Judgement, evidence, judge_operations
from .analysis.linearizability.user_model import load_model
from .histories.operation_history import History, read_operations
from .models.operations import Model, Operation

DEFAULT_MEMORY_MB = 2048


class Linearizability:
    """The verdict on a history of operations. It is true if the history is linearizable."""

    def __init__(self, judgement: Judgement) -> None:
        self.judgement = judgement

    @property
    def verdict(self) -> str:
        """`ok`, `illegal`, or `unknown` if time or memory ran out."""
        return self.judgement.result.verdict

    @property
    def evidence(self) -> list[str]:
        """Lines that prove a failure, or the progress of an undecided search."""
        return evidence(self.judgement)

    def __bool__(self) -> bool:
        return self.verdict == "ok"

    def __repr__(self) -> str:
        return "\n".join([f"<{self.judgement.history.source}: {self.verdict}>", *self.evidence])


def linearizable(
    model: str | Model[Any],
    operations: str | os.PathLike[str] | Iterable[Operation],
    *,
    timeout: float | None = None,
    memory_mb: int = DEFAULT_MEMORY_MB,
) -> Linearizability:
    """Decide whether operations are linearizable by a model; the result is true, or false with evidence.

    `model` is a name of `logjudge linearize --model`, `FILE.py:NAME`, or a Model; `operations` are `Operation`s or a
    history file. `timeout` is in seconds. Raises LogjudgeError if the model does not have an operation.
    """
    found = load_model(model) if isinstance(model, str) else model
    if isinstance(operations, str | os.PathLike):
        history = read_operations(os.fspath(operations))
    else:
        listed = list(operations)
        history = History("operations", "python", listed, list(range(1, len(listed) + 1)), [])
    return Linearizability(judge_operations(found, history, timeout, memory_mb << 20))
