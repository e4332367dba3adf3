"""A member's requests to its group's coordinator, and the records of the group's log."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..requests import Request

NOT_COORDINATOR = "NOT_COORDINATOR"
LOADING = "COORDINATOR_LOAD_IN_PROGRESS"
NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
UNKNOWN_MEMBER = "UNKNOWN_MEMBER_ID"
ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
FENCED_INSTANCE = "FENCED_INSTANCE_ID"
REBALANCING = "REBALANCE_IN_PROGRESS"
UNSTABLE = "UNSTABLE_OFFSET_COMMIT"
RETRIABLE = (NOT_COORDINATOR, LOADING, NOT_AVAILABLE, UNSTABLE)

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, FETCH = "join", "sync", "heartbeat", "leave", "commit", "fetch"
TXN_COMMIT = "txn-commit"


@dataclass(slots=True, eq=False)
class GroupRequest(Request):
    """JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit, OffsetFetch or TxnOffsetCommit, by `kind`."""

    kind: str
    client: str
    member: str
    generation: int
    instance: str = ""  # group.instance.id
    owned: tuple[int, ...] = ()  # JoinGroup: what the member owns
    offsets: dict[int, int] = field(default_factory=dict)  # of a commit; the response of OffsetFetch
    stable: tuple[int, ...] = ()  # OffsetFetch (require_stable): partitions without offsets in open transactions
    producer: tuple[int, int] = (-1, -1)  # TxnOffsetCommit: producer id and epoch
    assignments: dict[str, tuple[int, ...]] = field(default_factory=dict)  # SyncGroup of the group's leader
    error: str = field(default="", init=False)
    # The response of JoinGroup to the group's leader: what each member owns. Of SyncGroup: what this member gets.
    members: dict[str, tuple[int, ...]] = field(default_factory=dict, init=False)
    assignment: tuple[int, ...] = field(default=(), init=False)


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One record of the group's log: a generation with its assignment, or the committed offset of a partition.

    A tombstone removes the offset, or without an offset the group.
    """

    generation: int
    member: str = ""  # the leader of the generation, or the member that committed
    assignment: tuple[tuple[str, str, tuple[int, ...]], ...] | None = None  # member, its client, partitions
    offset: tuple[int, int] | None = None  # partition, committed offset
    time: int = 0
    is_tombstone: bool = False
