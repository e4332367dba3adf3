"""Stand-ins for confluent_kafka's classes, as a recorder uses them."""

from __future__ import annotations

from typing import NamedTuple


class Metadata(NamedTuple):
    topic: str
    partition: int
    offset: int


class KafkaError:
    """The interface of confluent_kafka.KafkaError."""

    def __init__(self, code: int, name: str, text: str) -> None:
        self._code, self._name, self._text = code, name, text

    def code(self) -> int:
        return self._code

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return self._text


class KafkaException(Exception):  # noqa: N818
    """An error as confluent_kafka raises it."""


class Message:
    """The interface of confluent_kafka.Message."""

    def __init__(self, partition: int, offset: int, value: bytes, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._value, self._error = partition, offset, value, error

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value

    def key(self) -> None:
        return None

    def error(self) -> KafkaError | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return 1, 1700000000000
