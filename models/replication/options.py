"""Parses, checks and writes the configuration by Kafka's names.

Names that end in `.ms` are in milliseconds. The simulator's own settings begin with `simulation.`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .config import ASSIGNORS, MS, NEVER, PARTITIONERS, SECOND, Config, ConfigError
from .placement import ASSIGNMENTS


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: its attribute of Config, the factor from its unit to ours, and its range.

    Intervals are at least 1, because simulated time would stop otherwise.
    """

    attribute: str
    scale: int = 1
    least: int = 0
    most: int = NEVER


OPTIONS: dict[str, Option] = {
    "simulation.brokers": Option("brokers", least=1, most=99),
    "simulation.topic": Option("topic"),
    "num.partitions": Option("partitions", least=1, most=10_000),
    "simulation.partitions.added": Option("added_partitions", most=9_999),
    "default.replication.factor": Option("replication_factor", least=1),
    "simulation.assignment": Option("assignment"),
    "simulation.assignment.start": Option("assignment_start", most=98),
    "broker.rack": Option("rack"),
    "min.insync.replicas": Option("min_insync_replicas", least=1),
    "unclean.leader.election.enable": Option("unclean_election"),
    "auto.leader.rebalance.enable": Option("auto_rebalance"),
    "leader.imbalance.check.interval.seconds": Option("imbalance_check", SECOND, least=1),
    "leader.imbalance.per.broker.percentage": Option("imbalance_percentage", most=100),
    "replica.lag.time.max.ms": Option("lag_time_max", MS, least=2),
    "replica.lag.max.messages": Option("lag_max_messages"),
    "num.replica.fetchers": Option("fetchers", least=1, most=1000),
    "replica.fetch.wait.max.ms": Option("fetch_wait_max", MS),
    "replica.fetch.backoff.ms": Option("fetch_backoff", MS, least=1),
    "replica.socket.timeout.ms": Option("socket_timeout", MS),
    "simulation.replica.fetch.max.batches": Option("fetch_max_batches", least=1),
    "replica.high.watermark.checkpoint.interval.ms": Option("hw_checkpoint", MS, least=1),
    "log.flush.offset.checkpoint.interval.ms": Option("recovery_checkpoint", MS, least=1),
    "log.flush.start.offset.checkpoint.interval.ms": Option("start_checkpoint", MS, least=1),
    "flush.messages": Option("flush_messages", least=1),
    "flush.ms": Option("flush_ms", MS, least=1),
    "simulation.writeback.ms": Option("writeback", MS, least=1),
    "segment.bytes": Option("segment_bytes", least=14),
    "segment.ms": Option("segment_time", MS, least=1),
    "retention.bytes": Option("retention_bytes"),
    "retention.ms": Option("retention_time", MS),
    "log.retention.check.interval.ms": Option("retention_check", MS, least=1),
    "simulation.recovery.ms": Option("recovery_time", MS),
    "num.network.threads": Option("network_threads", least=1, most=1000),
    "num.io.threads": Option("handler_threads", least=1, most=1000),
    "queued.max.requests": Option("queued_max_requests", least=1),
    "simulation.request.us": Option("request_time"),
    "broker.session.timeout.ms": Option("session_timeout", MS, least=2),
    "zookeeper.session.timeout.ms": Option("session_timeout", MS, least=2),
    "broker.heartbeat.interval.ms": Option("heartbeat", MS, least=1),
    "simulation.controller.failover.ms": Option("controller_timeout", MS),
    "simulation.controllers": Option("controllers", least=1, most=99),
    "simulation.producers": Option("producers", least=1, most=1000),
    "acks": Option("acks"),
    "partitioner.class": Option("partitioner"),
    "simulation.keys": Option("keys", least=1, most=1_000_000),
    "linger.ms": Option("linger", MS),
    "simulation.batch.records": Option("batch_records", least=1),
    "retries": Option("retries"),
    "retry.backoff.ms": Option("retry_backoff", MS),
    "max.in.flight.requests.per.connection": Option("max_in_flight", least=1),
    "enable.idempotence": Option("idempotence"),
    "delivery.timeout.ms": Option("delivery_timeout", MS),
    "request.timeout.ms": Option("request_timeout", MS),
    "metadata.max.age.ms": Option("metadata_age", MS, least=1),
    "simulation.consumers": Option("consumers", most=1000),
    "auto.offset.reset": Option("offset_reset"),
    "max.poll.records": Option("max_poll_records", least=1),
    "simulation.poll.timeout.ms": Option("poll_timeout", MS, least=1),
    "simulation.commit": Option("commit"),
    "auto.commit.interval.ms": Option("auto_commit_interval", MS, least=1),
    "partition.assignment.strategy": Option("strategy"),
    "session.timeout.ms": Option("group_session", MS, least=2),
    "heartbeat.interval.ms": Option("group_heartbeat", MS, least=1),
    "max.poll.interval.ms": Option("max_poll_interval", MS, least=1),
    "group.initial.rebalance.delay.ms": Option("group_delay", MS),
    "simulation.group.load.ms": Option("group_load_time", MS),
    "simulation.static.members": Option("static_members"),
    "offsets.retention.minutes": Option("offsets_retention", 60 * SECOND, least=1),
    "offsets.retention.check.interval.ms": Option("offsets_check", MS, least=1),
    "simulation.handle.ms": Option("handle_time", MS),
    "simulation.consumer.start.ms": Option("start_late", MS),
    "simulation.producer.start.ms": Option("producers_start", MS),
    "simulation.producer.stagger.ms": Option("producers_stagger", MS),
    "isolation.level": Option("isolation"),
    "simulation.transactions": Option("transactions"),
    "transaction.timeout.ms": Option("transaction_timeout", MS, least=1),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": Option("transaction_cleanup", MS, least=1),
    "simulation.transaction.records": Option("transaction_records", least=1),
    "simulation.transaction.aborts": Option("transaction_aborts", most=1000),
    "simulation.poison": Option("poison"),
    "simulation.poison.value": Option("poison_value"),
    "simulation.processing": Option("processing"),
    "simulation.ops": Option("ops", least=1),
    "simulation.send.interval.us": Option("interval", least=1),
    "simulation.burst.records": Option("burst", least=1),
    "simulation.latency.us": Option("latency"),
    "simulation.jitter.us": Option("jitter"),
    "simulation.settle.ms": Option("settle", MS),
}

