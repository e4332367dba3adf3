"""confluent-kafka's clients for a recording: their configuration, and the part of it that run.json records."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import InputError, LogjudgeError, MissingComponentError, UsageError
from ..files import reason_of

CONNECT_SECONDS = 15.0
Callback = Callable[..., Any]
_SECRET = re.compile(r"password|secret|\.pem$|token|credential|username|jaas|api\.key", re.IGNORECASE)

PRODUCER: Mapping[str, Any] = {
    "acks": "all",
    "linger.ms": 5,
    "delivery.timeout.ms": 30_000,
    "reconnect.backoff.max.ms": 500,
    "socket.timeout.ms": 10_000,
}
CONSUMER: Mapping[str, Any] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_uncommitted",
    "fetch.wait.max.ms": 100,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5000,
}


def confluent_kafka() -> Any:
    """The library. Raises MissingComponentError if it is not installed."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise MissingComponentError(
            "found no confluent-kafka, expected it for recording; install it (`pip install 'logjudge[record]'`)"
        ) from error
    return confluent_kafka


@dataclass
class ClientSettings:
    """The connection of clients, and the settings of producers and consumers beyond the defaults."""

    bootstrap: str
    common: dict[str, Any] = field(default_factory=dict)
    producer: dict[str, Any] = field(default_factory=dict)
    consumer: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection = {"bootstrap.servers": self.bootstrap, **self.common}

    def for_producer(self, **own: Any) -> dict[str, Any]:
        """A producer's configuration without the connection. Idempotent unless acks or the settings forbid it."""
        chosen = {**PRODUCER, **own, **self.producer}
        is_all = str(chosen.get("acks", chosen.get("request.required.acks", "all"))) in ("all", "-1")
        return {"enable.idempotence": is_all, **chosen}

    def for_consumer(self, group: str, **own: Any) -> dict[str, Any]:
        """A consumer's configuration without the connection."""
        return {**CONSUMER, "group.id": group, **own, **self.consumer}


def recorded_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A client's configuration for run.json, with the name of its library."""
    return {"client": f"confluent-kafka {confluent_kafka().__version__}", **without_secrets(config)}


def without_secrets(config: Mapping[str, Any]) -> dict[str, Any]:
    """A client's configuration without secrets, callbacks and the like."""
    plain = {name: value for name, value in config.items() if isinstance(value, str | int | bool)}
    return {
        name: value if name == "acks" else typed_value(value)
        for name, value in plain.items()
        if not _SECRET.search(name)
    }


@dataclass
class CommittedGroups:
    """The groups whose offsets a producer's transactions commit; None: a group that is not known."""

    _groups: set[str | None] = field(default_factory=set)

    def setting_with(self, group: str | None) -> dict[str, str | None]:
        """Add a group, and return the producer's setting in run.json: not set unless it is the only group."""
        self._groups.add(group)
        return {"group.id": group if len(self._groups) == 1 else None}


def typed_value(value: str | int | bool) -> str | int | bool:
    """A setting's value as run.json has it: numbers and booleans as such."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value) else value


def read_properties(file: Path) -> dict[str, str]:
    """A file of NAME=VALUE lines, as Kafka's own tools read. Raises InputError."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(str(file), reason_of(error), "a file of NAME=VALUE lines") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith(("#", "!")):
            name, equals, value = text.partition("=")
            if not equals:
                raise InputError(str(file), f"{text!r:.60}", "NAME=VALUE", line=number)
            found[name.strip()] = value.strip()
    return found


# By the reason that librdkafka names; its addresses begin with sasl_ssl:// and the like. The first that fits counts.
_ADVICE = (
    ("authentication", "check sasl.mechanism, sasl.username and sasl.password in --client-config"),
    ("certificate|handshake|ssl routines", "check security.protocol and ssl.ca.location in --client-config"),
    ("disconnected", "check the address, and whether the listener wants TLS (security.protocol in --client-config)"),
    ("", "check the address, and that it can be reached from here"),
)


class ConnectionErrors(logging.Handler):
    """Collects the connection errors that librdkafka reports and logs: the reason of a timeout."""

    def __init__(self) -> None:
        super().__init__()
        self._last = ""

    def __call__(self, error: Any) -> None:
        """Keep the reason of an error. This is the `error_cb` of a client."""
        if error.name() != "_ALL_BROKERS_DOWN":  # it follows the error with the reason
            self._last = str(error.str())

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the reason in a line `FAIL [thread] reason`, as librdkafka only logs some reasons."""
        found = re.search(r"FAIL \[.*?\] (?:\[thrd:.*?\]: )?(.*)", record.getMessage())
        if found:
            self._last = found[1]

    def sentence(self, bootstrap: str, error: Exception) -> str:
        """A sentence with the reason why a cluster could not be reached, and what to do."""
        reason = self._last or _text(error)
        advice = next(advice for pattern, advice in _ADVICE if re.search(pattern, reason, re.IGNORECASE))
        return f"{bootstrap}: found no usable broker within {CONNECT_SECONDS:.0f} s ({reason[:300]}); {advice}"


def admin_client(settings: ClientSettings) -> Any:
    """An AdminClient that has reached the cluster. Raises LogjudgeError."""
    errors = ConnectionErrors()
    admin = make_client(
        "AdminClient", settings, {"error_cb": errors, "log_level": 6, "logger": _logger("connecting", errors)}
    )
    try:
        admin.list_topics(timeout=CONNECT_SECONDS)
    except confluent_kafka().KafkaException as error:
        while admin.poll(0.1):  # which calls error_cb
            pass
        raise LogjudgeError(errors.sentence(settings.bootstrap, error)) from error
    return admin


def make_client(kind: str, settings: ClientSettings, config: Mapping[str, Any]) -> Any:
    """A Producer, Consumer or AdminClient. Raises UsageError if librdkafka refuses the configuration."""
    library = confluent_kafka()
    if kind == "AdminClient":
        library = import_module("confluent_kafka.admin")
    quiet = {"log_level": 0, "logger": _logger("quiet", logging.NullHandler())}
    try:
        return getattr(library, kind)({**quiet, **settings.connection, **config})
    except (confluent_kafka().KafkaException, ValueError, TypeError) as error:
        raise UsageError(
            f"the client refused its configuration ({_text(error)}); see --producer, --consumer and --client-config"
        ) from error


def call_both(complete: Callback, report: Callback | None) -> Callback:
    """A delivery report for the recorder, and then for the application."""
    if report is None:
        return complete

    def delivered(error: Any, message: Any) -> None:
        complete(error, message)
        report(error, message)

    return delivered


def _logger(name: str, handler: logging.Handler) -> logging.Logger:
    logger = logging.getLogger(f"logjudge.recording.{name}")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    return logger


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)
