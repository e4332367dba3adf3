"""Encodes the actions of the built-in models as instructions of machine.py, and decodes its states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..append_log import APPEND_LOG
from ..compiled import Ints
from ..counter import COUNTER
from ..key_value import KEY_VALUE
from ..lock import LOCK
from ..operations import UNKNOWN, Action, Model
from ..priority_queue import PRIORITY_QUEUE
from ..queue import QUEUE
from ..register import REGISTER
from ..set import SET
from ..stack import STACK
from . import machine as m

MAX_INT32 = 2**31 - 2
Code = tuple[int, int, int]
Decoder = Callable[[m.Machine, int], Any]


class Encoding(NamedTuple):
    """The actions of a history as instructions."""

    machine: m.Machine  # without a trie
    initial: int
    decode: Decoder  # returns a state as the model in Python has it
    values: int  # how many values the code numbers
    monitor: int  # the monitor of the model (machine.py), 0 for none


class Counts(NamedTuple):
    """The number of operations of each action, and of those that completed."""

    all: Sequence[int]
    completed: Sequence[int]


class _Writer:
    """Numbers values and collects words."""

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.numbers: dict[Any, int] = {value: number for number, value in enumerate(values)}
        self.words: list[Sequence[int] | Ints] = []

    def number(self, value: Any) -> int:
        return self.numbers.setdefault(value, len(self.numbers))

    def word(self, units: Sequence[int] | Ints) -> int:
        self.words.append(units)
        return len(self.words) - 1

    def text(self, value: str) -> int:
        """The word of a string: its characters."""
        return self.word(np.frombuffer(value.encode("utf-32-le", "surrogatepass"), np.int32))

    def finish(
        self, code: Sequence[Code], decode: Decoder, initial: int = 0, spelled: bool = False, monitor: int = 0
    ) -> Encoding:
        lengths = [len(word) for word in self.words]
        machine = m.NO_MACHINE._replace(
            code=np.array(code, np.int32).reshape(-1, 3),
            units=np.concatenate([np.empty(0, np.int32), *self.words]).astype(np.int32, copy=False),
            word_start=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int32),
            spelled=np.array([spelled], np.int32),
        )
        return Encoding(machine, initial, decode, len(self.numbers), monitor)

    def decode_value(self, wrap: Callable[[Any], Any]) -> Decoder:
        values = list(self.numbers)
        return lambda _, state: wrap(values[state])

    def decode_labels(self, collect: Callable[[Iterator[Any]], Any]) -> Decoder:
        values = list(self.numbers)
        return lambda machine, state: collect(values[label] for label in labels_of(machine, state))


def labels_of(machine: m.Machine, node: int) -> list[int]:
    """The labels from the root to a node."""
    labels = []
    while node:
        labels.append(int(machine.nodes[node, m.LABEL]))
        node = int(machine.nodes[node, m.PARENT])
    return labels[::-1]


def _register(actions: Sequence[Action], _: Counts) -> Encoding:
    writer = _Writer([None])
    number = writer.number
    swaps = {True: m.CAS, False: m.CAS_FAILED, UNKNOWN: m.CAS_ANY}
    code: list[Code] = []
    for f, value, result, _key in actions:
        if f == "write":
            code.append((m.WRITE, number(value), 0))
        elif f == "cas":
            code.append((swaps[result], number(value[0]), number(value[1])))
        else:
            code.append((m.PASS, 0, 0) if result is UNKNOWN else (m.READ, number(result), 0))
    return writer.finish(code, writer.decode_value(lambda value: (value,)), monitor=m.REGISTER)


def _key_value(actions: Sequence[Action], counts: Counts) -> Encoding | None:
    arguments = {"" if action.value is None else action.value for action in actions if action.f != "get"}
    if not any(action.f == "append" for action in actions):
        return _values_by_key(actions)
    if not all(isinstance(value, str) for value in arguments):
        return None
    written = sorted(arguments - {""})
    # If no value is a prefix of another, each content is one sequence of values, so a label is a whole value.
    spelled = not any(after.startswith(before) for before, after in pairwise(written))
    writer = _Writer()
    word_of = {value: writer.text(value) for value in ["", *written]}
    places = _places_of_appends(actions, counts, written) if spelled else {}
    append, put = (m.APPEND, m.REPLACE) if spelled else (m.SPELL, m.RESPELL)
    code: list[Code] = []
    for f, value, result, key in actions:
        if f == "get":
            text = "" if result is None else result
            if text is UNKNOWN:
                code.append((m.PASS, 0, 0))
            else:
                code.append((m.IS, writer.text(text), 0) if isinstance(text, str) else (m.NEVER, 0, 0))
        elif not value:
            code.append((m.PASS, 0, 0) if f == "append" else (m.WRITE, 0, 0))
        else:
            code.append((append if f == "append" else put, word_of[value], places.get((key, value), -1)))
    spell = ["", *written].__getitem__ if spelled else chr
    return writer.finish(code, lambda machine, state: "".join(map(spell, labels_of(machine, state))), spelled=spelled)


def _places_of_appends(actions: Sequence[Action], counts: Counts, written: Sequence[str]) -> dict[tuple[Any, str], int]:
    """The number of values before a value in a completed get, by key and value; only of values that are written once.

    Every linearization appends such a value there, so the search does not try it elsewhere.
    """
    times: Counter[tuple[Any, str]] = Counter()
    contents: list[tuple[str, str, Any]] = []  # the key as text, the content, the key
    for (f, value, result, key), count, completed in zip(actions, *counts, strict=True):
        if f != "get" and value:
            times[key, value] += count
        elif f == "get" and completed and result and isinstance(result, str):
            contents.append((str(key), result, key))
    places: dict[tuple[Any, str], int] = {}
    known, lengths = frozenset(written), sorted({len(value) for value in written})
    parsed = ("", "")  # the key and the content before
    at = number = 0  # the characters and the values of it that are parsed
    # In this order most contents begin with the one before, whose values are not parsed again.
    for name, content, key in sorted(contents, key=itemgetter(0, 1)):
        if name != parsed[0] or not content.startswith(parsed[1]):
            at = number = 0
        parsed = name, content
        # No value is a prefix of another, so at most one fits.
        while value := next((content[at : at + size] for size in lengths if content[at : at + size] in known), ""):
            if times[key, value] == 1:
                places.setdefault((key, value), number)
            at, number = at + len(value), number + 1
    return places


def _values_by_key(actions: Sequence[Action]) -> Encoding:
    """A map without appends: a register for each key."""
    writer = _Writer([""])
    number = writer.number
    code: list[Code] = []
    for f, value, result, _key in actions:
        if f == "put":
            code.append((m.WRITE, number("" if value is None else value), 0))
        elif result is UNKNOWN:
            code.append((m.PASS, 0, 0))
        else:
            code.append((m.READ, number("" if result is None else result), 0))
    return writer.finish(code, writer.decode_value(lambda value: value), monitor=m.REGISTER)


def _set(actions: Sequence[Action], _: Counts) -> Encoding:
    writer = _Writer()
    number = writer.number
    code: list[Code] = []
    for f, value, result, _key in actions:
        if f in ("add", "remove"):
            code.append((m.INCLUDE if f == "add" else m.REMOVE, number(value), 0))
        elif result is UNKNOWN:
            code.append((m.PASS, 0, 0))
        elif f == "contains":
            code.append((m.CONTAINS if result else m.LACKS, number(value), 0))
        else:
            labels = sorted({number(element) for element in result})
            code.append((m.IS, writer.word(labels), 0) if len(labels) == len(result) else (m.NEVER, 0, 0))
    return writer.finish(code, writer.decode_labels(frozenset), monitor=m.SET)


def _append_log(actions: Sequence[Action], _: Counts) -> Encoding:
    writer = _Writer()
    number = writer.number
    code: list[Code] = []
    for f, value, result, _key in actions:
        if f == "append":
            code.append((m.APPEND, number(value), -1 if result is UNKNOWN else min(result, MAX_INT32)))
        elif result is UNKNOWN:
            code.append((m.PASS, 0, 0))
        elif f == "end":
            code.append((m.LENGTH, min(result, MAX_INT32), 0))
        elif not result:
            code.append((m.LENGTH_MAX, min(value, MAX_INT32), 0))
        else:
            code.append((m.SLICE, writer.word([number(each) for each in result]), min(value, MAX_INT32)))
    return writer.finish(code, writer.decode_labels(tuple), monitor=m.LOG)


class _Buffer(NamedTuple):
    """The encoding of the functions of a queue, a stack or a priority queue."""

    insertion: str  # the function that inserts a value; the other one removes a value
    insert: int
    remove: int
    remove_any: int  # a removal of unknown outcome
    monitor: int

    def encode(
        self, actions: Sequence[Action], writer: _Writer, collect: Callable[[Iterator[Any]], Any] = tuple
    ) -> Encoding:
        number = writer.number
        code: list[Code] = []
        for f, value, result, _key in actions:
            if f == self.insertion:
                code.append((self.insert, number(value), -1))
            elif result is UNKNOWN:
                code.append((self.remove_any, 0, 0))
            else:
                code.append((m.LENGTH, 0, 0) if result is None else (self.remove, number(result), 0))
        return writer.finish(code, writer.decode_labels(collect), monitor=self.monitor)


def _queue(actions: Sequence[Action], _: Counts) -> Encoding:
    return _Buffer("enqueue", m.APPEND, m.DEQUEUE, m.DEQUEUE_ANY, m.QUEUE).encode(actions, _Writer())


def _stack(actions: Sequence[Action], _: Counts) -> Encoding:
    return _Buffer("push", m.APPEND, m.POP, m.POP_ANY, m.STACK).encode(actions, _Writer())


def _priority_queue(actions: Sequence[Action], _: Counts) -> Encoding:
    # Numbers descend in the trie, so a pop removes the least; the model's elements ascend.
    inserted = {action.value for action in actions if action.f == "insert"}
    removed = {action.result for action in actions if action.f != "insert"} - {None, UNKNOWN}
    writer = _Writer(sorted(inserted | removed, reverse=True))
    buffer = _Buffer("insert", m.INSERT, m.POP, m.POP_ANY, m.PRIORITY_QUEUE)
    return buffer.encode(actions, writer, lambda values: tuple(values)[::-1])


def _counter(actions: Sequence[Action], counts: Counts) -> Encoding | None:
    # A state is the sum plus a bound of its absolute value, so that it is never negative.
    bound = sum(counts.all) * max((abs(action.value) for action in actions if action.f != "read"), default=0)
    if 2 * bound > MAX_INT32:
        return None
    code: list[Code] = []
    for f, value, result, _key in actions:
        if f != "read":
            code.append((m.ADD, value if f == "add" else -value, 0))
        elif result is UNKNOWN:
            code.append((m.PASS, 0, 0))
        else:
            code.append((m.READ, result + bound, 0) if abs(result) <= bound else (m.NEVER, 0, 0))
    return _Writer().finish(code, lambda _, state: state - bound, initial=bound)


def _lock(actions: Sequence[Action], _: Counts) -> Encoding:
    writer = _Writer([m])  # number 0 is a free lock; no owner equals a module
    code: list[Code] = []
    for f, value, _result, _key in actions:
        owner = writer.number(value)
        code.append((m.CAS, 0, owner) if f == "acquire" else (m.CAS, owner, 0))
    return writer.finish(code, writer.decode_value(lambda owner: () if owner is m else (owner,)), monitor=m.LOCK)


Encoder = Callable[[Sequence[Action], Counts], Encoding | None]
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


def encode(model: Model[Any], actions: Sequence[Action], counts: Counts) -> Encoding | None:
    """The actions as instructions; None if the model is not built in, or instructions cannot express them."""
    encoder = ENCODERS.get((model.step, model.initial))
    return encoder(actions, counts) if encoder else None
