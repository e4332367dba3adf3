"""The base of the members of a group, by protocol, and what they need of the group's coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from ..brokers.process import Process
from ..config import Config
from .group_ledger import GroupLedger
from .group_requests import GroupRecord, GroupRequest


class Group(Protocol):
    """The coordinator of a group, as its members see it."""

    process: Process  # of the broker
    config: Config
    generation: int  # or the group's epoch
    empty_since: int
    ledger: GroupLedger

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of the group's partition in which this broker coordinates."""

    @property
    def log_end(self) -> int:
        """The end of the group's partition."""

    @property
    def replicated_end(self) -> int:
        """Its high watermark; -1: the broker does not lead it."""

    def count_partitions(self) -> int:
        """The topic's partitions, as the broker knows them."""

    def respond(self, request: GroupRequest, error: str = "") -> None:
        """Respond to a request."""

    def write(self, records: Sequence[GroupRecord], done: Callable[[str, int], None]) -> None:
        """Append records to the group's log, then call `done` with the error and the base offset."""

    def commit(self, request: GroupRequest) -> None:
        """OffsetCommit or TxnOffsetCommit of a member that may commit."""


class GroupMembers(ABC):
    """The members of a group that this broker coordinates."""

    def __init__(self, group: Group) -> None:
        self._group, self._process, self._config = group, group.process, group.config

    @abstractmethod
    def replay(self, record: GroupRecord) -> None:
        """Load a record that has no offset."""

    @abstractmethod
    def begin_sessions(self, now: int) -> int:
        """Begin the sessions of the replayed members. Returns the number of members."""

    @abstractmethod
    def handle(self, request: GroupRequest) -> None:
        """Respond to a request that depends on the member, now or later."""

    @abstractmethod
    def tick(self, now: int) -> None:
        """End expired sessions and rebalances."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the group exists without members."""

    @abstractmethod
    def delete_group(self, now: int) -> list[GroupRecord]:
        """Remove the group. Returns the records of that."""

    @abstractmethod
    def parked(self) -> list[GroupRequest]:
        """The requests that wait."""

    def refuse_fetch(self, request: GroupRequest) -> str:  # noqa: ARG002
        """Why a member may not read the committed offsets. The classic protocol refuses nobody."""
        return ""
