"""`logjudge.aiokafka`: aiokafka's producer and consumer that record what they do (docs/python.md)."""

from .histories.recording.aiokafka_clients import AIOKafkaConsumer, AIOKafkaProducer

__all__ = ["AIOKafkaConsumer", "AIOKafkaProducer"]
