"""A member's requests to its group's coordinator, and the records of the group's log."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from .. import errors
from ..requests import NO_PRODUCER, ProducerIdAndEpoch, Request
from .assignors import Claim
from .reconciliation import CurrentAssignment

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = "join", "sync", "heartbeat", "leave", "commit", "fetch"
TXN_COMMIT = "txn-commit"


def error_for_client(error: str) -> str:
    """The response to a client if the coordinator's write to its log had this error; empty: it had none."""
    if not error:
        return ""
    return errors.NOT_COORDINATOR if error == errors.NOT_LEADER_OR_FOLLOWER else errors.COORDINATOR_NOT_AVAILABLE


@dataclass(slots=True, eq=False)
class GroupRequest(Request):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch or TxnOffsetCommit, by `kind`.

    In KIP-848's protocol ConsumerGroupHeartbeat is all of the first four: a heartbeat, with epoch 0 a join, with -1
    a departure (`LEAVE`), which for a static member has -2: it will come back.
    """

    kind: str
    client: str
    member: str
    generation: int  # or member epoch
    instance: str = ""  # group.instance.id
    owned: tuple[int, ...] | None = ()  # JoinGroup, ConsumerGroupHeartbeat: what the member owns; None: not sent
    owned_since: int = -1  # JoinGroup: the last generation of which the member got its assignment (KIP-792)
    offsets: dict[int, int] = field(default_factory=dict)  # of a commit; the response of OffsetFetch
    epochs: dict[int, int] = field(default_factory=dict)  # their leader epochs, as far as known (KIP-320)
    stable: tuple[int, ...] = ()  # OffsetFetch (require_stable): partitions without offsets in open transactions
    producer: ProducerIdAndEpoch = NO_PRODUCER  # TxnOffsetCommit
    assignments: dict[str, tuple[int, ...]] = field(default_factory=dict)  # SyncGroup of the group's leader
    error: str = field(default="", init=False)
    # The response of JoinGroup to the group's leader: what each member owns. Of SyncGroup and
    # ConsumerGroupHeartbeat: what this member gets.
    members: dict[str, Claim] = field(default_factory=dict, init=False)
    assignment: tuple[int, ...] = field(default=(), init=False)


class AssignedMember(NamedTuple):
    """A member of a classic group with its partitions."""

    name: str
    client: str
    partitions: tuple[int, ...]


class CommittedOffset(NamedTuple):
    """The offset that a group committed in a partition."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One record of the group's log: a generation with its assignment, or the committed offset of a partition.

    A tombstone removes the offset, or without an offset the group.
    """

    generation: int
    member: str = ""  # the leader of the generation, or the member that committed
    assignment: tuple[AssignedMember, ...] | None = None
    committed: CommittedOffset | None = None
    time: int = 0
    is_tombstone: bool = False
    leader_epoch: int = -1  # of the last record before the committed offset; -1: not sent

    _KIND: ClassVar[str] = ""  # of the records of members

    @property
    def key(self) -> str:
        """The key of the record: its kind, and what it is about."""
        if self._KIND:
            return f"{self._KIND} {self.member}"
        return "group" if self.committed is None else f"offset of partition {self.committed.partition}"


# --- the records of KIP-848's protocol (ConsumerGroup*Key and Value); `generation` is an epoch, if the record has one


@dataclass(frozen=True, slots=True)
class MemberRecord(GroupRecord):
    """A member joined; a tombstone: it left."""

    _KIND = "member"
    client: str = ""
    instance: str = ""


@dataclass(frozen=True, slots=True)
class EpochRecord(GroupRecord):
    """The group's epoch, with the number of the topic's partitions, or the epoch of the target assignment."""

    partitions: int = 0  # since 4.1 Kafka stores a hash of the topics' metadata instead (KIP-1101)
    of_target: bool = False

    @property
    def key(self) -> str:
        return "epoch of the target assignment" if self.of_target else "epoch"


@dataclass(frozen=True, slots=True)
class TargetRecord(GroupRecord):
    """The partitions that a member is to have."""

    _KIND = "target assignment of"
    target: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class CurrentRecord(GroupRecord):
    """The partitions that a member has."""

    _KIND = "current assignment of"
    current: CurrentAssignment = field(default_factory=CurrentAssignment)
