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
from .group_records import CURRENT_KEY, EPOCH_KEY, GROUP_KEY, MEMBER_KEY, OFFSET_KEYS, assigned_partitions, decode
from .record_schema import control_type
from .tables import GROUPS

if TYPE_CHECKING:
    from .segments import RawRecord


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
        if raw.is_control:
            rows = self.open.pop(raw.producer, [])
            if control_type(raw.key or b"") == "commit":
                self.rows += [{**row, "at": raw.offset} for row in rows]
            return
        record = decode(raw.key or b"", raw.value)
        if record is None:
            return
        group, member, value = record.key["group"], record.key.get("member", ""), record.value
        if record.kind in OFFSET_KEYS:
            is_open = raw.producer is not None and value is not None
            (self.open.setdefault(raw.producer, []) if is_open else self.rows).append(_commit(record.key, value, where))
        elif record.kind == CURRENT_KEY:
            self._current(group, member, value or {}, where)
        elif value is None:
            if record.kind in (GROUP_KEY, EPOCH_KEY):
                self.rows.append({**where, "kind": "group-removed", "group": group})
        elif record.kind == GROUP_KEY:
            self._generation(group, value, where)
        elif record.kind == EPOCH_KEY:
            self.rows.append({**where, "kind": "generation", "group": group, "generation": value["epoch"]})
        elif record.kind == MEMBER_KEY:
            self.members[group, member] = {"client": value["clientId"], "instance": value["instanceId"]}

    def _current(self, group: str, member: str, value: Row, where: Row) -> None:
        """Rows of the partitions that a member owns now and did not own before, and of those that it gave up.

        It owns those that it has yet to revoke, too.
        """
        listed = [*value.get("assignedPartitions", ()), *value.get("partitionsPendingRevocation", ())]
        now = {(topic["topicId"], partition) for topic in listed for partition in topic["partitions"]}
        before = self.owned.get((group, member), set())
        self.owned[group, member] = now
        names = {"group": group, "member": member, **self.members.get((group, member), {})}
        names["generation"] = value.get("memberEpoch")
        for kind, places in (("released", before - now), ("owned", now - before)):
            self.rows += [
                {**where, "kind": kind, **names, "topic": self.topics[topic], "partition": partition}
                for topic, partition in sorted(places)
                if topic in self.topics
            ]

    def _generation(self, group: str, value: Row, where: Row) -> None:
        """Rows of a generation of the classic protocol, and of the partitions that it assigns."""
        of_group, members = {"group": group, "generation": value["generation"]}, value["members"]
        self.rows.append({**where, "kind": "generation", **of_group, "members": len(members)})
        if value["protocolType"] != "consumer":  # Connect and others assign no partitions
            return
        for member in members:
            names = {"member": member["memberId"], "client": member["clientId"], "instance": member["groupInstanceId"]}
            self.rows += [
                {**where, "kind": "assigned", **of_group, **names, "topic": topic, "partition": partition}
                for topic, partition in assigned_partitions(member["assignment"])
            ]


def _commit(key: Row, value: Row | None, where: Row) -> Row:
    """The row of a committed offset, or of its removal."""
    if value is None:
        return {**where, **key, "kind": "removed"}
    epoch = value["leaderEpoch"] if value["leaderEpoch"] >= 0 else None
    time = value["commitTimestamp"]
    return {**where, **key, "kind": "committed", "offset": value["offset"], "leader_epoch": epoch, "time": time}


def read_group_log(folder: Path, topics: Iterable[tuple[str, str]] = ()) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Tables GROUPS and DAMAGE of a folder, both with a column `file` (its name). `topics`: ids and names."""
    replay = _Replay(dict(topics))
    damage, is_intact = replay_log(folder, replay.apply)
    table = pl.DataFrame(replay.rows, schema={**GROUPS, "file": pl.String})
    return table.with_columns(intact=pl.lit(is_intact)), damage