# Options that may differ from broker to broker; the others belong to the cluster, its topic or its clients.
BROKER_OPTIONS = frozenset(
    (
        "rack",
        "min_insync_replicas",
        "lag_time_max",
        "lag_max_messages",
        "fetch_wait_max",
        "fetch_backoff",
        "socket_timeout",
        "fetch_max_batches",
        "hw_checkpoint",
        "recovery_checkpoint",
        "start_checkpoint",
        "flush_messages",
        "flush_ms",
        "writeback",
        "recovery_time",
        "network_threads",
        "handler_threads",
        "queued_max_requests",
        "request_time",
        "heartbeat",
        "request_timeout",
    )
)

_TYPES: dict[str, type] = {f.name: type(f.default) for f in fields(Config)}


def parse(name: str, value: Any) -> tuple[str, Any]:
    """The attribute of Config for a Kafka name, and the value in our unit."""
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigError(f"unknown configuration {name!r}")
    kind = _TYPES[option.attribute]
    if name == "acks" and value in ("all", "-1", -1):
        return "acks", -1
    if name == "acks" and value in ("0", "1"):
        value = int(value)
    if kind is bool and not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false, not {value!r}")
    if kind is int and (isinstance(value, bool) or not isinstance(value, int)):
        raise ConfigError(f"{name} must be a whole number, not {value!r}")
    if kind is str and not isinstance(value, str):
        raise ConfigError(f"{name} must be text, not {value!r}")
    if kind is not int or name == "acks":
        return option.attribute, value
    if not option.least <= value <= option.most // option.scale:
        raise ConfigError(f"{name} must be {option.least} to {option.most // option.scale}, not {value}")
    return option.attribute, value * option.scale


def configure(
    base: Config, options: Mapping[str, Any], per_broker: Mapping[int, Mapping[str, Any]] | None = None
) -> Config:
    """`base` with options by Kafka's names. Raises ConfigError."""
    _refuse_duplicates(options)
    changes = dict(parse(name, options[name]) for name in sorted(options))
    if per_broker:
        changes["per_broker"] = tuple(
            (node, tuple(parse(name, per_broker[node][name]) for name in sorted(per_broker[node])))
            for node in sorted(per_broker)
        )
    config = _with_producer_defaults(replace(base, **changes), changes)
    check(config)
    _check_brokers(config)
    return config


