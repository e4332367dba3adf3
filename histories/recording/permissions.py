"""Refused permissions: they end a recording with what the user lacks, as every later request would be refused too."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError

_NEEDED = {
    "TOPIC_AUTHORIZATION_FAILED": "CREATE, DESCRIBE, READ and WRITE on the topic (and DELETE for delete-records)",
    "GROUP_AUTHORIZATION_FAILED": "READ on the groups whose names begin with `logjudge-` or with the topic's name",
    "CLUSTER_AUTHORIZATION_FAILED": "CREATE on the cluster or on the topic, and IDEMPOTENT_WRITE before Kafka 2.8",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "WRITE on the transactional ids that begin with the topic's name",
}


def refuse(client: str, error: Any) -> None:
    """Raises UsageError, with what the user needs, if a librdkafka error (or None) is a refused permission."""
    if error is not None and (name := error.name()) in _NEEDED:
        raise UsageError(f"{client}: the cluster refused a request ({name}); the user needs {_NEEDED[name]}")
