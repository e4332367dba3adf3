"""The configuration of a run: Kafka's settings with their defaults, and the simulator's own.

Times are in microseconds. Brokers may have different settings (`for_broker`), as happens by mistake in real clusters.
options.py parses settings by name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, coordinator_partition
from .storage.segments import Limits

GROUP = "workers"  # the group of the consumers
ASSIGNMENTS = ("round-robin", "shifted", "kafka")
PARTITIONERS = ("random", "round-robin", "sticky", "key")
ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")
MS = 1_000  # microseconds
SECOND = 1_000_000
DAY = 86_400 * SECOND
NEVER = 1 << 60  # later than any run
RECORD_BYTES = 100  # the size of each record, where bytes are counted


class FetchLimits(NamedTuple):
    """The most bytes of a fetch response, and of each partition in it."""

    response: int
    partition: int


class ConfigError(ValueError):
    """A setting that does not exist, or an invalid value. The message is one sentence for the user."""


def setting(
    default: Any,
    *names: str,
    least: int = 0,
    most: int = NEVER,
    choices: tuple[str, ...] = (),
    per_broker: bool = False,
) -> Any:
    """A field of Config with its names in Kafka or the simulator, and its range in the unit of these names.

    Names that end in `.ms`, `.seconds` or `.minutes` give the unit; other numbers are counts, bytes or microseconds.
    Intervals are at least 1, because simulated time would stop otherwise. `per_broker`: brokers may differ; other
    settings belong to the cluster, its topic or its clients.
    """
    limits = {"least": least, "most": most, "choices": choices, "per_broker": per_broker}
    return field(default=default, metadata={"names": names, **limits})


@dataclass(frozen=True, slots=True)
class Config:
    """Defaults are those of Kafka 4.1 (server, topic, clients), unless a comment names another one."""

    # the cluster and its topic
    brokers: int = setting(3, "simulation.brokers", least=1, most=99)
    topic: str = setting("orders", "simulation.topic")
    partitions: int = setting(1, "num.partitions", least=1, most=10_000)
    # how many of the partitions the fault add-partitions creates
    added_partitions: int = setting(0, "simulation.partitions.added", most=9_999)
    replication_factor: int = setting(3, "default.replication.factor", least=1)  # Kafka's default is 1
    assignment: str = setting("round-robin", "simulation.assignment", choices=ASSIGNMENTS)  # of replicas: placement.py
    assignment_start: int = setting(0, "simulation.assignment.start", most=98)
    rack: str = setting("", "broker.rack", per_broker=True)  # of one broker
    min_insync_replicas: int = setting(1, "min.insync.replicas", least=1, per_broker=True)
    unclean_election: bool = setting(False, "unclean.leader.election.enable")
    auto_rebalance: bool = setting(True, "auto.leader.rebalance.enable")
    imbalance_check: int = setting(300 * SECOND, "leader.imbalance.check.interval.seconds", least=1)
    imbalance_percentage: int = setting(10, "leader.imbalance.per.broker.percentage", most=100)
    # replication
    lag_time_max: int = setting(30 * SECOND, "replica.lag.time.max.ms", least=2, per_broker=True)
    lag_max_messages: int = setting(4000, "replica.lag.max.messages", per_broker=True)  # Kafka before 0.9 only
    fetch_wait_max: int = setting(500 * MS, "replica.fetch.wait.max.ms", per_broker=True)
    fetch_backoff: int = setting(1 * SECOND, "replica.fetch.backoff.ms", least=1, per_broker=True)
    socket_timeout: int = setting(30 * SECOND, "replica.socket.timeout.ms", per_broker=True)
    # how many fetchers a follower has for each leader
    fetchers: int = setting(1, "num.replica.fetchers", least=1, most=1000)
    # how many batches of one partition a fetch returns, to followers and consumers, beside the limits in bytes
    fetch_max_batches: int = setting(1000, "simulation.replica.fetch.max.batches", least=1, per_broker=True)
    # Limits in bytes (sizes.py), also those of clients, apply only if they are set.
    replica_fetch_bytes: int = setting(NEVER, "replica.fetch.max.bytes", least=1, per_broker=True)
    replica_response_bytes: int = setting(NEVER, "replica.fetch.response.max.bytes", least=1, per_broker=True)
    max_message_bytes: int = setting(NEVER, "max.message.bytes", "message.max.bytes", least=200)
    # bytes a second that a leader sends to replicas out of sync, and that a follower fetches (brokers/quota.py)
    leader_throttle: int = setting(NEVER, "leader.replication.throttled.rate", least=1, per_broker=True)
    follower_throttle: int = setting(NEVER, "follower.replication.throttled.rate", least=1, per_broker=True)
    # which leaders and followers are throttled: * or partition:broker,…; Kafka's default is none
    leaders_throttled: str = setting("*", "leader.replication.throttled.replicas")
    followers_throttled: str = setting("*", "follower.replication.throttled.replicas")
    # disks
    hw_checkpoint: int = setting(5 * SECOND, "replica.high.watermark.checkpoint.interval.ms", least=1, per_broker=True)
    recovery_checkpoint: int = setting(60 * SECOND, "log.flush.offset.checkpoint.interval.ms", least=1, per_broker=True)
    start_checkpoint: int = setting(
        60 * SECOND, "log.flush.start.offset.checkpoint.interval.ms", least=1, per_broker=True
    )
    flush_messages: int = setting(NEVER, "flush.messages", least=1, per_broker=True)
    flush_ms: int = setting(NEVER, "flush.ms", least=1, per_broker=True)
    # Linux writes dirty pages back after dirty_expire_centisecs
    writeback: int = setting(30 * SECOND, "simulation.writeback.ms", least=1, per_broker=True)
    segment_bytes: int = setting(1 << 30, "segment.bytes", least=14)
    # Kafka's 7 days, like those of retention, are longer than any run
    segment_time: int = setting(NEVER, "segment.ms", least=1)
    retention_bytes: int = setting(NEVER, "retention.bytes")
    retention_time: int = setting(NEVER, "retention.ms")
    retention_check: int = setting(300 * SECOND, "log.retention.check.interval.ms", least=1)
    # delete | compact: only the newest record of each key remains (storage/compaction.py)
    cleanup_policy: str = setting("delete", "cleanup.policy", choices=("delete", "compact"))
    dirty_ratio: float = setting(0.5, "min.cleanable.dirty.ratio", most=1)
    compaction_lag: int = setting(0, "min.compaction.lag.ms")
    delete_retention: int = setting(DAY, "delete.retention.ms")
    cleaner_backoff: int = setting(15 * SECOND, "log.cleaner.backoff.ms", least=1, per_broker=True)
    recovery_time: int = setting(200 * MS, "simulation.recovery.ms", per_broker=True)  # loading the logs at a start
    # threads of a broker
    network_threads: int = setting(3, "num.network.threads", least=1, most=1000, per_broker=True)
    handler_threads: int = setting(8, "num.io.threads", least=1, most=1000, per_broker=True)
    queued_max_requests: int = setting(500, "queued.max.requests", least=1, per_broker=True)
    # microseconds that a handler thread is busy with one request
    request_time: int = setting(0, "simulation.request.us", per_broker=True)
    # controller
    session_timeout: int = setting(9 * SECOND, "broker.session.timeout.ms", "zookeeper.session.timeout.ms", least=2)
    heartbeat: int = setting(2 * SECOND, "broker.heartbeat.interval.ms", least=1, per_broker=True)
    # how long it takes until another controller takes over
    controller_timeout: int = setting(2 * SECOND, "simulation.controller.failover.ms")
    controllers: int = setting(2, "simulation.controllers", least=1, most=99)
    # producers
    producers: int = setting(2, "simulation.producers", least=1, most=1000)
    acks: int = setting(-1, "acks")
    linger: int = setting(5 * MS, "linger.ms")
    # clients/partitioners.py; Kafka's default is sticky
    partitioner: str = setting("random", "partitioner.class", choices=PARTITIONERS)
    # how many keys the records have, if the partitioner is key or the topic is compacted (keys.py)
    keys: int = setting(1000, "simulation.keys", least=1, most=1_000_000)
    # how many of 1000 records of a compacted topic delete their key
    tombstones: int = setting(50, "simulation.tombstones", most=1000)
    batch_size: int = setting(NEVER, "batch.size", least=1)
    max_request_size: int = setting(NEVER, "max.request.size", least=200)
    # how many records a batch has unless batch.size is set: Kafka's 16384 bytes, at about 100 bytes a record
    batch_records: int = setting(163, "simulation.batch.records", least=1)
    retries: int = setting(2147483647, "retries")
    retry_backoff: int = setting(100 * MS, "retry.backoff.ms")
    max_in_flight: int = setting(5, "max.in.flight.requests.per.connection", least=1)
    idempotence: bool = setting(True, "enable.idempotence")
    delivery_timeout: int = setting(120 * SECOND, "delivery.timeout.ms")
    request_timeout: int = setting(30 * SECOND, "request.timeout.ms", per_broker=True)
    synchronous: bool = setting(False, "simulation.send.synchronous")  # the application waits for each record
    buffer_memory: int = setting(NEVER, "buffer.memory", least=1)  # Kafka's 32 MiB are not applied unless it is set
    max_block: int = setting(60 * SECOND, "max.block.ms")
    # used only if partitions are added
    metadata_age: int = setting(300 * SECOND, "metadata.max.age.ms", least=1)
    # consumers
    consumers: int = setting(1, "simulation.consumers", most=1000)
    # Kafka's default is latest. none is not modelled: the Java consumer throws, and its application decides what to do.
    offset_reset: str = setting("earliest", "auto.offset.reset", choices=("earliest", "latest"))
    consumer_fetch_bytes: int = setting(NEVER, "max.partition.fetch.bytes", least=1)
    consumer_response_bytes: int = setting(NEVER, "fetch.max.bytes", least=1)
    max_poll_records: int = setting(500, "max.poll.records", least=1)
    poll_timeout: int = setting(500 * MS, "simulation.poll.timeout.ms", least=1)
    # none | after | before (handling the polled records); in a group also auto (in polls), async (after, does not wait)
    commit: str = setting("none", "simulation.commit")
    commit_retry: bool = setting(False, "simulation.commit.retry")  # the application repeats async commits that failed
    auto_commit_interval: int = setting(5 * SECOND, "auto.commit.interval.ms", least=1)
    # classic | consumer: the members' protocol; the latter is KIP-848's
    group_protocol: str = setting("classic", "group.protocol", choices=("classic", "consumer"))
    # the assignor of a classic group, by default none: each consumer assigns all partitions to itself
    strategy: str = setting("", "partition.assignment.strategy")
    group_session: int = setting(45 * SECOND, "session.timeout.ms", least=2)
    group_heartbeat: int = setting(3 * SECOND, "heartbeat.interval.ms", least=1)
    max_poll_interval: int = setting(300 * SECOND, "max.poll.interval.ms", least=1)
    # the assignor of a group of KIP-848's protocol, in which the coordinator assigns
    remote_assignor: str = setting("uniform", "group.remote.assignor", choices=("uniform", "range"))
    consumer_session: int = setting(45 * SECOND, "group.consumer.session.timeout.ms", least=2)
    consumer_heartbeat: int = setting(5 * SECOND, "group.consumer.heartbeat.interval.ms", least=1)
    # how many members of a group of KIP-848's protocol use the classic one: c0, c1, …
    classic_members: int = setting(0, "simulation.classic.members")
    # how many consumers, the last ones, start only when the fault consumer-replace starts them
    standby_consumers: int = setting(0, "simulation.standby.consumers")
    # which conversions of a group with both kinds of members are permitted: coordinators/convertible_group.py
    migration_policy: str = setting(
        "bidirectional",
        "group.consumer.migration.policy",
        choices=("disabled", "upgrade", "downgrade", "bidirectional"),
    )
    group_delay: int = setting(3 * SECOND, "group.initial.rebalance.delay.ms")
    # how many members a classic group may have, and one of KIP-848's protocol
    classic_group_size: int = setting(NEVER, "group.max.size", least=1)
    consumer_group_size: int = setting(NEVER, "group.consumer.max.size", least=1)
    # Kafka has 50 partitions; here only the group's own exists
    offsets_partitions: int = setting(1, "offsets.topic.num.partitions", least=1)
    offsets_segment_bytes: int = setting(100 << 20, "offsets.topic.segment.bytes", least=14)
    group_load_time: int = setting(20 * MS, "simulation.group.load.ms")
    # own | shared: each member has a group.instance.id of its own, or all have the same
    static_members: str = setting("none", "simulation.static.members", choices=("none", "own", "shared"))
    offsets_retention: int = setting(10080 * 60 * SECOND, "offsets.retention.minutes", least=1)
    offsets_check: int = setting(600 * SECOND, "offsets.retention.check.interval.ms", least=1)
    handle_time: int = setting(0, "simulation.handle.ms")
    isolation: str = setting("read_uncommitted", "isolation.level", choices=("read_uncommitted", "read_committed"))
    start_late: int = setting(0, "simulation.consumer.start.ms")
    consumers_stagger: int = setting(0, "simulation.consumer.stagger.ms")
    producers_start: int = setting(1 * SECOND, "simulation.producer.start.ms")
    # how much later each producer starts than the one before it
    producers_stagger: int = setting(0, "simulation.producer.stagger.ms")
    # transactions
    # own | shared: each producer has a transactional.id of its own, or all have the same
    transactions: str = setting("none", "simulation.transactions", choices=("none", "own", "shared"))
    transaction_timeout: int = setting(60 * SECOND, "transaction.timeout.ms", least=1)
    transaction_cleanup: int = setting(
        10 * SECOND, "transaction.abort.timed.out.transaction.cleanup.interval.ms", least=1
    )
    transaction_segment_bytes: int = setting(100 << 20, "transaction.state.log.segment.bytes", least=14)
    transaction_records: int = setting(5, "simulation.transaction.records", least=1)  # sent in one transaction
    # how many of 1000 transactions the application aborts
    transaction_aborts: int = setting(100, "simulation.transaction.aborts", most=1000)
    # what members do with the record that they cannot handle
    poison: str = setting("none", "simulation.poison", choices=("none", "crash", "skip", "dead-letter"))
    poison_value: int = setting(100, "simulation.poison.value")  # that record: a value of producer 0 in partition 0
    # exactly-once | at-least-once: the group copies each record to another topic
    processing: str = setting("none", "simulation.processing", choices=("none", "exactly-once", "at-least-once"))
    # the run
    ops: int = setting(1000, "simulation.ops", least=1)
    # mean time between two sends of one producer, or two bursts of them
    interval: int = setting(2 * MS, "simulation.send.interval.us", least=1)
    burst: int = setting(1, "simulation.burst.records", least=1)  # records sent at once
    latency: int = setting(200, "simulation.latency.us")  # one way, microseconds
    jitter: int = setting(300, "simulation.jitter.us")
    settle: int = setting(10 * SECOND, "simulation.settle.ms")  # quiet time between the last heal and the final reads
    horizon: int = 3600 * SECOND
    per_broker: tuple[tuple[int, tuple[tuple[str, Any], ...]], ...] = ()

    @property
    def replica_max_bytes(self) -> FetchLimits | None:
        """The limits of a follower's fetch; None: not set."""
        limits = FetchLimits(self.replica_response_bytes, self.replica_fetch_bytes)
        return limits if min(limits) < NEVER else None

    @property
    def consumer_max_bytes(self) -> FetchLimits | None:
        """The limits of a consumer's fetch; None: not set."""
        limits = FetchLimits(self.consumer_response_bytes, self.consumer_fetch_bytes)
        return limits if min(limits) < NEVER else None

    @property
    def copies(self) -> range:
        """The numbers of the partitions that the group writes, which follow those that it reads."""
        count = int(self.poison == "dead-letter") if self.processing == "none" else self.partitions
        return range(self.partitions, self.partitions + count)

    @property
    def first_partitions(self) -> int:
        """How many partitions the topic has at the start."""
        return self.partitions - self.added_partitions

    @property
    def data_partitions(self) -> int:
        """How many partitions have records of applications: those that producers write, and the copies."""
        return self.copies.stop

    @property
    def has_group(self) -> bool:
        """Whether the consumers form a group."""
        return bool(self.strategy) or self.has_member_epochs

    @property
    def has_member_epochs(self) -> bool:
        """Whether the group uses KIP-848's protocol."""
        return self.group_protocol == "consumer"

    @property
    def group_log(self) -> int:
        """The number of the group's partition of __consumer_offsets, after those of the topics."""
        return self.data_partitions

    @property
    def logs(self) -> int:
        """The number of replicated partitions."""
        return self.data_partitions + self.has_group + self.transactional

    @property
    def blocks(self) -> bool:
        """Whether a producer's application waits for records, or for room in the buffer."""
        return self.synchronous or self.buffer_memory < NEVER

    @property
    def compacts(self) -> bool:
        """Whether the topic is compacted; its records have keys then."""
        return self.cleanup_policy == "compact"

    @property
    def transactional(self) -> bool:
        """Whether there is a transaction coordinator."""
        return self.transactions != "none" or self.processing == "exactly-once"

    @property
    def transaction_log(self) -> int:
        """The number of the partition of __transaction_state: the last one."""
        return self.data_partitions + self.has_group

    @property
    def copies_topic(self) -> str:
        """The topic that the group writes."""
        return f"{self.topic}-{'copies' if self.poison == 'none' else 'dead-letters'}"

    @property
    def topics(self) -> dict[str, range]:
        """The topics of applications, with their partitions."""
        own = {self.topic: range(self.partitions)}
        return {**own, self.copies_topic: self.copies} if self.copies else own

    def is_classic(self, client: str) -> bool:
        """Whether a consumer uses the classic protocol in a group of KIP-848's."""
        return self.has_member_epochs and int(client[1:]) < self.classic_members

    def instance_of(self, client: str) -> str:
        """The group.instance.id of a member (KIP-345); empty: it is a dynamic member.

        A member on standby has the id of the member that it may replace, the first on standby that of c0.
        """
        if self.static_members != "own":
            return "shared" if self.static_members == "shared" else ""
        started = self.consumers - self.standby_consumers
        number = int(client[1:])
        return client if number < started else f"c{number - started}"

    def topic_of(self, partition: int) -> tuple[str, int]:
        """The topic of a replicated partition, and its number in the topic."""
        if partition < self.partitions:
            return self.topic, partition
        if partition in self.copies:
            return self.copies_topic, partition - self.partitions
        if self.has_group and partition == self.group_log:
            return OFFSETS_TOPIC, coordinator_partition(GROUP, self.offsets_partitions)
        return TRANSACTIONS_TOPIC, 0

    def segment_limits(self, partition: int) -> tuple[int, int]:
        """segment.bytes and segment.ms (microseconds) of a replicated partition."""
        if partition < self.data_partitions:
            return self.segment_bytes, self.segment_time
        if self.has_group and partition == self.group_log:
            return self.offsets_segment_bytes, NEVER
        return self.transaction_segment_bytes, NEVER

    def log_name(self, partition: int) -> str:
        """The name of a replicated partition, as its folder is called."""
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
        if self.compacts or min(self.retention_bytes, self.retention_time) >= NEVER:
            return None
        return Limits(self.segment_bytes, self.segment_time, self.retention_bytes, self.retention_time)

    def for_broker(self, broker: int) -> Config:
        """This configuration with the options of this broker."""
        for node, changes in self.per_broker:
            if node == broker:
                return replace(self, **dict(changes))
        return self
