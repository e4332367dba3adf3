"""The base of the members of a group, by protocol, and what they need of the group's coordinator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ..brokers.part import Parts
from ..brokers.produce import ProduceHandler
from .group_ledger import GroupLedger
from .group_requests import GroupRecord, GroupRequest
from .log_coordinator import Done, LogCoordinator


class Group(LogCoordinator[GroupRecord]):
    """The coordinator of a group, as its members see it. `count_partitions`: the topic's, as the broker knows them."""

    generation: int  # or the group's epoch
    empty_since: int

    def __init__(
        self,
        parts: Parts,
        produces: ProduceHandler,
        records: list[GroupRecord],
        ledger: GroupLedger,
        count_partitions: Callable[[], int],
        make_members: Callable[[Group], GroupMembers],
    ) -> None:
        self.process, self.config = parts.process, parts.config
        self.ledger, self.count_partitions, self._make_members = ledger, count_partitions, make_members
        super().__init__(parts, produces, self.config.group_log, records)

    @property
    def log_end(self) -> int:
        """The end of the group's partition."""
        return self._manager.replicas[self.partition].log.end

    @property
    def replicated_end(self) -> int:
        """Its high watermark; -1: the broker does not lead it."""
        replica = self._manager.leader(self.partition)
        return -1 if replica is None else replica.hw

    def write(self, records: Sequence[GroupRecord], done: Done) -> bool:
        """Append records to the group's log, then call `done` with the error and the base offset.

        Returns whether the records were appended.
        """
        end = self.log_end
        self._write(records, done)
        return self.log_end > end

    @abstractmethod
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
    def begin_sessions(self) -> int:
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
    def delete_group(self) -> list[GroupRecord]:
        """Remove the group. Returns the records of that."""

    @abstractmethod
    def delayed(self) -> list[GroupRequest]:
        """The requests that wait."""

    def refuse_fetch(self, request: GroupRequest) -> str:  # noqa: ARG002
        """The error for a member that may not read the committed offsets. The classic protocol refuses no member."""
        return ""