def _refuse_duplicates(options: Mapping[str, Any]) -> None:
    """Refuse an old and a new name of one setting."""
    names: dict[str, str] = {}
    for name in (name for name in sorted(options) if name in OPTIONS):
        other = names.setdefault(OPTIONS[name].attribute, name)
        if other != name:
            raise ConfigError(f"{other} and {name} are one setting in the simulator; set only one of them")


def _with_producer_defaults(config: Config, named: Mapping[str, Any]) -> Config:
    """Resolve conflicts with settings that the user did not set, as Kafka's producer does.

    It disables idempotence (ProducerConfig.postProcessAndValidateIdempotenceConfigs) and raises delivery.timeout.ms to
    the time of one request (KafkaProducer.configureDeliveryTimeout). If the user set idempotence, acks=all and retries
    are implied (KafkaProducer.configureAcks of 0.11).
    """
    if config.idempotence and "idempotence" in named:
        implied = {name: getattr(Config(), name) for name in ("acks", "retries") if name not in named}
        config = replace(config, **implied)
    if "idempotence" not in named and (config.acks != -1 or config.retries == 0) and config.max_in_flight <= 5:
        config = replace(config, idempotence=False)
    once = config.linger + config.request_timeout
    if "delivery_timeout" not in named and config.delivery_timeout < once:
        config = replace(config, delivery_timeout=once)
    return config


def _check_brokers(config: Config) -> None:
    """Refuse options for single brokers without effect."""
    names = {option.attribute: name for name, option in OPTIONS.items()}
    for node, options in config.per_broker:
        if not 1 <= node <= config.brokers:
            raise ConfigError(f"options for broker {node}, but the brokers are 1 to {config.brokers}")
        for attribute, _ in options:
            if attribute not in BROKER_OPTIONS:
                raise ConfigError(f"{names[attribute]} cannot differ from broker to broker (broker {node})")


def check_heartbeats(config: Config) -> None:
    """Refuse a session timeout that is not longer than the heartbeat interval (KRaft)."""
    slowest = max([config.heartbeat, *(dict(own).get("heartbeat", 0) for _, own in config.per_broker)])
    if config.session_timeout <= slowest:
        raise ConfigError(
            f"broker.session.timeout.ms must be longer than broker.heartbeat.interval.ms ({slowest // MS}), "
            f"not {config.session_timeout // MS}"
        )


def check(config: Config) -> None:
    """Raise ConfigError if the configuration cannot be run."""
    if not 1 <= config.replication_factor <= config.brokers:
        raise ConfigError(
            f"a replication factor of {config.replication_factor} needs as many brokers, but there are {config.brokers}"
        )
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", config.topic) or config.topic in (".", ".."):
        # org.apache.kafka.common.internals.Topic.validate
        raise ConfigError(f"simulation.topic must be a legal topic name, not {config.topic!r}")
    if config.acks not in (-1, 0, 1):
        raise ConfigError(f"acks must be all, 1 or 0, not {config.acks}")
    if config.idempotence and (config.acks != -1 or config.retries == 0 or config.max_in_flight > 5):
        # Kafka 4 refuses this too; up to 3.9 more requests in flight disabled idempotence, if it was not set.
        raise ConfigError(
            "enable.idempotence=true needs acks=all, retries and at most 5 for max.in.flight.requests.per.connection"
        )
    if config.delivery_timeout < config.linger + config.request_timeout:
        raise ConfigError(
            f"delivery.timeout.ms must be at least linger.ms + request.timeout.ms, "
            f"{(config.linger + config.request_timeout) // MS}, not {config.delivery_timeout // MS}"
        )
    if config.offset_reset not in ("earliest", "latest"):
        # With none the Java consumer throws, and its application decides what happens next.
        raise ConfigError(
            f"auto.offset.reset must be earliest or latest (none is not modelled), not {config.offset_reset!r}"
        )
    if config.partitioner not in PARTITIONERS:
        raise ConfigError(f"partitioner.class must be {', '.join(PARTITIONERS)}, not {config.partitioner!r}")
    if config.strategy and config.strategy not in ASSIGNORS:
        raise ConfigError(f"partition.assignment.strategy must be {', '.join(ASSIGNORS)}, not {config.strategy!r}")
    commits = ("none", "after", "before", *(("auto",) if config.strategy else ()))
    if config.commit not in commits:
        raise ConfigError(f"simulation.commit must be {', '.join(commits)}, not {config.commit!r}")
    if config.static_members not in ("none", "own", "shared"):
        raise ConfigError(f"simulation.static.members must be none, own or shared, not {config.static_members!r}")
    if config.static_members != "none" and not config.strategy:
        raise ConfigError("simulation.static.members needs a group: set partition.assignment.strategy")
    _check_transactions(config)
    _check_processing(config)
    _check_poison(config)
    _check_added_partitions(config)
    _check_placement(config)


