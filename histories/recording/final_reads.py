"""The final reads: every partition from its log start to its end, after the last fault healed.

An open transaction hides the records behind it from read_committed consumers, and so from the final reads.
Initialising a transactional.id again aborts its open transaction, or completes a commit that the coordinator had
accepted (KIP-98), as an operator would. The history has this step as a fault of kind init-transactions.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ..errors import LogjudgeError
from .kafka_clients import confluent_kafka, make_client, recorded_config
from .permissions import refuse
from .session import Session
from .topics import metadata

FINAL, ADMIN = "final", "admin"
IN_SYNC_SECONDS = 120.0
READ_SECONDS = 120.0
INIT_SECONDS = 60.0  # for all transactional ids
CALL_SECONDS = 20.0
KIND = "init-transactions"


def read_to_the_end(session: Session) -> None:
    """Request the ends of all partitions and read up to them. Raises LogjudgeError if that takes too long."""
    _wait_in_sync(session)
    library = confluent_kafka()
    own = {"isolation.level": "read_committed", "enable.partition.eof": True, "enable.auto.commit": False}
    config = {**session.settings.for_consumer("logjudge-final"), **own}
    consumer = make_client("Consumer", session.settings, config)
    try:
        # The consumer requests the ends, and its isolation level decides whether they are last stable offsets.
        session.recorder.configure(ADMIN, role=ADMIN, **{"isolation.level": own["isolation.level"]})
        session.recorder.configure(FINAL, **recorded_config(config))
        bounds = _bounds(session, consumer)
        starts = [library.TopicPartition(topic, number, low) for (topic, number), (low, _) in bounds.items()]
        session.recorder.assign(FINAL, starts)
        consumer.assign(starts)
        _read_to_ends(session, consumer, {place: high for place, (_, high) in bounds.items()})
    finally:
        consumer.close()


def _wait_in_sync(session: Session) -> None:
    """Wait for leaders and, a while, for all replicas: then the high watermarks are at the ends."""
    end = time.monotonic() + IN_SYNC_SECONDS
    while time.monotonic() < end:
        if all(map(session.views.are_in_sync, session.topics)):
            return
        time.sleep(0.2)
    for topic in session.topics:
        for number in session.views.lacks_leader(topic):
            raise LogjudgeError(f"{topic}-{number} has no leader, so its final read is missing")


def _bounds(session: Session, consumer: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """The log start and the end of each partition, also as an event of the history."""
    library = confluent_kafka()
    found: dict[tuple[str, int], tuple[int, int]] = {}
    with session.recorder.end_offsets(ADMIN) as ends:
        for topic in session.topics:
            for number in sorted(metadata(session.admin, topic).partitions):
                found[topic, number] = _watermarks(consumer, library.TopicPartition(topic, number))
        ends.ok([(topic, number, high, low) for (topic, number), (low, high) in found.items()])
    return found


def _watermarks(consumer: Any, partition: Any) -> tuple[int, int]:
    """The log start and the end of a partition, once a leader responds. Raises LogjudgeError."""
    end = time.monotonic() + IN_SYNC_SECONDS
    while True:
        try:
            low, high = consumer.get_watermark_offsets(partition, timeout=5)
        except confluent_kafka().KafkaException as error:
            refuse(FINAL, error.args[0])
            if time.monotonic() > end:
                reason = error.args[0].str()
                raise LogjudgeError(
                    f"{partition.topic}-{partition.partition}: its end is not known ({reason}), nor its final read"
                ) from error
            time.sleep(0.2)
        else:
            return int(low), int(high)


def _read_to_ends(session: Session, consumer: Any, ends: dict[tuple[str, int], int]) -> None:
    at_end = confluent_kafka().KafkaError._PARTITION_EOF
    left = {place for place, high in ends.items() if high > 0}
    end = time.monotonic() + READ_SECONDS
    while True:
        if time.monotonic() > end:
            places = ", ".join(f"{topic}-{number}" for topic, number in sorted(left))
            raise LogjudgeError(f"the final reads of {places} did not reach the end within {READ_SECONDS:.0f} s")
        with session.recorder.poll(FINAL) as poll:
            messages = consumer.consume(1000, timeout=0.5)
            poll.ok(messages)
        for message in messages:
            place, error = (message.topic(), message.partition()), message.error()
            refuse(FINAL, error)
            reached = message.offset() + (error is None)
            if (error is None or error.code() == at_end) and reached >= ends.get(place, 0):
                left.discard(place)
        if not left:
            return


def abort_transactions(session: Session) -> None:
    """Initialise each transactional.id of the run again. Its outcome is `info` if that fails."""
    if not session.transactional:
        return
    end = time.monotonic() + INIT_SECONDS
    with session.recorder.fault(KIND, nodes=[], transactional_ids=sorted(session.transactional)) as step:
        for _, config in sorted(session.transactional.items()):
            error = _initialise(session, config, end)
            if error is not None:
                step.info(error)
                return
        step.ok()


def _initialise(session: Session, config: Mapping[str, Any], end: float) -> Exception | None:
    """Initialise one transactional.id, again and again until a time; returns the last error if that fails."""
    while True:
        try:
            make_client("Producer", session.settings, config).init_transactions(CALL_SECONDS)
        except confluent_kafka().KafkaException as error:
            if time.monotonic() > end or not error.args[0].retriable():
                failure: Exception = error
                return failure
            time.sleep(0.5)
        else:
            return None
