"""Parses, checks and writes the configuration by Kafka's names.

Names that end in `.ms` are in milliseconds. The simulator's own settings begin with `simulation.`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from .config import ASSIGNORS, MS, NEVER, SECOND, Config, ConfigError


class Option(NamedTuple):
    """One setting: its attribute of Config, the factor from its unit to ours, and its values."""

    attribute: str
    scale: int
    least: int
    most: int
    choices: tuple[str, ...]
    per_broker: bool
    type: type


# By group.protocol: the settings of the other protocol, of clients and brokers. They have no effect.
OTHER_PROTOCOL = {
    "classic": (
        "group.consumer.max.size",
        "group.remote.assignor",
        "group.consumer.session.timeout.ms",
        "group.consumer.heartbeat.interval.ms",
    ),
    "consumer": (
        "group.max.size",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "group.initial.rebalance.delay.ms",
    ),
}
OF_CLASSIC_MEMBERS = ("group.max.size", "partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms")
POLICY = "group.consumer.migration.policy"
# What settings of members need.
A_GROUP = "a group: set partition.assignment.strategy or group.protocol=consumer"
MAX_LONG = (1 << 63) - 1  # Kafka's default of flush.messages and flush.ms
UNLIMITED = ("retention.ms", "retention.bytes")  # where Kafka's -1 is no limit
TYPES = {bool: "true or false", int: "a whole number", str: "text"}
UNITS = {".ms": MS, ".seconds": SECOND, ".minutes": 60 * SECOND}
OPTIONS: dict[str, Option] = {
    name: Option(
        attribute=setting.name,
        scale=next((scale for unit, scale in UNITS.items() if name.endswith(unit)), 1),
        least=setting.metadata["least"],
        most=setting.metadata["most"],
        choices=setting.metadata["choices"],
        per_broker=setting.metadata["per_broker"],
        type=type(setting.default),
    )
    for setting in fields(Config)
    for name in setting.metadata.get("names", ())
}


def parse(name: str, value: Any) -> tuple[str, Any]:
    """The attribute of Config for a Kafka name, and the value in our unit."""
    option = OPTIONS.get(name)
    if option is None:
        raise ConfigError(f"unknown configuration {name!r}")
    kind = option.type
    if name == "acks" and value in ("all", "-1", "0", "1"):
        value = -1 if value == "all" else int(value)
    if kind in TYPES and type(value) is not kind:
        raise ConfigError(f"{name} must be {TYPES[kind]}, not {value!r}")
    if kind is float:
        if type(value) not in (int, float) or not option.least <= value <= option.most:
            raise ConfigError(f"{name} must be a number from {option.least} to {option.most}, not {value!r}")
        return option.attribute, float(value)
    if option.choices and value not in option.choices:
        *others, last = option.choices
        raise ConfigError(f"{name} must be {', '.join(others)} or {last}, not {value!r}")
    if kind is not int or name == "acks":
        return option.attribute, value
    if option.most == NEVER and (NEVER // option.scale < value <= MAX_LONG or (value == -1 and name in UNLIMITED)):
        return option.attribute, NEVER
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
    _refuse_other_protocol(config, options)
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


def _refuse_other_protocol(config: Config, options: Mapping[str, Any]) -> None:
    """Refuse settings of the other group protocol (ConsumerConfig.checkUnsupportedConfigsPostProcess)."""
    of_classic_members = OF_CLASSIC_MEMBERS if config.has_member_epochs and config.classic_members else ()
    for name in OTHER_PROTOCOL[config.group_protocol]:
        if name in options and options[name] != "" and name not in of_classic_members:
            raise ConfigError(f"{name} has no effect with group.protocol={config.group_protocol}")
    if POLICY in options and not config.classic_members:
        raise ConfigError(f"{POLICY} has no effect without members of both protocols: set simulation.classic.members")


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
    if "batch_size" in named and "batch_records" not in named:
        config = replace(config, batch_records=NEVER)
    once = config.linger + config.request_timeout
    if "delivery_timeout" not in named and config.delivery_timeout < once:
        config = replace(config, delivery_timeout=once)
    return config


def _check_brokers(config: Config) -> None:
    """Refuse options for single brokers without effect."""
    shared = {option.attribute: name for name, option in OPTIONS.items() if not option.per_broker}
    for node, options in config.per_broker:
        if not 1 <= node <= config.brokers:
            raise ConfigError(f"options for broker {node}, but the brokers are 1 to {config.brokers}")
        for attribute, _ in options:
            if attribute in shared:
                raise ConfigError(f"{shared[attribute]} cannot differ from broker to broker (broker {node})")


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
    for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
        replicas = getattr(config, OPTIONS[name].attribute)
        if not re.fullmatch(r"\*|(\d+:\d+(,\d+:\d+)*)?", replicas):
            raise ConfigError(f"{name} must be * or partition:broker,…, not {replicas!r}")
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
    if config.strategy and config.strategy not in ASSIGNORS:
        raise ConfigError(f"partition.assignment.strategy must be {', '.join(ASSIGNORS)}, not {config.strategy!r}")
    commits = ("none", "after", "before", *(("auto", "async") if config.has_group else ()))
    if config.commit not in commits:
        raise ConfigError(f"simulation.commit must be {', '.join(commits)}, not {config.commit!r}")
    _check_processing(config)
    _check_group(config)
    _check_racks(config)
    if config.compacts and (config.transactional or config.copies):
        raise ConfigError(
            "cleanup.policy=compact is not simulated together with transactions or topics that a group writes"
        )
    if config.blocks and config.transactional:
        raise ConfigError("simulation.send.synchronous and buffer.memory are not simulated together with transactions")
    if config.copies and min(config.batch_size, config.max_request_size) < NEVER:
        raise ConfigError("batch.size and max.request.size are not simulated together with topics that a group writes")
    if config.transactional and config.max_message_bytes < NEVER:
        raise ConfigError("max.message.bytes is not simulated together with transactions")
    if config.transactional and not config.idempotence:
        raise ConfigError("transactions need enable.idempotence=true")


def _check_processing(config: Config) -> None:
    if config.processing == "none":
        return
    if not config.has_group:
        raise ConfigError(f"simulation.processing={config.processing} needs {A_GROUP}")
    commit = "none" if config.processing == "exactly-once" else "after"
    if config.commit != commit:
        where = "in its transactions" if commit == "none" else "after its records are acknowledged"
        raise ConfigError(
            f"simulation.processing={config.processing} commits offsets {where}: set simulation.commit to {commit!r}, "
            f"not {config.commit!r}"
        )


def _check_group(config: Config) -> None:
    if config.commit_retry and config.commit != "async":
        raise ConfigError("simulation.commit.retry needs simulation.commit=async")
    if config.static_members != "none" and not config.has_group:
        raise ConfigError(f"simulation.static.members needs {A_GROUP}")
    if config.classic_members:
        _check_classic_members(config)
    if config.standby_consumers and (not config.has_group or config.standby_consumers >= config.consumers):
        raise ConfigError(
            f"simulation.standby.consumers needs {A_GROUP}, with more members than {config.standby_consumers}"
        )
    if config.has_member_epochs and config.consumer_session <= config.consumer_heartbeat:
        raise ConfigError(
            "group.consumer.session.timeout.ms must be longer than group.consumer.heartbeat.interval.ms "
            f"({config.consumer_heartbeat // MS}), not {config.consumer_session // MS}"
        )
    if config.poison != "none" and not (config.has_group and config.commit == "after" and config.processing == "none"):
        raise ConfigError(
            f"simulation.poison={config.poison} needs a group (partition.assignment.strategy or "
            "group.protocol=consumer) without simulation.processing, and simulation.commit=after"
        )
    if not config.added_partitions:
        return
    if config.added_partitions >= config.partitions:
        raise ConfigError(
            f"simulation.partitions.added must be less than num.partitions, {config.partitions}, not "
            f"{config.added_partitions}"
        )
    if not config.has_group:
        # KafkaConsumer.assign: only a group gets new partitions.
        raise ConfigError(f"simulation.partitions.added needs {A_GROUP}")
    if config.transactional or config.copies:
        raise ConfigError("simulation.partitions.added is not simulated together with transactions or other topics")


def _check_classic_members(config: Config) -> None:
    if not (config.has_member_epochs and config.strategy):
        raise ConfigError("simulation.classic.members needs group.protocol=consumer and partition.assignment.strategy")
    if config.classic_members > config.consumers:
        raise ConfigError(
            f"simulation.classic.members must be at most simulation.consumers, {config.consumers}, not "
            f"{config.classic_members}"
        )


def _check_racks(config: Config) -> None:
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
