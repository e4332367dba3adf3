"""Finds the logs that `collect` copies: those that `check` would read, for the same brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..evidence.layout import BROKER_LOG, RENAMED_LOG, UNKNOWN_BROKER, is_stored_evidence, logs_among

META = "meta.properties"
_NO_WRITER = "no line has the id of the broker that wrote it"


class BrokerLog(NamedTuple):
    """A log with the brokers that wrote it."""

    path: Path
    brokers: list[str]  # empty: `collect` leaves the log out
    reason: str = ""  # why it is left out


def by_number(broker: str) -> tuple[int, str]:
    """A key that sorts the ids of brokers as numbers."""
    return len(broker), broker


def is_log(name: str) -> bool:
    """Whether a file may be a broker's log by its name."""
    return bool(RENAMED_LOG.fullmatch(name)) and not is_stored_evidence(name)


def find_logs(root: Path, files: Iterable[Path]) -> Iterator[BrokerLog]:
    """The logs among files below root, each with its brokers.

    The brokers are those that the log's lines name, or else the broker of the folder around it.
    """
    logs = sorted(file for file in files if is_log(file.name) or file.name == META)
    found = logs_among(root, logs)
    for path in logs:
        brokers = sorted({part.broker for part in found.get(path, ()) if part.kind != "left-out"}, key=by_number)
        if brokers:
            yield BrokerLog(path, [broker for broker in brokers if broker != UNKNOWN_BROKER] or [UNKNOWN_BROKER])
        elif path.name != META:
            is_broker_log = BROKER_LOG.fullmatch(path.name) or path in found
            yield BrokerLog(path, [UNKNOWN_BROKER] if is_broker_log else [], "" if is_broker_log else _NO_WRITER)
