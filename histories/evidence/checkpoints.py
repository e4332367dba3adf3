"""Reads the small text files beside the segments: offset checkpoints, epoch files, properties.

Offset checkpoints (replication-offset, recovery-point-offset, log-start-offset, cleaner-offset) are
Kafka's CheckpointFile: a version, a count, then `topic partition offset` lines; leader-epoch-checkpoint has
`epoch start-offset` lines (LeaderEpochCheckpointFile). Kafka has only written version 0. Version 1 is read in the same
way, and further fields are ignored. A checkpoint lags, so its offset is a lower bound. A malformed line becomes damage;
the other lines are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ..tables import Schema
from .tables import CHECKPOINTS, DAMAGE, EPOCHS, PROPERTIES, Row, damage_row, unreadable_row

CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS = {
    "replication-offset-checkpoint": "high-watermark",
    "recovery-point-offset-checkpoint": "recovery-point",
    "log-start-offset-checkpoint": "log-start",
    CLEANER_CHECKPOINT: "cleaned",
}
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
TOPIC_ID_FILE = "partition.metadata"
PROPERTY_FILES = ("meta.properties", TOPIC_ID_FILE, "quorum-state")
LOG_DIR_FILES = frozenset(("meta.properties", *OFFSET_CHECKPOINTS))  # directly in a log.dir
VERSIONS = (0, 1)
MAX_BYTES = 64 << 20  # a checkpoint of a million partitions is smaller


def read_offset_checkpoint(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables CHECKPOINTS and DAMAGE of one offset checkpoint. The file's name decides the kind of offset."""
    name = OFFSET_CHECKPOINTS.get(path.name, path.name)
    entries, damage = _entries(path, 3)
    rows = []
    for line, fields in entries:
        partition, offset = _integer(fields[1]), _integer(fields[2])
        if partition is None or partition < 0 or offset is None or partition > 2**31 - 1:
            damage.append(_syntax_damage(path, line, " ".join(fields), "topic partition offset"))
            continue
        rows.append((name, fields[0], partition, offset, line))
    return _frame(rows, CHECKPOINTS), pl.DataFrame(damage, schema=DAMAGE)


def read_epoch_checkpoint(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables EPOCHS and DAMAGE of a leader-epoch-checkpoint: each epoch and its first offset."""
    entries, damage = _entries(path, 2)
    rows = []
    for line, fields in entries:
        epoch, start = _integer(fields[0]), _integer(fields[1])
        if epoch is None or start is None or not -1 <= epoch < 2**31:
            damage.append(_syntax_damage(path, line, " ".join(fields), "epoch start-offset"))
            continue
        rows.append((epoch, start, line))
    return _frame(rows, EPOCHS), pl.DataFrame(damage, schema=DAMAGE)


def read_properties(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables PROPERTIES and DAMAGE of meta.properties (`k=v`), partition.metadata (`k: v`), quorum-state."""
    lines, damage = _lines(path)
    rows = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        if path.name == "quorum-state":
            rows.append(("json", text, number))
            continue
        separator = "=" if "=" in text and not text.startswith(("version:", "topic_id:")) else ":"
        key, found, value = text.partition(separator)
        if not found:
            damage.append(_syntax_damage(path, number, text, f"key{separator}value"))
            continue
        rows.append((key.strip(), value.strip(), number))
    return _frame(rows, PROPERTIES), pl.DataFrame(damage, schema=DAMAGE)


def _entries(path: Path, fields: int) -> tuple[list[tuple[int, list[str]]], list[Row]]:
    """The entries of a CheckpointFile with their line numbers, and its damage."""
    lines, damage = _lines(path)
    if damage or not lines or lines == [""]:
        # Kafka creates the cleaner's checkpoint empty.
        return [], damage
    version, count = _integer(lines[0]), _integer(lines[1]) if len(lines) > 1 else None
    if version not in VERSIONS:
        return [], [_syntax_damage(path, 1, lines[0], "version 0 or 1")]
    if count is None or count < 0:
        found = lines[1] if len(lines) > 1 else "the end of the file"
        return [], [_syntax_damage(path, 2, found, "the number of entries")]
    entries = []
    for number, line in enumerate(lines[2:], 3):
        split = line.split()
        if len(split) >= fields:
            entries.append((number, split))
        elif split:
            damage.append(_syntax_damage(path, number, line, f"{fields} fields"))
    if len(entries) != count and not damage:
        damage.append(_syntax_damage(path, 2, f"{len(entries)} entries", f"{count} as in line 2"))
    return entries, damage


def _lines(path: Path) -> tuple[list[str], list[Row]]:
    """The lines of a file, and its damage. A pipe is not opened: reading it would not end."""
    if path.exists() and not path.is_file():
        return [], [damage_row("unreadable", "found no regular file")]
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_BYTES + 1)
    except OSError as error:
        return [], [unreadable_row(error)]
    if len(raw) > MAX_BYTES:
        return [], [damage_row("syntax", f"found more than {MAX_BYTES} bytes, expected a checkpoint")]
    return raw.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n").split("\n"), []


def _integer(text: str) -> int | None:
    """The text as an integer of 64 bits, or None. Unlike Java, int() accepts underscores, spaces and other digits."""
    digits = text[1:] if text[:1] in "+-" else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _syntax_damage(path: Path, line: int, found: str, expected: str) -> Row:
    return damage_row("syntax", f"{path.name}: found {found[:80]!r}, expected {expected}", line=line)


def _frame(rows: Sequence[tuple[object, ...]], schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(schema), orient="row")
