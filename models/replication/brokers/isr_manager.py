"""How a leader changes its ISR: which followers fell behind or caught up, and what the quorum stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from ..config import MS, SECOND
from ..controllers.quorum import Quorum
from ..events import OutOfSync, Shrunk
from ..ledger import Ledger
from ..network import FIRST_CONTROLLER, QUORUM
from ..partition_state import PartitionState
from ..requests import AlterIsrRequest
from .part import BrokerPart
from .process import RUNNING
from .replica import Replica

PROPAGATION_CHECK = 2500 * MS  # the period of ReplicaManager's task isr-change-propagation
PROPAGATION_QUIET = 5 * SECOND  # ReplicaManager.IsrChangePropagationBlackOut
PROPAGATION_LATEST = 60 * SECOND  # ReplicaManager.IsrChangePropagationInterval


@dataclass(slots=True, eq=False)
class IsrManager(BrokerPart):
    """Proposes ISRs to the quorum, and applies those that it stored."""

    _quorum: Quorum
    _ledger: Ledger
    _rng: Random
    _changed: list[int] = field(init=False)  # partitions whose ISR changed since the controller was notified
    _due_propagation: int = field(init=False)
    _due_shrink: int = field(init=False)
    _last_propagation: int = field(init=False)

    def restart(self) -> None:
        """Restart the intervals, as a new process does."""
        now = self._process.loop.now
        self._changed = []
        self._last_propagation = now
        self._due_shrink = now + self._config.lag_time_max // 2 + int(self._rng.random() * SECOND)
        self._due_propagation = now + PROPAGATION_CHECK

    def tick_shrink(self, now: int) -> None:
        """Every half of replica.lag.time.max.ms remove followers that fell behind."""
        if now >= self._due_shrink:
            self._due_shrink = now + self._config.lag_time_max // 2
            self._shrink()

    def tick_propagation(self, now: int) -> None:
        """Every 2.5 s notify the controller of changed ISRs, if that is due."""
        if now >= self._due_propagation:
            self._due_propagation = now + PROPAGATION_CHECK
            self._propagate(now)

    def _shrink(self) -> None:
        now = self._process.wall_clock()
        for replica in self._manager.replicas.values():
            if not replica.is_leader:
                continue
            out = replica.out_of_sync_followers(now)
            if out:
                isr = tuple(r for r in replica.isr if r not in out)
                left = tuple(OutOfSync(r, replica.followers[r].leo) for r in out)
                shrunk = Shrunk(replica.partition, replica.isr, isr, replica.hw, replica.log.end, left)
                self._process.report("isr-shrink", shrunk)
                self._ledger.on_isr_shrink(replica, out, now)
                self._propose(replica, isr)

    def expand(self, replica: Replica, follower: int) -> None:
        """Add a follower that caught up, if its broker is not fenced (KIP-841).

        Simplification: the leader knows fenced brokers at once, not from its metadata. With ZooKeeper it did not check.
        """
        isr = replica.expanded_isr(follower)
        if isr is not None and self._quorum.is_live(follower):
            self._process.report("isr-expand", replica.partition, replica.isr, isr, replica.hw, replica.log.end)
            self._propose(replica, isr)

    def _propose(self, replica: Replica, isr: tuple[int, ...]) -> None:
        proposal = (replica.partition, isr, replica.epoch, replica.version)
        replica.pending_isr = self._send(
            AlterIsrRequest, QUORUM, self._quorum.alter_isr, self.on_response, self.on_closed, *proposal
        )
        replica.update_maximal_isr()

    def on_response(self, request: AlterIsrRequest) -> None:
        """The quorum's response to a proposed ISR."""
        if self._process.defer(self.on_response, request):
            return
        replica = self._manager.replicas.get(request.partition)
        if replica is None or replica.pending_isr is not request:
            return
        if not request.accepted:
            # The partition changed meanwhile; the controller's update is on its way.
            replica.pending_isr = None
            replica.update_maximal_isr()
            return
        self._apply(replica, request.isr, request.version)

    def on_closed(self, request: AlterIsrRequest) -> None:
        """Propose again without a response. The change may be stored, so the high watermark waits for both ISRs."""
        replica = self._manager.replicas.get(request.partition)
        if replica is not None and replica.pending_isr is request and self._process.state == RUNNING:
            self._propose(replica, request.isr)

    def expire(self, replica: Replica, now: int) -> None:
        """Propose again without a response within request.timeout.ms."""
        request = replica.pending_isr
        if request is not None and now - request.sent > self._config.request_timeout:
            self.on_closed(request)

    def on_stored(self, replica: Replica, state: PartitionState) -> None:
        """The controller sends a new ISR, or new replicas, of this leader's epoch."""
        if state.replicas != replica.replicas:
            replica.assign(state.replicas)
        self._apply(replica, state.isr, state.version)

    def _apply(self, replica: Replica, isr: tuple[int, ...], version: int) -> None:
        replica.apply_isr(isr, version, self._process.loop.now)
        self._process.report("isr-updated", replica.partition, replica.isr, replica.version)
        if replica.partition not in self._changed:
            self._changed.append(replica.partition)
        self._manager.advance(replica)

    def _propagate(self, now: int) -> None:
        """Notify the controller of changed ISRs through ZooKeeper: once they were quiet for 5 s, or after 60 s."""
        if not self._changed or not self._rules.era.zookeeper:
            return
        self._changed = [p for p in self._changed if p in self._manager.replicas]
        newest = max((self._manager.replicas[p].last_isr_change for p in self._changed), default=now)
        quiet = now - newest > PROPAGATION_QUIET
        if quiet or now - self._last_propagation > PROPAGATION_LATEST:
            self._last_propagation = now
            self._process.report("isr-propagated", quiet)
            changed, self._changed = tuple(self._changed), []
            self._network.send_reliably(self._process.id, FIRST_CONTROLLER, self._quorum.notify_isr, changed)
