"""The broker that wrote a log, from its configuration or the ids in front of lines, at the head of the log.

The log's folder does not decide: logs of several hosts may be in one folder, beside the log.dirs of one of them.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..files import head_of

CONFIGURED = re.compile(rb"^\t(?:node|broker)\.id = (\d+)\s*$", re.MULTILINE)
_LEVEL = rb"^\[[-\d]{10} [\d:,.]{12}\] [A-Z]+ "
_NAMED = re.compile(
    _LEVEL
    # [KafkaServer id=1], [Partition orders-0 broker=1], [SocketServer listenerType=BROKER, nodeId=1], since 1.0
    + rb"(?:\[[A-Za-z][\w .\-]*(?: listenerType=\w+,)? (?:id|nodeId|brokerId|broker|controllerId|replicaId)=(\d+)\b"
    # [Kafka Server 1], [Controller 3], [ReplicaFetcherManager on broker 1], before
    + rb"|\[(?:Kafka Server|Controller|GroupCoordinator|[\w ]+ on (?:[Bb]roker|[Cc]ontroller)) (\d+)\]"
    + rb"|Partition \[[\w.\-]+,\d+\] on broker (\d+):"
    # state-change.log
    + rb"|(?:Broker|Controller) (\d+) (?:epoch|received|handling|cached|stopped|completed) )",
    re.MULTILINE,
)


def writer_of(path: Path) -> str | None:
    """The id of the broker or controller that wrote a log; None without one, or with two."""
    try:
        head = head_of(path)
    except (OSError, ValueError):
        return None
    found = set(CONFIGURED.findall(head)) or {b"".join(groups) for groups in _NAMED.findall(head)}
    return found.pop().decode() if len(found) == 1 else None
