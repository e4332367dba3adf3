"""A broker's group coordinator: it acts while the broker leads the partition of `__consumer_offsets` of the group.

The partition is replicated like any other, and the next leader replays it before it answers (GroupCoordinator and
GroupMetadataManager of the classic protocol). Simplifications: there is one group, whose partition is the last log of
the run; it is not compacted, and nothing in it expires; a new member gets its id at once, as before KIP-394; metadata
says who coordinates, in place of FindCoordinator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ..brokers.process import Process
from ..brokers.produce import ProduceHandler
from ..brokers.replica_manager import ReplicaManager
from ..config import MS, Config
from ..network import Network
from ..producer_batch import ProducerBatch
from ..requests import NOT_LEADER, ProduceRequest
from .group_ledger import GroupLedger
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
TICK = 100 * MS
GROUP_PRODUCER = -1  # of the batches in the group's log
Done = Callable[[str], None]


@dataclass(slots=True, eq=False)
class Member:
    """A member as the coordinator knows it."""

    client: str
    owned: tuple[int, ...]
    deadline: int  # when its session ends
    join: GroupRequest | None = None  # requests that wait
    sync: GroupRequest | None = None
    assignment: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class GroupCoordinator:
    """The group on this broker: loaded, or not."""

    _process: Process
    _network: Network
    _manager: ReplicaManager
    _produces: ProduceHandler
    _config: Config
    records: list[GroupRecord]  # of all appends in the run: a batch's value is an index of it
    ledger: GroupLedger
    _epoch: int = field(default=-1, init=False)  # leader epoch of the partition; -1: not the coordinator
    _is_loading: bool = field(default=False, init=False)
    _state: str = field(default=EMPTY, init=False)
    _generation: int = field(default=0, init=False)
    _leader: str = field(default="", init=False)
    _members: dict[str, Member] = field(default_factory=dict, init=False)
    _offsets: dict[int, int] = field(default_factory=dict, init=False)
    _earliest: int = field(default=0, init=False)  # when a rebalance may be complete
    _latest: int = field(default=0, init=False)  # when it is, without those that did not join

    def restart(self) -> None:
        """A new process coordinates nothing."""
        self._epoch, self._is_loading = -1, False
        self._forget()

    def _forget(self) -> None:
        self._state, self._generation, self._leader = EMPTY, 0, ""
        self._members, self._offsets = {}, {}

    # --- election and loading

    def lead(self, epoch: int) -> None:
        """The broker began to lead the group's partition: load the group, then answer."""
        self._resign()
        self._epoch, self._is_loading = epoch, True
        loop = self._process.loop
        loop.at(loop.now + self._config.group_load_time, self._load, (self._process.incarnation, epoch))

    def _is_coordinator(self) -> bool:
        """Does the broker lead the group's partition in the epoch for which the group was loaded?"""
        replica = self._manager.leader(self._config.group_log)
        return replica is not None and replica.epoch == self._epoch

    def _load(self, since: tuple[int, int]) -> None:
        process = self._process
        if since != (process.incarnation, self._epoch) or process.defer(self._load, since):
            return
        if not self._is_coordinator():
            self._resign()
            return
        replica = self._manager.replicas[self._config.group_log]
        assigned: tuple[tuple[str, str, tuple[int, ...]], ...] = ()
        for batch in replica.log.batches():
            for record in self.records[batch.first : batch.first + batch.end - batch.base]:
                if record.assignment is not None:
                    self._generation, self._leader, assigned = record.generation, record.member, record.assignment
                if record.offset is not None:
                    self._offsets[record.offset[0]] = record.offset[1]
        session = process.loop.now + self._config.group_session
        self._members = {name: Member(client, mine, session, assignment=mine) for name, client, mine in assigned}
        self._state = STABLE if self._members else EMPTY
        self._is_loading = False
        process.report("group-loaded", self._generation, len(self._members), dict(self._offsets))
        process.loop.at(process.loop.now + TICK, self._tick, (process.incarnation, self._epoch))

    def _resign(self) -> None:
        """Another broker coordinates."""
        for member in self._members.values():
            for request in (member.join, member.sync):
                if request is not None:
                    self._answer(request, NOT_COORDINATOR)
        self._epoch, self._is_loading = -1, False
        self._forget()

    def parked(self) -> list[GroupRequest]:
        """The requests that wait for other members."""
        found = [request for member in self._members.values() for request in (member.join, member.sync)]
        return [request for request in found if request is not None]

    # --- requests

    def handle(self, request: GroupRequest) -> None:
        """Answer a member, now or once the others have joined."""
        if not self._is_coordinator():
            self._answer(request, NOT_COORDINATOR)
        elif self._is_loading:
            self._answer(request, LOADING)
        elif request.kind == JOIN:
            self._join(request)
        elif request.kind == FETCH:
            request.offsets = dict(self._offsets)
            self._answer(request)
        else:
            member = self._members.get(request.member)
            if member is None:
                self._answer(request, UNKNOWN_MEMBER)
            elif request.kind == LEAVE:
                self._remove(request.member)
                self._answer(request)
            elif request.generation != self._generation:
                self._answer(request, ILLEGAL_GENERATION)
            else:
                member.deadline = self._process.loop.now + self._config.group_session
                {SYNC: self._sync, HEARTBEAT: self._heartbeat, COMMIT: self._commit}[request.kind](request, member)

    def _answer(self, request: GroupRequest, error: str = "") -> None:
        request.error = error
        self._network.send(self._process.id, request.node, request.reply, request)

    def _join(self, request: GroupRequest) -> None:
        now, name = self._process.loop.now, request.member
        if name and name not in self._members:
            self._answer(request, UNKNOWN_MEMBER)
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
                self._answer(member.sync, REBALANCING)
                member.sync = None

    def _try_complete(self) -> None:
        """Begin the next generation, if all have joined or the time is over."""
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
        self._answer(request)

    def _sync(self, request: GroupRequest, member: Member) -> None:
        if self._state == PREPARING:
            self._answer(request, REBALANCING)
        elif self._state == STABLE:
            request.assignment = member.assignment
            self._answer(request)
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
        """The generation is stored: its members get their partitions."""
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
                    self._answer(member.sync)
                    member.sync = None

    def _heartbeat(self, request: GroupRequest, _: Member) -> None:
        self._answer(request, REBALANCING if self._state == PREPARING else "")

    def _commit(self, request: GroupRequest, _: Member) -> None:
        if self._state == COMPLETING:
            self._answer(request, REBALANCING)
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
        self._answer(request, NOT_COORDINATOR if error == NOT_LEADER else NOT_AVAILABLE if error else "")

    def _remove(self, name: str) -> None:
        del self._members[name]
        if self._state in (STABLE, COMPLETING):
            self._prepare()
        self._try_complete()

    # --- the log, and time

    def _write(self, records: list[GroupRecord], done: Done) -> None:
        """Append records with acks=all; then `done` gets the error, if this is still the same coordinator."""
        process = self._process
        batch = ProducerBatch(GROUP_PRODUCER, self._config.group_log, len(self.records), process.loop.now)
        batch.count = len(records)
        self.records += records
        since = process.incarnation, self._epoch

        def finished(request: ProduceRequest) -> None:
            if since == (process.incarnation, self._epoch) and not process.defer(finished, request):
                done(request.results[0][0])

        self._produces.write(batch, finished)

    def _tick(self, since: tuple[int, int]) -> None:
        """End sessions and rebalances whose time is over."""
        process = self._process
        if since != (process.incarnation, self._epoch) or process.defer(self._tick, since):
            return
        if not self._is_coordinator():
            self._resign()
            return
        now = process.loop.now
        process.loop.at(now + TICK, self._tick, since)
        for name in [n for n, m in self._members.items() if m.join is None and now >= m.deadline]:
            process.report("session-ended", name, self._generation)
            self._remove(name)
        self._try_complete()
