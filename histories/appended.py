"""Reads whole lines that were appended to the files of a history since an earlier call."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import orjson

from .errors import InputError
from .files import Block, Split, blocks

BLOCK_BYTES = 8 << 20
COMPARED_BYTES = 64 << 10  # at each end of what was read, to recognise a file that was rewritten


class Position(NamedTuple):
    """The position up to which a file was read, in whole lines."""

    bytes: int = 0
    lines: int = 0
    head: str = ""  # SHA-256 of the first COMPARED_BYTES of what was read
    tail: str = ""  # SHA-256 of the last COMPARED_BYTES of what was read


def position_at(path: Path, size: int, lines: int) -> Position:
    """The position behind so many bytes and lines."""
    with path.open("rb") as file:
        head = file.read(min(size, COMPARED_BYTES))
        file.seek(max(size - COMPARED_BYTES, 0))
        tail = file.read(size - file.tell())
    return Position(size, lines, *(hashlib.sha256(part).hexdigest() for part in (head, tail)))


def refuse_rewritten(files: Mapping[str, Path], positions: Mapping[str, Position], state: str) -> None:
    """Raises InputError unless the files of a state are still there, and begin with what was read."""
    hint = f"name the run of this state, or remove {state} to start from the beginning"
    for name, position in positions.items():
        if name not in files:
            raise InputError(
                state, f"the state of a run with {name}, which this run lacks", "the state of this run", hint
            )
        path = files[name]
        found = f"{path.stat().st_size:,} bytes"
        if path.stat().st_size < position.bytes or position_at(path, position.bytes, position.lines) != position:
            expected = f"a file that begins with the {position.bytes:,} bytes read before, as {state} recorded them"
            raise InputError(str(path), f"{found}, which were rewritten", expected, hint)


def end_of_lines(path: Path, start: int) -> int:
    """The end of the last whole line at or behind `start`. A last line without line feed counts if it is an object."""
    with path.open("rb") as file:
        end = at = file.seek(0, 2)
        rest = b""
        while at > start:
            begin = max(start, at - BLOCK_BYTES)
            file.seek(begin)
            rest = file.read(at - begin) + rest
            at = begin
            if (feed := rest.rfind(b"\n")) >= 0:
                at, rest = at + feed + 1, rest[feed + 1 :]
                break
    return end if rest and _is_object(rest) else at


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def appended_blocks(split: Split, first_line: int) -> Iterator[Block]:
    """The blocks of the bytes `split.start` to `split.end` of a file; `first_line` is the number of lines before."""
    if split.start < split.end:
        for block in blocks(split, BLOCK_BYTES):
            yield replace(block, first_line=block.first_line + first_line)
