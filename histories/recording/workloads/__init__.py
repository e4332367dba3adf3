"""The workloads of clients during a recording: a module each, and one dict.

A workload has `clients(session)`, and `topics(session)` if these are not only the topic that the options name.
"""

from __future__ import annotations

from types import ModuleType

from ..session import Session
from ..topics import Topic
from . import append_and_read, consumer_group, delete_records, end_offsets, keyed_compacted, transactions

WORKLOADS: dict[str, ModuleType] = {
    "append-and-read": append_and_read,
    "consumer-group": consumer_group,
    "transactions": transactions,
    "end-offsets": end_offsets,
    "keyed-compacted": keyed_compacted,
    "delete-records": delete_records,
}


def topics_of(workload: ModuleType, session: Session) -> list[Topic]:
    """The topics to be made for a workload."""
    found: list[Topic] = workload.topics(session) if hasattr(workload, "topics") else [session.load.main_topic()]
    return found
