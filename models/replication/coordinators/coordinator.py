"""A broker's group coordinator: active while the broker leads the group's partition of `__consumer_offsets`.

The next leader replays the partition first (GroupCoordinator and GroupMetadataManager of the classic protocol).
Simplifications: there is one group; a new member gets its id at once, as before KIP-394; clients find the coordinator
in the metadata, instead of with FindCoordinator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..config import Config
from ..requests import NOT_LEADER
from ..storage.batches import Batch
from .group_ledger import GroupLedger
from .log_coordinator import LogCoordinator
from .requests import (
    COMMIT,
    FETCH,
    HEARTBEAT,
    ILLEGAL_GENERATION,
    JOIN,
    LEAVE,
    LOADING,
    NOT_AVAILABLE,
    NOT_COORDINATOR,
    REBALANCING,
    SYNC,
    UNKNOWN_MEMBER,
    GroupRecord,
    GroupRequest,
)

EMPTY, PREPARING, COMPLETING, STABLE = "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"


@dataclass(slots=True, eq=False)
class Member:
    """A member of the group, in the coordinator's view."""

    client: str
    owned: tuple[int, ...]
    deadline: int  # when its session ends
    join: GroupRequest | None = None  # requests that wait
    sync: GroupRequest | None = None
    assignment: tuple[int, ...] = ()


