"""The topics of a recording: made if they are missing, and described in run.json as the cluster has them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

from ..errors import LogjudgeError, UsageError
from .kafka_clients import ClientSettings, confluent_kafka, make_client, typed_value
from .permissions import refuse

REQUEST_SECONDS = 30.0
VIEW_SECONDS = 2.0
BOOTSTRAP = -1  # librdkafka's number of a bootstrap server until it knows the broker's
MAX_CLIENTS = 10  # until one is connected to the right broker
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
    """Make topics. Raises LogjudgeError.

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
            refuse(f"topic {name}", error.args[0])
            raise _creation_error(name, error.args[0]) from error
        except TimeoutError as error:
            late = f"the cluster did not respond within {REQUEST_SECONDS:.0f} s"
            raise LogjudgeError(
                f"topic {name}: {late}, so it may exist; are the brokers and the controller up?"
            ) from error


def _creation_error(name: str, error: Any) -> UsageError:
    advice = {
        "TOPIC_ALREADY_EXISTS": "its earlier records would be judged too; choose another --topic",
        "INVALID_REPLICATION_FACTOR": "choose a --replication-factor of at most the number of brokers",
    }.get(error.name(), "see --topic, --partitions, --replication-factor and --topic-config")
    return UsageError(f"topic {name}: the cluster refused to create it ({error.name()}: {error.str()}); {advice}")


def _cluster(admin: Any, topic: str) -> Any:
    """The brokers of the cluster, and its description of a topic. Raises LogjudgeError."""
    try:
        return admin.list_topics(topic, timeout=REQUEST_SECONDS)
    except confluent_kafka().KafkaException as error:
        raise LogjudgeError(f"topic {topic}: the cluster does not respond ({error.args[0].str()})") from error


def metadata(admin: Any, topic: str) -> Any:
    """The cluster's description of a topic. Raises LogjudgeError."""
    found = _cluster(admin, topic).topics[topic]
    refuse(f"topic {topic}", found.error)
    return found


def _led_partitions(admin: Any, topic: Topic) -> Any:
    """The partitions of a topic by number, as soon as a broker reports a leader of each. Raises LogjudgeError."""
    end = time.monotonic() + REQUEST_SECONDS
    while True:
        found = metadata(admin, topic.name).partitions
        if len(found) >= topic.partitions and all(partition.leader >= 0 for partition in found.values()):
            return found
        if time.monotonic() > end:
            raise LogjudgeError(f"topic {topic.name}: no leader after {REQUEST_SECONDS:.0f} s; are enough brokers up?")
        time.sleep(0.1)


class BrokerViews:
    """Topics as each broker describes them: a broker that is cut off from the others describes the past.

    A client of librdkafka sends its requests to the one broker that it is connected to, so each broker gets a client.
    It may connect to another broker than its bootstrap server, and stays there: then a new client takes its place.
    """

    def __init__(self, settings: ClientSettings, admin: Any) -> None:
        self._settings, self._admin = settings, admin
        self._clients: dict[str, Any] = {}  # by address
        self._threads = ThreadPoolExecutor(16, "views")
        self._pending: dict[tuple[str, str], Future[Any]] = {}  # by address and topic: requests without a response

    def of(self, topic: str) -> list[Any]:
        """A topic's partitions by number, once for each broker that responds.

        A paused broker does not respond. On a busy machine every broker may take long, so one response is awaited.
        """
        brokers = _cluster(self._admin, topic).brokers
        addresses = {f"{broker.host}:{broker.port}": number for number, broker in brokers.items()}
        for address, number in addresses.items():
            if (address, topic) not in self._pending:
                self._pending[address, topic] = self._threads.submit(self._describe_topic, address, number, topic)
        requests = [self._pending[address, topic] for address in addresses]
        if not wait(requests, VIEW_SECONDS).done:
            wait(requests, REQUEST_SECONDS, FIRST_COMPLETED)
        responsive = [address for address in addresses if self._pending[address, topic].done()]
        views = [self._pending.pop((address, topic)).result() for address in responsive]
        return [view for view in views if view]

    def _describe_topic(self, address: str, number: int, topic: str) -> Any:
        """The partitions of a topic as one broker describes them, or None."""
        for _ in range(MAX_CLIENTS):
            if address not in self._clients:
                self._clients[address] = make_client("AdminClient", self._settings, {"bootstrap.servers": address})
            try:
                found = self._clients[address].list_topics(topic, timeout=REQUEST_SECONDS)
            except confluent_kafka().KafkaException:
                return None
            if found.orig_broker_id in (number, BOOTSTRAP):
                about = found.topics[topic]
                return about.partitions if about.error is None else None
            del self._clients[address]
        return None

    def are_in_sync(self, topic: str) -> bool:
        """Whether all brokers report that every replica is in sync, and the same leaders."""
        views = self.of(topic)
        replicas = [partition for view in views for partition in view.values()]
        are_full = all(p.leader >= 0 and sorted(p.isrs) == sorted(p.replicas) for p in replicas)
        return bool(views) and are_full and len({_leaders(view) for view in views}) == 1

    def lacks_leader(self, topic: str) -> list[int]:
        """The partitions for which no broker reports a leader."""
        views = self.of(topic)
        numbers = sorted({number for view in views for number in view})
        return [n for n in numbers if all(view[n].leader < 0 for view in views if n in view)]

    def usual(self, topic: str) -> Any:
        """The partitions by number, as most brokers describe them. Raises LogjudgeError if none responds."""
        views = self.of(topic)
        if not views:
            raise LogjudgeError(f"topic {topic}: no broker describes it")
        counts = Counter(map(_leaders, views))
        return max(views, key=lambda view: counts[_leaders(view)])


def _leaders(view: Any) -> tuple[tuple[int, int], ...]:
    return tuple((number, view[number].leader) for number in sorted(view))


def describe_topics(admin: Any, topics: Iterable[Topic]) -> dict[str, dict[str, Any]]:
    """`topics` of run.json: partitions, replicas and settings as the cluster has them."""
    from confluent_kafka.admin import ConfigResource

    found: dict[str, dict[str, Any]] = {}
    for topic in topics:
        name = topic.name
        partitions = _led_partitions(admin, topic)
        assignment = [[str(broker) for broker in partitions[number].replicas] for number in sorted(partitions)]
        about: dict[str, Any] = {
            "partitions": len(partitions),
            "replication.factor": min(map(len, assignment)),
            "replica.assignment": assignment,
            **{setting: typed_value(value) for setting, value in topic.config.items()},
        }
        resource = ConfigResource(ConfigResource.Type.TOPIC, name)
        try:
            settings = admin.describe_configs([resource])[resource].result(REQUEST_SECONDS)
        except (confluent_kafka().KafkaException, TimeoutError):  # no permission, a broker before 0.11, or a busy one
            settings = {}
        for setting in settings.values():
            if setting.value is not None and (setting.name in DECISIVE or not setting.is_default):
                about[setting.name] = typed_value(setting.value)
        found[name] = about
    return found
