"""A producer of a workload: sends values at a rate, and starts again after a fatal error."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ..kafka_clients import call_both, confluent_kafka, make_client, recorded_config
from ..session import Session

PURGE_SECONDS = 5.0
CLOSE_SECONDS = 35.0  # longer than delivery.timeout.ms of kafka_clients.py


def senders(session: Session) -> list[Sender]:
    """Producers p0, p1, …"""
    return [Sender(session, f"p{n}") for n in range(session.load.producers)]


class Message(NamedTuple):
    """A message to send."""

    key: str | None
    value: str | None  # None: a tombstone
    partition: int | None  # None: the client chooses it


class Sender:
    """Sends `name-0`, `name-1`, … to random partitions of the topic."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self.name, self.topic = session, name, session.load.topic
        self._config = session.settings.for_producer()
        self.random = random.Random(name)
        self._count = 0
        self._is_broken = False
        session.recorder.configure(name, **recorded_config(self._config))

    def run(self) -> None:
        """Send until the session stops, then wait for the delivery reports."""
        producer = self._connect()
        started = time.monotonic()
        while not self.session.stopping.is_set():
            due = started + self._count / self.session.load.rate_of_one
            while (wait := due - time.monotonic()) > 0 and not self.session.stopping.is_set():
                self._serve(producer.poll, min(wait, 0.1))
            if self._is_broken:
                producer = self._replace(producer)
            if self.session.stopping.is_set():
                break
            self.send(producer)
            self._serve(producer.poll, 0)
        self._serve(producer.flush, CLOSE_SECONDS)
        self._discard(producer)

    def message(self, number: int) -> Message:
        """The next message."""
        return Message(None, self.value(number), self.random.randrange(self.session.partitions))

    def value(self, number: int) -> str:
        """A value that names its producer and is long enough."""
        return f"{self.name}-{number}".ljust(self.session.load.size, ".")

    def send(self, producer: Any) -> None:
        """Send one message; its delivery report completes it."""
        key, value, partition = self.message(self._count)
        self._count += 1
        place = {} if partition is None else {"partition": partition}
        with self.session.recorder.send(self.name, self.topic, value, key=key, **place) as op:
            try:
                report = call_both(op.on_delivery, partial(self.session.completed, self.name))
                producer.produce(self.topic, value, key, **place, on_delivery=report)
            except (BufferError, confluent_kafka().KafkaException) as error:
                op.error(error)
                self.session.progress.completed(error)
                self._is_broken |= not isinstance(error, BufferError)

    def _connect(self) -> Any:
        return make_client("Producer", self.session.settings, {**self._config, "error_cb": self._on_error})

    def _on_error(self, error: Any) -> None:
        # A fatal error ends an idempotent producer, as out-of-order sequence numbers do after an unclean election.
        self._is_broken |= bool(error.fatal())

    def _replace(self, producer: Any) -> Any:
        self._discard(producer)
        self._is_broken = False
        return self._connect()

    def _discard(self, producer: Any) -> None:
        """Give up the messages without a delivery report: their outcome is unknown."""
        producer.purge()
        self._serve(producer.flush, PURGE_SECONDS)

    def _serve(self, call: Callable[[float], Any], seconds: float) -> None:
        """Poll or flush. Both raise the fatal errors of an idempotent producer; then this one must be replaced.

        confluent-kafka 2.16.1 also raised a SystemError of its own, and a KafkaError, whose class is no subclass of
        BaseException, so that `except` cannot name it. The outcome of messages in flight is unknown then.
        """
        library, is_served = confluent_kafka(), False
        with contextlib.suppress(library.KafkaException, library.KafkaError, SystemError):
            call(seconds)
            is_served = True
        self._is_broken |= not is_served
