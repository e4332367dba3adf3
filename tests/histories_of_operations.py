"""Builders of histories of operations for the tests, and the judge of last resort: all permutations."""

from __future__ import annotations

import random
from collections.abc import Hashable, Sequence
from typing import Any

from logjudge.models.operations import UNKNOWN, Action, Model, Operation


def is_linearizable(model: Model[Any], operations: Sequence[Operation]) -> bool:
    """Tries every order of the completed operations with any of the others. All keys are checked together."""
    completed = frozenset(i for i, operation in enumerate(operations) if operation.end is not None)

    def can_finish(left: frozenset[int], states: dict[Hashable, Any], latest_call: float) -> bool:
        if not left & completed:
            return True
        for i in left:
            operation = operations[i]
            if operation.end is not None and operation.end < latest_call:
                continue
            key = model.partition(operation.action) if model.partition else None
            after = model.step(states.get(key, model.initial), operation.action)
            if after is not None and can_finish(left - {i}, states | {key: after}, max(latest_call, operation.call)):
                return True
        return False

    return can_finish(frozenset(range(len(operations))), {}, float("-inf"))


def _is_legal(model: Model[Any], order: Sequence[Operation]) -> bool:
    """Whether a sequence respects time and the model."""
    state = model.initial
    latest_call = float("-inf")
    for operation in order:
        if operation.end is not None and operation.end < latest_call:
            return False
        latest_call = max(latest_call, operation.call)
        state = model.step(state, operation.action)
        if state is None:
            return False
    return True


def is_linearization(model: Model[Any], operations: Sequence[Operation], order: Sequence[int]) -> bool:
    """Whether an order is legal and has every completed operation, none twice."""
    completed = {i for i, operation in enumerate(operations) if operation.end is not None}
    return (
        len(set(order)) == len(order) and completed <= set(order) and _is_legal(model, [operations[i] for i in order])
    )


def register_run(count: int, processes: int, seed: int, values: int | None = 5, lost: float = 0.0) -> list[Operation]:
    """A linearizable history of a register: each operation takes effect at a point in its interval.

    `values`: the number of values; None: each write has a new value, and there is no cas. `lost`: the share of
    operations with an unknown outcome; half of them take effect.
    """
    rng = random.Random(seed)
    free = [(rng.random(), process) for process in range(processes)]
    made: list[tuple[float, float, float, int, str, Any, bool]] = []
    names = processes
    for number in range(count):
        at, process = min(free)
        free.remove((at, process))
        point = at + rng.random()
        end = point + rng.random()
        f = rng.choice(("read", "write", "cas") if values else ("read", "write"))
        value: Hashable = None
        if f == "write":
            value = rng.randrange(values) if values else number
        elif f == "cas":
            assert values
            value = (rng.randrange(values), rng.randrange(values))
        gone = rng.random() < lost
        made.append((at, point, end, process, f, value, gone))
        if gone:
            process, names = names, names + 1
        free.append((end + rng.random() / 2, process))
    state: Any = None
    operations = []
    for at, _, end, process, f, value, gone in sorted(made, key=lambda each: each[1]):
        happens = not gone or rng.random() < 0.5
        result: Any = state if f == "read" else (state == value[0]) if f == "cas" else None
        if happens and f == "write":
            state = value
        elif happens and f == "cas" and result:
            state = value[1]
        action = Action(f, value, UNKNOWN if gone else result)
        operations.append(Operation(action, at, None if gone else end, process))
    return sorted(operations, key=lambda operation: operation.call)
