"""The broker that wrote a log, from its configuration or the ids in front of lines, at the head of the log.

The log's folder does not decide: logs of several hosts may be in one folder, beside the log.dirs of one of them, and
one file may hold the lines of several brokers.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from .log_prefixes import heads_of
from .parts import Part

_CONFIGURED = re.compile(r"^\t(?:node|broker)\.id = (\d+)\s*$", re.MULTILINE)
_LEVEL = r"^\[[-\d]{10} [\d:,.]{12}\] [A-Z]+ "
_NAMED = re.compile(
    _LEVEL
    # [KafkaServer id=1], [Partition orders-0 broker=1], [SocketServer listenerType=BROKER, nodeId=1], since 1.0
    + r"(?:\[[A-Za-z][\w .\-]*(?: listenerType=\w+,)? (?:id|nodeId|brokerId|broker|controllerId|replicaId)=(\d+)\b"
    # [Kafka Server 1], [Controller 3], [ReplicaFetcherManager on broker 1], before
    + r"|\[(?:Kafka Server|Controller|GroupCoordinator|[\w ]+ on (?:[Bb]roker|[Cc]ontroller)) (\d+)\]"
    + r"|Partition \[[\w.\-]+,\d+\] on broker (\d+):"
    # state-change.log
    + r"|(?:Broker|Controller) (\d+) (?:epoch|received|handling|cached|stopped|completed) )",
    re.MULTILINE,
)

_OF_KAFKA = re.compile(r"\(kafka\.|\(org\.apache\.kafka\.")


def writer_of(path: Path) -> str | None:
    """The id of the broker or controller that wrote a log; None without one, or with two."""
    ids = {writer_in(head) for head in _heads(path).values()}
    return ids.pop() if len(ids) == 1 else None


def logs_in(part: Part) -> list[Part]:
    """A log as a part for each source of its lines. Of several sources each has the broker of its own lines.

    Lines of a source that no broker's id names are left out.
    """
    heads = _heads(part.path)
    if len(heads) < 2:
        return [replace(part, source=source) for source in heads] or [part]
    found = []
    for source, head in sorted(heads.items()):
        broker = writer_in(head)
        if broker is not None:
            found.append(replace(part, broker=broker, source=source))
        elif _OF_KAFKA.search(head):
            reason = f"no line of {source or 'those without a name'} has the id of the broker that wrote it"
            found.append(replace(part, kind="left-out", source=source, reason=reason))
    return found


def writer_in(head: str) -> str | None:
    """The id of the broker or controller that wrote these lines; None without one, or with two."""
    found = set(_CONFIGURED.findall(head)) or {"".join(groups) for groups in _NAMED.findall(head)}
    return found.pop() if len(found) == 1 else None


def _heads(path: Path) -> dict[str | None, str]:
    try:
        return heads_of(path)
    except (OSError, ValueError):
        return {}
