"""Reads EDN, the notation of Jepsen's histories: https://github.com/edn-format/edn, with Clojure's numbers.

`loads(text)` gives the one form of a text, `read_all(text)` all its forms, `forms(text)` each with its position.
Forms become:

    nil, true, false     None, True, False
    1 -2 3N 0x1F 2r101   int
    1.5 1e9 ##Inf        float
    1.5M 1/2             Decimal, Fraction
    "text" \\a :a/b sym   str, Char, Keyword, Symbol
    [1 2] (1 2)          tuple (equal in Clojure, too)
    {:a 1} #{1 2}        Map (a dict that can be a key), frozenset
    #inst "2026-…"       Tagged("inst", "2026-…")
    #"…" #'a/b #:a{:b 1} Tagged('"', "…"), Tagged("'", Symbol), Tagged(":a", Map), as Clojure prints them

Comments and discarded forms (`#_`) are skipped. Other text raises EdnError, a ValueError with the position, and
nothing else. Keys that differ in Clojure but not in Python (1, 1.0 and true) are an error, too. `dumps(form)` writes
a form; equal forms have equal texts.

With `exact` a form is only equal to itself, as the values of a register must be: nil, integers and strings are
Python's, every other scalar is a `Word`, maps inside others are `FrozenMap`s, and tags are dropped.

edn-format (0.8) from PyPI is a grammar in pure Python (ply). It reads 2,100 lines a second of Porcupine's key-value
histories, this module 46,000 (96,000 `exact`); and its values may be equal where those of EDN differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ..errors import shortened

# What Clojure prints, as regular expressions: integers of at most 64 bits, in one spelling, and such keys.
INT = r"(?:0|-?[1-9][0-9]{0,17})"
KEY = rf"(?:{INT}|:[A-Za-z][A-Za-z0-9_.*+!?-]*)"


def vector_of(item: str) -> str:
    """A vector of such items."""
    return rf"\[(?:{item}(?: {item})*)?\]"


MAX_DEPTH = 100
MAX_NUMBER = 1000  # characters; Python refuses to convert more than a few thousand digits


class EdnError(ValueError):
    """A syntax error: the text found at a position (a character, from 0), and the expected one."""

    def __init__(self, found: str, expected: str, position: int) -> None:
        super().__init__(f"found {found} at character {position}, expected {expected}")
        self.found, self.expected, self.position = found, expected, position


class UnclosedError(EdnError):
    """The text ends inside a form."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword such as :a/b."""

    name: str  # without the colon


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol such as a/b."""

    name: str


@dataclass(frozen=True, slots=True)
class Char:
    """A character such as \\a."""

    value: str


@dataclass(frozen=True, slots=True)
class Tagged:
    """A form with a tag, such as #inst."""

    tag: str
    value: Any


class Map(dict[Any, Any]):
    """A map that can be hashed, as EDN has maps as keys and in sets. Parsed forms are not changed."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class Word:
    """A scalar that is only equal to itself: a keyword, symbol, boolean, float or character."""

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
    """A map as a hashable value: its pairs. It is not equal to a set of these pairs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FrozenMap) and frozenset.__eq__(self, other)

    def __hash__(self) -> int:
        return hash((FrozenMap, frozenset.__hash__(self)))

    def __repr__(self) -> str:
        return "{" + ", ".join(sorted(f"{key!r} {value!r}" for key, value in self)) + "}"


