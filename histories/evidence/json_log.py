"""Lines of brokers' logs in JSON, an object a line, in Kafka's own layout.

docker's json-file driver wraps each line: `{"log": "[…] INFO …\\n", "stream": "stdout", "time": "…"}`. JSON layouts of
log4j have fields for time, level, logger and message. Their names are those of JsonLayout, of JsonTemplateLayout with
the templates EcsLayout and LogstashJsonEventLayoutV1, and of KIP-1338.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

_TIMES = ("@timestamp", "timestamp", "timeMillis", "instant")
_LEVELS = ("level", "log.level")
_LOGGERS = ("logger_name", "log.logger", "loggerName", "logger")
_EPOCH = datetime(1970, 1, 1)


def from_json(line: str) -> str:
    """A line in JSON as `[time] LEVEL message (logger)`, with its time in UTC; any other line unchanged."""
    with suppress(ValueError, RecursionError, OverflowError):
        fields = json.loads(line)
        if isinstance(fields, dict):
            if isinstance(fields.get("log"), str):
                return str(fields["log"].rstrip("\n"))
            time = _time_of(_first_field(fields, _TIMES))
            if time is not None and isinstance(fields.get("message"), str):
                level, logger = _first_field(fields, _LEVELS), _first_field(fields, _LOGGERS)
                return (
                    f"[{time:%Y-%m-%d %H:%M:%S},{time.microsecond // 1000:03}] {level} {fields['message']} ({logger})"
                )
    return line


def _first_field(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _time_of(value: Any) -> datetime | None:
    """A time in UTC: ISO 8601, milliseconds since the epoch, or seconds and nanoseconds. None if it is no time.

    Raises ValueError or OverflowError.
    """
    if isinstance(value, str):
        time = datetime.fromisoformat(value)
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    if isinstance(value, int):
        return _EPOCH + timedelta(milliseconds=value)
    if isinstance(value, dict):
        seconds, nanoseconds = value.get("epochSecond"), value.get("nanoOfSecond", 0)
        if isinstance(seconds, int) and isinstance(nanoseconds, int):
            return _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    return None
