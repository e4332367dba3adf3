"""Reads a folder of `__consumer_offsets`: what groups committed, their generations, and who was assigned what.

Commits of a transaction count from its COMMIT marker, as in Kafka's GroupMetadataManager. Compaction keeps the last
record of each key, so earlier commits and generations may be missing. The others are in the order in which the
coordinator wrote them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from .coordinator_log import Row, replay_log
from .group_records import GroupMetadata, OffsetCommit, assigned_partitions, decode
from .tables import GROUPS

if TYPE_CHECKING:
    from .segments import RawRecord

COMMIT_MARKER = 1


class _Replay:
    def __init__(self) -> None:
        self.rows: list[Row] = []
        # Commits of open transactions, by producer id: since KIP-890 the marker has a later epoch than they.
        self.open: dict[int, list[Row]] = {}

    def apply(self, key: bytes, value: bytes | None, where: Row, producer: int | None) -> None:
        record = decode(key, value)
        if isinstance(record, OffsetCommit):
            place = {"group": record.group, "topic": record.topic, "partition": record.partition}
            if record.value is None:
                self.rows.append({**where, "kind": "removed", **place})
                return
            epoch = record.value["leaderEpoch"]
            committed = {
                "offset": record.value["offset"],
                "leader_epoch": epoch if epoch >= 0 else None,
                "time": record.value["commitTimestamp"],
            }
            row = {**where, "kind": "committed", **place, **committed}
            (self.rows if producer is None else self.open.setdefault(producer, [])).append(row)
        elif isinstance(record, GroupMetadata):
            self._group(record, where)

    def _group(self, record: GroupMetadata, where: Row) -> None:
        if record.value is None:
            self.rows.append({**where, "kind": "group-removed", "group": record.group})
            return
        generation, members = record.value["generation"], record.value["members"]
        of_group = {"group": record.group, "generation": generation}
        self.rows.append({**where, "kind": "generation", **of_group, "members": len(members)})
        if record.value["protocolType"] != "consumer":  # Connect and others assign no partitions
            return
        for member in members:
            names = {
                "member": member["memberId"],
                "client": member["clientId"],
                "instance": member["groupInstanceId"],
            }
            self.rows += [
                {**where, "kind": "assigned", **of_group, **names, "topic": topic, "partition": partition}
                for topic, partition in assigned_partitions(member["assignment"])
            ]

    def end(self, producer: int, is_commit: bool, at: int) -> None:
        """End the transaction of a producer."""
        for row in self.open.pop(producer, []):
            if is_commit:
                self.rows.append({**row, "at": at})


def read_group_log(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables GROUPS and DAMAGE of a folder, both with a column `file` (its name)."""
    replay = _Replay()

    def apply(record: RawRecord, where: Row) -> None:
        if not record.is_control:
            replay.apply(record.key or b"", record.value, where, record.producer and record.producer[0])
        elif record.producer is not None:
            kind = int.from_bytes((record.key or b"")[2:4], "big")
            replay.end(record.producer[0], kind == COMMIT_MARKER, record.offset)

    damage = replay_log(folder, apply)
    return pl.DataFrame(replay.rows, schema={**GROUPS, "file": pl.String}), damage