def _check_transactions(config: Config) -> None:
    if config.isolation not in ("read_uncommitted", "read_committed"):
        raise ConfigError(f"isolation.level must be read_uncommitted or read_committed, not {config.isolation!r}")
    if config.transactions not in ("none", "own", "shared"):
        raise ConfigError(f"simulation.transactions must be none, own or shared, not {config.transactions!r}")
    if config.transactional and not config.idempotence:
        raise ConfigError("transactions need enable.idempotence=true")


def _check_processing(config: Config) -> None:
    known = ("none", "exactly-once", "at-least-once")
    if config.processing not in known:
        raise ConfigError(f"simulation.processing must be {', '.join(known)}, not {config.processing!r}")
    if config.processing == "none":
        return
    if not config.strategy:
        raise ConfigError(f"simulation.processing={config.processing} needs a group: set partition.assignment.strategy")
    commit = "none" if config.processing == "exactly-once" else "after"
    if config.commit != commit:
        where = "in its transactions" if commit == "none" else "after its records are acknowledged"
        raise ConfigError(
            f"simulation.processing={config.processing} commits offsets {where}: set simulation.commit to {commit!r}, "
            f"not {config.commit!r}"
        )


def _check_poison(config: Config) -> None:
    known = ("none", "crash", "skip", "dead-letter")
    if config.poison not in known:
        raise ConfigError(f"simulation.poison must be {', '.join(known)}, not {config.poison!r}")
    if config.poison == "none":
        return
    if not config.strategy or config.commit != "after" or config.processing != "none":
        raise ConfigError(
            f"simulation.poison={config.poison} needs a group (partition.assignment.strategy) without "
            "simulation.processing, and simulation.commit=after"
        )


def _check_added_partitions(config: Config) -> None:
    if config.added_partitions >= config.partitions:
        raise ConfigError(
            f"simulation.partitions.added must be less than num.partitions, {config.partitions}, not "
            f"{config.added_partitions}"
        )
    if config.added_partitions and not config.strategy:
        # KafkaConsumer.assign: only a group gets new partitions.
        raise ConfigError("simulation.partitions.added needs a group: set partition.assignment.strategy")
    if config.added_partitions and (config.transactional or config.copies):
        raise ConfigError("simulation.partitions.added is not simulated together with transactions or other topics")


def _check_placement(config: Config) -> None:
    if config.assignment not in ASSIGNMENTS:
        known = ", ".join(ASSIGNMENTS)
        raise ConfigError(f"simulation.assignment must be one of {known}, not {config.assignment!r}")
    racks = config.racks
    if racks and config.assignment != "kafka":
        raise ConfigError("racks need simulation.assignment=kafka; the other assignments ignore them")
    if without := [str(broker) for broker, rack in racks.items() if not rack]:
        # AdminMetadataManager.getBrokerMetadatas with RackAwareMode.Enforced
        raise ConfigError(f"broker.rack must be set for all brokers or for none; broker {', '.join(without)} has none")


def kafka_names(config: Config, names: tuple[str, ...]) -> dict[str, Any]:
    """The named options with their values in Kafka's units, as in run.json."""
    result: dict[str, Any] = {}
    for name in names:
        option = OPTIONS[name]
        value = getattr(config, option.attribute)
        if name == "acks":
            value = "all" if value == -1 else str(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            value = value // option.scale
        result[name] = value
    return result
