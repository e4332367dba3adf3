"""Finds the logs that `collect` copies: those that `check` would read, for the same brokers and controllers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ..evidence.layout import UNKNOWN_BROKER, is_stored_evidence, logs_among
from ..evidence.log_names import BROKER_LOG, PACKED_LOG, RENAMED_LOG, may_be_log

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
    """Whether a file is probably a broker's log by its name."""
    is_named_so = RENAMED_LOG.fullmatch(name) or PACKED_LOG.fullmatch(name)
    return bool(is_named_so) and not is_stored_evidence(name)


def may_be_log_by_content(name: str) -> bool:
    """Whether a file is a broker's log if its first lines are: the others are none by their names."""
    return is_log(name) or (may_be_log(name) and not is_stored_evidence(name))


def find_logs(root: Path, files: Iterable[Path]) -> Iterator[BrokerLog]:
    """The logs among files below root, each with its brokers.

    The brokers are those that the log's lines name, or else the broker of the folder around it.
    """
    logs = sorted(file for file in files if may_be_log_by_content(file.name) or file.name == META)
    found = logs_among(root, logs)
    for path in logs:
        brokers = sorted({part.broker for part in found.get(path, ()) if part.kind != "left-out"}, key=by_number)
        if brokers:
            yield BrokerLog(path, [broker for broker in brokers if broker != UNKNOWN_BROKER] or [UNKNOWN_BROKER])
        elif path.name != META and is_log(path.name):
            is_broker_log = BROKER_LOG.fullmatch(path.name) or path in found
            yield BrokerLog(path, [UNKNOWN_BROKER] if is_broker_log else [], "" if is_broker_log else _NO_WRITER)
