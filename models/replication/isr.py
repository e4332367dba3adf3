"""How a leader changes its ISR: who fell behind, who caught up, and the quorum's answer."""

from __future__ import annotations

from .config import SECOND
from .network import FIRST_CONTROLLER, QUORUM
from .process import RUNNING
from .replica import Replica
from .requests import AlterIsr
from .serving import Server
from .state import PartitionState, Shrunk

PROPAGATION_QUIET = 5 * SECOND  # ReplicaManager.IsrChangePropagationBlackOut
PROPAGATION_LATEST = 60 * SECOND  # ReplicaManager.IsrChangePropagationInterval


class IsrKeeper(Server):
    """Proposes ISRs to the quorum and takes over what it decided."""

    __slots__ = ()

    def _shrink_isrs(self) -> None:
        now = self.wall()
        for replica in self.replicas.values():
            if not replica.leads:
                continue
            out = replica.lagging(now)
            if out:
                isr = tuple(r for r in replica.isr if r not in out)
                ends = tuple((r, replica.remotes[r].leo) for r in out)
                shrunk = Shrunk(replica.partition, replica.isr, isr, replica.hw, replica.log.end, ends)
                self.tell_fact("isr-shrink", *shrunk)
                self.cluster.ledger.shrunk(self, replica, out, now)
                self._propose(replica, isr)

    def _propose(self, replica: Replica, isr: tuple[int, ...]) -> None:
        alter = AlterIsr(self, replica.partition, isr, replica.epoch, replica.version, self.loop.now)
        replica.alter = alter
        replica.await_isr()
        self.network.send(self.id, QUORUM, self.cluster.quorum.alter_isr, alter)

    def on_altered(self, alter: AlterIsr) -> None:
        """The quorum's answer to a proposed ISR."""
        if self.delayed(self.on_altered, alter):
            return
        replica = self.replicas[alter.partition]
        if replica.alter is not alter:
            return
        if not alter.accepted:
            # Somebody changed the partition meanwhile; the controller's word about it is on its way.
            replica.alter = None
            replica.await_isr()
            self.tell_fact("isr-refused", alter.partition, alter.isr, alter.version)
            return
        replica.take_isr(alter.isr, alter.version, self.loop.now)
        self._isr_settled(replica)

    def on_alter_broken(self, alter: AlterIsr) -> None:
        """No answer: the change may be in force, so the high watermark waits for both ISRs until it is
        known."""
        replica = self.replicas[alter.partition]
        if replica.alter is alter and self.state == RUNNING:
            self._propose(replica, alter.isr)

    def _take_isr(self, replica: Replica, state: PartitionState) -> None:
        replica.take_isr(state.isr, state.version, self.loop.now)
        self._isr_settled(replica)

    def _isr_settled(self, replica: Replica) -> None:
        self.tell_fact("isr-updated", replica.partition, replica.isr, replica.version)
        if replica.partition not in self._isr_changed:
            self._isr_changed.append(replica.partition)
        self._advance(replica)

    def _propagate(self, now: int) -> None:
        """Tell the controller of changed ISRs, through ZooKeeper: once they are quiet for 5 s, or after 60
        s."""
        if not self._isr_changed or not self.rules.zookeeper:
            return
        newest = max(self.replicas[p].last_isr_change for p in self._isr_changed)
        quiet = now - newest > PROPAGATION_QUIET
        if quiet or now - self.last_propagation > PROPAGATION_LATEST:
            self.last_propagation = now
            self.tell_fact("isr-propagated", quiet)
            changed, self._isr_changed = tuple(self._isr_changed), []
            self.network.tell(self.id, FIRST_CONTROLLER, self.cluster.quorum.notify_isr, changed)

    def expand(self, replica: Replica, follower: int) -> None:
        """Take in a follower that caught up, if its broker is not fenced (KIP-841). Simplification: a leader knows that
        at once, not from its metadata, and so it does in ZooKeeper's time, when it did not ask."""
        isr = replica.joining(follower, replica.remotes[follower])
        if isr is not None and self.cluster.quorum.is_live(follower):
            self.tell_fact("isr-expand", replica.partition, replica.isr, isr, replica.hw, replica.log.end)
            self._propose(replica, isr)
