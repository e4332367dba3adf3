"""A consumer in a group: joins, assigns the partitions if it leads the group, heartbeats, commits, and rejoins.

As in the Java client, polls drive joining and revocation, and a separate thread heartbeats (AbstractCoordinator,
ConsumerCoordinator). With an eager assignor a member revokes all partitions before it rejoins; with a cooperative one
only those that move, in a second rebalance (KIP-429). Simplification: a member that lost its membership revokes its
partitions at its next poll.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import errors
from ..config import MS
from ..coordinators.assignors import ASSIGNORS, COOPERATIVE
from ..coordinators.group_ledger import GroupLedger
from ..coordinators.group_requests import COMMIT, FETCH, HEARTBEAT, JOIN, LEAVE, SYNC, GroupRequest
from ..partition_state import NO_LEADER
from ..ports import Membership, Records
from .consumer import CLOSED, KILLED, ConsumerParts
from .member_process import MemberProcess

RETRY = 100 * MS
STABLE = "stable"


class GroupConsumer(MemberProcess):
    """One member. `assigned` are the partitions that it owns."""

    _reports_absence = False  # whether a static member that closes sends a request

    def __init__(self, parts: ConsumerParts, group: GroupLedger) -> None:
        super().__init__(parts)
        self.group = group
        self._instance = self.config.instance_of(self.name)
        self._leave_group()
        self._last_poll = 0

    def _leave_group(self) -> None:
        """Forget the membership."""
        self.member, self.generation = "", -1
        self._phase = ""  # stable, or what the member waits for
        self._request: GroupRequest | None = None  # the request in flight, except heartbeats
        self._heartbeat_request: GroupRequest | None = None
        self._target: tuple[int, ...] = ()  # what the group assigned
        self._needs_rejoin = self._is_lost = self._keeps_id = False
        self._assigned_in = -1  # the generation of which it got its partitions
        self._shared_out = 0  # how many partitions this member shared out as the group's leader
        self._committing: dict[int, int] = {}
        self._committing_epochs: dict[int, int] = {}
        self._commit_op, self._is_unsure = 0, False
        self._then: Callable[[], None] | None = None  # after the commit
        self._next_step = self._due_heartbeat = self._due_commit = 0
        self._last_heartbeat_response = self.loop.now

    def start(self, _: None = None) -> None:
        """Begin without a membership and without partitions."""
        self.alive = True
        self.incarnation += 1
        self._clear()
        self._leave_group()
        self.assigned = ()
        self.refresh()
        self._begin_poll()
        self.loop.after(RETRY, self._tick, self.incarnation)

    def crash(self, reason: str = KILLED) -> None:
        """The process dies; the coordinator removes it when its session ends."""
        if self.alive:
            self.group.on_owned(self.member, self.generation, ())
        super().crash(reason)

    def close(self) -> None:
        """KafkaConsumer.close(): commit, if it does so by itself, give the partitions up, and leave the group."""
        if self.alive and self.config.commit == "auto" and self._phase == STABLE and not self._committing:
            self._send_commit(self._leave)
        else:
            self._leave()

    def _leave(self) -> None:
        """A static member of the classic protocol sends nothing; one of KIP-848's reports that it will come back.

        Simplification: the request is sent once.
        """
        if self.alive:
            self._give_up(tuple(self.assigned))
            self.crash(CLOSED)
            if self._phase and (self._reports_absence or not self._instance):
                self._send_to_coordinator(LEAVE, lambda _: None)

    def _lose_membership(self, error: str) -> None:
        """The generation ends for this member. If it is only behind, it keeps its id (resetStateOnResponseError).

        FencedInstanceIdException and GroupMaxSizeReachedException end the application.
        """
        if error in (errors.FENCED_INSTANCE_ID, errors.GROUP_MAX_SIZE_REACHED):
            self.crash(error)
        if error == errors.GROUP_MAX_SIZE_REACHED:
            self._restart_later()
        self._keeps_id = error == errors.ILLEGAL_GENERATION and (self._keeps_id or not self._is_lost)
        self._is_lost = True

    def has_caught_up(self, ranges: Any) -> bool:
        """Whether it is dead, or at the ends of the logs that it owns without a rebalance."""
        if not self.alive:
            return True
        is_at_rest = self._phase == STABLE and not self._needs_rejoin and not self._is_lost
        is_at_rest = is_at_rest and self.count_partitions() == self.config.partitions
        if self.config.has_member_epochs:  # no partition is under way to another member, and no record is being handled
            is_at_rest = is_at_rest and self._polling and all(map(self.group.has_owner, range(self.config.partitions)))
        return is_at_rest and all(ranges[p] is not None and self.position[p] >= ranges[p][1] for p in self.assigned)

    # --- polls

    def _begin_poll(self, incarnation: int | None = None) -> None:
        if not self._is_running(incarnation):
            return
        self._last_poll = self.loop.now
        if self._is_lost:
            self._give_up(tuple(self.assigned))
            member = self.member if self._keeps_id else ""
            self._leave_group()
            self.member = self.member or member
        if self._phase == STABLE and not self._needs_rejoin:
            if self.config.commit == "auto" and self.loop.now >= self._due_commit and self.assigned:
                self._due_commit = self.loop.now + self.config.auto_commit_interval
                self._send_commit(self._begin_poll)
            else:
                super()._begin_poll()
        elif self._phase in ("", STABLE):
            self._rejoin()

    def _after_poll(self, records: Records) -> None:
        """Commit and handle, in the order that the application chose; a commit is synchronous."""
        if not records:
            self.loop.after(0, self._begin_poll, self.incarnation)
        elif self.config.commit == "before":
            self._send_commit(lambda: self._handle_later(records))
        else:
            self._handle_later(records)

    def _add_handled(self, records: Records) -> None:
        super()._add_handled(records)
        for partition, batch in records:
            self.group.handled.setdefault(partition, []).append((batch.base, batch.end))

    # --- joining

    def _rejoin(self) -> None:
        """Join the group again, after revoking all partitions with an eager assignor."""
        self._needs_rejoin = False
        if self.config.strategy in COOPERATIVE or not self.assigned:
            self._send_join()
        else:
            self._commit_then(self._revoke_and_join)

    def _revoke_and_join(self) -> None:
        self._give_up(tuple(self.assigned))
        self._send_join()

    def _send_join(self) -> None:
        self._phase = JOIN
        self._send_request(JOIN, owned=self.assigned, owned_since=self._assigned_in)

    def _give_up(self, partitions: Sequence[int]) -> None:
        """Revoke partitions: report it to the application, and stop fetching them."""
        if not partitions:
            return
        self.assigned = tuple(p for p in self.assigned if p not in partitions)
        self._reset = [p for p in self._reset if p in self.assigned]
        for partition in partitions:
            self._buffer.pop(partition, None)
        self.group.on_owned(self.member, self.generation, self.assigned)
        self._history.revoke(self.head(self.next_op()), tuple(partitions), self._membership())

    def _on_joined(self, response: GroupRequest) -> None:
        self.member, self.generation, self._shared_out = response.member, response.generation, 0
        self._last_heartbeat_response = self.loop.now
        shares = {}
        if response.members:
            self._shared_out = self.count_partitions()
            shares = ASSIGNORS[self.config.strategy](self._shared_out, response.members)
        self._phase = SYNC
        self._send_request(SYNC, assignments=shares)

    def _on_synced(self, response: GroupRequest) -> None:
        self._target = response.assignment
        moved = tuple(p for p in self.assigned if p not in self._target)
        if moved:
            # Only a cooperative assignor gets here with partitions: the others may have them in the next generation.
            self._needs_rejoin = True
        self._commit_and_revoke(moved)

    def _commit_and_revoke(self, moved: tuple[int, ...]) -> None:
        """Give up partitions after a commit, which is only needed if there are any."""
        if moved:
            self._commit_then(lambda: self._revoke_moved(moved))
        else:
            self._revoke_moved(moved)

    def _revoke_moved(self, moved: tuple[int, ...]) -> None:
        self._give_up(moved)
        self._fetch_offsets()

    def _fetch_offsets(self) -> None:
        """Ask for the committed offsets of the partitions to read. Since KIP-447 open transactions must end first."""
        self._phase = FETCH
        self._send_request(FETCH, stable=self._target if self._rules.fences_members() else ())

    def _on_offsets(self, response: GroupRequest) -> None:
        """Own the new partitions, at the committed offset or by auto.offset.reset."""
        added = [p for p in self._target if p not in self.assigned]
        found: list[tuple[int, int | None]] = []
        for partition in added:
            found.append((partition, self._go_to_committed(partition, response)))
        self.assigned, self._assigned_in = tuple(sorted(self._target)), self.generation
        self._phase = STABLE
        self.group.on_owned(self.member, self.generation, self.assigned)
        self._history.assign_by_group(self.head(self.next_op()), found, self.assigned, self._membership())
        self._begin_poll()

    def _go_to_committed(self, partition: int, response: GroupRequest) -> int | None:
        return self._go_to(partition, response.offsets.get(partition), response.epochs.get(partition, -1))

    def on_leaders(self) -> None:
        """The group's leader joins again if the topic has more partitions (rejoinNeededOrPending)."""
        if 0 < self._shared_out < self.count_partitions() and self._phase == STABLE:
            self._shared_out, self._needs_rejoin = 0, True
        super().on_leaders()

    # --- requests to the coordinator

    def _send_request(self, kind: str, **content: Any) -> None:
        """Send a request, if the coordinator is known; `_tick` repeats it until the response."""
        self._request = self._send_to_coordinator(kind, self._on_response, **content)

    def _send_to_coordinator(self, kind: str, reply: Callable[[Any], None], **content: Any) -> GroupRequest | None:
        leader = self.leaders[self.config.group_log].leader
        if leader == NO_LEADER:
            self.refresh()
            return None
        member = (self.name, *self._membership())
        return self.request_from(
            GroupRequest, leader, reply, self._on_group_closed, kind, *member, instance=self._instance, **content
        )

    def _membership(self) -> Membership:
        return Membership(self.member, self.generation)

    def _on_group_closed(self, request: GroupRequest) -> None:
        """The connection closed before the response."""
        if request is self._request:
            self._request = None
            self._is_unsure = self._is_unsure or request.kind == COMMIT
        if request is self._heartbeat_request:
            self._heartbeat_request = None
        self.on_closed(request)

    def _on_response(self, response: GroupRequest) -> None:
        if response is not self._request or not self.alive:
            return
        self._request = None
        error = response.error
        if error in errors.RETRIABLE:
            self.refresh()
            self._next_step = self.loop.now + self.config.retry_backoff
        elif response.kind == COMMIT:
            self._end_commit(error, response.generation)
        elif error == errors.REBALANCE_IN_PROGRESS:
            # The group was converted before a new member had a generation. A dynamic one keeps its id (KIP-394).
            self.member = self.member or ("" if self._instance else response.member)
            self._phase = STABLE
            self._needs_rejoin = True
            self._begin_poll()
        elif error:
            self._lose_membership(error)
            self._phase = ""
            self._begin_poll()
        else:
            {JOIN: self._on_joined, SYNC: self._on_synced, FETCH: self._on_offsets}[response.kind](response)

    # --- commits

    def _commit_then(self, then: Callable[[], None]) -> None:
        """Call `then`, after a commit if the client commits by itself."""
        if self.config.commit == "auto":
            self._phase = "committing"
            self._send_commit(then)
        else:
            then()

    def _send_commit(self, then: Callable[[], None]) -> None:
        """Commit the positions, wait for the response, then call `then`."""
        self._committing = {p: self.position[p] for p in self.assigned if p not in self._reset}
        if not self._committing or self._is_lost:
            then()
            return
        self._then, self._is_unsure = then, False
        self._committing_epochs = self._epochs_of(self._committing)
        self._commit_op = self.next_op()
        self._history.committing(self.head(self._commit_op), sorted(self._committing.items()))
        self._send_positions()

    def _send_positions(self) -> None:
        self._send_request(COMMIT, offsets=self._committing, epochs=self._committing_epochs)

    def _end_commit(self, error: str, generation: int) -> None:
        outcome = "ok" if not error else "info" if self._is_unsure else "fail"
        offsets = sorted(self._committing.items())
        self._history.committed(self.head(self._commit_op), offsets, outcome, error, self._membership())
        if not error:
            self.group.on_acknowledged(generation, self.member, self._committing)
        elif error == errors.REBALANCE_IN_PROGRESS:
            self._needs_rejoin = True
        else:
            self._lose_membership(error)
        then, self._then, self._committing = self._then, None, {}
        if then is not None and self.alive:
            then()

    # --- time

    def _tick(self, incarnation: int) -> None:
        """Heartbeat, repeat requests without a response, and leave the group if the application does not poll."""
        super()._tick(incarnation)
        if not self._is_running(incarnation):
            return
        now, config = self.loop.now, self.config
        if config.added_partitions and now >= self._metadata.updated_at + config.metadata_age:
            self.refresh()
        request = self._request
        is_joining = request is not None and request.kind in (JOIN, SYNC)
        limit = config.max_poll_interval if is_joining else config.request_timeout
        if request is not None and now - request.sent > limit:
            self._on_group_closed(request)
        if self._request is None and now >= self._next_step:
            self._send_again()
        self._heartbeat(now)
        if self._polling and (self._needs_rejoin or self._is_lost):
            self._poll_acknowledged = {}  # the poll ends before its deadline, so it may return nothing
            self._end_poll()

    def _send_again(self) -> None:
        if self._committing:
            self._send_positions()
        elif self._phase == JOIN:
            self._send_join()
        elif self._phase == SYNC:
            self._needs_rejoin, self._phase = False, JOIN  # the assignment is with the group's leader: join again
            self._send_join()
        elif self._phase == FETCH:
            self._fetch_offsets()

    def _heartbeat(self, now: int) -> None:
        """A heartbeat, unless the member is joining."""
        if not self.member or self._phase == JOIN or self._is_lost:
            return
        if now - self._last_heartbeat_response > self.config.group_session:
            # The session is over, and the connection may be dead: reconnect (markCoordinatorUnknown).
            self._last_heartbeat_response = now
            for request in (self._heartbeat_request, self._request):
                if request is not None:
                    self._on_group_closed(request)
        if now - self._last_poll > self.config.max_poll_interval:
            if not self._instance:
                self._send_to_coordinator(LEAVE, lambda _: None)
            self._is_lost = True
        elif now >= self._due_heartbeat and (
            self._heartbeat_request is None or now - self._heartbeat_request.sent > RETRY * 10
        ):
            self._due_heartbeat = now + self.config.group_heartbeat
            self._heartbeat_request = self._send_to_coordinator(HEARTBEAT, self._on_heartbeat)

    def _on_heartbeat(self, response: GroupRequest) -> None:
        if response is not self._heartbeat_request or not self.alive:
            return
        self._heartbeat_request = None
        self._last_heartbeat_response = self.loop.now
        if response.member != self.member or response.generation != self.generation:
            return
        if response.error in errors.RETRIABLE:
            self.refresh()
        elif response.error == errors.REBALANCE_IN_PROGRESS:
            self._needs_rejoin = True
        elif response.error:
            self._lose_membership(response.error)
