"""Reads a folder of `__transaction_state`: how the coordinator decided each transaction, by the partitions it wrote to.

Compaction keeps the last record of each transactional id, so earlier transactions may be missing. A complete
transaction lists no partitions any more; they are those of its records before.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from .coordinator_log import Row, replay_log
from .tables import TRANSACTIONS
from .transaction_records import decode

if TYPE_CHECKING:
    from .segments import RawRecord

WITHOUT_TRANSACTION = ("empty", "dead", "removed")


class _Replay:
    """The transactions so far: a row for each of its partitions, and those of each id that are not over yet."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.open: dict[str, list[Row]] = {}
        self.last: dict[str, Row] = {}  # of each transactional id, the columns last_*

    def apply(self, raw: RawRecord, where: Row) -> None:
        """Take one record."""
        record = None if raw.is_control else decode(raw.key or b"", raw.value)
        if record is None:
            return
        name, state, value = record.transactional_id, record.state, record.value
        self.last[name] = {
            "last_state": state,
            "last_epoch": None if value is None else value["producerEpoch"],
            "last_time": where["time"] if value is None else value["transactionLastUpdateTimestampMs"],
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
            place = {key: rows[0][key] for key in ("began_file", "began_byte")} if rows else _place("began", where)
            new |= {**place, **_place("added", where)}
            rows.append({**new, "began_at": where["at"], "outcome": None, "partitions": names})
            names.append(f"{topic}-{partition}")  # of all rows of the transaction
            self.rows.append(rows[-1])
        self.open[name] = rows
        is_complete = state.startswith("complete")
        for row in rows:
            row |= {**where, "state": state, "timeout_ms": value["transactionTimeoutMs"]}
            if is_complete:
                row |= {"completed": time, **_place("completed", where)}
                continue
            row |= {"producer_id": value["producerId"], "producer_epoch": value["producerEpoch"]}
            if state.startswith("prepare-") and state != "prepare-epoch-fence":
                row |= {"outcome": state.removeprefix("prepare-"), "prepared": time, **_place("prepared", where)}
        if is_complete:
            self.open.pop(name, None)

    def table(self) -> pl.DataFrame:
        """TRANSACTIONS with the column file."""
        rows = [{**row, **self.last[row["transactional_id"]]} for row in self.rows]
        return pl.DataFrame(rows, schema={**TRANSACTIONS, "file": pl.String})


def _place(step: str, where: Row) -> Row:
    return {f"{step}_file": where["file"], f"{step}_byte": where["byte"]}


def read_transaction_log(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables TRANSACTIONS and DAMAGE of a folder, both with a column `file` (its name)."""
    replay = _Replay()
    damage, is_intact = replay_log(folder, replay.apply)
    return replay.table().with_columns(intact=pl.lit(is_intact)), damage


def count_records_from_0(folder: Path) -> int | None:
    """The number of records of a log that has every offset from 0 to its end.

    None: some were compacted or deleted, or are damaged.
    """
    from .segments import read_headers  # loads compiled loops, which takes time

    segments = sorted(path for path in folder.glob("*.log") if path.stem.isdecimal())
    if not segments or not all(path.is_file() for path in segments):
        return None
    read = [read_headers(path) for path in segments]
    batches = pl.concat([segment.batches for segment in read])
    if any(len(segment.damage) for segment in read):
        return None
    count, last = int(batches["count"].sum()), batches["last_offset"].max()
    end = max(int(segments[-1].stem), last + 1 if isinstance(last, int) else 0)
    return count if count == end else None
