"""How a broker becomes leader or follower of its partitions, as the controller requests (becomeLeaderOrFollower)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..events import Followed, LeaderEpoch, Led
from ..partition_state import ABSENT, NO_LEADER, LeaderAndIsr, PartitionState
from ..rules import Vote
from .disk import Disk
from .fetch import FetchHandler
from .fetcher import FetcherManager
from .isr_manager import IsrManager
from .part import BrokerPart
from .produce import ProduceHandler
from .replica import Replica

OnLeader = Callable[[Replica, PartitionState], None]


@dataclass(slots=True, eq=False)
class Leadership(BrokerPart):
    """Applies LeaderAndIsr requests to the replicas, and keeps the metadata cache."""

    _isr: IsrManager
    _fetchers: FetcherManager
    _produces: ProduceHandler
    _fetches: FetchHandler
    _disk: Disk
    metadata: dict[int, PartitionState]
    _on_leader: OnLeader
    controller_epoch: int = field(default=0, init=False)
    is_leaving: bool = field(default=False, init=False)  # in controlled shutdown

    def restart(self) -> None:
        """A new process has no controller and no metadata."""
        self.metadata.clear()
        self.controller_epoch = 0
        self.is_leaving = False

    def apply(self, request: LeaderAndIsr) -> None:
        """Apply leaders, epochs and ISRs, unless another controller already sent newer ones."""
        process = self._process
        if process.defer(self.apply, request):
            return
        if request.registration not in (0, process.incarnation):
            return  # it was for this broker's previous process
        if not self._rules.accepts_controller(self.controller_epoch, request.controller_epoch):
            process.report("refused-controller", request.controller_epoch, self.controller_epoch)
            return
        self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
        for partition, state in request.states:
            if state is ABSENT:
                continue
            known = self.metadata.get(partition)
            if known is None or state.epoch > known.epoch or state.version >= known.version:
                self.metadata[partition] = state
            if process.id in state.replicas:
                self._apply(partition, state)
            elif partition in self._manager.replicas:
                self._remove(partition, state)

    def _apply(self, partition: int, state: PartitionState) -> None:
        broker = self._process.id
        replica = self._manager.replicas.get(partition)
        if replica is None:
            replica = self._manager.replicas[partition] = Replica(broker, partition, self._rules, self._config)
        is_notified = self._rules.era.notifies_leaving_leader
        if state.epoch < replica.epoch or (self.is_leaving and replica.is_leader and not is_notified):
            return
        # A broker in shutdown stops fetching once it left the ISR, so that it cannot join again (KAFKA-13858, with
        # ZooKeeper StopReplica).
        stays_out = self.is_leaving and broker not in state.isr
        if state.epoch == replica.epoch:
            if replica.is_leader and state.leader == broker and state.version > replica.version:
                self._isr.on_stored(replica, state)
            elif stays_out:
                self._fetchers.stop(partition)
            return
        was_leader, previous = replica.is_leader, LeaderEpoch(replica.leader, replica.epoch)
        keeps_leader = state.leader == replica.leader and state.leader not in (broker, NO_LEADER)
        if keeps_leader and not stays_out and self._rules.keeps_fetching(replica, state):
            replica.start_following(state)
            self._process.report("follows-on", _followed_event(replica, state, previous))
            return
        self._fetchers.stop(partition)
        if was_leader:
            replica.deletes = []
            self._produces.resign(replica)
            self._fetches.resign(replica)
        if state.leader == broker:
            self._lead(replica, state, previous)
            return
        replica.start_following(state)
        self._process.report("follower", _followed_event(replica, state, previous))
        if state.leader != NO_LEADER and not stays_out:
            self._fetchers.follow(replica, state.leader)

    def _remove(self, partition: int, state: PartitionState) -> None:
        """A reassignment took the partition away: delete its log (StopReplica with deletePartition)."""
        replica = self._manager.replicas[partition]
        if state.epoch < replica.epoch:
            return
        self._fetchers.stop(partition)
        if replica.is_leader:
            replica.leader = state.leader
            self._produces.resign(replica)
            self._fetches.resign(replica)
        del self._manager.replicas[partition]
        self._disk.forget(partition)
        self._process.report("removed-replica", partition, replica.log.end)

    def _lead(self, replica: Replica, state: PartitionState, previous: LeaderEpoch) -> None:
        replica.start_leading(state, self._process.wall_clock())
        end, mark = replica.log.end, replica.hw
        led = Led(replica.partition, state.epoch, end, mark, state.isr, state.version, previous, state.is_unclean)
        self._process.report("leader", led)
        self._on_leader(replica, state)
        self._manager.advance(replica)

    def vote(self, partition: int, epoch: int) -> Vote | None:
        """The state of a replica's log for a vote. After voting it does not follow leaders of epochs before `epoch`."""
        replica = self._manager.replicas.get(partition)
        if replica is None or replica.epoch >= epoch:
            return None
        self._fetchers.stop(partition)
        return Vote(replica.log_view, replica.log.end)


def _followed_event(replica: Replica, state: PartitionState, previous: LeaderEpoch) -> Followed:
    end, mark = replica.log.end, replica.hw
    return Followed(replica.partition, state.epoch, state.leader, end, mark, state.version, previous, state.isr)
