"""A broker's group coordinator: committed offsets, which members of both protocols read and write.

It is active while the broker leads the group's partition of `__consumer_offsets`; the next leader replays the partition
first (GroupCoordinatorShard, OffsetMetadataManager). The members are in classic_group.py and consumer_group.py.
Simplifications: there is one group; clients find the coordinator in the metadata, instead of with FindCoordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from .. import errors
from ..storage.batches import Batch
from ..storage.transactions import MARKER, is_commit
from .group_members import Group
from .group_offsets import GroupOffsets
from .group_requests import COMMIT, FETCH, TXN_COMMIT, CommittedOffset, GroupRecord, GroupRequest, error_for_client

OF_OFFSETS = (COMMIT, TXN_COMMIT)


class GroupCoordinator(Group):
    """The group on this broker."""

    def _drop_state(self) -> None:
        self.generation = self.empty_since = self._due_expiry = 0
        self._offsets = GroupOffsets()
        self.members = self._make_members(self)

    # --- loading

    def _replay(self, batch: Batch, records: Sequence[GroupRecord]) -> None:
        if batch.producer == MARKER:
            self._offsets.end_transaction(batch.pid, is_commit(batch))
        for at, record in enumerate(records, batch.base):
            if record.committed is None:
                self._replay_membership(record)
            elif batch.pid >= 0:
                self._offsets.add_pending(batch.pid, record, at)
            else:
                self._offsets.commit(record, at)

    def _replay_membership(self, record: GroupRecord) -> None:
        self.members.replay(record)

    def _on_loaded(self) -> None:
        self._due_expiry = self._process.loop.now + self._config.offsets_check
        members = self.members.begin_sessions()
        self._process.report("group-loaded", self.generation, members, self._offsets.committed())

    # --- requests

    def handle(self, request: GroupRequest) -> None:
        """Respond to a member, now or once the others have joined."""
        if not self._is_coordinator():
            self.respond(request, errors.NOT_COORDINATOR)
        elif self._is_loading:
            self.respond(request, errors.COORDINATOR_LOAD_IN_PROGRESS)
        elif request.kind == FETCH:
            request.offsets, request.epochs = self._offsets.committed(), self._offsets.epochs()
            unstable = "" if self._offsets.are_stable(request.stable) else errors.UNSTABLE_OFFSET_COMMIT
            self.respond(request, self.members.refuse_fetch(request) or unstable)
        elif request.kind in OF_OFFSETS and not self._rules.fences_commits():
            self.commit(request)
        elif request.kind == TXN_COMMIT and not request.member:
            self._commit_in_transaction(request)  # before KIP-447
        else:
            self._handle_member(request)

    def _handle_member(self, request: GroupRequest) -> None:
        self.members.handle(request)

    def commit(self, request: GroupRequest) -> None:
        if request.kind == TXN_COMMIT:
            self._commit_in_transaction(request)
        else:
            records = self._offset_records(request)
            self._write(records, partial(self._on_committed, records, request))

    def delayed(self) -> list[GroupRequest]:
        return self.members.delayed()

    def _offset_records(self, request: GroupRequest) -> list[GroupRecord]:
        """The records of a commit's offsets."""
        member, now = (request.generation, request.member), self._process.loop.now
        return [
            GroupRecord(
                *member,
                committed=CommittedOffset(partition, offset),
                time=now,
                leader_epoch=request.epochs.get(partition, -1),
            )
            for partition, offset in sorted(request.offsets.items())
        ]

    def _on_committed(self, records: list[GroupRecord], request: GroupRequest, error: str, base: int) -> None:
        if not error:
            for at, record in enumerate(records, base):
                self._offsets.commit(record, at)
                self.ledger.on_commit(record)
        self.respond(request, error_for_client(error))

    # --- transactions

    def _commit_in_transaction(self, request: GroupRequest) -> None:
        """TxnOffsetCommit. The leader of the log, which is this broker, checks the producer's epoch."""
        records = self._offset_records(request)
        self._offsets.expect(request.producer.pid, request.offsets)
        self._write(records, partial(self._on_pending_written, records, request), *request.producer)

    def _on_pending_written(self, records: list[GroupRecord], request: GroupRequest, error: str, base: int) -> None:
        pid = request.producer.pid
        if error:
            self._offsets.give_up(pid, request.offsets)
            self.respond(request, error if error in errors.OF_TRANSACTION else error_for_client(error))
            return
        for at, record in enumerate(records, base):
            self._offsets.add_pending(pid, record, at)
            if record.member:
                self.ledger.on_commit(record)
        self.respond(request)

    def end_transaction(self, pid: int, commit: bool) -> None:
        """A marker was written to the group's log (handleTxnCompletion)."""
        if self._is_coordinator() and not self._is_loading:
            self._offsets.end_transaction(pid, commit)

    def _tick_active(self, now: int) -> None:
        """End expired sessions and rebalances, and remove expired offsets."""
        self.members.tick(now)
        if now >= self._due_expiry:
            self._due_expiry = now + self._config.offsets_check
            self._expire_offsets(now)

    def _expire_offsets(self, now: int) -> None:
        """Remove the offsets of a group that has been empty for offsets.retention.minutes, then the group (KIP-211).

        Before 2.1 an offset expired so long after its commit, also while the group had members. Simplification: the
        tombstones are written with acks=all.
        """
        limit = now - self._config.offsets_retention
        is_empty = self.members.is_empty()
        gone: list[int] = []
        if self._rules.era.expires_active_offsets:
            gone = self._offsets.expired(limit)
        elif is_empty and self.empty_since <= limit:
            gone = self._offsets.expired(now)
        records = [
            GroupRecord(0, "", None, CommittedOffset(partition, 0), now, is_tombstone=True) for partition in gone
        ]
        for record in records:
            self._offsets.commit(record, -1)  # a tombstone's place does not matter
        is_dead = is_empty and self.generation > 0 and not self._offsets.committed()
        if is_dead:
            self.ledger.deaths += 1
            records += self.members.delete_group()
        if records:
            self._process.report("offsets-expired", tuple(gone), is_dead)
            self._write(records, lambda *_: None)
