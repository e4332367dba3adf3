"""The configuration of a run: Kafka's settings with their defaults, and the simulator's own.

Times are in microseconds. Brokers may have different settings (`for_broker`), as happens by mistake in real clusters.
options.py parses settings by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from .storage.segments import Limits

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
PARTITIONERS = ("random", "round-robin", "sticky", "key")
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
MS = 1_000  # microseconds
SECOND = 1_000_000
NEVER = 1 << 60  # later than any run


class ConfigError(ValueError):
    """A setting that does not exist, or an invalid value. The message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Config:
    """Defaults are those of Kafka 4.1 (server, topic, clients), unless a comment names another source."""

    # the cluster and its topic
    brokers: int = 3
    topic: str = "orders"
    partitions: int = 1
    added_partitions: int = 0  # of them, those that the fault add-partitions creates
    replication_factor: int = 3
    assignment: str = "round-robin"  # of replicas to brokers, see placement.py
    assignment_start: int = 0
    rack: str = ""  # of one broker
    min_insync_replicas: int = 1
    unclean_election: bool = False
    auto_rebalance: bool = True
    imbalance_check: int = 300 * SECOND
    imbalance_percentage: int = 10
    # replication
    lag_time_max: int = 30 * SECOND
    lag_max_messages: int = 4000  # Kafka before 0.9 only
    fetch_wait_max: int = 500 * MS
    fetch_backoff: int = 1 * SECOND
    socket_timeout: int = 30 * SECOND
    fetchers: int = 1  # of a follower for each leader: num.replica.fetchers
    fetch_max_batches: int = 1000  # replica.fetch.max.bytes, counted in batches
    # disks
    hw_checkpoint: int = 5 * SECOND
    recovery_checkpoint: int = 60 * SECOND
    start_checkpoint: int = 60 * SECOND
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    writeback: int = 30 * SECOND  # Linux writes dirty pages back after dirty_expire_centisecs
    segment_bytes: int = 1 << 30
    segment_time: int = NEVER  # Kafka's 7 days, like those of retention, are longer than any run
    retention_bytes: int = NEVER
    retention_time: int = NEVER
    retention_check: int = 300 * SECOND
    recovery_time: int = 200 * MS  # loading the logs at a start
    # threads of a broker
    network_threads: int = 3
    handler_threads: int = 8
    queued_max_requests: int = 500
    request_time: int = 0  # microseconds that a handler thread is busy with one request
    # controller
    session_timeout: int = 9 * SECOND
    heartbeat: int = 2 * SECOND
    controller_timeout: int = 2 * SECOND  # until another controller takes over
    controllers: int = 2
    # producers
    producers: int = 2
    acks: int = -1
    linger: int = 5 * MS
    partitioner: str = "random"  # clients/partitioners.py; Kafka's default is sticky
    keys: int = 1000  # of the partitioner key
    batch_records: int = 163  # batch.size of 16384 bytes, at about 100 bytes a record
    retries: int = 2147483647
    retry_backoff: int = 100 * MS
    max_in_flight: int = 5
    idempotence: bool = True
    delivery_timeout: int = 120 * SECOND
    request_timeout: int = 30 * SECOND
    metadata_age: int = 300 * SECOND  # used only if partitions are added
    # consumers
    consumers: int = 1
    offset_reset: str = "earliest"
    max_poll_records: int = 500
    poll_timeout: int = 500 * MS
    commit: str = "none"  # none | after | before (handling what was polled), auto (in polls, in a group)
    auto_commit_interval: int = 5 * SECOND
    strategy: str = ""  # the assignor of the consumers' group; empty: each consumer assigns itself everything
    group_session: int = 45 * SECOND
    group_heartbeat: int = 3 * SECOND
    max_poll_interval: int = 300 * SECOND
    group_delay: int = 3 * SECOND
    static_members: str = "none"  # own | shared: each member has a group.instance.id of its own, or all have the same
    offsets_retention: int = 10080 * 60 * SECOND
    offsets_check: int = 600 * SECOND
    group_load_time: int = 20 * MS
    handle_time: int = 0
    isolation: str = "read_uncommitted"
    start_late: int = 0
    producers_start: int = 1 * SECOND
    producers_stagger: int = 0  # how much later each producer starts than the one before it
    # transactions
    transactions: str = "none"  # own | shared: each producer has a transactional.id of its own, or all have the same
    transaction_timeout: int = 60 * SECOND
    transaction_cleanup: int = 10 * SECOND
    transaction_records: int = 5  # sent in one transaction
    transaction_aborts: int = 100  # of 1000 transactions the application aborts so many
    poison: str = "none"  # crash | skip | dead-letter: what members do with a record that they cannot handle
    poison_value: int = 100  # that record: this value of producer 0 in partition 0
    processing: str = "none"  # exactly-once | at-least-once: the group copies each record to another topic
    # the run
    ops: int = 1000
    interval: int = 2 * MS  # mean time between two sends of one producer, or two bursts of them
    burst: int = 1  # records sent at once
    latency: int = 200  # one way, microseconds
    jitter: int = 300
    settle: int = 10 * SECOND  # quiet time between the last heal and the final reads
    horizon: int = 3600 * SECOND
    per_broker: tuple[tuple[int, tuple[tuple[str, Any], ...]], ...] = field(default=())

    @property
    def copies(self) -> range:
        """The numbers of the partitions that the group writes, behind those that it reads."""
        dead_letters = int(self.poison == "dead-letter")
        return range(
            self.partitions, self.partitions + (dead_letters if self.processing == "none" else self.partitions)
        )

    @property
    def first_partitions(self) -> int:
        """How many partitions the topic has at the start."""
        return self.partitions - self.added_partitions

    @property
    def data_partitions(self) -> int:
        """How many partitions have records of applications: those that producers write, and the copies."""
        return self.copies.stop

    @property
    def group_log(self) -> int:
        """The number of the group's partition of __consumer_offsets, after those of the topics."""
        return self.data_partitions

    @property
    def logs(self) -> int:
        """The number of replicated partitions."""
        return self.data_partitions + bool(self.strategy) + self.transactional

    @property
    def transactional(self) -> bool:
        """Whether there is a transaction coordinator."""
        return self.transactions != "none" or self.processing == "exactly-once"

    @property
    def transaction_log(self) -> int:
        """The number of the partition of __transaction_state: the last one."""
        return self.data_partitions + bool(self.strategy)

    @property
    def copies_topic(self) -> str:
        """The topic that the group writes."""
        return f"{self.topic}-{'copies' if self.poison == 'none' else 'dead-letters'}"

    @property
    def topics(self) -> dict[str, range]:
        """The topics of applications, with their partitions."""
        own = {self.topic: range(self.partitions)}
        return {**own, self.copies_topic: self.copies} if self.copies else own

    def instance_of(self, client: str) -> str:
        """The group.instance.id of a member (KIP-345); empty: it is a dynamic member."""
        return {"own": client, "shared": "shared"}.get(self.static_members, "")

    def topic_of(self, partition: int) -> tuple[str, int]:
        """The topic of a replicated partition, and its number in the topic."""
        if partition < self.partitions:
            return self.topic, partition
        if partition in self.copies:
            return self.copies_topic, partition - self.partitions
        return (GROUP_TOPIC if self.strategy and partition == self.group_log else TRANSACTION_TOPIC), 0

    def log_name(self, partition: int) -> str:
        """The name of a replicated partition, as of its folder."""
        topic, number = self.topic_of(partition)
        return f"{topic}-{number}"

    @property
    def racks(self) -> dict[int, str]:
        """The racks of all brokers; empty if none has one."""
        racks = {broker: self.for_broker(broker).rack for broker in range(1, self.brokers + 1)}
        return racks if any(racks.values()) else {}

    @property
    def retention(self) -> Limits | None:
        """The limits of a log; None if retention deletes nothing."""
        if min(self.retention_bytes, self.retention_time) >= NEVER:
            return None
        return Limits(self.segment_bytes, self.segment_time, self.retention_bytes, self.retention_time)

    def for_broker(self, broker: int) -> Config:
        """This configuration with the options of this broker."""
        for node, changes in self.per_broker:
            if node == broker:
                return replace(self, **dict(changes))
        return self
