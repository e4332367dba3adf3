"""The topics of a recording: made if they are missing, and described in run.json as the cluster has them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import LogjudgeError, UsageError
from .kafka_clients import confluent_kafka, typed
from .permissions import is_refusal, refusal, refuse

REQUEST_SECONDS = 30.0
# Settings that decide whether a loss is legal; run.json has them also where they are the defaults.
DECISIVE = (
    "cleanup.policy",
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "retention.ms",
    "retention.bytes",
    "delete.retention.ms",
    "segment.bytes",
)


@dataclass(frozen=True)
class Topic:
    """A topic to be made."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str] = field(default_factory=dict)
    assignment: list[list[int]] | None = None  # instead of the number of replicas


def create_topics(admin: Any, topics: Iterable[Topic]) -> None:
    """Make topics and wait until every partition has a leader. Raises LogjudgeError.

    An existing topic is refused: its earlier records would look like records without a send.
    """
    from confluent_kafka.admin import NewTopic

    wanted = list(topics)
    requests = []
    for topic in wanted:
        replicas = {"replication_factor": topic.replication_factor}
        placed = {"replica_assignment": topic.assignment} if topic.assignment else replicas
        requests.append(NewTopic(topic.name, topic.partitions, config=dict(topic.config), **placed))
    for name, future in admin.create_topics(requests, operation_timeout=REQUEST_SECONDS).items():
        try:
            future.result(REQUEST_SECONDS)
        except confluent_kafka().KafkaException as error:
            raise _refusal(name, error.args[0]) from error
    end = time.monotonic() + REQUEST_SECONDS
    for topic in wanted:
        while len(leaders(admin, topic.name)) < topic.partitions or -1 in leaders(admin, topic.name).values():
            if time.monotonic() > end:
                raise LogjudgeError(
                    f"topic {topic.name}: no leader after {REQUEST_SECONDS:.0f} s; are enough brokers up?"
                )
            time.sleep(0.1)


def _refusal(name: str, error: Any) -> UsageError:
    if is_refusal(error):
        return refusal(f"topic {name}", error)
    advice = {
        "TOPIC_ALREADY_EXISTS": "its earlier records would be judged too; choose another --topic",
        "INVALID_REPLICATION_FACTOR": "choose a --replication-factor of at most the number of brokers",
    }.get(error.name(), "see --topic, --partitions, --replication-factor and --topic-config")
    return UsageError(f"topic {name}: the cluster refused to create it ({error.name()}: {error.str()}); {advice}")


def metadata(admin: Any, topic: str) -> Any:
    """The cluster's description of a topic. Raises LogjudgeError."""
    try:
        found = admin.list_topics(topic, timeout=REQUEST_SECONDS).topics[topic]
    except confluent_kafka().KafkaException as error:
        raise LogjudgeError(f"topic {topic}: the cluster does not answer ({error.args[0].str()})") from error
    refuse(f"topic {topic}", found.error)
    return found


def leaders(admin: Any, topic: str) -> dict[int, int]:
    """The leader of each partition; -1 where there is none."""
    return {number: partition.leader for number, partition in metadata(admin, topic).partitions.items()}


def are_in_sync(admin: Any, topic: str) -> bool:
    """Whether every replica of every partition is in sync."""
    return all(
        partition.leader >= 0 and sorted(partition.isrs) == sorted(partition.replicas)
        for partition in metadata(admin, topic).partitions.values()
    )


def describe_topics(admin: Any, topics: Iterable[Topic]) -> dict[str, dict[str, Any]]:
    """`topics` of run.json: partitions, replicas and settings as the cluster has them."""
    from confluent_kafka.admin import ConfigResource

    found: dict[str, dict[str, Any]] = {}
    for topic in topics:
        name = topic.name
        partitions = metadata(admin, name).partitions
        assignment = [[str(broker) for broker in partitions[number].replicas] for number in sorted(partitions)]
        about: dict[str, Any] = {
            "partitions": len(partitions),
            "replication.factor": min(map(len, assignment)),
            "replica.assignment": assignment,
            **{setting: typed(value) for setting, value in topic.config.items()},
        }
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        try:
            settings = admin.describe_configs([resource])[resource].result(REQUEST_SECONDS)
        except confluent_kafka().KafkaException:  # no permission, or a broker before 0.11
            settings = {}
        for setting in settings.values():
            if setting.value is not None and (setting.name in DECISIVE or not setting.is_default):
                about[setting.name] = typed(setting.value)
        found[name] = about
    return found
