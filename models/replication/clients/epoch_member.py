"""A member of KIP-848's protocol, group.protocol=consumer (AbstractMembershipManager, ConsumerHeartbeatRequestManager).

It only sends heartbeats. The response has its epoch and its partitions. At its next poll it gives up the partitions
that are not among them, reports that in a heartbeat, and reads new ones from the committed offsets on. It keeps
handling the others. A member that is fenced drops its partitions and joins again with the same id. A commit in an older
epoch is repeated in the latest one, if the application waits for it.
"""

from __future__ import annotations

from typing import Any

from .. import errors
from ..coordinators.group_requests import FETCH, HEARTBEAT, JOIN, LEAVE, GroupRequest
from .group_consumer import STABLE, GroupConsumer


class EpochMember(GroupConsumer):
    """One member. `generation` is its member epoch, 0 while it joins."""

    _id = ""  # which the client makes since 4.0 (KIP-1082)

    _reports_absence = True
    _is_refused = False  # it ended, as its group.instance.id is taken, and will start again

    def start(self, _: None = None) -> None:
        """Begin with a new member id."""
        self._is_refused = False
        self._id = f"{self.name}-{self.loop.now}"
        super().start()

    def _leave_group(self) -> None:
        super()._leave_group()
        self.member, self.generation = self._id, 0
        self._wanted: tuple[int, ...] = ()  # the target whose offsets are being fetched

    def has_caught_up(self, ranges: Any) -> bool:
        """As in the classic protocol, with no records being handled."""
        if not self.alive:
            return not self._is_refused
        return self._polling and tuple(self.assigned) == self._target and super().has_caught_up(ranges)

    # --- joining and reconciliation

    def _rejoin(self) -> None:
        """Join by the next heartbeat, or move to the target."""
        self._needs_rejoin = False
        if self.generation == 0:
            self._phase, self._due_heartbeat = JOIN, self.loop.now
            self._heartbeat(self.loop.now)
            return
        self._commit_and_revoke(tuple(p for p in self.assigned if p not in self._target))

    def _revoke_moved(self, moved: tuple[int, ...]) -> None:
        self._give_up(moved)
        self._due_heartbeat = self.loop.now
        if self._is_lost or set(self._target) <= set(self.assigned):
            self._on_reconciled()
        else:
            self._fetch_offsets()

    def _on_reconciled(self) -> None:
        """Poll again, unless the target has changed meanwhile."""
        self._phase = STABLE
        self._needs_rejoin = self._target != tuple(self.assigned)
        self._begin_poll()

    def _fetch_offsets(self) -> None:
        self._wanted = self._target
        super()._fetch_offsets()

    def _on_offsets(self, response: GroupRequest) -> None:
        if self._is_lost or self._wanted != self._target or not set(self.assigned) <= set(self._target):
            self._on_reconciled()
            return
        self._due_heartbeat = self.loop.now
        super()._on_offsets(response)

    # --- requests to the coordinator

    def _on_response(self, response: GroupRequest) -> None:
        is_behind = response.error == errors.STALE_MEMBER_EPOCH and self.alive and not self._is_lost
        if is_behind and response is self._request:
            self._request = None
            self._next_step = self.loop.now + self.config.retry_backoff
        else:
            super()._on_response(response)

    def _lose_membership(self, error: str) -> None:
        if error == errors.UNRELEASED_INSTANCE_ID:
            # The process before it did not close. UnreleasedInstanceIdException ends the application, which a
            # supervisor starts again.
            self.crash(error)
            self._is_refused = True
            self._restart_later()
        elif error in (errors.GROUP_ID_NOT_FOUND, errors.GROUP_MAX_SIZE_REACHED):
            # A classic group that is not converted, or a group without room. These errors end the application, too.
            self.crash(error)
            self._restart_later()
        elif error != errors.STALE_MEMBER_EPOCH:
            super()._lose_membership(error)

    def _send_again(self) -> None:
        if self._committing or self._phase == FETCH:
            super()._send_again()

    def _heartbeat(self, now: int) -> None:
        """A heartbeat once it is due; or leave the group, as the application does not poll."""
        request = self._heartbeat_request
        if not self._phase or self._is_lost:
            return
        if request is not None and now - request.sent > self.config.request_timeout:
            self._on_group_closed(request)
        elif self._phase != JOIN and now - self._last_poll > self.config.max_poll_interval:
            self._send_to_coordinator(LEAVE, lambda _: None)
            self._is_lost = True
        elif request is None and now >= self._due_heartbeat:
            self._due_heartbeat = now + self.config.consumer_heartbeat
            # Until the target is reached, the coordinator must count its partitions as owned, so none are sent.
            is_reconciled = self._phase in (JOIN, STABLE) and tuple(self.assigned) == self._target
            owned = tuple(self.assigned) if is_reconciled else None
            self._heartbeat_request = self._send_to_coordinator(HEARTBEAT, self._on_heartbeat, owned=owned)
            if self._heartbeat_request is None:
                self._due_heartbeat = now + self.config.retry_backoff

    def _on_heartbeat(self, response: GroupRequest) -> None:
        if response is not self._heartbeat_request or not self.alive:
            return
        self._heartbeat_request = None
        if response.error in errors.RETRIABLE:
            self._due_heartbeat = self.loop.now + self.config.retry_backoff
            self.refresh()
        elif response.error:
            self._lose_membership(response.error)
        else:
            self.generation, self._target = response.generation, response.assignment
            if self._phase == JOIN:
                self._rejoin()
            elif self._phase == STABLE:
                self._needs_rejoin = self._target != tuple(self.assigned)

    def _on_group_closed(self, request: GroupRequest) -> None:
        if request is self._heartbeat_request:
            self._due_heartbeat = self.loop.now + self.config.retry_backoff
        super()._on_group_closed(request)


def with_member_epochs(kind: type[GroupConsumer]) -> type[GroupConsumer]:
    """The same application as a member of KIP-848's protocol."""
    return EpochMember if kind is GroupConsumer else type(kind.__name__, (kind, EpochMember), {})
