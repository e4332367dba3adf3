"""Functions that the readers of line-based formats share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from ..tables import QUARANTINE

MAX_LINE = 16 << 20  # bytes; parsing a line in Python takes about twenty times its size
INT64 = range(-(1 << 63), 1 << 63)
BOM = b"\xef\xbb\xbf"  # concatenated files also have it at later lines


class MalformedError(ValueError):
    """A line that cannot be read: what was found, and what was expected. `of_nemesis`: it is no client's operation."""

    of_nemesis: bool | None = None


def lines_of(blob: bytes) -> list[bytes]:
    """The lines, without their line feeds."""
    lines = blob.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def first_line(head: bytes) -> bytes:
    """The first line of a file that is not blank, without blanks before it."""
    return head.removeprefix(BOM).lstrip().split(b"\n", 1)[0]


def decode_line(line: bytes) -> str:
    """The line as text, without a byte order mark."""
    if len(line) > MAX_LINE:
        raise MalformedError(f"found a line of {len(line)} bytes, expected at most {MAX_LINE}")
    try:
        return line.removeprefix(BOM).decode()
    except UnicodeDecodeError as error:
        raise MalformedError(f"found a byte at {error.start} that is not UTF-8, expected UTF-8") from None


def parse_each(
    lines: list[bytes], numbers: Iterable[int], read: Callable[[bytes], dict[str, Any] | None]
) -> tuple[list[dict[str, Any]], pl.DataFrame]:
    """The rows that `read` makes of the lines with these numbers, and QUARANTINE of malformed ones."""
    rows = []
    malformed = []
    for number in numbers:
        try:
            row = read(lines[number])
        except MalformedError as error:
            malformed.append({"line": number, "reason": str(error), "of_nemesis": error.of_nemesis})
        else:
            if row is not None:
                rows.append({"line": number, **row})
    return rows, pl.DataFrame(malformed, schema=QUARANTINE)


def texts(lines: list[bytes]) -> pl.Series:
    """The lines as text; null where they are too long or not UTF-8."""
    try:
        text = pl.Series("text", lines, dtype=pl.Binary).cast(pl.String)
    except pl.exceptions.ComputeError:  # polars does not name the line
        text = pl.Series("text", [_text_or_none(line) for line in lines], dtype=pl.String)
    return text.set(text.str.len_bytes() > MAX_LINE, None)


def _text_or_none(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