class GroupCoordinator(LogCoordinator[GroupRecord]):
    """The group on this broker."""

    def __init__(self, *arguments: Any, records: list[GroupRecord], ledger: GroupLedger) -> None:
        config: Config = arguments[-1]
        super().__init__(*arguments, log=config.group_log, records=records)
        self.ledger = ledger

    def _drop_state(self) -> None:
        self._state, self._generation, self._leader = EMPTY, 0, ""
        self._members: dict[str, Member] = {}
        self._offsets: dict[int, int] = {}
        self._assigned_last: tuple[tuple[str, str, tuple[int, ...]], ...] = ()  # the last assignment in the log
        self._earliest = 0  # when a rebalance may complete
        self._latest = 0  # when it completes without the members that did not join

    # --- election and loading

    def _replay(self, batch: Batch, records: Sequence[GroupRecord]) -> None:  # noqa: ARG002
        for record in records:
            if record.assignment is not None:
                self._generation, self._leader = record.generation, record.member
                self._assigned_last = record.assignment
            if record.offset is not None:
                self._offsets[record.offset[0]] = record.offset[1]

    def _loaded(self) -> None:
        session = self._process.loop.now + self._config.group_session
        self._members = {
            name: Member(client, mine, session, assignment=mine) for name, client, mine in self._assigned_last
        }
        self._state = STABLE if self._members else EMPTY
        self._process.report("group-loaded", self._generation, len(self._members), dict(self._offsets))

    def _refuse_parked(self) -> None:
        for request in self.parked():
            self._respond(request, NOT_COORDINATOR)

    def parked(self) -> list[GroupRequest]:
        """The requests that wait for other members."""
        found = [request for member in self._members.values() for request in (member.join, member.sync)]
        return [request for request in found if request is not None]

    # --- requests

    def handle(self, request: GroupRequest) -> None:
        """Respond to a member, now or once the others have joined."""
        if not self._is_coordinator():
            self._respond(request, NOT_COORDINATOR)
        elif self._is_loading:
            self._respond(request, LOADING)
        elif request.kind == JOIN:
            self._join(request)
        elif request.kind == FETCH:
            request.offsets = dict(self._offsets)
            self._respond(request)
        else:
            member = self._members.get(request.member)
            if member is None:
                self._respond(request, UNKNOWN_MEMBER)
            elif request.kind == LEAVE:
                self._remove(request.member)
                self._respond(request)
            elif request.generation != self._generation:
                self._respond(request, ILLEGAL_GENERATION)
            else:
                member.deadline = self._process.loop.now + self._config.group_session
                {SYNC: self._sync, HEARTBEAT: self._heartbeat, COMMIT: self._commit}[request.kind](request, member)

    def _join(self, request: GroupRequest) -> None:
        now, name = self._process.loop.now, request.member
        if name and name not in self._members:
            self._respond(request, UNKNOWN_MEMBER)
            return
        is_new = not name
        name = name or f"{request.client}-{now}"
        member = self._members.setdefault(name, Member(request.client, request.owned, now))
        request.member = name
        changed = is_new or member.owned != request.owned or name == self._leader
        member.owned, member.join = request.owned, request
        if self._state in (STABLE, COMPLETING) and not changed:
            self._joined(name, member)
            return
        if self._state != PREPARING:
            self._prepare()
        self._try_complete()

    def _prepare(self) -> None:
        """Begin a rebalance: wait until all members have joined again."""
        now, config = self._process.loop.now, self._config
        self._earliest = now + (config.group_delay if self._state == EMPTY else 0)
        self._latest = now + config.max_poll_interval
        self._state = PREPARING
        for member in self._members.values():
            if member.sync is not None:
                self._respond(member.sync, REBALANCING)
                member.sync = None

    def _try_complete(self) -> None:
        """Begin the next generation, if all members have joined or the time is over."""
        now = self._process.loop.now
        waits = [name for name, member in self._members.items() if member.join is None]
        if self._state != PREPARING or now < self._earliest or (waits and now < self._latest):
            return
        for name in waits:
            del self._members[name]
        self._generation += 1
        if not self._members:
            self._state = EMPTY
            self._write([GroupRecord(self._generation, "", (), time=now)], lambda _: None)
            return
        self._state = COMPLETING
        if self._leader not in self._members:
            self._leader = min(self._members)
        for name, member in self._members.items():
            member.assignment = ()
            self._joined(name, member)

    def _joined(self, name: str, member: Member) -> None:
        request = member.join
        assert request is not None
        member.join = None
        member.deadline = self._process.loop.now + self._config.group_session
        request.generation = self._generation
        request.members = {n: m.owned for n, m in self._members.items()} if name == self._leader else {}
        self._respond(request)

    def _sync(self, request: GroupRequest, member: Member) -> None:
        if self._state == PREPARING:
            self._respond(request, REBALANCING)
        elif self._state == STABLE:
            request.assignment = member.assignment
            self._respond(request)
        else:
            member.sync = request
            if request.member == self._leader:
                shares = tuple(
                    (name, each.client, request.assignments.get(name, ())) for name, each in self._members.items()
                )
                now = self._process.loop.now
                record = GroupRecord(self._generation, self._leader, shares, time=now)
                self._write([record], partial(self._assigned, record))

    def _assigned(self, record: GroupRecord, error: str) -> None:
        """Send the members their partitions, once the generation is stored."""
        if not error:
            self.ledger.on_generation(record.generation, self._process.loop.now)
        if self._state != COMPLETING or self._generation != record.generation:
            return
        if error:
            self._prepare()
            return
        self._state = STABLE
        for name, _, mine in record.assignment or ():
            member = self._members.get(name)
            if member is not None:
                member.assignment = mine
                if member.sync is not None:
                    member.sync.assignment = mine
                    self._respond(member.sync)
                    member.sync = None

    def _heartbeat(self, request: GroupRequest, _: Member) -> None:
        self._respond(request, REBALANCING if self._state == PREPARING else "")

    def _commit(self, request: GroupRequest, _: Member) -> None:
        if self._state == COMPLETING:
            self._respond(request, REBALANCING)
            return
        now = self._process.loop.now
        offsets = sorted(request.offsets.items())
        records = [GroupRecord(request.generation, request.member, None, offset, now) for offset in offsets]
        self._write(records, partial(self._committed, records, request))

    def _committed(self, records: list[GroupRecord], request: GroupRequest, error: str) -> None:
        if not error:
            self._offsets.update(request.offsets)
            for record in records:
                self.ledger.on_commit(record, self._process.loop.now)
        self._respond(request, NOT_COORDINATOR if error == NOT_LEADER else NOT_AVAILABLE if error else "")

    def _remove(self, name: str) -> None:
        del self._members[name]
        if self._state in (STABLE, COMPLETING):
            self._prepare()
        self._try_complete()

    def _tick_loaded(self, now: int) -> None:
        """End expired sessions and rebalances."""
        for name in [n for n, m in self._members.items() if m.join is None and now >= m.deadline]:
            self._process.report("session-ended", name, self._generation)
            self._remove(name)
        self._try_complete()
