"""`__cluster_metadata` as a KRaft controller keeps it: topics, partitions, brokers, each change in one record.

Simplifications: a record is a batch of its own; control records, configurations and features are left out; only the
first controller's copy is written; it is complete.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from ...models.replication.cluster import Cluster
from ...models.replication.events import ClusterEvent
from ...models.replication.network import FIRST_CONTROLLER
from ...models.replication.partition_state import NO_LEADER, PartitionState
from ..evidence.metadata_records import encode
from .names import epoch_ms, kraft_properties, uuid
from .segments import HEAD

CHANGED = "BROKER_REGISTRATION_CHANGE_RECORD"
FENCED, UNFENCED = 1, -1  # BrokerRegistrationFencingChange


class _Record(NamedTuple):
    time: int  # simulated microseconds
    epoch: int  # controller epoch
    content: bytes


class _Registration(NamedTuple):
    incarnation: int
    epoch: int  # broker epoch: the offset of the registration


class MetadataLog:
    """Listens to events, and writes at the end the records that the controllers made of them."""

    def __init__(self, brokers: Path, cluster: Cluster) -> None:
        self._folder = brokers / str(FIRST_CONTROLLER) / "data"
        self._records: list[_Record] = []
        self._cluster = cluster
        self._registered: dict[int, _Registration] = {}  # by broker

    def on_event(self, event: ClusterEvent) -> None:
        """Record an event, if controllers do."""
        time, _, kind, details = event
        if kind == "registered":
            self._admit(time, *details)
        elif kind in ("fenced", "left"):
            self._fence(time, details[0], FENCED)
        elif kind == "leaving":
            broker = details[0]
            self._write(
                time, CHANGED, brokerId=broker, brokerEpoch=self._registered[broker].epoch, inControlledShutdown=1
            )
        elif kind == "stored":
            self._store(time, *details)

    def _admit(self, time: int, broker: int) -> None:
        """A new process registers; then, or after it was only fenced, the broker is unfenced."""
        incarnation = self._cluster.quorum.incarnations[broker]
        if broker not in self._registered or self._registered[broker].incarnation != incarnation:
            self._registered[broker] = _Registration(incarnation, len(self._records))
            endpoint = {"name": "PLAINTEXT", "host": "127.0.0.1", "port": 19090 + broker, "securityProtocol": 0}
            registration = {
                "incarnationId": uuid(self._cluster.seed, f"incarnation {broker} {incarnation}"),
                "brokerEpoch": len(self._records),
                "endPoints": [endpoint],
                "features": [],
                "fenced": True,
            }
            self._write(time, "REGISTER_BROKER_RECORD", brokerId=broker, **registration)
        self._fence(time, broker, UNFENCED)

    def _fence(self, time: int, broker: int, fenced: int) -> None:
        """A broker's epoch is the offset of its registration; a replay of the log compares it (ClusterDelta)."""
        epoch = self._registered[broker].epoch
        self._write(time, CHANGED, brokerId=broker, brokerEpoch=epoch, fenced=fenced)

    def _store(self, time: int, partition: int, before: PartitionState | None, after: PartitionState) -> None:
        topic, number = self._cluster.config.topic_of(partition)
        key = {"partitionId": number, "topicId": uuid(self._cluster.seed, topic)}
        if before is None:
            if number == 0:
                self._write(time, "TOPIC_RECORD", name=topic, topicId=key["topicId"])
            replicas = {"replicas": after.replicas, "isr": after.isr, "removingReplicas": [], "addingReplicas": []}
            leader = {"leader": after.leader, "leaderEpoch": after.epoch, "partitionEpoch": after.version}
            self._write(time, "PARTITION_RECORD", **key, **replicas, **leader)
            return
        new, old = _fields_of(after), _fields_of(before)
        changed = {name: value for name, value in new.items() if value != old[name]}
        if after.epoch != before.epoch:
            changed["leader"] = after.leader
        # Several brokers that left at once make several changes; the last one has everything that is new.
        for nth in range(1, after.version - before.version):
            raised = {"leader": before.leader} if nth < after.epoch - before.epoch else {}
            self._write(time, "PARTITION_CHANGE_RECORD", **key, **raised)
        self._write(time, "PARTITION_CHANGE_RECORD", **key, **changed)

    def _write(self, time: int, kind: str, **fields: Any) -> None:
        self._records.append(_Record(time, self._cluster.quorum.epoch, encode(kind, fields)))

    def close(self) -> None:
        """Write the log."""
        folder = self._folder / "__cluster_metadata-0"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{0:020d}.log").open("wb") as out:
            for offset, (time, epoch, record) in enumerate(self._records):
                builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 30)
                builder.append(0, epoch_ms(time), None, record, [])
                raw = bytearray(builder.build())
                HEAD.pack_into(raw, 0, offset, len(raw) - 12, epoch)
                out.write(raw)
        properties = kraft_properties(self._cluster.seed, FIRST_CONTROLLER)
        (self._folder / "meta.properties").write_bytes(properties.encode())


def _fields_of(state: PartitionState) -> dict[str, Any]:
    """The fields of a change, whose record has those that are new."""
    return {
        "isr": state.isr,
        "replicas": state.replicas,
        "addingReplicas": state.adding,
        "removingReplicas": state.removing,
        "leaderRecoveryState": int(state.is_unclean),
        "eligibleLeaderReplicas": state.elr,
        "lastKnownElr": () if state.last_known == NO_LEADER else (state.last_known,),
    }
