"""A group that is converted between the classic protocol and KIP-848's, by group.consumer.migration.policy.

Upgrade (convertToConsumerGroup): the first member of KIP-848's protocol joins a classic group. The generation becomes
the epoch of the group and of its members. The last assignment becomes their target. Members that wait for a rebalance
to complete get REBALANCE_IN_PROGRESS, also if the new member is then refused.

Downgrade (convertToClassicGroup): the last member of KIP-848's protocol leaves, and classic members remain. The epoch
becomes the generation, and a rebalance begins. If instead a classic process takes the place of a static member, it gets
that member's partitions, and no rebalance begins.

Both need the permission of the policy. The members must be no more than group.consumer.max.size permits after an
upgrade, or group.max.size after a downgrade. Committed offsets do not change.

One batch removes the old group's records and has the new group's, so the next coordinator loads one of the two groups.
The rebalance of a downgrade is not in the log. If the coordinator fails before a member has joined again, the next
coordinator loads a stable group. The partitions of the member that left have no owner until a member joins or leaves.

In a cooperative rebalance, a member may still own partitions that the last assignment takes from it. An upgrade gives
these partitions to other members at once.

A group without members is replaced by a group of the other protocol, whatever the policy. Its generations begin at 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from .. import errors
from .classic_group import ClassicGroup
from .group_coordinator import GroupCoordinator
from .group_requests import COMMIT, HEARTBEAT, JOIN, TXN_COMMIT, GroupRecord, GroupRequest
from .log_coordinator import Done
from .mixed_group import Downgrade, MixedGroup

UPGRADES = ("upgrade", "bidirectional")


class ConvertibleGroup(GroupCoordinator):
    """Coordinates a group with members of either protocol. It begins as a ClassicGroup."""

    def _drop_state(self) -> None:
        super()._drop_state()
        self._former: list[MixedGroup] = []  # converted groups with responses that wait for replication
        self._downgraded = 0  # the generation with which the loaded group became classic, until that is reported

    def _new_mixed(self) -> MixedGroup:
        return MixedGroup(self, self._downgrade)

    def delayed(self) -> list[GroupRequest]:
        return [*super().delayed(), *(request for former in self._former for request in former.delayed())]

    # --- loading

    def _replay_membership(self, record: GroupRecord) -> None:
        """Load a record. A value switches the group to the protocol of the record.

        A tombstone is ignored if the group is of the other protocol.
        """
        is_classic = type(record) is GroupRecord
        if is_classic != isinstance(self.members, ClassicGroup):
            if record.is_tombstone:
                return
            self.members = ClassicGroup(self) if is_classic else self._new_mixed()
            self._downgraded = record.generation if is_classic else 0
        super()._replay_membership(record)

    def _on_loaded(self) -> None:
        super()._on_loaded()
        self._report_members()

    # --- requests

    def _handle_member(self, request: GroupRequest) -> None:
        if self._config.is_classic(request.client):
            self._handle_classic(request)
        elif isinstance(self.members, ClassicGroup) and request.kind not in (COMMIT, TXN_COMMIT):
            self._handle_of_consumer(request, self.members)
        else:
            self.members.handle(request)
        self._report_members()

    def _handle_classic(self, request: GroupRequest) -> None:
        is_joining, members = request.kind == JOIN and not request.member, self.members
        if is_joining and isinstance(members, MixedGroup) and members.is_empty():
            if self.generation:
                if not self.write(members.tombstones(), lambda *_: None):
                    self.respond(request, errors.COORDINATOR_NOT_AVAILABLE)
                    return
                self.ledger.deaths += 1
                self.generation = 0
                members.dissolve(None, {})
                self._former.append(members)
            self.members = ClassicGroup(self)
        self.members.handle(request)

    def _handle_of_consumer(self, request: GroupRequest, classic: ClassicGroup) -> None:
        """A request of KIP-848's protocol to a classic group."""
        fits = classic.size() <= self._config.consumer_group_size
        may_replace = classic.is_empty() or (self._config.migration_policy in UPGRADES and fits)
        if request.kind == HEARTBEAT and request.generation == 0 and may_replace:
            self._upgrade(request, classic)
        else:
            self.respond(request, errors.GROUP_ID_NOT_FOUND)

    def _upgrade(self, request: GroupRequest, classic: ClassicGroup) -> None:
        """Convert the group, or replace it if it is empty, and admit its first member of KIP-848's protocol."""
        generation, end, mixed = self.generation, self.log_end, self._new_mixed()
        is_new = classic.is_empty()
        if is_new:
            self.generation = 0
            mixed.begin_empty(classic.tombstones() if generation else [])
        else:
            mixed.adopt(classic.tombstones(), classic.assignments())
        self.members = mixed
        mixed.handle(request)
        if self.log_end == end:  # the member was refused, or nothing could be appended
            self.generation, self.members = generation, classic
            classic.interrupt()
            return
        classic.dissolve()
        if is_new:
            self.ledger.deaths += generation > 0
        else:
            self._process.report("group-converted", "KIP-848's", generation)

    def _downgrade(self, downgrade: Downgrade) -> bool:
        """Convert the group to a classic one. Returns whether the records were appended."""
        mixed, classic = self.members, ClassicGroup(self)
        assert isinstance(mixed, MixedGroup)
        if not self.write([*downgrade.removal, classic.adopt(downgrade.members)], lambda *_: None):
            if downgrade.request is not None:
                self.respond(downgrade.request, errors.COORDINATOR_NOT_AVAILABLE)
            return False
        mixed.dissolve(downgrade.request, {member.name: self.generation for member in downgrade.members})
        self._former.append(mixed)
        self.members = classic
        if downgrade.begins_rebalance:
            classic.prepare_rebalance()
        self._process.report("group-converted", "the classic", self.generation)
        return True

    def write(self, records: Sequence[GroupRecord], done: Done) -> bool:
        """Append records, then call `done`. Responses of a converted group that wait for the log are sent before."""

        def finished(error: str, base: int) -> None:
            self._report_members()
            done(error, base)

        return super().write(records, finished)

    # --- for invariants

    def _tick_active(self, now: int) -> None:
        super()._tick_active(now)
        self._report_members()

    def _report_members(self) -> None:
        """In a classic group the generation is the epoch of all members, once the conversion is replicated.

        Responses of the converted group are sent before.
        """
        for former in self._former:
            former.respond_replicated()
        self._former = [former for former in self._former if former.is_waiting()]
        if isinstance(self.members, ClassicGroup) and not self._former:
            is_downgraded, self._downgraded = self._downgraded == self.generation > 0, 0
            self.ledger.on_members(self.members.epochs(), self.leader_epoch, is_downgraded)
