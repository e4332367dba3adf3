"""Checks a history given in arrays: millions of operations without a Python object for each.

from logjudge.models.porcupine.columns import Columns, check_columns
from logjudge.models.queue import QUEUE
check_columns(QUEUE, Columns(f=[0, 1], value=[7, NULL], result=[NULL, 7], call=[0, 5], end=[3, 9]))
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..compiled import Ints, Longs
from ..operations import UNKNOWN, Action, Model, ModelError, Operation
from . import machine as m
from .check import check_operations
from .history import History, order_events
from .layout import sort_by_part
from .monitors import monitor_parts
from .part_history import ILLEGAL, UNDECIDED
from .result import Part, Result, Verdict

NULL = -(2**63)  # a null result, or the end of a pending operation
MAX_INT32 = 2**31 - 2


class Columns(NamedTuple):
    """A history in arrays of integers, with an entry for each operation."""

    f: ArrayLike  # the index of its function in `model.functions`
    value: ArrayLike  # its argument
    # NULL is null. Of `contains` 0 or 1; of `append` the offset, NULL if it is not known; of `read` of a log the one
    # record at the offset `value`, so a read of several records becomes several operations.
    result: ArrayLike
    call: ArrayLike
    end: ArrayLike  # NULL is an unknown outcome
    key: ArrayLike | None = None  # the object, if there are several


# By model: its monitor; and by function: the instruction, and whether the value is the argument (True) or the result.
FUNCTIONS: dict[str, tuple[int, dict[str, tuple[int, bool]]]] = {
    "register": (m.REGISTER, {"read": (m.READ, False), "write": (m.WRITE, True)}),
    "key-value": (m.REGISTER, {"get": (m.READ, False), "put": (m.WRITE, True)}),
    "queue": (m.QUEUE, {"enqueue": (m.APPEND, True), "dequeue": (m.DEQUEUE, False)}),
    "stack": (m.STACK, {"push": (m.APPEND, True), "pop": (m.POP, False)}),
    "priority-queue": (m.PRIORITY_QUEUE, {"insert": (m.INSERT, True), "delete-min": (m.POP, False)}),
    "set": (m.SET, {"add": (m.INCLUDE, True), "remove": (m.REMOVE, True), "contains": (m.CONTAINS, True)}),
    "lock": (m.LOCK, {"acquire": (m.CAS, True), "release": (m.CAS, True)}),
    "append-log": (m.LOG, {"append": (m.APPEND, True), "read": (m.SLICE, False), "end": (m.LENGTH, False)}),
}


def _number(values: Longs, descending: bool) -> tuple[Ints, int, int]:
    """The values numbered in their order, how many there are, and the number of NULL."""
    known = values[values != NULL]
    low, high = (int(known.min()), int(known.max())) if len(known) else (0, 0)
    if high - low < 4 * len(values) + 1024:  # dense enough to skip sorting
        count = high - low + 1
        numbers = np.where(values == NULL, count, values - low)
    else:
        distinct, numbers = np.unique(np.where(values == NULL, high + 1, values), return_inverse=True)
        count = len(distinct)
        numbers = np.where(values == NULL, count, numbers)
    if descending:
        numbers = np.where(values == NULL, count, count - 1 - numbers)
    return numbers.astype(np.int32), count + 1, count


def _encode(model: Model[Any], columns: list[Longs], pending: Any) -> tuple[int, m.Machine, int, int]:
    """The monitor, the instructions, how many values they number, and the number of null."""
    if model.name not in FUNCTIONS:
        raise ModelError(f"columns of the model {model.name}, expected one of {', '.join(FUNCTIONS)}")
    kind, functions = FUNCTIONS[model.name]
    f, value, result = columns[:3]
    chosen = np.zeros(len(f), bool)
    instruction, is_argument = np.zeros(len(f), np.int32), np.zeros(len(f), bool)
    for name, (number, of_argument) in functions.items():
        here = f == model.functions.index(name)
        chosen |= here
        instruction[here], is_argument[here] = number, of_argument
    if not chosen.all():
        raise ModelError(
            f"a function that columns cannot express, expected {', '.join(functions)}", int(chosen.argmin())
        )
    values, count, null = _number(np.where(is_argument, value, result), kind == m.PRIORITY_QUEUE)
    code = np.column_stack([instruction, values, np.full(len(f), -1, np.int32)])
    units, word_start = m.NO_MACHINE.units, m.NO_MACHINE.word_start
    if kind in (m.QUEUE, m.STACK, m.PRIORITY_QUEUE):
        takes = ~is_argument
        code[takes & (result == NULL)] = m.LENGTH, 0, 0
        code[takes & pending, 0] = m.DEQUEUE_ANY if kind == m.QUEUE else m.POP_ANY
    elif kind == m.LOCK:  # from no owner, 0, or to it
        owner, acquires = values + 1, f == model.functions.index("acquire")
        code[:, 1], code[:, 2] = np.where(acquires, 0, owner), np.where(acquires, owner, 0)
        count += 1
    elif kind == m.SET:
        code[(instruction == m.CONTAINS) & (result == 0), 0] = m.LACKS
    elif kind == m.LOG:
        offsets = np.where(instruction == m.SLICE, value, np.where(pending | (result == NULL), -1, result))
        bad = (offsets < -1) | (offsets > MAX_INT32)
        if bad.any():
            raise ModelError(f"the offset {offsets[bad.argmax()]}", int(bad.argmax()))
        code[:, 2] = offsets
        is_end, is_read = instruction == m.LENGTH, instruction == m.SLICE
        code[is_end, 1] = offsets[is_end]
        units, word_start = values[is_read], np.arange(is_read.sum() + 1, dtype=np.int32)
        code[is_read, 1] = word_start[:-1]
        code[(is_end | is_read) & pending] = m.PASS, 0, 0
    return kind, m.NO_MACHINE._replace(code=code, units=units, word_start=word_start), count, null


def _operations(model: Model[Any], columns: list[Longs]) -> list[Operation]:
    """The columns as a list of operations."""
    operations = []
    for f, value, result, call, end, key in zip(*(column.tolist() for column in columns), strict=True):
        name = model.functions[f]
        answer = UNKNOWN if end == NULL else None if result == NULL else result
        if name == "append" and result == NULL:
            answer = UNKNOWN
        elif name == "contains" and answer is not UNKNOWN:
            answer = bool(result)
        elif (model.name, name) == ("append-log", "read") and answer is not UNKNOWN:
            answer = (result,)
        argument = None if value == NULL else value
        operations.append(Operation(Action(name, argument, answer, key), call, None if end == NULL else end))
    return operations


def check_columns(model: Model[Any], columns: Columns) -> Result:
    """Decide whether a history in arrays is linearizable: by a monitor, or by `check_operations` if none can decide.

    Raises ModelError if columns cannot express the model or a function, or have an invalid value.
    """
    rows = len(np.asarray(columns.f))
    if rows == 0:
        return Result("ok", 0.0, [])
    arrays = [np.asarray(column, np.int64) for column in columns[:5]]
    arrays.append(np.zeros(rows, np.int64) if columns.key is None else np.asarray(columns.key, np.int64))
    if any(column.shape != (rows,) for column in arrays):
        raise ModelError("columns of different lengths")
    call, end = arrays[3], arrays[4]
    began = time.perf_counter()
    pending = end == NULL
    if (wrong := ~pending & (end < call)).any():
        index = int(wrong.argmax())
        raise ModelError(f"an operation that ends at {end[index]}, called at {call[index]}", index)
    kind, machine, values, null = _encode(model, arrays, pending)
    keys, part_of = np.zeros(1, np.int64), np.zeros(rows, np.int32)
    if columns.key is not None:
        keys, inverse = np.unique(arrays[5], return_inverse=True)
        part_of = inverse.astype(np.int32)
    completed = np.flatnonzero(~pending).astype(np.int32)
    events = order_events(np.concatenate([call, end[completed]]), completed)
    events, starts = sort_by_part(events, part_of, len(keys))
    everything = np.arange(len(keys), dtype=np.int32)
    history = History(np.arange(rows, dtype=np.int32), m.NOTHING, events)
    verdicts, witness = monitor_parts(history, starts, everything, kind, machine, null, values)
    seconds = time.perf_counter() - began
    decided = verdicts[: int((verdicts == ILLEGAL).argmax()) + 1] if (verdicts == ILLEGAL).any() else verdicts
    if (decided == UNDECIDED).any() and decided[-1] != ILLEGAL:
        return check_operations(model, _operations(model, arrays))
    parts = []
    for part, outcome in enumerate(decided.tolist()):
        if outcome == UNDECIDED:
            continue
        indices = range(rows) if len(keys) == 1 else np.flatnonzero(part_of == part).tolist()
        done = int(starts[part + 1] - starts[part]) - len(indices)
        verdict: Verdict = "illegal" if outcome == ILLEGAL else "ok"
        shown = sorted(set(witness.tolist()), key=call.__getitem__) if outcome == ILLEGAL else []
        key = None if columns.key is None else int(keys[part])
        parts.append(
            Part(key, verdict, indices, done, done * (verdict == "ok"), 0, [], method="monitor", witness=shown)
        )
    worst: Verdict = "illegal" if witness.size else "ok"
    return Result(worst, seconds, parts)
