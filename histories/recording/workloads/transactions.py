"""Transactions that commit, abort and are fenced; one consumes, transforms and produces; readers of both levels."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import Any

from ...errors import LogjudgeError
from ..kafka_clients import call_both, confluent_kafka, make_client, recorded_config
from ..open_operations import Transaction
from ..permissions import refuse
from ..session import Client, Session
from ..topics import Topic
from .reading import Reader

CALL_SECONDS = 20.0
RETRY_SECONDS = 60.0
MAX_SENDS = 5  # in one transaction
ABORTED_SHARE = 0.2
FENCED_SHARE = 0.05
MAX_RECORDS = 50  # that one transaction transforms


class _FatalError(Exception):
    """The producer has failed; a new one with the same transactional.id replaces it."""


class Transactor:
    """A producer whose sends are in transactions; every fifth transaction is aborted."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self.name = session, name
        self.random = random.Random(name)
        self._pause = MAX_SENDS / 2 / session.load.rate_of_one  # seconds between transactions
        self._config = {
            **session.settings.for_producer(),
            "transactional.id": f"{session.load.topic}-{name}",
            "transaction.timeout.ms": 20_000,
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": 20_000,
        }
        self._count = 0
        self._successor: Any = None  # the producer that has fenced the present one
        session.transactional[self._config["transactional.id"]] = self._config
        session.recorder.configure(name, **recorded_config(self._config))

    def run(self) -> None:
        """Make transactions until the session stops."""
        self.open()
        producer = self._connect()
        try:
            while not self.session.stopping.wait(self._pause):
                try:
                    self._transact(producer)
                except _FatalError:
                    producer, self._successor = self._successor or self._connect(), None
                    self.reconnected()
        finally:
            self.close()

    def open(self) -> None:
        """Prepare what a transaction reads."""

    def close(self) -> None:
        """Close what `open` has opened."""

    def fill(self, producer: Any, transaction: Transaction) -> None:
        """The sends of one transaction."""
        for _ in range(self.random.randint(1, MAX_SENDS)):
            value = f"{self.name}-{self._count}".ljust(self.session.load.size, ".")
            self._count += 1
            self.send(producer, transaction, self.session.load.topic, value)

    def committed(self) -> None:
        """Called after the transaction was committed."""

    def aborted(self) -> None:
        """Go back to where the aborted transaction began."""

    def reconnected(self) -> None:
        """Find out whether the last transaction was committed or aborted, when the new producer began."""

    def send(self, producer: Any, transaction: Transaction, topic: str, value: str) -> None:
        """One send of a transaction."""
        partition = self.random.randrange(self.session.partitions)
        step = transaction.send(topic, value, partition=partition)
        report = call_both(step.on_delivery, partial(self.session.completed, self.name))
        producer.produce(topic, value, partition=partition, on_delivery=report)

    def _connect(self) -> Any:
        """A producer of the transactional.id, as soon as its coordinator responds, or the session stops."""
        end = time.monotonic() + RETRY_SECONDS
        while True:
            producer = make_client("Producer", self.session.settings, self._config)
            try:
                producer.init_transactions(CALL_SECONDS)
            except confluent_kafka().KafkaException as error:
                reason = error.args[0]
                refuse(self.name, reason)
                if not reason.retriable() and time.monotonic() > end:
                    raise LogjudgeError(f"{self.name}: no transactions are possible ({reason.str()})") from error
                if self.session.stopping.wait(0.5):
                    return producer
            else:
                return producer

    def _transact(self, producer: Any) -> None:
        library = confluent_kafka()
        transaction = self.session.recorder.txn(self.name)
        try:
            producer.begin_transaction()
            self.fill(producer, transaction)
        except BufferError:
            self._abort(producer, transaction)
            return
        except library.KafkaException as error:
            self._abort(producer, transaction)
            refuse(self.name, error.args[0])
            return
        draw = self.random.random()
        if draw < ABORTED_SHARE:
            self._abort(producer, transaction)
            return
        if draw > 1 - FENCED_SHARE:
            self._successor = self._connect()  # which aborts the transaction and fences its producer
        self._commit(producer, transaction)

    def _commit(self, producer: Any, transaction: Transaction) -> None:
        end = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                producer.commit_transaction(CALL_SECONDS)
            except confluent_kafka().KafkaException as error:
                inner = error.args[0]
                if inner.txn_requires_abort():
                    self._abort(producer, transaction)
                    return
                if not inner.retriable() or time.monotonic() > end:
                    transaction.info(error)
                    raise _FatalError from error
            else:
                transaction.ok()
                self.committed()
                return

    def _abort(self, producer: Any, transaction: Transaction) -> None:
        """Abort. The commit was not requested, or was refused, so the transaction fails whatever the response is.

        Its error is the abort. An error of a send, such as a timeout, would leave the outcome open.
        """
        end = time.monotonic() + RETRY_SECONDS
        try:
            while True:
                try:
                    producer.abort_transaction(CALL_SECONDS)
                    return
                except confluent_kafka().KafkaException as error:
                    if not error.args[0].retriable() or time.monotonic() > end:
                        raise _FatalError from error
        finally:
            transaction.fail("aborted by the application")
            self.aborted()


