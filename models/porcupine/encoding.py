"""Encodes the actions of the built-in models as instructions of machine.py, and decodes its states."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..append_log import APPEND_LOG
from ..arrays import Int32s
from ..counter import COUNTER
from ..key_value import KEY_VALUE
from ..lock import LOCK
from ..operations import UNKNOWN, Model
from ..priority_queue import PRIORITY_QUEUE
from ..queue import QUEUE
from ..register import REGISTER
from ..set import SET
from ..stack import STACK
from . import machine as m
from .contents import Contents
from .history import Numbered
from .trie import LABEL, PARENT

MAX_INT32 = 2**31 - 2
Code = tuple[int, int, int]
CodeOf = Callable[[str, Any, Any, Any], Code]  # the instruction of an action, given its fields
PASS, NEVER = (m.PASS, 0, 0), (m.NEVER, 0, 0)


class Encoding(NamedTuple):
    """The actions of a history as instructions."""

    machine: m.Machine  # without a trie
    initial: int
    values: Sequence[Any]  # by number
    is_sequence: bool  # whether a state is a node of the trie; else it is the number of a value
    decode: Callable[[list[Any]], Any]  # the state of the model in Python, given its values
    monitored: tuple[m.Monitored, ...]  # for the monitors of the model, in the order in which they run

    def state(self, machine: m.Machine, number: int) -> Any:
        """A state as the model in Python has it."""
        labels, nodes = [], machine.trie.nodes
        if not self.is_sequence:
            labels.append(number)
        while self.is_sequence and number:
            labels.append(int(nodes[number, LABEL]))
            number = int(nodes[number, PARENT])
        return self.decode([self.values[label] for label in reversed(labels)])


class _Writer:
    """Numbers the values of a history, collects words, and writes the instruction of each action."""

    def __init__(self, history: Numbered) -> None:
        self.history, self.actions = history, history.actions
        self.numbers: dict[Any, int] = {}
        self.words: list[Sequence[int] | Int32s] = []

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def word(self, units: Sequence[int] | Int32s) -> int:
        self.words.append(units)
        return len(self.words) - 1

    def text(self, value: str) -> int:
        """The word of a string: its characters."""
        return self.word(np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.int32))

    def encoding(
        self, code_of: CodeOf, decode: Callable[[list[Any]], Any] = tuple, monitor: int = m.NO_MONITOR, *,
        initial: int = 0, values: Sequence[Any] | None = None, is_sequence: bool = True, spelled: bool = False,
    ) -> Encoding:  # fmt: skip
        """The instructions; an observation of unknown result fits any state."""
        known = zip(self.actions, self.history.observes.tolist(), strict=True)
        code = [PASS if observes and action[2] is UNKNOWN else code_of(*action) for action, observes in known]
        machine = m.machine_of(code, self.words)._replace(spelled=np.array([spelled], np.int32))
        monitored = (m.Monitored(monitor, machine, initial, len(self.numbers)),) if monitor else ()
        return Encoding(machine, initial, values or list(self.numbers), is_sequence, decode, monitored)


def _register(writer: _Writer) -> Encoding:
    number = writer.number
    swaps = {True: m.CAS, False: m.CAS_FAILED, UNKNOWN: m.CAS_ANY}

    def code(f: str, value: Any, result: Any, _key: Any) -> Code:
        if f == "write":
            return m.WRITE, number(value), 0
        if f == "cas":
            return swaps[result], number(value[0]), number(value[1])
        return m.READ, number(result), 0

    return writer.encoding(code, tuple, m.REGISTER, initial=number(None), is_sequence=False)


def _key_value(writer: _Writer) -> Encoding | None:
    actions, number = writer.actions, writer.number
    if any(action.f == "append" for action in actions):
        return _strings_by_key(writer)

    def code(f: str, value: Any, result: Any, _key: Any) -> Code:
        content = value if f == "put" else result
        return m.WRITE if f == "put" else m.READ, number("" if content is None else content), 0

    return writer.encoding(code, itemgetter(0), m.REGISTER, initial=number(""), is_sequence=False)


def _strings_by_key(writer: _Writer) -> Encoding | None:
    """A map with appends."""
    arguments = {"" if action.value is None else action.value for action in writer.actions if action.f != "get"}
    if not all(isinstance(value, str) for value in arguments):
        return None
    written = sorted(arguments - {""})
    # If no value is a prefix of another, each content is one sequence of values, so a label is a whole value.
    spelled = not any(after.startswith(before) for before, after in pairwise(written))
    word_of = {value: writer.text(value) for value in ["", *written]}
    known = Contents(writer.history, written) if spelled else None
    append, put = (m.APPEND, m.REPLACE) if known else (m.SPELL, m.RESPELL)

    def code(f: str, value: Any, result: Any, key: Any) -> Code:
        if f == "get":
            text = "" if result is None else result
            return (m.IS, writer.text(text), 0) if isinstance(text, str) else NEVER
        if not value:
            return PASS if f == "append" else (m.WRITE, 0, 0)
        return append if f == "append" else put, word_of[value], known.places.get((key, value), -1) if known else -1

    if known:
        encoding = writer.encoding(code, "".join, values=["", *written], spelled=True)
        return encoding._replace(monitored=known.monitored())
    return writer.encoding(code, lambda labels: "".join(map(chr, labels)), values=range(sys.maxunicode + 1))


def _set(writer: _Writer) -> Encoding:
    number = writer.number

    def code(f: str, value: Any, result: Any, _key: Any) -> Code:
        if f in ("add", "remove"):
            return m.INCLUDE if f == "add" else m.REMOVE, number(value), 0
        if f == "contains":
            return m.CONTAINS if result else m.LACKS, number(value), 0
        labels = sorted({number(element) for element in result})
        return (m.IS, writer.word(labels), 0) if len(labels) == len(result) else NEVER

    return writer.encoding(code, frozenset, m.SET)


def _append_log(writer: _Writer) -> Encoding:
    number = writer.number

    def code(f: str, value: Any, result: Any, _key: Any) -> Code:
        if f == "append":
            return m.APPEND, number(value), -1 if result is UNKNOWN else min(result, MAX_INT32)
        if f == "end":
            return m.LENGTH, min(result, MAX_INT32), 0
        if not result:
            return m.LENGTH_MAX, min(value, MAX_INT32), 0
        return m.SLICE, writer.word([number(each) for each in result]), min(value, MAX_INT32)

    return writer.encoding(code, tuple, m.LOG)


def _buffer(writer: _Writer, insert: tuple[str, int], remove: int, remove_any: int) -> CodeOf:
    """The instructions of a queue, a stack or a priority queue: of its function that inserts, and of the other one."""
    number = writer.number
    insertion, instruction = insert

    def code(f: str, value: Any, result: Any, _key: Any) -> Code:
        if f == insertion:
            return instruction, number(value), -1
        if result is UNKNOWN:
            return remove_any, 0, 0
        return (m.LENGTH, 0, 0) if result is None else (remove, number(result), 0)

    return code


def _queue(writer: _Writer) -> Encoding:
    return writer.encoding(_buffer(writer, ("enqueue", m.APPEND), m.DEQUEUE, m.DEQUEUE_ANY), tuple, m.QUEUE)


def _stack(writer: _Writer) -> Encoding:
    return writer.encoding(_buffer(writer, ("push", m.APPEND), m.POP, m.POP_ANY), tuple, m.STACK)


def _priority_queue(writer: _Writer) -> Encoding:
    # Numbers descend in the trie, so a pop removes the least; the model's elements ascend.
    values = {action.value if action.f == "insert" else action.result for action in writer.actions}
    for value in sorted(values - {None, UNKNOWN}, reverse=True):
        writer.number(value)
    code = _buffer(writer, ("insert", m.INSERT), m.POP, m.POP_ANY)
    return writer.encoding(code, lambda values: tuple(reversed(values)), m.PRIORITY_QUEUE)


def _counter(writer: _Writer) -> Encoding | None:
    # A state is the sum plus a bound of its absolute value, so that it is never negative.
    steps = (abs(action.value) for action in writer.actions if action.f != "read")
    bound = len(writer.history.action_of) * max(steps, default=0)
    if 2 * bound > MAX_INT32:
        return None

    def code(f: str, value: Any, result: Any, _key: Any) -> Code:
        if f != "read":
            return m.ADD, value if f == "add" else -value, 0
        return (m.READ, result + bound, 0) if abs(result) <= bound else NEVER

    values = range(-bound, bound + 1)
    return writer.encoding(code, itemgetter(0), initial=bound, values=values, is_sequence=False)


def _lock(writer: _Writer) -> Encoding:
    free = writer.number(m)  # no owner equals a module

    def code(f: str, value: Any, _result: Any, _key: Any) -> Code:
        owner = writer.number(value)
        return (m.CAS, free, owner) if f == "acquire" else (m.CAS, owner, free)

    return writer.encoding(code, lambda held: tuple(held) if held != [m] else (), m.LOCK, is_sequence=False)


Encoder = Callable[[_Writer], Encoding | None]
BUILT_IN: tuple[tuple[Model[Any], Encoder], ...] = (
    (REGISTER, _register),
    (KEY_VALUE, _key_value),
    (SET, _set),
    (APPEND_LOG, _append_log),
    (COUNTER, _counter),
    (LOCK, _lock),
    (QUEUE, _queue),
    (STACK, _stack),
    (PRIORITY_QUEUE, _priority_queue),
)
ENCODERS = {(model.step, model.initial): encoder for model, encoder in BUILT_IN}


def encode(model: Model[Any], history: Numbered) -> Encoding | None:
    """The actions as instructions; None if the model is not built in, or instructions cannot express them."""
    encoder = ENCODERS.get((model.step, model.initial))
    return encoder(_Writer(history)) if encoder else None
