"""A small reader of EDN for histories of registers and key-values, whose values must equal only themselves.

edn.py, for Jepsen's kafka histories, gives Python values and reads a line at a time; this one reads whole files.

Why not edn-format from PyPI: it is a grammar in pure Python (ply), some fifty times slower than the one
regular expression here, and it makes Python values that compare equal where EDN's do not (1, 1.0 and true).
Here nil, integers and strings become Python's; every other scalar a `Word`, which equals only itself;
vectors, lists and sets become tuples and frozensets; maps become dicts at the top and frozen pairs inside.
Tags are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from typing import Any

from ..errors import InputError

DEPTH = 100  # of nesting; beyond it a file is hostile or broken

# Numbers, keywords, symbols and literals are told apart afterwards. A comment lasts to the end of its line.
_TOKEN = re.compile(
    r'(?:[\s,]+|;[^\n]*)*(?:(#\{|#_|[\[\](){}])|("(?:[^"\\]|\\.)*")|(\\\S[^\s,;"\[\](){}]*)|(##\w+|#?[^\s,;"\[\](){}#][^\s,;"\[\](){}]*)|($)|(.))',
    re.DOTALL,
)
_INTEGER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)N?")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}
_CLOSERS = {"[": "]", "(": ")", "{": "}", "#{": "}"}


class Word:
    """A scalar that is itself and nothing else: a keyword, a symbol, a boolean, a float, a character."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Word) and other.text == self.text

    def __hash__(self) -> int:
        return hash((Word, self.text))

    def __repr__(self) -> str:
        return self.text


class FrozenMap(frozenset[tuple[Hashable, Hashable]]):
    """A map as a value: its pairs. A type of its own, so that it is no set of pairs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenMap) and frozenset.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((FrozenMap, frozenset.__hash__(self)))

    def __repr__(self) -> str:
        return "{" + ", ".join(sorted(f"{key!r} {value!r}" for key, value in self)) + "}"


def _string(token: str) -> str:
    def plain(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            raise ValueError(f"the escape \\{match[2]}")
        return _ESCAPES[match[2]]

    body = token[1:-1]
    return _ESCAPE.sub(plain, body) if "\\" in body else body


def _atom(token: str) -> Hashable:
    if token == "nil":
        return None
    if _INTEGER.fullmatch(token):
        if len(token) > 4000:
            raise ValueError("an integer of thousands of digits")
        return int(token.rstrip("N"))
    return Word(token)


class _Frame:
    """A collection that is being read."""

    __slots__ = ("discards", "items", "line", "opener")

    def __init__(self, opener: str, line: int) -> None:
        self.opener, self.line = opener, line
        self.items: list[Any] = []
        self.discards = 0  # how many of the next forms #_ drops


def _close(frame: _Frame, top: bool) -> Any:
    """The value of a collection whose end was read."""
    items = frame.items
    if frame.opener in "[(":
        return tuple(items)
    if frame.opener == "#{":
        made = frozenset(items)
        if len(made) < len(items):
            raise ValueError("a set with the same element twice")
        return made
    if len(items) % 2:
        raise ValueError("a map with a key and no value")
    pairs = dict(zip(items[::2], items[1::2], strict=True))
    if 2 * len(pairs) < len(items):
        raise ValueError("a map with the same key twice")
    return pairs if top else FrozenMap(pairs.items())


def forms(text: str, source: str) -> Iterator[tuple[int, Any]]:
    """The forms of a text with their lines, counted from 1; a vector around all of them is passed over.

    Raises InputError with the line where the text is not EDN.
    """
    stack = [_Frame("", 1)]
    atoms: dict[str, Hashable] = {}
    line, counted = 1, 0
    wrapped = closed = False
    for match in _TOKEN.finditer(text):
        delimiter, quoted, character, atom, _, wrong = match.groups()
        start = match.start(match.lastindex or 0)
        line += text.count("\n", counted, start)
        counted = start
        frame = stack[-1]
        try:
            if delimiter in _CLOSERS:
                if delimiter == "[" and len(stack) == 1 and not wrapped and not frame.items:
                    wrapped = True
                    continue
                if len(stack) > DEPTH:
                    raise ValueError(f"more than {DEPTH} levels of nesting")
                stack.append(_Frame(delimiter, line))
                continue
            if delimiter == "#_":
                frame.discards += 1
                continue
            if delimiter:
                if wrapped and not closed and delimiter == "]" and len(stack) == 1:
                    closed = True
                    continue
                if len(stack) == 1 or _CLOSERS[frame.opener] != delimiter:
                    raise ValueError(f"{delimiter!r} that closes nothing")
                stack.pop()
                value = _close(frame, top=len(stack) == 1)
                begin = frame.line
            elif quoted is not None:
                value, begin = _string(quoted), line
            elif atom is not None:
                if atom[0] == "#" and atom[1] != "#":
                    continue
                if atom not in atoms:
                    atoms[atom] = _atom(atom)
                value, begin = atoms[atom], line
            elif character is not None:
                value, begin = Word(character), line
            elif wrong is not None:
                raise ValueError(f"{wrong!r}")
            else:
                break
        except ValueError as error:
            raise InputError(source, str(error), "EDN", line=line) from error
        frame = stack[-1]
        if frame.discards:
            frame.discards -= 1
        elif len(stack) > 1:
            frame.items.append(value)
        else:
            yield begin, value
    if len(stack) > 1 or wrapped != closed:
        opener = stack[-1].opener or "["
        raise InputError(
            source, f"{opener!r} without its end", "EDN", "it may have been cut short", line=stack[-1].line
        )