class Transformer(Transactor):
    """Consumes the topic, produces a copy of each record, and commits its offsets in the same transaction."""

    def open(self) -> None:
        """Assign all partitions, from their starts."""
        config = self.session.settings.for_consumer(f"{self.session.load.topic}-{self.name}")
        about = {"isolation.level": "read_committed", "group.id": config["group.id"], "enable.auto.commit": False}
        self._consumer = make_client("Consumer", self.session.settings, {**config, **about})
        self.session.recorder.configure(self.name, **about)
        self._positions = dict.fromkeys(range(self.session.load.partitions), 0)  # as the last commit left them
        self._read = dict(self._positions)
        self.session.recorder.assign(self.name, self._places(self._positions))
        self._consumer.assign(self._places(self._positions))

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def fill(self, producer: Any, transaction: Transaction) -> None:
        """Copy what one poll returns."""
        messages = [message for message in self._consumer.consume(MAX_RECORDS, timeout=0.3) if message.error() is None]
        transaction.poll(messages)
        self.session.progress.has_read(messages)
        self._read = dict(self._positions)
        for message in messages:
            self._count += 1
            # An aborted transaction is done again, and values are unique.
            value = f"{message.value().decode()}>{self.name}#{self._count}"
            self.send(producer, transaction, copies_of(self.session), value)
            self._read[message.partition()] = message.offset() + 1
        changed = {number: offset for number, offset in self._read.items() if offset != self._positions[number]}
        if changed:
            offsets = self._places(changed)
            transaction.commit(offsets)
            producer.send_offsets_to_transaction(offsets, self._consumer.consumer_group_metadata(), CALL_SECONDS)

    def committed(self) -> None:
        """The next transaction begins where this one ended."""
        self._positions = self._read

    def aborted(self) -> None:
        """Seek back to the committed positions."""
        self.session.recorder.seek(self.name, self._places(self._positions))
        self._consumer.assign(self._places(self._positions))  # assign, as seek fails before the first fetch

    def reconnected(self) -> None:
        """Continue from the committed offsets of the group, once its coordinator responds."""
        while True:
            try:
                found = self._consumer.committed(self._places(self._positions), timeout=CALL_SECONDS)
                break
            except confluent_kafka().KafkaException as error:
                refuse(self.name, error.args[0])
                if self.session.stopping.wait(0.5):
                    return
        self._positions = {place.partition: max(0, place.offset) for place in found}
        self.aborted()

    def _places(self, positions: dict[int, int]) -> list[Any]:
        library = confluent_kafka()
        return [library.TopicPartition(self.session.load.topic, number, offset) for number, offset in positions.items()]


def copies_of(session: Session) -> str:
    """The topic that takes the copies."""
    return f"{session.load.topic}-copies"


def topics(session: Session) -> list[Topic]:
    """The topic, and that of the copies."""
    main = session.load.main_topic()
    return [main, Topic(copies_of(session), main.partitions, main.replication_factor, main.config)]


def clients(session: Session) -> list[Client]:
    """Producers t0, t1, …, x0, which transforms, and the readers rc and ru of both isolation levels."""
    transactors = [Transactor(session, f"t{n}") for n in range(session.load.producers)]
    levels = (("rc", "read_committed"), ("ru", "read_uncommitted"))
    readers = [Reader(session, name, **{"isolation.level": level}) for name, level in levels]
    return [*transactors, Transformer(session, "x0"), *readers]
