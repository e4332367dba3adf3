"""A consumer of a workload that reads assigned partitions from their starts."""

from __future__ import annotations

from typing import Any

from ..kafka_clients import confluent_kafka, make_client, recorded_config
from ..permissions import refuse
from ..session import Session

POLL_SECONDS = 0.25
MAX_RECORDS = 500


def readers(session: Session) -> list[Reader]:
    """Consumers c0, c1, …"""
    return [Reader(session, f"c{n}") for n in range(session.load.consumers)]


class Reader:
    """Reads all partitions of the topic and records each poll."""

    def __init__(self, session: Session, name: str, **config: Any) -> None:
        self.session, self.name = session, name
        self._config = session.settings.for_consumer(f"logjudge-{name}", **config)
        session.recorder.configure(name, **recorded_config(self._config))

    def run(self) -> None:
        """Poll until the session stops."""
        consumer = make_client("Consumer", self.session.settings, self._config)
        topic, partition_of = self.session.load.topic, confluent_kafka().TopicPartition
        starts = [partition_of(topic, number, 0) for number in range(self.session.partitions)]
        try:
            self.session.recorder.assign(self.name, starts)
            consumer.assign(starts)
            while not self.session.stopping.is_set():
                self._poll(consumer)
        finally:
            consumer.close()

    def _poll(self, consumer: Any) -> None:
        with self.session.recorder.poll(self.name) as poll:
            messages = consumer.consume(MAX_RECORDS, timeout=POLL_SECONDS)
            poll.ok(messages)
        for message in messages:
            refuse(self.name, message.error())
        self.session.progress.has_read(message for message in messages if message.error() is None)
