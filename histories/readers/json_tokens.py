"""Compiled loops over the tokens of JSON, for native_scan.py: strings without escapes, plain integers, literals.

`text` has, for each position, the eight bytes from there on as one number, the first byte lowest. So a string is
searched and a word is compared eight bytes at a time, in two thirds of the time of loops over bytes. The text ends with
a line feed, which no token contains, so no loop goes beyond its line.

Each function takes a text and a position. None raises: -1 means that the bytes are a different token.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models.arrays import Bytes, Ints
from ...models.compiled import compiled_inner_without_refcounts, compiled_into_callers

QUOTE, COMMA, COLON, MINUS, BACKSLASH = map(ord, '",:-\\')
OBJECT, OBJECT_END, LIST, LIST_END = map(ord, "{}[]")
ZERO, NINE = map(ord, "09")
SPACE, TAB, LINE_FEED, RETURN = map(ord, " \t\n\r")
INLINE = 12  # bytes within an Arrow string view itself
COPIED = 512  # rows of `copied` (position of a text, its length, position of its copy); one more row counts all bytes
PADDING = 16  # bytes after the last line, as a text is read eight bytes at a time

_ONES = 0x0101010101010101  # times a byte: the byte eight times
_HIGH_BITS = -0x7F7F7F7F7F7F7F80  # the highest bit of each byte, as a signed number
_QUOTES, _BACKSLASHES, _SPACES = (_ONES * c for c in (QUOTE, BACKSLASH, SPACE))
_COUNTING = 0x0102030405060708
_FIRST = np.array([(1 << 8 * n) - 1 if n < 8 else -1 for n in range(9)])  # masks of the first n bytes


def _packed(word: str) -> int:
    """At most eight letters as one number, as a text has them."""
    return int.from_bytes(word.encode(), "little")


NULL, TRUE, FALSE = map(_packed, ("null", "true", "false"))


def text_of(blob: bytes, memory: Bytes) -> Ints:
    """The text of lines, in `memory`, which has room for them and PADDING. The last line may lack its line feed."""
    memory[: len(blob)] = np.frombuffer(blob, np.uint8)
    memory[len(blob) : len(blob) + PADDING] = LINE_FEED
    return np.lib.stride_tricks.as_strided(memory[:8].view(np.int64), (len(blob) + PADDING - 7,), (1,))


@compiled_into_callers
def byte_at(text: Ints, i: int) -> int:
    """The byte at i."""
    byte: int = text[i] & 255
    return byte


@compiled_into_callers
def first_bytes(text: Ints, i: int, number: int) -> int:
    """The bytes from i on as one number: at most eight, and none for a number below 1."""
    first: int = text[i] & _FIRST[max(min(number, 8), 0)]
    return first


@compiled_inner_without_refcounts
def hash_of(packed: int, length: int) -> int:
    """A hash that differs for all words of native_scan.py; `word_table` fails on a collision."""
    return (packed ^ packed >> 1 ^ packed >> 13 ^ length) & 255


def word_table(words: tuple[str, ...]) -> Ints:
    """256 x (its first eight letters, packed; length; number of the word, -1: none; its other letters), by hash."""
    table = np.full((256, 4), -1, np.int64)
    for number, word in enumerate(words):
        slot = hash_of(_packed(word[:8]), len(word))
        assert table[slot, 2] < 0, f"{word} needs another hash"
        table[slot] = _packed(word[:8]), len(word), number, _packed(word[8:])
    return table


@compiled_into_callers
def skip_blanks(text: Ints, i: int) -> int:
    """The first position from i on that is not a blank."""
    c = byte_at(text, i)
    while c == SPACE or c == TAB or c == RETURN:  # noqa: SIM109 - numba is slow with tuples
        i += 1
        c = byte_at(text, i)
    return i


@compiled_inner_without_refcounts
def close_quote(text: Ints, i: int) -> int:
    """The closing quote of the string with its text from i on; -1 for an escape or a control character."""
    found: Any = np.int64(0)
    while found == 0:
        eight: Any = text[i]
        # The highest bit of a byte is set if it is one of these. Borrows reach only bytes above the first such byte.
        quotes, backslashes = eight ^ _QUOTES, eight ^ _BACKSLASHES
        found = (quotes - _ONES) & ~quotes | (backslashes - _ONES) & ~backslashes | (eight - _SPACES) & ~eight
        found &= _HIGH_BITS
        i += 8
    first = (found & -found) >> 7 & _ONES
    i += (first * _COUNTING >> 56) - 9
    return i if byte_at(text, i) == QUOTE else -1


@compiled_into_callers
def word_at(text: Ints, i: int, words: Ints) -> tuple[int, int]:
    """The number of the word at i (-1: not in the table), and its closing quote (-1: none)."""
    end = close_quote(text, i)
    length = end - i
    if length < 0 or length > 16:
        return -1, end
    packed = first_bytes(text, i, length)
    slot = hash_of(packed, length)
    if words[slot, 0] != packed or words[slot, 1] != length or words[slot, 3] != first_bytes(text, i + 8, length - 8):
        return -1, end
    return words[slot, 2], end


@compiled_inner_without_refcounts
def integer(text: Ints, i: int) -> tuple[int, int]:
    """The plain integer of at most 18 digits at i, and its end; the end is -1 if there is none."""
    negative = byte_at(text, i) == MINUS
    if negative:
        i += 1
    first = i
    value: Any = np.int64(0)
    digit = byte_at(text, i) - ZERO
    while 0 <= digit <= 9:
        value = value * 10 + digit
        i += 1
        digit = byte_at(text, i) - ZERO
    digits = i - first
    if digits < 1 or digits > 18 or (byte_at(text, first) == ZERO and (digits > 1 or negative)):
        return 0, -1
    return (-value if negative else value), i


@compiled_into_callers
def text_view(text: Ints, i: int, end: int, table: Ints, row: int, slot: int, long: Bytes, copied: Ints) -> None:
    """Writes Arrow's view of a text into two slots: its length, and its bytes if they are at most INLINE.

    Otherwise its first four bytes, and the position of its copy in `long`.
    """
    length = end - i
    table[row, slot] = length | first_bytes(text, i, min(length, 4)) << 32
    if length > INLINE:
        table[row, slot + 1] = copy_of(text, i, length, long, copied) << 32
    else:
        table[row, slot + 1] = first_bytes(text, i + 4, length - 4)


@compiled_inner_without_refcounts
def copy_of(text: Ints, i: int, length: int, long: Bytes, copied: Ints) -> int:
    """The position in `long` of a copy of a text. Topics and processes repeat, so `copied` has where some texts are."""
    last = i + length - 1
    place = (length * 31 + byte_at(text, last) * 7 + byte_at(text, last - 1)) & (COPIED - 1)
    seen, start = copied[place, 0], copied[place, 2]
    same = copied[place, 1] == length
    k = 0
    while same and k < length:
        same = first_bytes(text, seen + k, length - k) == first_bytes(text, i + k, length - k)
        k += 8
    if not same:
        start = copied[COPIED, 0]
        for k in range(length):
            long[start + k] = byte_at(text, i + k)
        copied[COPIED, 0] = start + length
        copied[place, 0], copied[place, 1], copied[place, 2] = i, length, start
    return int(start)


@compiled_inner_without_refcounts
def literal_end(text: Ints, i: int) -> int:
    """The end of null, true or false at i, or -1."""
    if first_bytes(text, i, 4) == NULL or first_bytes(text, i, 4) == TRUE:
        return i + 4
    return i + 5 if first_bytes(text, i, 5) == FALSE else -1


@compiled_into_callers
def key_at(text: Ints, i: int, words: Ints) -> tuple[int, int]:
    """The number of the next key (-1: not in the table), and the start of its value (-1: none)."""
    i = skip_blanks(text, i)
    if byte_at(text, i) != QUOTE:
        return -1, -1
    word, i = word_at(text, i + 1, words)
    if i < 0:
        return -1, -1
    i = skip_blanks(text, i + 1)
    return (word, skip_blanks(text, i + 1)) if byte_at(text, i) == COLON else (-1, -1)


@compiled_into_callers
def after_value(text: Ints, i: int, close: int) -> tuple[int, bool]:
    """The position after the comma or `close` after the value before i, and whether it is `close`; -1: neither."""
    if i < 0:
        return -1, False
    i = skip_blanks(text, i)
    closes = byte_at(text, i) == close
    return (i + 1, closes) if closes or byte_at(text, i) == COMMA else (-1, False)
