"""What several workloads plan alike."""

from __future__ import annotations

from ..session import Load, Session
from ..topics import Topic


def main_topic(session: Session, **config: str) -> Topic:
    """The topic that the options name; a workload's own settings give way to the user's."""
    load = session.load
    return Topic(load.topic, load.partitions, load.replication_factor, {**config, **load.topic_config}, load.assignment)


def per_producer(load: Load) -> float:
    """Sends a second of one producer."""
    return max(0.1, load.rate / max(1, load.producers))
