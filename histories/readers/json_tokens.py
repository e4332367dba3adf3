"""Compiled loops over the tokens of JSON, for native_scan.py: strings without escapes, plain integers, literals.

Each takes the bytes, a position and an end. None raises: -1 means that the bytes are a different token.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...models.arrays import Bytes, Ints
from ...models.compiled import compiled_inner_without_refcounts

QUOTE, COMMA, COLON, MINUS, BACKSLASH = map(ord, '",:-\\')
OBJECT, OBJECT_END, LIST, LIST_END = map(ord, "{}[]")
ZERO, NINE = map(ord, "09")
SPACE, TAB, LINE_FEED, RETURN = map(ord, " \t\n\r")
NULL, TRUE, FALSE = (np.frombuffer(word, np.uint8) for word in (b"null", b"true", b"false"))
INLINE = 12  # bytes within an Arrow string view itself
COPIED = 512  # rows of `copied` (position of a text, its length, position of its copy); one more row counts all bytes


def _packed(word: str) -> int:
    """The last eight letters of a word as one number, as `word_at` gathers them."""
    return int.from_bytes(word.encode()[-8:], "big", signed=len(word) >= 8)


@compiled_inner_without_refcounts
def hash_of(packed: int, length: int) -> int:
    """A hash that differs for all words of native_scan.py; `word_table` fails on a collision."""
    return (packed ^ packed >> 11 ^ packed >> 27 ^ length * 5) & 255


def word_table(words: tuple[str, ...]) -> Ints:
    """256 x (its last eight letters, packed; length; number of the word, -1: none; its letters before the last eight,
    packed), by hash."""
    table = np.full((256, 4), -1, np.int64)
    for number, word in enumerate(words):
        slot = hash_of(_packed(word), len(word))
        assert table[slot, 2] < 0, f"{word} needs another hash"
        table[slot] = _packed(word), len(word), number, int.from_bytes(word[:-8].encode(), "big")
    return table


@compiled_inner_without_refcounts
def skip_blanks(buf: Bytes, i: int, end: int) -> int:
    """The first position from i on that is not a blank."""
    while i < end and (buf[i] == SPACE or buf[i] == TAB or buf[i] == RETURN):
        i += 1
    return i


@compiled_inner_without_refcounts
def close_quote(buf: Bytes, i: int, end: int) -> int:
    """The closing quote of the string with its text from i on; -1 for an escape, a control character, or no end."""
    while i < end:
        c = buf[i]
        if c == QUOTE:
            return i
        if c == BACKSLASH or c < SPACE:
            return -1
        i += 1
    return -1


@compiled_inner_without_refcounts
def word_at(buf: Bytes, i: int, end: int, words: Ints) -> tuple[int, int]:
    """The number of the word at i (-1: not in the table), and its closing quote (-1: none)."""
    packed: Any = np.int64(0)
    start = i
    while i < end:
        c: Any = np.int64(buf[i])
        if c == QUOTE:
            slot = hash_of(packed, i - start)
            if words[slot, 0] != packed or words[slot, 1] != i - start:
                return -1, i
            before: Any = np.int64(0)
            for k in range(start, i - 8):
                before = before << 8 | np.int64(buf[k])
            return (words[slot, 2] if before == words[slot, 3] else -1), i
        if c == BACKSLASH or c < SPACE:
            return -1, -1
        packed = packed << 8 | c
        i += 1
    return -1, -1


@compiled_inner_without_refcounts
def integer(buf: Bytes, i: int, end: int) -> tuple[int, int]:
    """The plain integer of at most 18 digits at i, and its end; the end is -1 if there is none."""
    negative = buf[i] == MINUS
    if negative:
        i += 1
    first = i
    value: Any = np.int64(0)
    while i < end and ZERO <= buf[i] <= NINE:
        value = value * 10 + np.int64(buf[i]) - ZERO
        i += 1
    digits = i - first
    if digits < 1 or digits > 18 or (buf[first] == ZERO and (digits > 1 or negative)):
        return 0, -1
    return (-value if negative else value), i


@compiled_inner_without_refcounts
def text_view(buf: Bytes, i: int, end: int, table: Ints, row: int, slot: int, long: Bytes, copied: Ints) -> None:
    """Writes Arrow's view of a text into two slots: its length, and its bytes if they are at most INLINE.

    Otherwise its first four bytes, and the position of its copy in `long`.
    """
    length = end - i
    low: Any = length
    for k in range(min(length, 4)):
        low |= np.int64(buf[i + k]) << (32 + 8 * k)
    high: Any = 0
    if length > INLINE:
        high = copy_of(buf, i, length, long, copied) << 32
    else:
        for k in range(4, length):
            high |= np.int64(buf[i + k]) << (8 * (k - 4))
    table[row, slot] = low
    table[row, slot + 1] = high


@compiled_inner_without_refcounts
def copy_of(buf: Bytes, i: int, length: int, long: Bytes, copied: Ints) -> int:
    """The position in `long` of a copy of a text. Topics and processes repeat, so `copied` has where some texts are."""
    last = i + length - 1
    place = (length * 31 + np.int64(buf[last]) * 7 + np.int64(buf[last - 1])) & (COPIED - 1)
    seen, start = copied[place, 0], copied[place, 2]
    same = copied[place, 1] == length
    k = 0
    while same and k < length:
        same = buf[seen + k] == buf[i + k]
        k += 1
    if not same:
        start = copied[COPIED, 0]
        for k in range(length):
            long[start + k] = buf[i + k]
        copied[COPIED, 0] = start + length
        copied[place, 0], copied[place, 1], copied[place, 2] = i, length, start
    return int(start)


@compiled_inner_without_refcounts
def begins_with(buf: Bytes, i: int, end: int, word: Bytes) -> bool:
    """Whether the word is at i."""
    k = 0
    while k < len(word) and i + k < end and buf[i + k] == word[k]:
        k += 1
    return k == len(word)


@compiled_inner_without_refcounts
def literal_end(buf: Bytes, i: int, end: int) -> int:
    """The end of null, true or false at i, or -1."""
    if begins_with(buf, i, end, NULL) or begins_with(buf, i, end, TRUE):
        return i + len(NULL)
    return i + len(FALSE) if begins_with(buf, i, end, FALSE) else -1


@compiled_inner_without_refcounts
def key_at(buf: Bytes, i: int, end: int, words: Ints) -> tuple[int, int]:
    """The number of the next key (-1: not in the table), and the start of its value (-1: none)."""
    i = skip_blanks(buf, i, end)
    if i >= end or buf[i] != QUOTE:
        return -1, -1
    word, i = word_at(buf, i + 1, end, words)
    if i < 0:
        return -1, -1
    i = skip_blanks(buf, i + 1, end)
    if i >= end or buf[i] != COLON:
        return -1, -1
    i = skip_blanks(buf, i + 1, end)
    return word, i if i < end else -1


@compiled_inner_without_refcounts
def after_value(buf: Bytes, i: int, end: int, close: int) -> tuple[int, bool]:
    """The position after the comma or `close` after the value before i, and whether it is `close`; -1: neither."""
    if i < 0:
        return -1, False
    i = skip_blanks(buf, i, end)
    if i < end and (buf[i] == COMMA or buf[i] == close):
        return i + 1, buf[i] == close
    return -1, False
