"""A history in arrays, as all searches and monitors take it: numbered actions, and events in the order of time."""

from __future__ import annotations

from collections.abc import Sequence
from operator import le
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import Int32s
from ..operations import Action, Model, ModelError, Operation

EXACT = 2.0**53  # a whole number below this is the same as a float


class History(NamedTuple):
    """Operations in arrays. A part of a history has the events of its operations alone."""

    action_of: Int32s  # by operation
    observes: Int32s  # by action: 1 if it never changes a state
    events: Int32s  # in the order of time: i where operation i is called, -1 - i where it ends; pending ones never end


class Numbered(NamedTuple):
    """Operations in columns, with numbered actions. An end of None is an unknown outcome (the operation is pending)."""

    actions: list[Action]
    observes: Int32s  # by action: 1 if it never changes a state
    action_of: Int32s  # by operation
    calls: Sequence[float]
    ends: Sequence[float | None]

    def history(self) -> History:
        """The operations in arrays."""
        ends = [end for end in self.ends if end is not None]
        completed = np.arange(len(self.ends), dtype=np.int32)
        if len(ends) < len(self.ends):
            completed = np.array([i for i, end in enumerate(self.ends) if end is not None], np.int32)
        return History(self.action_of, self.observes, order_events(_comparable([*self.calls, *ends]), completed))


def _comparable(times: list[float]) -> NDArray[Any]:
    """The times, or their ranks: numpy would round large ints to compare them with floats, Python compares exactly."""
    array = np.array(times)
    if array.dtype == np.int64:
        return array
    if array.dtype == np.float64 and np.abs(array, where=np.isfinite(array), out=np.zeros(len(array))).max() < EXACT:
        return array
    ranks = {time: rank for rank, time in enumerate(sorted(set(times)))}
    return np.array([ranks[time] for time in times])


def order_events(times: NDArray[Any], completed: Int32s) -> Int32s:
    """The events in order. `times` has the calls of all operations, then the ends of the completed ones."""
    calls = np.arange(len(times) - len(completed), dtype=np.int32)
    # A stable sort keeps calls before ends at equal times.
    return np.concatenate([calls, -1 - completed])[np.argsort(times, kind="stable")]


def sort_by_part(events: Int32s, part_of: Int32s, parts: int) -> tuple[Int32s, Int32s]:
    """The events sorted by part, and where each part starts; one longer than the parts."""
    part = part_of[np.where(events < 0, -1 - events, events)]
    starts = np.cumsum([0, *np.bincount(part, minlength=parts)])
    return events[np.argsort(part, kind="stable")], starts.astype(np.int32)


def number_actions(model: Model[Any], operations: Sequence[Operation]) -> Numbered:
    """The operations in columns, with equal actions numbered alike.

    Raises ModelError for an action that does not belong to the model, and for an operation that ends before its call.
    """
    numbers: dict[Action, int] = {}
    try:
        action_of = [numbers.setdefault(operation.action, len(numbers)) for operation in operations]
    except TypeError:
        for index, operation in enumerate(operations):
            try:
                hash(operation.action)
            except TypeError as error:
                raise ModelError(f"{operation.action!r}, which cannot be hashed ({error})", index) from error
        raise
    for action, number in numbers.items():
        if model.functions and action.f not in model.functions:
            problem: str | None = f"the operation {action.f!r} (not {' or '.join(model.functions)})"
        else:
            problem = model.problem(action)
        if problem:
            raise ModelError(problem, action_of.index(number))
    _, calls, ends, _ = zip(*operations, strict=True)
    latest = ends
    if None in ends:
        latest = tuple([call if end is None else end for call, end in zip(calls, ends, strict=True)])
    if not all(map(le, calls, latest)):
        index = next(i for i, (call, end) in enumerate(zip(calls, latest, strict=True)) if not call <= end)
        raise ModelError(f"an operation that ends at {ends[index]!r}, called at {calls[index]!r}", index)
    observes = np.array(list(map(model.observes, numbers)), np.int32)
    return Numbered(list(numbers), observes, np.array(action_of, np.int32), calls, ends)
