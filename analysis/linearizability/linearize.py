"""Judges a history of operations: locally, or key by key wherever `map_payloads` runs them (Spark).

Machines exchange JSON as bytes: reading it runs no code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ...histories.errors import InputError
from ...histories.operation_history import History
from ...histories.readers.edn import FrozenMap, Word
from ...models.operations import UNKNOWN, Action, Model, ModelError, Operation
from ...models.porcupine import Part, Result, Verdict, check_operations
from .user_model import load_model

# Applies `judge_payload` to payloads and returns the results in any order, as Spark can.
MapPayloads = Callable[[Callable[[bytes], bytes], Iterable[bytes]], Iterable[bytes]]


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
        return f"line {self.history.lines[index]}: process {operation.process} {action}"


def judge_history(
    model_name: str, history: History, timeout: float | None, memory: int, map_payloads: MapPayloads | None = None
) -> Judgement:
    """Check a history; `timeout` in seconds, `memory` in bytes (with `map_payloads`: of each key).

    Raises InputError with the line of an operation that the model cannot take.
    """
    model = load_model(model_name)
    if map_payloads is None:
        return judge_operations(model, history, timeout, memory)
    with _located_errors(model, history):
        return Judgement(model, history, check_by_key(model_name, history.operations, timeout, memory, map_payloads))


def judge_operations(model: Model[Any], history: History, timeout: float | None, memory: int) -> Judgement:
    """Check a history by a model, as `judge_history` does."""
    with _located_errors(model, history):
        return Judgement(model, history, check_operations(model, history.operations, timeout, memory))


@contextmanager
def _located_errors(model: Model[Any], history: History) -> Iterator[None]:
    """Raises a ModelError as an InputError with the line of its operation."""
    try:
        yield
    except ModelError as error:
        line = None if error.operation is None else history.lines[error.operation]
        raise InputError(history.source, str(error), f"operations of the model {model.name}", line=line) from error


def encode(value: Any) -> Any:
    """A value of an action as JSON values; `decode` returns an equal value."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if value is UNKNOWN:
        return {"unknown": True}
    if isinstance(value, Word):
        return {"word": value.text}
    if isinstance(value, FrozenMap):
        return {"map": [[encode(key), encode(item)] for key, item in value]}
    if isinstance(value, frozenset):
        return {"set": [encode(item) for item in value]}
    return {"tuple": [encode(item) for item in value]}


def decode(value: Any) -> Any:
    """The value that `encode` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "unknown":
        return UNKNOWN
    if kind == "word":
        return Word(content)
    if kind == "map":
        return FrozenMap((decode(key), decode(item)) for key, item in content)
    items = [decode(item) for item in content]
    return frozenset(items) if kind == "set" else tuple(items)


def payloads(model_name: str, operations: list[Operation], timeout: float | None, memory: int) -> Iterator[bytes]:
    """One payload of bytes for each independent object of a history."""
    model = load_model(model_name)
    parts: dict[Any, list[int]] = {}
    for index, operation in enumerate(operations):
        parts.setdefault(model.partition(operation.action) if model.partition else None, []).append(index)
    for indices in parts.values():
        rows = [[*map(encode, operations[i].action), operations[i].call, operations[i].end] for i in indices]
        job = {"model": model_name, "timeout": timeout, "memory": memory, "indices": indices, "operations": rows}
        yield json.dumps(job).encode()


def judge_payload(payload: bytes) -> bytes:
    """The result of checking one payload, as bytes of JSON; operations are indices into the whole history."""
    job = json.loads(payload)
    model = load_model(job["model"])
    operations = [Operation(Action(*map(decode, row[:4])), row[4], row[5]) for row in job["operations"]]
    indices: list[int] = job["indices"]
    try:
        result = check_operations(model, operations, job["timeout"], job["memory"])
    except ModelError as error:
        at = None if error.operation is None else indices[error.operation]
        return json.dumps({"error": str(error), "operation": at, "first": indices[0]}).encode()
    part = result.parts[0]
    result_fields = {
        "verdict": part.verdict,
        "seconds": result.seconds,
        "first": indices[0],
        "operations": indices,
        "completed": part.completed,
        "placed": part.placed,
        "configurations": part.configurations,
        # The linearization of a valid object is not used, and there may be millions of them.
        "linearizations": [[indices[i] for i in path] for path in part.linearizations if part.verdict != "ok"],
        "blocked": None if part.blocked is None else indices[part.blocked],
        "states": [model.describe_state(state) for state in part.states],
        "reason": part.reason,
        "method": part.method,
        "witness": [indices[i] for i in part.witness],
    }
    return json.dumps(result_fields).encode()


def check_by_key(
    model_name: str, operations: list[Operation], timeout: float | None, memory: int, map_payloads: MapPayloads
) -> Result:
    """The result of checking every independent object of a history through `map_payloads`.

    `seconds` of the result is the sum over the objects. Raises ModelError for the first operation that the model
    cannot take.
    """
    results = map_payloads(judge_payload, payloads(model_name, operations, timeout, memory))
    judged = sorted((json.loads(result) for result in results), key=lambda each: each["first"])
    model = load_model(model_name)
    parts = []
    for each in judged:
        if "error" in each:
            raise ModelError(each["error"], each["operation"])
        key = model.partition(operations[each["first"]].action) if model.partition else None
        states = [Word(state) for state in each["states"]]
        parts.append(Part(key=key, states=states, **{name: each[name] for name in _PART_FIELDS}))
    verdicts = {part.verdict for part in parts}
    worst: Verdict = "illegal" if "illegal" in verdicts else "unknown" if "unknown" in verdicts else "ok"
    return Result(worst, sum(each["seconds"] for each in judged), parts)


_PART_FIELDS = (
    *("verdict", "operations", "completed", "placed", "configurations", "linearizations", "blocked"),
    *("reason", "method", "witness"),
)


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
        lines.append(f"key {part.key!r}, {len(part.operations)} operations")
    if part.witness:
        lines += ["these contradict each other:", *(f"  {judgement.operation(index)}" for index in part.witness)]
    if part.blocked is None:
        return lines
    linearized = f"linearized {part.placed} of {part.completed} completed operations"
    if part.verdict == "unknown":
        return [*lines, f"{part.reason}: {linearized}; {part.configurations} configurations"]
    states = ", ".join(describe_state(judgement.model, state) for state in part.states[:8])
    more = ", …" if len(part.states) > 8 else ""
    lines += [linearized, f"cannot be linearized: {judgement.operation(part.blocked)}"]
    return [*lines, f"possible states before it: {states}{more}"]
