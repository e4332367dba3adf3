"""`logjudge.confluent`: confluent-kafka's Producer and Consumer that record what they do (docs/python.md)."""

from .histories.recording.confluent_clients import Consumer, Producer

__all__ = ["Consumer", "Producer"]
