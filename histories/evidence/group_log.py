"""Reads a folder of `__consumer_offsets`: what groups committed, their generations, and who was assigned what.

Commits of a transaction count from its COMMIT marker, as in Kafka's GroupMetadataManager. Compaction keeps the last
record of each key, so earlier commits and generations may be missing. The others are in the order in which the
coordinator wrote them.

Groups of KIP-848 name topics by their ids. The reader gets the names of the topics that the broker stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from .coordinator_log import Row, replay_log
from .group_records import (
    CurrentAssignment,
    GroupEpoch,
    GroupMetadata,
    MemberMetadata,
    OffsetCommit,
    assigned_partitions,
    decode,
)
from .tables import GROUPS

if TYPE_CHECKING:
    from .segments import RawRecord

COMMIT_MARKER = 1


class _Replay:
    def __init__(self, topics: Mapping[str, str]) -> None:
        self.topics = topics  # by id
        self.rows: list[Row] = []
        self.members: dict[tuple[str, str], Row] = {}  # of KIP-848, by group and member
        self.owned: dict[tuple[str, str], set[tuple[str, int]]] = {}  # topic ids and partitions
        # Commits of open transactions, by producer id: since KIP-890 the marker has a later epoch than they.
        self.open: dict[int | None, list[Row]] = {}

    def apply(self, raw: RawRecord, where: Row) -> None:
        """Take one record, or the marker that ends a transaction."""
        producer = None if raw.producer is None else raw.producer[0]
        if raw.is_control:
            is_commit = int.from_bytes((raw.key or b"")[2:4], "big") == COMMIT_MARKER
            rows = self.open.pop(producer, [])
            self.rows += [{**row, "at": raw.offset} for row in rows if is_commit]
            return
        record = decode(raw.key or b"", raw.value)
        if isinstance(record, OffsetCommit):
            is_open = producer is not None and record.value is not None
            (self.open.setdefault(producer, []) if is_open else self.rows).append(_commit(record, where))
        elif isinstance(record, GroupMetadata):
            self._group(record, where)
        elif isinstance(record, GroupEpoch):
            kind = "group-removed" if record.epoch is None else "generation"
            self.rows.append({**where, "kind": kind, "group": record.group, "generation": record.epoch})
        elif isinstance(record, MemberMetadata) and record.value is not None:
            about = {"client": record.value["clientId"], "instance": record.value["instanceId"]}
            self.members[record.group, record.member] = about
        elif isinstance(record, CurrentAssignment):
            self._current(record, where)

    def _current(self, record: CurrentAssignment, where: Row) -> None:
        """Rows of the partitions that a member owns now and did not own before, and of those that it gave up."""
        member = (record.group, record.member)
        before, now = self.owned.get(member, set()), record.owned
        self.owned[member] = now
        names = {"group": record.group, "member": record.member, **self.members.get(member, {})}
        names["generation"] = record.value["memberEpoch"] if record.value else None
        for kind, places in (("released", before - now), ("owned", now - before)):
            self.rows += [
                {**where, "kind": kind, **names, "topic": self.topics[topic], "partition": partition}
                for topic, partition in sorted(places)
                if topic in self.topics
            ]

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
            names = {"member": member["memberId"], "client": member["clientId"], "instance": member["groupInstanceId"]}
            self.rows += [
                {**where, "kind": "assigned", **of_group, **names, "topic": topic, "partition": partition}
                for topic, partition in assigned_partitions(member["assignment"])
            ]


def _commit(record: OffsetCommit, where: Row) -> Row:
    row = {**where, "group": record.group, "topic": record.topic, "partition": record.partition}
    if record.value is None:
        return {**row, "kind": "removed"}
    epoch, time = record.value["leaderEpoch"], record.value["commitTimestamp"]
    committed = {"offset": record.value["offset"], "leader_epoch": epoch if epoch >= 0 else None, "time": time}
    return {**row, "kind": "committed", **committed}


def read_group_log(folder: Path, topics: Iterable[tuple[str, str]] = ()) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables GROUPS and DAMAGE of a folder, both with a column `file` (its name). `topics`: ids and names."""
    replay = _Replay(dict(topics))
    damage = replay_log(folder, replay.apply)
    return pl.DataFrame(replay.rows, schema={**GROUPS, "file": pl.String}), damage
