"""Describes files that are no history, for error messages."""

from __future__ import annotations

import re
import shlex

import orjson

from ..errors import shortened
from ..files import encoding_of, is_tar

_UNPACK = "unpack it, and name the history or folder inside"
_RECOMPRESS = "decompress it; .gz and .zst are read as they are"
_MAGICS = (  # first bytes, what they begin, what to do
    (b"PK\x03\x04", "a ZIP archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"\xfd7zXZ\x00", "data compressed with xz", _RECOMPRESS),
    (b"BZh", "data compressed with bzip2", _RECOMPRESS),
    (b"\x04\x22\x4d\x18", "data compressed with lz4", _RECOMPRESS),
    (b"SQLite format 3\x00", "a SQLite database", ""),
)
_FIELDS = ("process", "type", "f")  # that the native reader recognises
_CONTROLS = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_LOG_LINE = re.compile(r"\W?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d.*\b(TRACE|DEBUG|INFO|WARN|ERROR)\b")
_LOG_HINT = (
    "name a broker's log server.log; from an application's log, write the acknowledgements as a history"
    " (docs/format.md, Only acknowledgements)"
)
# VerifiableConsumer prints the names of its assigned partitions before the first record; share groups assign none.
_SHARE_CONSUMER = re.compile(
    rb'"name"\s*:\s*"(?:offsets_acknowledged|offset_reset_strategy_set)"'
    rb'|"name"\s*:\s*"startup_complete"[^\n]*\n[^\n]*"name"\s*:\s*"record_data"'
)
_SHARE_HINT = "a share group may skip and repeat records, so its polls cannot be judged: leave the file out of the run"
_SHOWN = 40  # characters
NO_JSON = "a first line that is no JSON"
_EDN_MAP = re.compile(r"[\s,]*(?:#[\w.]+\s*)?\{\s*:[A-Za-z]")


def is_foreign(head: bytes) -> bool:
    """Whether the first bytes are of an archive or not of UTF-8, so that single lines in it prove no format."""
    is_archive = head.startswith(tuple(magic for magic, _, _ in _MAGICS)) or is_tar(head)
    return is_archive or encoding_of(head) is not None


def is_of_share_consumer(head: bytes) -> bool:
    """Whether the first bytes are of VerifiableShareConsumer's output (KIP-932)."""
    return _SHARE_CONSUMER.search(head) is not None


def describe(head: bytes, source: str) -> tuple[str, str]:
    """What a file with these first bytes (decompressed) is, and what to do about it; the second may be empty."""
    for magic, found, hint in _MAGICS:
        if head.startswith(magic):
            return found, hint
    if is_tar(head):
        return "a tar archive", _UNPACK
    if encoding := encoding_of(head):
        name = shlex.quote(source)
        return f"text in {encoding}", f"logjudge reads UTF-8: `iconv -f {encoding} -t UTF-8 {name}` converts it"
    if _CONTROLS.search(head):
        return "binary data", ""
    if not (lines := head.decode("utf-8", "replace").split("\n", 2)[:2]) or not head.strip():
        return "only blank lines", "nothing was recorded, or the file lost its content"
    if is_of_share_consumer(head):
        return "the output of VerifiableShareConsumer", _SHARE_HINT
    if _LOG_LINE.match(lines[0]):
        return "lines of a log without a broker's id", _LOG_HINT
    if separator := _separator_of(lines):
        columns = lines[0].rstrip("\r").split(separator)
        return f"a table with {len(columns)} columns, separated by {_SEPARATORS[separator]}", ""
    found = _object_without_fields(lines[0]) or f"a first line like {shortened(lines[0].strip(), _SHOWN)!r}"
    is_cut = len(lines) == 1 and NO_JSON in found
    return found, "the file has no line feed: was it cut, or is it still being written?" if is_cut else ""


def _separator_of(lines: list[str]) -> str | None:
    """The separator of a table: it occurs in each of the first two lines equally often. None if there is no table."""
    if len(lines) < 2 or lines[0].lstrip().startswith(("{", "[")):
        return None
    counted = ((separator, {line.count(separator) for line in lines}) for separator in _SEPARATORS)
    return next((separator for separator, counts in counted if len(counts) == 1 and counts != {0}), None)


def _object_without_fields(line: str) -> str | None:
    """The fields of a JSON object and those that an event must have, or why it is no JSON. None for another line."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if _EDN_MAP.match(line):
            return "EDN without an operation that logjudge knows (:process, :type, :f and :value)"
        return f"{NO_JSON} ({error})" if line.lstrip().startswith("{") else None
    if not isinstance(value, dict):
        return None
    missing = ", ".join(name for name in _FIELDS if name not in value)
    fields = f"the fields {shortened(', '.join(value), _SHOWN)}" if value else "no fields"
    return f"a JSON object with {fields}, without {missing}"
