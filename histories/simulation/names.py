"""The names and ids of a simulated cluster: functions of the seed, never of a clock or the machine."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from hashlib import sha256

STARTED_AT = datetime(2026, 1, 1)  # when every simulated run begins


def uuid(seed: int, name: str) -> str:
    """A Kafka Uuid (22 characters of URL-safe base64) for this seed and name."""
    return base64.urlsafe_b64encode(sha256(f"{seed}/{name}".encode()).digest()[:16]).decode().rstrip("=")


def kraft_properties(seed: int, node: int) -> str:
    """meta.properties of a node's disk in KRaft."""
    ids = f"cluster.id={uuid(seed, 'cluster')}\nnode.id={node}\ndirectory.id={uuid(seed, f'directory {node}')}"
    return f"version=1\n{ids}\n"


def value(producer: int, partition: int, number: int) -> str:
    """A record's value: unique in its topic."""
    return f"p{producer}-{partition}-{number}"


def source_key(topic: str, partition: int, offset: int) -> str:
    """The key of a copy: where its source is."""
    return f"{topic}-{partition}@{offset}"


def stamp(time: int) -> str:
    """A log4j date for simulated microseconds, UTC."""
    return (STARTED_AT + timedelta(microseconds=time)).strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]


def epoch_ms(time: int) -> int:
    """Milliseconds since 1970 for simulated microseconds, as record timestamps count."""
    return int((STARTED_AT - datetime(1970, 1, 1)).total_seconds()) * 1000 + time // 1000
