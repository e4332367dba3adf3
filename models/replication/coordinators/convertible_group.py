"""A group that is converted between the protocols, as group.consumer.migration.policy permits (GroupMetadataManager).

A classic group becomes one of KIP-848's protocol when the first member of that protocol joins
(`convertToConsumerGroup`): its generation becomes the epoch of the group and of its members, and its last assignment
their target. When the last member of KIP-848's protocol leaves and classic ones remain, it becomes a classic group
again (`convertToClassicGroup`), which begins a rebalance. One batch removes the old group's records and has those of
the new one, so the next coordinator loads one of them. Committed offsets do not change.

A group without members is replaced by one of the other protocol, whatever the policy, and its generations begin anew.
"""

from __future__ import annotations

from collections.abc import Sequence

from .classic_group import ClassicGroup
from .group_coordinator import GroupCoordinator
from .group_requests import (
    COMMIT,
    GROUP_NOT_FOUND,
    HEARTBEAT,
    JOIN,
    NOT_AVAILABLE,
    TXN_COMMIT,
    GroupRecord,
    GroupRequest,
)
from .log_coordinator import Done
from .mixed_group import MixedGroup

UPGRADES = ("upgrade", "bidirectional")


class ConvertibleGroup(GroupCoordinator):
    """Coordinates a group with members of either protocol. It begins as a ClassicGroup."""

    def _drop_state(self) -> None:
        super()._drop_state()
        self._former: list[MixedGroup] = []  # converted groups with responses that wait for replication

    def _new_mixed(self) -> MixedGroup:
        return MixedGroup(self, self._downgrade)

    def parked(self) -> list[GroupRequest]:
        """The requests that wait for other members, or for replication."""
        return [*super().parked(), *(request for former in self._former for request in former.parked())]

    # --- loading

    def _replay_membership(self, record: GroupRecord) -> None:
        """A value makes the group one of its record's protocol; a tombstone only concerns a group of that protocol."""
        is_classic = type(record) is GroupRecord
        if is_classic != isinstance(self.members, ClassicGroup):
            if record.is_tombstone:
                return
            self.members = ClassicGroup(self) if is_classic else self._new_mixed()
        super()._replay_membership(record)

    def _loaded(self) -> None:
        super()._loaded()
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
        is_joining = request.kind == JOIN and not request.member
        if is_joining and isinstance(self.members, MixedGroup) and self.members.is_empty():
            end = self.log_end
            if self.generation:
                self.write(self.members.delete_group(self._process.loop.now), lambda *_: None)
                if self.log_end == end:
                    self.respond(request, NOT_AVAILABLE)
                    return
                self.ledger.deaths += 1
            self.members = ClassicGroup(self)
        self.members.handle(request)

    def _handle_of_consumer(self, request: GroupRequest, classic: ClassicGroup) -> None:
        """A request of KIP-848's protocol to a classic group."""
        may_replace = classic.is_empty() or self._config.migration_policy in UPGRADES
        if request.kind == HEARTBEAT and request.generation == 0 and may_replace:
            self._upgrade(request, classic)
        else:
            self.respond(request, GROUP_NOT_FOUND)

    def _upgrade(self, request: GroupRequest, classic: ClassicGroup) -> None:
        """Convert the group, or replace it if it is empty, and admit its first member of KIP-848's protocol."""
        generation, end, mixed = self.generation, self.log_end, self._new_mixed()
        is_new = classic.is_empty()
        if is_new:
            self.generation = 0
            mixed.replace(classic.tombstones() if generation else [])
        else:
            mixed.adopt(classic.tombstones(), classic.assignments())
        self.members = mixed
        mixed.handle(request)
        if self.log_end == end:
            self.generation, self.members = generation, classic
            return
        classic.dissolve()
        if is_new:
            self.ledger.deaths += generation > 0
        else:
            self._process.report("group-converted", "KIP-848's", generation)

    def _downgrade(self, leaving: str, request: GroupRequest | None) -> bool:
        """Convert the group, which a member leaves; returns whether the log took that."""
        mixed, classic, end = self.members, ClassicGroup(self), self.log_end
        assert isinstance(mixed, MixedGroup)
        targets = mixed.targets_without(leaving)
        self.write([*mixed.dissolution(), classic.adopt(targets)], lambda *_: None)
        if self.log_end == end:
            if request is not None:
                self.respond(request, NOT_AVAILABLE)
            return False
        mixed.dissolve(request, {name: self.generation for name, *_ in targets})
        self._former.append(mixed)
        self.members = classic
        classic.rebalance()
        self._process.report("group-converted", "the classic", self.generation)
        return True

    def write(self, records: Sequence[GroupRecord], done: Done) -> None:
        """Append records. What waits for the log in a converted group is answered before what is `done` then."""

        def finished(error: str, base: int) -> None:
            self._report_members()
            done(error, base)

        super().write(records, finished)

    # --- for invariants

    def _tick_loaded(self, now: int) -> None:
        super()._tick_loaded(now)
        self._report_members()

    def _report_members(self) -> None:
        """In a classic group the generation is the epoch of all members, once the conversion is replicated.

        Responses of the converted group are sent before.
        """
        for former in self._former:
            former.answer()
        self._former = [former for former in self._former if former.is_waiting()]
        if isinstance(self.members, ClassicGroup) and not self._former:
            self.ledger.on_members(self.members.epochs(), self._epoch, self._process.loop.now)