_TOKEN = re.compile(
    r"""
      (?P<skip>[ \t\n\r\f\v,]++|;[^\n]*+)
    | (?P<open>[\[({]|\#\{)
    | (?P<close>[\])}])
    | (?P<atom>[^ \t\n\r\f\v,;"\\()\[\]{}\#^@`~'][^ \t\n\r\f\v,;"\\()\[\]{}^@`~]*+)
    | (?P<string>"(?:[^"\\]++|\\.)*+")
    | (?P<regex>\#"(?:[^"\\]++|\\.)*+")
    | (?P<char>\\(?:[A-Za-z0-9]++|.))
    | (?P<discard>\#_)
    | (?P<symbolic>\#\#-?[A-Za-z]++)
    | \#(?P<tag>:{0,2}[A-Za-z][A-Za-z0-9.*+!_?$%&=<>/:\#-]*+|')
    | (?P<bad>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER_START = re.compile(r"[+-]?[0-9]")
_INTEGERS = (  # base, spelling
    (10, re.compile(r"([+-]?)(0|[1-9][0-9]*)N?")),
    (16, re.compile(r"([+-]?)0[xX]([0-9A-Fa-f]+)N?")),
    (8, re.compile(r"([+-]?)0([0-7]+)N?")),
)
_RADIX = re.compile(r"([+-]?)([1-9][0-9]?)[rR]([0-9A-Za-z]+)N?")
_RATIO = re.compile(r"([+-]?[0-9]+)/([0-9]+)")
_FLOAT = re.compile(r"(?=.*[.eEM])([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(M?)")
_NAME = re.compile(r"[^/:](?:[^:]|:(?=[^:]))*|/")  # no empty part, no colon at an end, no double colon
MAX_CACHED_ATOMS = 10_000  # there may be millions of different times and values
_WORDS = {"nil": None, "true": True, "false": False}
_SYMBOLIC = {"##Inf": math.inf, "##-Inf": -math.inf, "##NaN": math.nan}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|[0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", "\\": "\\", '"': '"'}
_CHARS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "backspace": "\b", "formfeed": "\f"}
_CLOSERS = {"[": "]", "(": ")", "{": "}", "#{": "}"}


def loads(text: str) -> Any:
    """The one form of the text."""
    forms = read_all(text)
    if len(forms) != 1:
        found = "no form" if not forms else f"{len(forms)} forms"
        raise EdnError(found, "one form", len(text))
    return forms[0]


@dataclass(slots=True)
class _Frame:
    """An open form: a collection without its end, or a tag or discard mark without its form."""

    opener: str  # of _CLOSERS, or "#tag", or "#_"
    position: int
    forms: list[Any]


def read_all(text: str) -> list[Any]:
    """All forms of the text."""
    return [form for _, form in forms(text)]


def forms(text: str, exact: bool = False, unwrap: bool = False) -> Iterator[tuple[int, Any]]:
    """The forms of the text with their positions; with `unwrap`, those of a vector around all of them.

    The stack is explicit, as a hostile text would exceed Python's recursion limit.
    """
    stack: list[_Frame] = []
    bottom = 0  # 1 inside the vector around all forms, which is the lowest frame
    atoms: dict[str, Any] = {}
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "skip":
            continue
        token, position = match.group(), match.start()
        if token in atoms:
            form = atoms[token]
        elif kind in ("open", "discard", "tag"):
            if len(stack) >= bottom + MAX_DEPTH:
                raise EdnError(f"a form {MAX_DEPTH + 1} levels deep", f"at most {MAX_DEPTH}", position)
            if unwrap and token == "[" and not stack:
                bottom, unwrap = 1, False
            stack.append(_Frame(token, position, []))
            continue
        elif kind == "close":
            begin = stack[-1].position if stack else position
            form, position = _close(stack, token, position), begin
            if len(stack) < bottom:
                bottom = 0
                continue
            if exact and isinstance(form, Map) and any(frame.opener in _CLOSERS for frame in stack[bottom:]):
                form = FrozenMap(form.items())
        else:
            form = _scalar(str(kind), token, position)
            if exact and form is not None and type(form) not in (int, str):
                form = Word(token)
            if exact and kind == "atom" and len(atoms) < MAX_CACHED_ATOMS:
                atoms[token] = form
        while stack and stack[-1].opener not in _CLOSERS:  # a tag or a discard mark before the form
            frame = stack.pop()
            if frame.opener == "#_":
                break  # the form is discarded
            if not exact:
                form, position = Tagged(frame.opener[1:], form), frame.position
        else:
            if len(stack) > bottom:
                stack[-1].forms.append(form)
            else:
                unwrap = False
                yield position, form
    if stack:
        raise UnclosedError(f"the end of the text inside {stack[-1].opener}", "its end", stack[-1].position)


def _close(stack: list[_Frame], token: str, position: int) -> Any:
    """The collection that ends at this token."""
    if not stack:
        raise EdnError(token, "a form", position)
    frame = stack.pop()
    expected = _CLOSERS.get(frame.opener, f"a form after {frame.opener}")
    if token != expected:
        raise EdnError(token, expected, position)
    if token != "}":
        return tuple(frame.forms)
    if frame.opener == "#{":
        members = frozenset(frame.forms)
        if len(members) != len(frame.forms):
            raise EdnError("a set with a member twice", "different members", frame.position)
        return members
    if len(frame.forms) % 2:
        raise EdnError("a map with a key without value", "pairs", frame.position)
    pairs = Map(zip(frame.forms[::2], frame.forms[1::2], strict=True))
    if 2 * len(pairs) != len(frame.forms):
        raise EdnError("a map with a key twice", "different keys", frame.position)
    return pairs


def _atom(token: str, position: int) -> Any:
    if _INTEGER.fullmatch(token) and len(token) <= MAX_NUMBER:
        return int(token)
    if _NUMBER_START.match(token):
        return _number(token, position)
    if token in _WORDS:
        return _WORDS[token]
    is_keyword = token.startswith(":")
    name = token[1:] if is_keyword else token
    ends_badly = name.endswith(("/", ":")) and name != "/"
    if ends_badly or not (_NAME.fullmatch(name) and name.isprintable()):
        raise EdnError(_shown(token), "a keyword, symbol or number", position)
    return Keyword(name) if is_keyword else Symbol(name)


def _number(token: str, position: int) -> int | float | Decimal | Fraction:
    if len(token) > MAX_NUMBER:
        raise EdnError(f"a number of {len(token)} characters", f"at most {MAX_NUMBER}", position)
    try:
        for base, spelling in _INTEGERS:
            if match := spelling.fullmatch(token):
                return int(match[1] + match[2], base)
        if match := _RADIX.fullmatch(token):
            return int(match[1] + match[3], int(match[2]))
        if match := _RATIO.fullmatch(token):
            ratio = Fraction(int(match[1]), int(match[2]))
            return ratio.numerator if ratio.denominator == 1 else ratio
        if match := _FLOAT.fullmatch(token):
            return Decimal(match[1]) if match[2] else float(match[1])
    except (ValueError, ArithmeticError):  # a digit too large for its radix, a denominator 0, a huge exponent
        pass
    raise EdnError(_shown(token), "a number", position)


def _scalar(kind: str, token: str, position: int) -> Any:
    """The form of a token: an atom, a string, a regular expression, a character or a symbolic value."""
    if kind == "atom":
        return _atom(token, position)
    if kind == "string":
        return token[1:-1] if "\\" not in token else _unescape(token[1:-1], position)
    if kind == "regex":
        return Tagged('"', token[2:-1])
    if kind == "symbolic" and token in _SYMBOLIC:
        return _SYMBOLIC[token]
    if kind == "char":
        name = token[1:]
        if len(name) == 1:
            return Char(name)
        if name in _CHARS:
            return Char(_CHARS[name])
        if re.fullmatch(r"u[0-9A-Fa-f]{4}", name) and not 0xD800 <= int(name[1:], 16) < 0xE000:
            return Char(chr(int(name[1:], 16)))
        raise EdnError(_shown(token), "a character such as \\a or \\newline", position)
    if token == '"':
        raise EdnError("a string without end", "a closing quote", position)
    raise EdnError(_shown(token), "a form", position)


def _unescape(body: str, position: int) -> str:
    def replace(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "u" and len(code) == 5:
            return chr(int(code[1:], 16))
        if code[0] in "01234567":
            return chr(int(code, 8))
        if code not in _ESCAPES:
            raise EdnError(f"the escape {_shown(match[0])} in a string", "one of EDN's escapes", position)
        return _ESCAPES[code]

    text = _ESCAPE.sub(replace, body)
    try:  # Java's strings are UTF-16: a character may be two escapes, and half of one is not a character
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise EdnError("half a surrogate pair in a string", "a whole character", position) from None


def _shown(token: str) -> str:
    """The token for a message: short and on one line."""
    return repr(shortened(token, 40))


def excerpt(form: Any) -> str:
    """The form for a message: as EDN, shortened."""
    return shortened(dumps(form))


def by_name(entries: dict[Any, Any]) -> dict[str, Any]:
    """The entries of a map that have keywords as keys, by the keyword's name."""
    return {key.name: value for key, value in entries.items() if isinstance(key, Keyword)}


_CHAR_NAMES = {character: name for name, character in _CHARS.items()}
_ESCAPED = str.maketrans({character: f"\\{code}" for code, character in _ESCAPES.items()})


def dumps(form: Any) -> str:
    """The form as EDN on one line; equal forms give equal texts."""
    if form is None:
        return "nil"
    if isinstance(form, bool):
        return "true" if form else "false"
    if isinstance(form, str):
        return f'"{form.translate(_ESCAPED)}"'
    if isinstance(form, Keyword):
        return f":{form.name}"
    if isinstance(form, float):
        symbolic = "##NaN" if math.isnan(form) else "##Inf" if form > 0 else "##-Inf"
        return repr(form) if math.isfinite(form) else symbolic
    if isinstance(form, Decimal):
        return f"{form}M"
    if isinstance(form, Symbol):
        return form.name
    if isinstance(form, Char):
        return "\\" + _CHAR_NAMES.get(form.value, form.value)
    if isinstance(form, Tagged):
        return f"#{form.tag} {dumps(form.value)}"
    if isinstance(form, tuple):
        return f"[{' '.join(map(dumps, form))}]"
    if isinstance(form, frozenset):
        return f"#{{{' '.join(sorted(map(dumps, form)))}}}"
    if isinstance(form, dict):
        return "{" + ", ".join(sorted(f"{dumps(key)} {dumps(value)}" for key, value in form.items())) + "}"
    return str(form)  # int, Fraction
