"""Producers append; clients request the ends of the logs repeatedly."""

from __future__ import annotations

from typing import Any

from ..kafka_clients import confluent_kafka, make_client, recorded_config
from ..permissions import refuse
from ..session import Client, Session
from .reading import Reader
from .sending import senders

INTERVAL_SECONDS = 0.25
REQUEST_SECONDS = 5.0


class Watcher:
    """Requests the start and the end of every partition."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self.name, self.topic = session, name, session.load.topic
        self._config = session.settings.for_consumer(f"logjudge-{name}")
        session.recorder.configure(name, role="consumer", **recorded_config(self._config))

    def run(self) -> None:
        """Request them until the session stops."""
        library = confluent_kafka()
        consumer = make_client("Consumer", self.session.settings, self._config)
        try:
            while not self.session.stopping.wait(INTERVAL_SECONDS):
                with self.session.recorder.end_offsets(self.name) as ends:
                    try:
                        ends.ok([self._ends(consumer, number) for number in range(self.session.partitions)])
                    except library.KafkaException as error:
                        ends.info(error)
                        refuse(self.name, error.args[0])
        finally:
            consumer.close()

    def _ends(self, consumer: Any, number: int) -> tuple[str, int, int, int]:
        """The topic, the partition, its end and its start."""
        partition = confluent_kafka().TopicPartition(self.topic, number)
        low, high = consumer.get_watermark_offsets(partition, timeout=REQUEST_SECONDS)
        return self.topic, number, high, low


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, …, watchers e0, e1, …, and one consumer c0."""
    watchers = [Watcher(session, f"e{n}") for n in range(session.load.consumers)]
    return [*senders(session), *watchers, Reader(session, "c0")]
