"""Reads the records of a coordinator's topic: `__consumer_offsets` for group_log.py, `__transaction_state` for
transaction_log.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from .record_schema import MalformedRecordError
from .tables import DAMAGE, damage_row

if TYPE_CHECKING:
    from .segments import RawRecord

Row = dict[str, Any]


def replay_log(folder: Path, apply: Callable[[RawRecord, Row], None]) -> tuple[pl.DataFrame, bool]:
    """Give `apply` each record of a folder in order, with the columns that locate it: at, time, byte and file.

    Returns DAMAGE, with the file's name, of the records for which `apply` raised MalformedRecordError; and whether all
    records of the folder were read.
    """
    from .segments import raw_records  # loads compiled loops, which takes time

    damage: list[Row] = []
    is_intact = True
    for path in sorted(p for p in folder.glob("*.log") if p.stem.isdecimal()):
        if not path.is_file():
            is_intact = False
            continue
        records, of_segment = raw_records(path)
        is_intact = is_intact and not of_segment  # reported with the segment, which is read as any other
        for record in records:
            try:
                apply(record, {"at": record.offset, "time": record.timestamp, "byte": record.byte, "file": path.name})
            except MalformedRecordError as error:
                reason = f"the record at offset {record.offset} cannot be decoded: {error}"
                row = damage_row("decode", reason, record.byte, record.offset, record.offset)
                damage.append({**row, "file": path.name})
    return pl.DataFrame(damage, schema={**DAMAGE, "file": pl.String}), is_intact and not damage
