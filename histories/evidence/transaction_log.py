"""Reads a folder of `__transaction_state`: how the coordinator decided each transaction, by the partitions it wrote to.

Compaction keeps the last record of each transactional id, so earlier transactions may be missing. A complete
transaction lists no partitions any more; they are those of its records before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from .tables import DAMAGE, TRANSACTIONS, damage_row
from .transaction_records import TransactionRecord, decode
from .wire_cursor import MalformedRecordError

Row = dict[str, Any]
WITHOUT_TRANSACTION = ("empty", "dead", "removed")


class _Replay:
    """The transactions so far: a row for each of its partitions, and those of each id that are not over yet."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.open: dict[str, list[Row]] = {}
        self.last: dict[str, Row] = {}  # of each transactional id, the columns last_*

    def apply(self, record: TransactionRecord, where: Row) -> None:
        """Take one record."""
        name, state, value = record.transactional_id, record.state, record.value
        self.last[name] = {
            "last_state": state,
            "last_epoch": None if value is None else value["producerEpoch"],
            "last_time": where["time"],
        }
        if value is None or state in WITHOUT_TRANSACTION:
            self.open.pop(name, None)
            return
        began = value["transactionStartTimestampMs"]
        rows = self.open.get(name, [])
        if rows and rows[0]["began"] != began:
            rows = []  # compaction took the end of the transaction before
        added = {(row["topic"], row["partition"]) for row in rows}
        names = rows[0]["partitions"] if rows else []
        time = value["transactionLastUpdateTimestampMs"]
        for topic, partition in sorted({*record.partitions} - added):
            new = {"topic": topic, "partition": partition, "transactional_id": name, "began": began, "added": time}
            rows.append({**new, "began_at": where["at"], "outcome": None, "partitions": names})
            names.append(f"{topic}-{partition}")  # of all rows of the transaction
            self.rows.append(rows[-1])
        self.open[name] = rows
        is_complete = state.startswith("complete")
        for row in rows:
            row |= {**where, "state": state, "timeout_ms": value["transactionTimeoutMs"]}
            if is_complete:
                row["completed"] = time
                continue
            row |= {"producer_id": value["producerId"], "producer_epoch": value["producerEpoch"]}
            if state.startswith("prepare-") and state != "prepare-epoch-fence":
                row |= {"outcome": state.removeprefix("prepare-"), "prepared": time}
        if is_complete:
            self.open.pop(name, None)

    def table(self) -> pl.DataFrame:
        """TRANSACTIONS with the column file."""
        rows = [{**row, **self.last[row["transactional_id"]]} for row in self.rows]
        return pl.DataFrame(rows, schema={**TRANSACTIONS, "file": pl.String})


def read_transaction_log(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables TRANSACTIONS and DAMAGE of a folder, both with a column `file` (its name)."""
    from .segments import raw_records  # loads compiled loops, which takes time

    replay, damage = _Replay(), []
    for path in sorted(p for p in folder.glob("*.log") if p.stem.isdecimal() and p.is_file()):
        # Damaged batches are reported with the segment, which is read as any other.
        for raw in raw_records(path)[0]:
            if raw.is_control:
                continue
            try:
                record = decode(raw.key or b"", raw.value)
            except MalformedRecordError as error:
                reason = f"the record at offset {raw.offset} cannot be decoded: {error}"
                damage.append(
                    {**damage_row("decode", reason, raw.byte, None, raw.offset, raw.offset), "file": path.name}
                )
                continue
            if record is not None:
                where = {"at": raw.offset, "time": raw.timestamp, "byte": raw.byte, "file": path.name}
                replay.apply(record, where)
    return replay.table(), pl.DataFrame(damage, schema={**DAMAGE, "file": pl.String})
