"""Judges a history of operations, and describes the proof of the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ...histories.errors import InputError
from ...histories.operation_history import History
from ...histories.readers.edn import Word
from ...models.operations import Model, ModelError
from ...models.porcupine import Part, Result, check_operations


class Request(NamedTuple):
    """What to judge a history by, and what to show of the object that decides the verdict."""

    model: str | None  # None: the only model that has all functions of the history
    timeout: float | None  # seconds; on Spark for each bucket of objects, as the memory
    memory: int  # bytes
    minimal: bool = False
    picture: bool = False


@dataclass(frozen=True)
class Judgement:
    """The verdict on the history of one file, with its proof."""

    model: Model[Any]
    history: History
    result: Result

    @property
    def part(self) -> Part | None:
        """The part that decides the verdict."""
        return self.result.worst

    def operation(self, index: int) -> str:
        """One operation in words, with its line."""
        operation = self.history.operations[index]
        action = self.model.describe(operation.action)
        process = "" if operation.process is None else f"process {operation.process} "
        return f"line {self.history.lines[index]}: {process}{action}"


def judge_operations(model: Model[Any], history: History, timeout: float | None, memory: int) -> Judgement:
    """Check a history; `timeout` in seconds, `memory` in bytes.

    Raises InputError with the line of an operation that the model cannot take.
    """
    try:
        return Judgement(model, history, check_operations(model, history.operations, timeout, memory))
    except ModelError as error:
        line = None if error.operation is None else history.lines[error.operation]
        raise InputError(history.source, str(error), f"operations of the model {model.name}", line=line) from error


def describe_state(model: Model[Any], state: Any) -> str:
    """A state in words. A state from another machine is already a Word."""
    return state.text if isinstance(state, Word) else model.describe_state(state)


def evidence(judgement: Judgement) -> list[str]:
    """The proof of the verdict, or how far the search came, as lines; none if the verdict is ok."""
    part = judgement.part
    if part is None or part.verdict == "ok":
        return []
    lines = []
    if part.key is not None:
        lines.append(f"key {part.key!r}, {len(part.operations) + part.others} operations")
    if part.witness:
        lines += ["proof: these contradict each other:", *(f"  {judgement.operation(index)}" for index in part.witness)]
    if part.blocked is None:
        return lines
    linearized = f"linearized at most {part.placed} of {part.completed} completed operations"
    if part.verdict == "unknown":
        return [*lines, f"{part.reason}: {linearized}; {part.configurations} configurations"]
    states = ", ".join(describe_state(judgement.model, state) for state in part.states[:8])
    more = ", …" if len(part.states) > 8 else ""
    lines += [linearized, f"cannot be linearized: {judgement.operation(part.blocked)}"]
    return [*lines, f"possible states before it: {states}{more}"]
