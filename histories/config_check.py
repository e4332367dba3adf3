"""Checks the values of run.json that logjudge reads. Other fields may have any value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from .errors import InputError, shortened

MAX_INT32 = 2**31 - 1
HINT = "correct the value, or remove the field; docs/format.md describes run.json"


class Kind(NamedTuple):
    """The values that a field may have."""

    expected: str
    accepts: Callable[[Any], bool]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_integer_setting(value: Any) -> bool:
    """Whether the value is a whole number, or one as text, as Kafka's tools print it."""
    return _is_whole(value) or (isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,19}", value) is not None)


def count_of(value: Any) -> int | None:
    """The number of partitions or replicas that a setting has, also as text; None if it has none."""
    return int(value) if _is_integer_setting(value) and 0 < int(value) <= MAX_INT32 else None


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return bool(value == "")
    return True


def _one_of(*texts: str) -> Kind:
    return Kind(
        f"{', '.join(texts[:-1])} or {texts[-1]}", lambda value: _is_plain(value) and str(value).lower() in texts
    )


def _is_plain(value: Any) -> bool:
    return isinstance(value, str) or _is_whole(value)


def _is_policy(value: Any) -> bool:
    return isinstance(value, str) and {part.strip() for part in value.split(",")} <= {"", "compact", "delete"}


OBJECT = Kind("an object", lambda value: isinstance(value, dict))
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
SWITCH = Kind("true or false", lambda value: str(value).lower() in ("true", "false"))
TEXT = Kind("text", _is_plain)
COUNT = Kind(f"a whole number from 1 to {MAX_INT32}", lambda value: count_of(value) is not None)
INTEGER = Kind("a whole number", _is_integer_setting)
TIME = Kind("a time like 2026-11-20T10:00:00.000Z", _is_time)
NANOSECONDS = Kind("nanoseconds since the start of the run", _is_whole)
POLICY = Kind("delete, compact or both, separated by a comma", _is_policy)
ASSIGNMENT = Kind("a list of brokers for each partition", lambda value: isinstance(value, list))

RUN = {"name": TEXT, "started_at": TIME, "final": FLAG, "finished": FLAG, "system": OBJECT}
# The fields of each topic, process and snapshot.
ENTRIES = {
    "topics": {
        "partitions": COUNT,
        "replication.factor": COUNT,
        "min.insync.replicas": COUNT,
        "unclean.leader.election.enable": SWITCH,
        "cleanup.policy": POLICY,
        "retention.ms": INTEGER,
        "retention.bytes": INTEGER,
        "replica.assignment": ASSIGNMENT,
    },
    "processes": {
        "role": TEXT,
        "acks": _one_of("all", "-1", "0", "1"),
        "isolation.level": _one_of("read_committed", "read_uncommitted"),
        "group.id": TEXT,
        "enable.idempotence": SWITCH,
    },
    "snapshots": {"time": NANOSECONDS},
}


def check_config(config: Mapping[str, Any], source: str) -> None:
    """Raises InputError for the first field with a value that logjudge cannot use; null is a field that is not set."""
    for name, value, kind in _fields(config):
        if value is not None and not kind.accepts(value):
            shown = json.dumps(value, default=str, ensure_ascii=False)
            raise InputError(source, f"{name} = {shortened(shown)}", kind.expected, HINT)


def _fields(config: Mapping[str, Any]) -> Iterator[tuple[str, Any, Kind]]:
    """The name, value and kind of each field that is set; an object comes before its fields."""
    yield from ((name, config.get(name), kind) for name, kind in RUN.items())
    for group, kinds in ENTRIES.items():
        yield group, config.get(group), OBJECT
        for entry, about in (config.get(group) or {}).items():
            yield f"{group}.{entry}", about, OBJECT
            yield from ((f"{group}.{entry}.{name}", (about or {}).get(name), kind) for name, kind in kinds.items())
