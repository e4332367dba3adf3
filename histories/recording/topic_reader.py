"""Reads a Kafka topic of events for `logjudge watch`, into a copy of it (stream_copy.py)."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ClusterError, InputError, UsageError
from ..stream_copy import NO_EVENT, StreamCopy
from .kafka_clients import ClientSettings, admin_client, confluent_kafka, make_client
from .permissions import refuse

SCHEME = "kafka://"
REQUEST_SECONDS = 15.0
MAX_MESSAGES = 1_000_000  # of one round, which then is judged
_BATCH = 10_000
_ADDRESS = re.compile(r"kafka://([^/?#\s]+)/([A-Za-z0-9._-]{1,249})")
_UNKNOWN = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "UNKNOWN_TOPIC_ID")
_CONSUMER = {
    "group.id": "logjudge-watch",  # librdkafka demands one; nothing is committed to it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
}


class Address(NamedTuple):
    """A topic on a cluster."""

    bootstrap: str  # HOST:PORT, several with commas
    topic: str


def address_of(text: str) -> Address:
    """The address in kafka://HOST:PORT[,...]/TOPIC. Raises UsageError."""
    found = _ADDRESS.fullmatch(text)
    if found is None or found[2] in (".", ".."):
        raise UsageError(f"found {text}, expected kafka://HOST:PORT/TOPIC")
    return Address(found[1], found[2])


class TopicReader:
    """A consumer of all partitions of a topic, and the copy that it writes into a folder, `run`.

    Raises InputError if the topic is gone or lacks messages, ClusterError if no broker responds.
    """

    unit = "messages"  # of `unread`

    def __init__(self, address: Address, client: Mapping[str, str], folder: Path, config: Mapping[str, Any]) -> None:
        settings = ClientSettings(address.bootstrap, dict(client))
        self._name, self._topic = f"{SCHEME}{address.bootstrap}/{address.topic}", address.topic
        self._admin = admin_client(settings)
        described = self._describe()
        self._gap = self._gap_of_policy()
        self._id = str(described.topic_id)
        self.run = folder
        self._copy = StreamCopy(folder, f"{address.topic} ({self._id})", config)
        self._consumer = make_client("Consumer", settings, _CONSUMER)
        self._reached: dict[int, int] = {}  # the offset behind what was read, by partition
        self._newest_ms = 0
        self._unread = 0

    def fetch(self) -> None:
        """Copies the messages up to the present end of the topic, or MAX_MESSAGES of them."""
        described = self._describe()
        if str(described.topic_id) != self._id:
            found = "another topic of this name, created later"
            raise InputError(self._name, found, "the topic that was watched")
        numbers = [partition.id for partition in described.partitions]
        ends = {number: self._end_of(number) for number in numbers}
        if set(numbers) != set(self._reached):
            self._reached = {number: self._copy.next_offset(self._topic, number) for number in numbers}
            self._consumer.assign([self._place(number, offset) for number, offset in self._reached.items()])
        count, heard = 0, time.monotonic()
        while count < MAX_MESSAGES and any(self._reached[number] < end for number, end in ends.items()):
            messages = self._consumer.consume(_BATCH, timeout=0.5)
            count += self._take(messages)
            heard = time.monotonic() if messages else heard
            if time.monotonic() - heard > REQUEST_SECONDS:
                raise self._away("no message")
        self._unread = sum(max(end - self._reached[number], 0) for number, end in ends.items())

    def close(self) -> None:
        """Ends the consumer and the copy."""
        self._consumer.close()
        self._copy.close()

    def unread(self) -> int:
        """The messages that the last fetch left."""
        return self._unread

    def behind(self, took: float) -> float:  # noqa: ARG002
        """Seconds since the newest message that was read was written; 0 at the end of the topic."""
        return max(time.time() - self._newest_ms / 1000, 0.0) if self._unread else 0.0

    def _take(self, messages: list[Any]) -> int:
        at_end = confluent_kafka().KafkaError._PARTITION_EOF
        found = defaultdict(list)
        for message in messages:
            number, error = message.partition(), message.error()
            if error is None:
                found[number].append((message.offset(), message.value()))
                self._newest_ms = max(self._newest_ms, message.timestamp()[1])
            elif error.code() == at_end:
                self._reached[number] = max(self._reached[number], message.offset())
            else:
                self._raise(error)
        for number, values in found.items():
            self._copy.append(self._topic, number, values, self._gap)
            self._reached[number] = values[-1][0] + 1
        return sum(map(len, found.values()))

    def _describe(self) -> Any:
        topics = confluent_kafka().TopicCollection([self._topic])
        try:
            return self._admin.describe_topics(topics, request_timeout=REQUEST_SECONDS)[self._topic].result()
        except confluent_kafka().KafkaException as error:
            raise self._raise(error.args[0]) from error

    def _gap_of_policy(self) -> bytes:
        """The line for offsets without a message: markers of transactions, unless the topic may be compacted."""
        admin = import_module("confluent_kafka.admin")
        resource = admin.ConfigResource("topic", self._topic)
        try:
            found = self._admin.describe_configs([resource], request_timeout=REQUEST_SECONDS)[resource].result()
        except confluent_kafka().KafkaException:  # the user may not read it
            return NO_EVENT
        return b"" if found["cleanup.policy"].value == "delete" else NO_EVENT

    def _end_of(self, number: int) -> int:
        """The end of a partition. Raises InputError if messages that were not copied are gone."""
        copied = self._copy.next_offset(self._topic, number)
        try:
            low, high = self._consumer.get_watermark_offsets(self._place(number), timeout=REQUEST_SECONDS)
        except confluent_kafka().KafkaException as error:
            raise self._raise(error.args[0]) from error
        if low > copied:
            found = f"no messages before offset {low:,} of partition {number}, and {copied:,} copied"
            raise InputError(self._name, found, "all events of the run; use a topic of its own with retention.ms=-1")
        if high < copied:
            found = f"the end of partition {number} at offset {high:,}, behind which {copied:,} were copied"
            raise InputError(self._name, found, "more")
        return int(high)

    def _place(self, number: int, *offset: int) -> Any:
        return confluent_kafka().TopicPartition(self._topic, number, *offset)

    def _raise(self, error: Any) -> ClusterError:
        """The error of brokers that do not respond. Raises the other errors of a client."""
        refuse(self._name, error)
        if error.name() in _UNKNOWN:
            raise InputError(self._name, "no such topic", "a topic of events, one JSON object a message")
        return self._away(str(error.str()))

    def _away(self, reason: str) -> ClusterError:
        return ClusterError(f"{self._name}: found no broker that responds ({reason[:200]})")
