"""The cluster's metadata: sessions, partition states, and which controller is active.

The quorum is ZooKeeper or the KRaft metadata log. It never fails, stores one change after the other, and refuses a
change that is based on an old version. A controller can fail, or be paused and resume as a zombie with an old view.
Simplification: brokers get a controller's requests in order and without loss, as the request queues of ZooKeeper's
controllers and the metadata log ensure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..config import MS, NEVER, Config
from ..events import ClusterEvent, Listener
from ..network import FIRST_CONTROLLER, QUORUM, Network
from ..partition_state import ABSENT, PartitionState
from ..requests import AlterIsrRequest
from ..rules import Rules, Vote, VoteOf
from .controller import BrokerCalls, Controller

TICK = 100 * MS
# Called with every change of a partition that the quorum stored: the partition, its state before, and after.
OnStored = Callable[[int, PartitionState, PartitionState], None]


class Quorum:
    """Sessions and partition states; passes each change to the active controller."""

    def __init__(
        self,
        network: Network,
        brokers: Mapping[int, BrokerCalls],
        rules: Rules,
        config: Config,
        on_stored: OnStored,
        listener: Listener | None,
    ) -> None:
        self.network = network
        self.loop = network.loop
        self.rules = rules
        self.config = config
        self._brokers = brokers
        self._on_stored = on_stored
        self._listener = listener
        self.sessions: dict[int, int] = {}  # broker -> when its session ends
        self.incarnations: dict[int, int] = {}
        self.live: list[int] = []
        self.leaving: list[int] = []  # in controlled shutdown: they still get changes, but lead nothing
        self.states: list[PartitionState] = []
        self._planned: list[tuple[int, ...]] = []  # the replicas of all partitions
        self.epoch = 0
        self.controllers = [
            Controller(FIRST_CONTROLLER + i, self, network, brokers, rules, config, self.report)
            for i in range(config.controllers)
        ]
        self.controller: Controller | None = None
        self._vacant_until = 0
        self._due_prefer = config.imbalance_check if config.auto_rebalance else NEVER

    def report(self, node: int, kind: str, *details: Any) -> None:
        """Report an event (events.py) to the listener, if there is one."""
        if self._listener is not None:
            self._listener(ClusterEvent(self.loop.now, node, kind, details))

    def boot(self, brokers: tuple[int, ...]) -> None:
        """All brokers are registered when a run begins."""
        self.live = list(brokers)
        for broker in brokers:
            self.incarnations[broker] = 1
            self.report(QUORUM, "registered", broker)
        self._renew_all()

    def create(self, assignment: list[tuple[int, ...]]) -> None:
        """Create the topics, except for the partitions that are added later."""
        self._planned = assignment
        later = range(self.config.first_partitions, self.config.partitions)
        self.states += [ABSENT if p in later else _new_partition(replicas) for p, replicas in enumerate(assignment)]
        self._start_epoch(self.controllers[0])
        for partition, state in enumerate(self.states):
            if state is not ABSENT:
                self.report(QUORUM, "stored", partition, None, state)
        self.loop.after(TICK, self._tick)

    def add_partitions(self) -> None:
        """Create the partitions that the topic lacks (kafka-topics --alter), once a controller is active.

        Simplification: they are placed as if the topic had had them from the start.
        """
        controller = self.running
        if controller is None:
            self.loop.after(TICK, lambda _: self.add_partitions())
            return
        for partition, state in enumerate(self.states):
            if state is ABSENT:
                state = _new_partition(self._planned[partition])
                self.states[partition] = controller.view[partition] = state
                self._on_stored(partition, state, state)
                self.report(QUORUM, "stored", partition, None, state)
                controller.broadcast((partition,))
        controller.reconcile()

    # --- sessions

    def can_register(self, broker: int) -> bool:
        """Whether a starting broker may register: not while the session of its earlier process lasts.

        Kafka then fails with "A broker is already registered on the path" (until 1.0), NodeExistsException, or in KRaft
        DuplicateBrokerRegistrationException (ClusterControlManager.registerBroker). Simplification: the broker retries,
        where ZooKeeper's brokers exited and were restarted.
        """
        is_noticed = self.rules.era.zookeeper or self._watcher is not None
        return self._is_connected(broker) and broker not in self.live and is_noticed

    def register(self, broker: int, was_clean: bool, incarnation: int) -> None:
        """Register a started broker. KRaft removes it from the ELR too, unless its last shutdown was clean."""
        self.incarnations[broker] = incarnation
        if not was_clean and (watcher := self._watcher) is not None:
            watcher.reconcile(unclean=broker)
        self._begin_session(broker)

    @property
    def running(self) -> Controller | None:
        """The active controller, if its process runs and is not paused."""
        return self.controller if self.controller is not None and self.controller.is_running else None

    @property
    def _watcher(self) -> Controller | None:
        """The active controller, if it notices sessions that begin and end."""
        controller = self.running
        return controller if controller is not None and self._has_joined(controller) else None

    def _session_keepers(self) -> tuple[int, ...]:
        """The nodes that a session needs: ZooKeeper; with KRaft the quorum's log and the active controller."""
        if self.rules.era.zookeeper or self.controller is None:
            return (QUORUM,)
        return (QUORUM, self.controller.id)

    def receives_from(self, broker: int) -> bool:
        """Whether a broker's messages arrive, even if responses do not."""
        return all(self.network.reaches(broker, node) for node in self._session_keepers())

    def _is_connected(self, broker: int) -> bool:
        return self.receives_from(broker) and all(
            self.network.reaches(node, broker) for node in self._session_keepers()
        )

    def _has_joined(self, controller: Controller) -> bool:
        """Whether a controller is connected with ZooKeeper, or the others of the quorum."""
        return self.network.reaches(controller.id, QUORUM) and self.network.reaches(QUORUM, controller.id)

    def heartbeat(self, broker: int, incarnation: int) -> None:
        """Renew a session, or unfence a broker without a restart, unless it is in controlled shutdown.

        It is BrokerHeartbeatManager.calculateNextBrokerState.
        """
        if self.incarnations.get(broker) != incarnation or broker in self.leaving:
            return
        if broker in self.live:
            self.sessions[broker] = self.loop.now + self.config.session_timeout
        elif self.can_register(broker):
            self._begin_session(broker)

    def _begin_session(self, broker: int) -> None:
        """Begin a session.

        Without an active controller, ZooKeeper has the broker's node again before the next controller reads the list,
        so the broker stays in the ISR (KAFKA-1120).
        """
        self.sessions[broker] = self.loop.now + self.config.session_timeout
        self.live = sorted([*self.live, broker])
        watcher = self._watcher
        if watcher is None:
            self.report(QUORUM, "registered-unseen", broker)
            return
        self.report(QUORUM, "registered", broker)
        watcher.live = list(self.live)
        watcher.send_states(broker, tuple(enumerate(watcher.view)))
        watcher.reconcile()

    def _remove(self, broker: int, kind: str = "fenced") -> None:
        self.live = [b for b in self.live if b != broker]
        if (watcher := self._watcher) is None:
            self.report(QUORUM, "fenced-unseen", broker)
            return
        self.report(QUORUM, kind, broker)
        watcher.live = list(self.live)

    def is_live(self, broker: int) -> bool:
        """Whether a broker is registered and not fenced."""
        return broker in self.live

    def request_shutdown(self, broker: int) -> None:
        """Begin a controlled shutdown (ControlledShutdownRequest; with KRaft a heartbeat with WantShutDown).

        The controller removes the broker from all ISRs, elects other leaders for its partitions, and sends it the
        result.
        """
        connected = broker in self.live and self._brokers[broker].is_responsive() and self._is_connected(broker)
        if connected and (watcher := self._watcher) is not None:
            self.leaving.append(broker)
            self._remove(broker, "leaving")
            watcher.reconcile()

    def on_stopped(self, broker: int, was_clean: bool) -> None:
        """A broker's process ends. In a clean shutdown it closes its session with ZooKeeper, granted or not."""
        if broker in self.leaving:
            self.leaving.remove(broker)
            self.report(QUORUM, "left", broker)
        elif was_clean and self.rules.era.zookeeper and broker in self.live and self.receives_from(broker):
            self._remove(broker)
            if (watcher := self._watcher) is not None:
                watcher.reconcile()

    def _tick(self, _: None) -> None:
        now = self.loop.now
        self.loop.after(TICK, self._tick)
        gone = [b for b in self.live if self.sessions[b] < now]
        watcher = self._watcher
        if watcher is None:
            if self.rules.era.zookeeper:
                for broker in gone:
                    self._remove(broker)
            self._fail_over(now)
            return
        if gone:
            self._fence(gone, watcher)
        for other in self.controllers:
            # A zombie keeps reacting to brokers that come and go until it notices its successor.
            if other is not watcher and other.is_running and other.epoch and other.live != self.live:
                self.resume(other)
        if now >= self._due_prefer:
            self._due_prefer = now + self.config.imbalance_check
            watcher.rebalance_leaders()

    def _fence(self, gone: list[int], controller: Controller) -> None:
        """Fence brokers whose sessions ended.

        KRaft fences one at a time, the longest silent first, and elects leaders in between, even a broker that is
        fenced next (ReplicationControlManager.maybeFenceStaleBroker). So the last fenced broker is the last known
        leader.
        """
        for broker in sorted(gone, key=self.sessions.__getitem__):
            self._remove(broker)
            if not self.rules.era.fences_together:
                controller.reconcile()
        if self.rules.era.fences_together:
            controller.reconcile()

    # --- controllers

    def _fail_over(self, now: int) -> None:
        """Without an active controller, let another take over when the session of the last one ends."""
        if self._vacant_until == 0:
            self._vacant_until = now + self.config.controller_timeout
        elif now >= self._vacant_until:
            free = [c for c in self.controllers if c.is_running and self._has_joined(c)]
            if free:
                self._start_epoch(free[0])

    def _start_epoch(self, controller: Controller) -> None:
        """Begin a controller epoch: the controller reads everything. KRaft renews all sessions, ZooKeeper none."""
        self._vacant_until = 0
        self.epoch += 1
        self.controller = controller
        controller.epoch = self.epoch
        controller.view = list(self.states)
        controller.live = list(self.live)
        if not self.rules.era.zookeeper:
            self._renew_all()
        self.report(controller.id, "controller", self.epoch)
        controller.broadcast(tuple(range(len(self.states))))
        controller.reconcile()

    def _renew_all(self) -> None:
        for broker in self.live:
            self.sessions[broker] = self.loop.now + self.config.session_timeout

    def resume(self, controller: Controller) -> None:
        """Resume a paused controller.

        If another took over, it is a zombie: it reacts to brokers that came or went meanwhile, with the partition
        states of its old view.
        """
        controller.is_paused = False
        if controller is self.controller or controller.epoch == 0:
            return
        if controller.live != self.live:
            controller.live = list(self.live)
            controller.reconcile()

    def write(self, controller: Controller, partition: int, state: PartitionState) -> bool:
        """Store a controller's change; False if its epoch is over (KAFKA-6082 for ZooKeeper; KRaft's quorum)."""
        if controller is not self.controller:
            # Without fencing of controllers, the zombie's change reaches brokers without being stored.
            is_accepted = self.rules.accepts_controller(self.epoch, controller.epoch)
            if not is_accepted:
                controller.epoch = 0  # it notices its successor
            return is_accepted
        self._store(partition, state)
        return True

    def _store(self, partition: int, state: PartitionState) -> None:
        before, self.states[partition] = self.states[partition], state
        self._on_stored(partition, before, state)
        self.report(QUORUM, "stored", partition, before, state)

    # --- ISR

    def alter_isr(self, alter: AlterIsrRequest) -> None:
        """Store a leader's proposed ISR if the partition did not change meanwhile and all members live (KIP-841)."""
        state = self.states[alter.partition]
        controller = self.controller
        responder = QUORUM
        if not self.rules.era.zookeeper:
            if controller is None or not controller.is_running:
                self.network.reset(alter)
                return
            if not self.network.reaches(alter.node, controller.id):
                return  # the active controller takes it (AlterPartition), and a cut link dropped it
            if not self.network.reaches(controller.id, alter.node):
                responder = controller.id
        joining_dead = any(b not in self.live for b in alter.isr if b not in state.isr)
        is_current = (alter.node, alter.epoch, alter.version) == (state.leader, state.epoch, state.version)
        alter.accepted = is_current and not joining_dead
        if alter.accepted:
            new = self.rules.alter_isr(state, alter.isr, self.config.min_insync_replicas)
            is_kraft = not self.rules.era.zookeeper
            if is_kraft and controller is not None and controller.complete_reassignment(alter.partition, new):
                # One record changes the ISR and ends the move, so the leader is informed as of any other new epoch
                # (ReplicationControlManager.alterPartition returns NEW_LEADER_ELECTED).
                alter.accepted = False
            else:
                self._store(alter.partition, new)
                alter.version = new.version
                if controller is not None:
                    controller.view[alter.partition] = new
                    if is_kraft:
                        controller.broadcast((alter.partition,))
                    if controller.is_running:
                        controller.finish_reassignment(alter.partition)
        self.network.send(responder, alter.node, alter.reply, alter)

    def notify_isr(self, partitions: tuple[int, ...]) -> None:
        """ZooKeeper's /isr_change_notification: the controller updates all brokers' metadata caches."""
        if (controller := self.running) is not None:
            controller.broadcast(partitions)

    def vote_of(self, partition: int, epoch: int) -> VoteOf:
        """The function that returns a broker's vote, for protocols that elect by the log.

        A broker that votes stops following the old leader. Simplification: the vote takes no time.
        """

        def vote(broker: int) -> Vote | None:
            node = self._brokers[broker]
            return node.vote(partition, epoch) if self._is_connected(broker) and node.is_responsive() else None

        return vote


def _new_partition(replicas: tuple[int, ...]) -> PartitionState:
    """A new partition: all replicas are in the ISR, and the first leads."""
    return PartitionState(replicas, replicas[0], 0, replicas, 0)
