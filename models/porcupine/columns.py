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

from ..arrays import Int32s, Ints
from ..operations import UNKNOWN, Action, Model, ModelError, Operation
from . import machine as m
from .check import check_operations
from .encoding import MAX_INT32
from .history import History, order_events
from .layout import sort_by_part
from .monitors import monitor_parts
from .part_history import ILLEGAL, UNDECIDED
from .result import Part, Result, Verdict

NULL = -(2**63)  # a null result, or the end of a pending operation


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


class _Function(NamedTuple):
    instruction: int
    is_argument: bool  # whether the instruction has the argument of the operation, or its result


class _ModelCode(NamedTuple):
    monitor: int
    functions: dict[str, _Function]


_READ, _WRITE = _Function(m.READ, is_argument=False), _Function(m.WRITE, is_argument=True)
_APPEND, _POP = _Function(m.APPEND, is_argument=True), _Function(m.POP, is_argument=False)
_CAS = _Function(m.CAS, is_argument=True)
MODEL_CODES = {
    "register": _ModelCode(m.REGISTER, {"read": _READ, "write": _WRITE}),
    "key-value": _ModelCode(m.REGISTER, {"get": _READ, "put": _WRITE}),
    "queue": _ModelCode(m.QUEUE, {"enqueue": _APPEND, "dequeue": _Function(m.DEQUEUE, is_argument=False)}),
    "stack": _ModelCode(m.STACK, {"push": _APPEND, "pop": _POP}),
    "priority-queue": _ModelCode(
        m.PRIORITY_QUEUE, {"insert": _Function(m.INSERT, is_argument=True), "delete-min": _POP}
    ),
    "set": _ModelCode(
        m.SET,
        {
            "add": _Function(m.INCLUDE, is_argument=True),
            "remove": _Function(m.REMOVE, is_argument=True),
            "contains": _Function(m.CONTAINS, is_argument=True),
        },
    ),
    "lock": _ModelCode(m.LOCK, {"acquire": _CAS, "release": _CAS}),
    "append-log": _ModelCode(
        m.LOG,
        {
            "append": _APPEND,
            "read": _Function(m.SLICE, is_argument=False),
            "end": _Function(m.LENGTH, is_argument=False),
        },
    ),
}


def _number(values: Ints, descending: bool) -> tuple[Int32s, int]:
    """The number of each value, in their order or in descending order; and the number of NULL, the greatest."""
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
    return numbers.astype(np.int32), count


def _encode(model: Model[Any], columns: list[Ints], pending: Any) -> m.Monitored:
    """The operations as instructions for a monitor. Raises ModelError if columns cannot express them."""
    if model.name not in MODEL_CODES:
        raise ModelError(f"columns of the model {model.name}, expected one of {', '.join(MODEL_CODES)}")
    monitor, functions = MODEL_CODES[model.name]
    f, value, result = columns[:3]
    chosen = np.zeros(len(f), bool)
    instruction, is_argument = np.zeros(len(f), np.int32), np.zeros(len(f), bool)
    for name, function in functions.items():
        is_call = f == model.functions.index(name)
        chosen |= is_call
        instruction[is_call], is_argument[is_call] = function
    if not chosen.all():
        raise ModelError(
            f"a function that columns cannot express, expected {', '.join(functions)}", int(chosen.argmin())
        )
    values, null = _number(np.where(is_argument, value, result), monitor == m.PRIORITY_QUEUE)
    count = null + 1
    code = np.column_stack([instruction, values, np.full(len(f), -1, np.int32)])
    units, word_start = m.NO_MACHINE.units, m.NO_MACHINE.word_start
    if monitor in (m.QUEUE, m.STACK, m.PRIORITY_QUEUE):
        takes = ~is_argument
        code[takes & (result == NULL)] = m.LENGTH, 0, 0
        code[takes & pending, 0] = m.DEQUEUE_ANY if monitor == m.QUEUE else m.POP_ANY
    elif monitor == m.LOCK:  # from no owner, 0, or to it
        owner, acquires = values + 1, f == model.functions.index("acquire")
        code[:, 1], code[:, 2] = np.where(acquires, 0, owner), np.where(acquires, owner, 0)
        count += 1
    elif monitor == m.SET:
        code[(instruction == m.CONTAINS) & (result == 0), 0] = m.LACKS
    elif monitor == m.LOG:
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
    machine = m.NO_MACHINE._replace(code=code, units=units, word_start=word_start)
    return m.Monitored(monitor, machine, null, count)


def _operations(model: Model[Any], columns: list[Ints]) -> list[Operation]:
    """The columns as a list of operations."""
    operations = []
    for f, value, result, call, end, key in zip(*(column.tolist() for column in columns), strict=True):
        name = model.functions[f]
        returned = UNKNOWN if end == NULL else None if result == NULL else result
        if name == "append" and result == NULL:
            returned = UNKNOWN
        elif name == "contains" and returned is not UNKNOWN:
            returned = bool(result)
        elif (model.name, name) == ("append-log", "read") and returned is not UNKNOWN:
            returned = (result,)
        argument = None if value == NULL else value
        operations.append(Operation(Action(name, argument, returned, key), call, None if end == NULL else end))
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
    monitored = _encode(model, arrays, pending)
    keys, part_of = np.zeros(1, np.int64), np.zeros(rows, np.int32)
    if columns.key is not None:
        keys, inverse = np.unique(arrays[5], return_inverse=True)
        part_of = inverse.astype(np.int32)
    completed = np.flatnonzero(~pending).astype(np.int32)
    events = order_events(np.concatenate([call, end[completed]]), completed)
    events, starts = sort_by_part(events, part_of, len(keys))
    everything = np.arange(len(keys), dtype=np.int32)
    history = History(np.arange(rows, dtype=np.int32), m.NOTHING, events)
    verdicts, witness = monitor_parts(
        history, starts, everything, monitored.kind, monitored.machine, monitored.initial, monitored.values
    )
    seconds = time.perf_counter() - began
    is_illegal = bool((verdicts == ILLEGAL).any())
    if not is_illegal and (verdicts == UNDECIDED).any():
        return check_operations(model, _operations(model, arrays))
    parts = []
    for part, outcome in enumerate(verdicts.tolist()):
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
    return Result("illegal" if is_illegal else "ok", seconds, parts)
