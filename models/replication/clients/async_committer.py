"""A member that commits the records it has handled without waiting for the response (commitAsync).

The client does not retry such a commit. An application that retries from its callback (simulation.commit.retry) may
overwrite a later commit with an earlier one, so that the committed offset goes back.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import errors
from ..coordinators.group_requests import COMMIT, GroupRequest
from ..ports import Membership
from ..requests import Request
from .group_consumer import GroupConsumer

Positions = tuple[dict[int, int], dict[int, int]]  # offsets and their leader epochs, by partition
_RETRIED = frozenset((*errors.RETRIABLE, errors.NETWORK_EXCEPTION))


class AsyncCommitter(GroupConsumer):
    """A member that may have several commits in flight."""

    def _leave_group(self) -> None:
        super()._leave_group()
        self._commits: dict[GroupRequest, tuple[int, Membership]] = {}  # in flight: the op of each, and its membership

    def _send_commit(self, then: Callable[[], None]) -> None:
        offsets = {p: self.position[p] for p in self.assigned if p not in self._reset}
        if offsets and not self._is_lost:
            self._commit(offsets, self._epochs_of(offsets))
        then()

    def _commit(self, offsets: dict[int, int], epochs: dict[int, int]) -> None:
        op, membership = self.next_op(), self._membership()
        self._history.committing(self.head(op), sorted(offsets.items()))
        request = self._send_to_coordinator(COMMIT, self._on_commit, offsets=offsets, epochs=epochs)
        if request is None:
            self._end(op, membership, (offsets, epochs), "fail", errors.COORDINATOR_NOT_AVAILABLE)
        else:
            self._commits[request] = op, membership

    def _end(self, op: int, membership: Membership, positions: Positions, outcome: str, error: str) -> None:
        """The callback of a commit, with its outcome."""
        offsets, _ = positions
        self._history.committed(self.head(op), sorted(offsets.items()), outcome, error, membership)
        if not error:
            self.group.on_acknowledged(membership.generation, membership.member, offsets)
        elif self.config.commit_retry and error in _RETRIED:
            self.loop.after(self.config.retry_backoff, self._retry, (self.incarnation, positions))

    def _retry(self, argument: tuple[int, Positions]) -> None:
        incarnation, (offsets, epochs) = argument
        owned = {partition: offset for partition, offset in offsets.items() if partition in self.assigned}
        if self._is_running(incarnation) and owned and not self._is_lost:
            self._commit(owned, epochs)

    def _on_commit(self, response: GroupRequest) -> None:
        if not self.alive or (known := self._commits.pop(response, None)) is None:
            return
        error = response.error
        self._end(*known, (response.offsets, response.epochs), "fail" if error else "ok", error)
        if error in errors.RETRIABLE:
            self.refresh()
        elif error == errors.REBALANCE_IN_PROGRESS:
            self._needs_rejoin = True
        elif error and known[1] == self._membership():
            self._lose_membership(error)

    def on_closed(self, request: Request) -> None:
        """The connection of the request closed, so no commit on it gets a response."""
        lost = [commit for commit in self._commits if self.alive and commit.connection is request.connection]
        for commit in lost:
            self._end(*self._commits.pop(commit), (commit.offsets, commit.epochs), "info", errors.NETWORK_EXCEPTION)
        super().on_closed(request)

    def _tick(self, incarnation: int) -> None:
        super()._tick(incarnation)
        late = self.loop.now - self.config.request_timeout
        for request in [request for request in self._commits if request.sent < late]:
            self.on_closed(request)
