"""Deletes old records of a topic on request, and records it as the fault that legalises their absence."""

from __future__ import annotations

from .kafka_clients import confluent_kafka
from .permissions import refuse
from .session import Session

REQUEST_SECONDS = 30.0


def delete_records(session: Session, share: float) -> None:
    """Delete this share of the acknowledged offsets of each partition."""
    library, topic = confluent_kafka(), session.load.topic
    ends = {number: end for (name, number), end in session.progress.ends.items() if name == topic}
    offsets = {number: int(end * share) for number, end in sorted(ends.items())}
    written = {str(number): offset for number, offset in offsets.items()}
    with session.recorder.fault("delete-records", nodes=[], topic=topic, offsets=written) as fault:
        wanted = [library.TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        try:
            for future in session.admin.delete_records(wanted).values():
                future.result(REQUEST_SECONDS)
        except TimeoutError as error:
            fault.info(error)
        except library.KafkaException as error:
            fault.info(error)
            refuse("delete-records", error.args[0])
        else:
            fault.ok()
