"""Prefixes that collectors put in front of each line of a broker's log: a name, a time, colours.

`docker compose logs` writes `kafka-1  | `, `kubectl logs --prefix` writes `[pod/kafka-0/kafka] `, journald a time, the
host and the unit; `--timestamps` adds a time. One such file may hold the lines of several brokers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..files import HEAD_BYTES, Split, blocks, compression_of, head_of

STAMP = re.compile(r"\[(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)[,.](\d{3})\]")
_COLOUR = r"(?:\x1b\[[\d;]*m)*"
_PREFIX = re.compile(
    rf"{_COLOUR}(?:(?P<service>[\w.\-]+) *\| ?|(?P<pod>\[pod/[^\]\s]+\]) ?"
    r"|[A-Z][a-z]{2} [ \d]\d [\d:]{8} (?P<unit>[\w.\-]+ [\w.\-@]+)(?:\[\d+\])?: ?)?"
    rf"{_COLOUR}(?:\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d[\d.]*(?:Z|[+-]\d\d:?\d\d) )?{_COLOUR}"
)


def split_prefix(line: str) -> tuple[str, str]:
    """The name of the source in front of a line, "" without one, and the line as the broker wrote it."""
    found = _PREFIX.match(line)
    assert found is not None  # all of its parts are optional
    return found["service"] or found["pod"] or found["unit"] or "", line[found.end() :]


def heads_of(path: Path) -> dict[str | None, str]:
    """The first lines of each source in a log, without their prefixes; the source None is a log without prefixes.

    A file that has prefixes is read as a whole: its sources may follow each other. Raises OSError or ValueError.
    """
    head = head_of(path).decode("utf-8", "replace")
    lines = head.split("\n")
    if any(map(STAMP.match, lines)) or not any(STAMP.match(split_prefix(line)[1]) for line in lines):
        return {None: head}
    found: dict[str | None, list[str]] = {}
    sizes: dict[str, int] = {}
    for line in _lines(path):
        source, text = split_prefix(line)
        if sizes.setdefault(source, 0) < HEAD_BYTES:
            sizes[source] += len(text)
            found.setdefault(source, []).append(text)
    stamped = {source: texts for source, texts in found.items() if any(map(STAMP.match, texts))}
    return {source: "\n".join(texts) for source, texts in stamped.items()}


def _lines(path: Path) -> Iterator[str]:
    if compression := compression_of(path):
        for block in blocks(Split(0, str(path), "", compression, 0, 0)):
            yield from block.data.decode("utf-8", "replace").split("\n")
    else:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as opened:
            while line := opened.readline(HEAD_BYTES):
                yield line.rstrip("\n")
