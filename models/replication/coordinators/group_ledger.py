"""Records the owners, generations and commits of the group for invariants. No part of the protocol reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ..config import NEVER
from ..event_loop import EventLoop
from .group_requests import GroupRecord


@dataclass(slots=True)
class Ownership:
    """The time in which a member owns a partition: from its assignment until it gives the partition up or dies."""

    partition: int
    generation: int
    member: str
    since: int
    until: int = NEVER


class Generation(NamedTuple):
    """A generation; generations begin at 1 again after the group was removed."""

    deaths: int  # how often the group was removed before
    number: int


class AcceptedCommit(NamedTuple):
    """A stored commit of one partition's offset."""

    record: GroupRecord
    time: int
    deaths: int  # how often the group was removed before


class AcknowledgedCommit(NamedTuple):
    """A commit that was acknowledged to its member."""

    generation: int
    member: str
    offsets: dict[int, int]  # by partition
    time: int


class MemberEpoch(NamedTuple):
    """A member's epoch from a time on, or the epoch in which it was fenced then."""

    time: int
    epoch: int  # 0: the coordinator removed the member


@dataclass(slots=True)
class GroupLedger:
    """The events of the group; models/exploration/group_invariants.py checks them."""

    loop: EventLoop
    ownerships: list[Ownership] = field(default_factory=list)
    deaths: int = 0  # how often the group was removed
    generations: dict[Generation, int] = field(default_factory=dict)  # -> when its assignment was first stored
    accepted: list[AcceptedCommit] = field(default_factory=list)
    acknowledged: list[AcknowledgedCommit] = field(default_factory=list)
    handled: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # partition -> ranges, in order of time
    member_epochs: dict[str, list[MemberEpoch]] = field(default_factory=dict)  # of members in KIP-848's protocol
    # Members that the coordinator fenced without removing them: it accepted a request after a later one of the member,
    # or a downgrade raised the epoch of a member that was behind.
    fenced: dict[str, list[MemberEpoch]] = field(default_factory=dict)
    _last_sent: dict[str, int] = field(default_factory=dict)  # when a member sent the last accepted heartbeat
    _leader_epoch: int = -1  # of the coordinator that stored them last
    _open: dict[tuple[str, int], Ownership] = field(default_factory=dict)

    def on_generation(self, generation: int) -> None:
        """The assignment of a generation is stored."""
        self.generations.setdefault(Generation(self.deaths, generation), self.loop.now)

    def on_members(self, epochs: Mapping[str, int], leader_epoch: int, is_downgraded: bool) -> None:
        """Members and their epochs are stored, in KIP-848's protocol; a coordinator that was replaced is ignored.

        `is_downgraded`: the group has just become classic, so all its members are in its generation.
        """
        if leader_epoch < self._leader_epoch:
            return
        self._leader_epoch = leader_epoch
        for name in sorted({*self.member_epochs, *epochs}):
            seen, epoch = self.member_epochs.setdefault(name, []), epochs.get(name, 0)
            before = seen[-1].epoch if seen else 0
            if before != epoch:
                seen.append(MemberEpoch(self.loop.now, epoch))
            if is_downgraded and 0 < before < epoch:
                self.fenced.setdefault(name, []).append(MemberEpoch(self.loop.now, before))

    def on_heartbeat(self, member: str, sent: int, epoch: int) -> None:
        """The coordinator accepts a heartbeat, or a request to join, of a member that it has in this epoch."""
        if sent < self._last_sent.get(member, 0):
            self.fenced.setdefault(member, []).append(MemberEpoch(self.loop.now, epoch))
        self._last_sent[member] = max(sent, self._last_sent.get(member, 0))

    def on_commit(self, record: GroupRecord) -> None:
        """A coordinator accepted a commit, and it is replicated."""
        self.accepted.append(AcceptedCommit(record, self.loop.now, self.deaths))

    def on_acknowledged(self, generation: int, member: str, offsets: Mapping[int, int]) -> None:
        """A member got the acknowledgement of its commit."""
        self.acknowledged.append(AcknowledgedCommit(generation, member, dict(offsets), self.loop.now))

    def on_owned(self, member: str, generation: int, partitions: tuple[int, ...]) -> None:
        """From now on a member owns exactly these partitions, in this generation."""
        for (name, partition), owned in list(self._open.items()):
            if name == member and (partition not in partitions or owned.generation != generation):
                owned.until = self.loop.now
                del self._open[name, partition]
        for partition in partitions:
            if (member, partition) not in self._open:
                owned = self._open[member, partition] = Ownership(partition, generation, member, self.loop.now)
                self.ownerships.append(owned)

    def has_owner(self, partition: int) -> bool:
        """Whether any member owns the partition."""
        return any(number == partition for _, number in self._open)
