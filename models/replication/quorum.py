"""The cluster's memory and its controllers: sessions, leaders, ISRs, elections.

One model serves both eras. The quorum is ZooKeeper, or the KRaft metadata log: it never fails, it writes
one change after the other, and it refuses a change that rests on an old version. A controller can fail, or
be paused and come back as a zombie that acts on what it remembers. Simplification: brokers get a
controller's instructions in order and without loss, as both the request queues of ZooKeeper's controllers
and the metadata log ensure.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .config import MS, NEVER
from .network import FIRST_CONTROLLER, QUORUM
from .protocol import Standing
from .requests import AlterIsr
from .state import NO_LEADER, Instruction, PartitionState

if TYPE_CHECKING:
    from .cluster import Cluster

TICK = 100 * MS


class Controller:
    """One controller process: what it believes, and since which controller epoch."""

    __slots__ = ("alive", "epoch", "id", "live", "paused", "quorum", "view")

    def __init__(self, quorum: Quorum, controller: int) -> None:
        self.quorum = quorum
        self.id = controller
        self.alive = True
        self.paused = False
        self.epoch = 0
        self.view: list[PartitionState] = []
        self.live: list[int] = []

    @property
    def works(self) -> bool:
        return self.alive and not self.paused

    def reconcile(self, unclean: int = 0) -> None:
        """Bring every partition in line with who is alive: fence the dead, then elect where nobody leads.
        `unclean` is a broker that came back without a clean shutdown."""
        quorum = self.quorum
        rules, config = quorum.rules, quorum.config
        for partition in range(len(self.view)):
            state = before = self.view[partition]
            for broker in state.replicas:
                if broker not in self.live or broker == unclean:
                    state = rules.fence(state, broker, config.min_insync_replicas, broker == unclean)
            if state.leader == NO_LEADER:
                elected = rules.elect(state, self.live, config, quorum.standing(partition, state.epoch + 1))
                if elected is not None and before.leader != NO_LEADER:
                    # Leaving the old leader and electing the new one is one change, with one new epoch.
                    elected = replace(elected, epoch=before.epoch + 1, version=before.version + 1)
                state = elected or state
            if state is not before:
                self.change(partition, state)

    def change(self, partition: int, state: PartitionState) -> None:
        """Write a partition's new state and tell the brokers."""
        before = self.view[partition]
        if self.quorum.write(self, partition, state):
            self.view[partition] = state
            if state.leader != before.leader:
                self.quorum.tell_fact(self.id, "elected", partition, before, state)
            self.broadcast((partition,))

    def broadcast(self, partitions: tuple[int, ...]) -> None:
        """LeaderAndIsr and UpdateMetadata to all live brokers, and to those that are shutting down (KAFKA-7482)."""
        states = tuple((p, self.view[p]) for p in partitions)
        for broker in (*self.live, *self.quorum.leaving):
            self.instruct(broker, states)

    def instruct(self, broker: int, states: tuple[tuple[int, PartitionState], ...]) -> None:
        quorum = self.quorum
        order = Instruction(self.id, self.epoch, states, quorum.incarnations.get(broker, 0))
        quorum.network.tell(self.id, broker, quorum.cluster.brokers[broker].obey, order)

    def prefer(self) -> None:
        """Give leadership back to preferred replicas that are in the ISR (auto.leader.rebalance.enable)."""
        rules = self.quorum.rules
        for partition, state in enumerate(self.view):
            first = state.replicas[0]
            if state.leader not in (first, NO_LEADER) and first in self.live and rules.may_prefer(state, first):
                self.change(partition, rules.led_by(state, first, state.isr, False))


class Quorum:
    """Sessions and partition states; hands each change to the active controller."""

    __slots__ = (
        "_due_prefer",
        "_vacant_until",
        "cluster",
        "config",
        "controller",
        "controllers",
        "epoch",
        "incarnations",
        "leaving",
        "live",
        "loop",
        "network",
        "rules",
        "sessions",
        "states",
    )

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.loop = cluster.loop
        self.network = cluster.network
        self.rules = cluster.rules
        self.config = config = cluster.config
        self.sessions: dict[int, int] = {}  # broker -> when its session ends
        self.incarnations: dict[int, int] = {}
        self.live: list[int] = []
        self.leaving: list[int] = []  # in controlled shutdown: they are told what changes, and lead nothing any more
        self.states: list[PartitionState] = []
        self.epoch = 0
        self.controllers = [Controller(self, FIRST_CONTROLLER + i) for i in range(config.controllers)]
        self.controller: Controller | None = None
        self._vacant_until = 0
        self._due_prefer = config.imbalance_check if config.auto_rebalance else NEVER

    def tell_fact(self, node: int, kind: str, *details: Any) -> None:
        tell = self.cluster.tell
        if tell is not None:
            tell((self.loop.now, node, kind, details))

    def boot(self, brokers: tuple[int, ...]) -> None:
        """All brokers are registered when a run begins."""
        self.live = list(brokers)
        for broker in brokers:
            self.incarnations[broker] = 1
            self.tell_fact(QUORUM, "registered", broker)
        self._renew_all()

    def create(self, assignment: list[tuple[int, ...]]) -> None:
        """Create the topic with all replicas in the ISR and the first of each as leader."""
        self.states = [PartitionState(replicas, replicas[0], 0, replicas, 0) for replicas in assignment]
        self._take_over(self.controllers[0])
        for partition, state in enumerate(self.states):
            self.cluster.ledger.states[partition] = state
            self.tell_fact(QUORUM, "stored", partition, None, state)
        self.loop.at(self.loop.now + TICK, self._tick)

    # --- sessions

    def admits(self, broker: int) -> bool:
        """May a starting broker register? Not while the session of its earlier life lasts (until 1.0 "A broker is
        already registered on the path", since then NodeExistsException, in KRaft DuplicateBrokerRegistrationException
        of ClusterControlManager.registerBroker). Simplification: it asks again, where ZooKeeper's brokers exited and
        somebody started them again."""
        return self._heard(broker) and broker not in self.live and (self.rules.zookeeper or self._watched)

    def register(self, broker: int, clean: bool, incarnation: int) -> None:
        """A broker started. KRaft takes one that did not stop in order out of the ELR, too."""
        self.incarnations[broker] = incarnation
        if self.controller is not None and self._watched and not clean:
            self.controller.reconcile(unclean=broker)
        self._admit(broker)

    @property
    def _watched(self) -> bool:
        """Does a controller see who comes and goes?"""
        return self.controller is not None and self.controller.works and self._joined(self.controller)

    def _keepers(self) -> tuple[int, ...]:
        """Who must be reached for a session: ZooKeeper; in KRaft the quorum's log and the active controller."""
        if self.rules.zookeeper or self.controller is None:
            return (QUORUM,)
        return (QUORUM, self.controller.id)

    def hears(self, broker: int) -> bool:
        """Does a broker's word arrive, whether or not it gets an answer?"""
        return all(self.network.reaches(broker, node) for node in self._keepers())

    def _heard(self, broker: int) -> bool:
        return self.hears(broker) and all(self.network.reaches(node, broker) for node in self._keepers())

    def _joined(self, controller: Controller) -> bool:
        """Does a controller reach ZooKeeper, or the others of the quorum?"""
        return self.network.reaches(controller.id, QUORUM) and self.network.reaches(QUORUM, controller.id)

    def heartbeat(self, broker: int, incarnation: int) -> None:
        """Renew a session; a broker that was fenced and is heard again is let in, without a restart, but not one in
        controlled shutdown, which only wants to go (BrokerHeartbeatManager.calculateNextBrokerState)."""
        if self.incarnations.get(broker) != incarnation or broker in self.leaving:
            return
        if broker in self.live:
            self.sessions[broker] = self.loop.now + self.config.session_timeout
        elif self.admits(broker):
            self._admit(broker)

    def _admit(self, broker: int) -> None:
        """Where no controller watches, ZooKeeper has the broker's name again before the next one reads who is there:
        it keeps its place in the ISR (KAFKA-1120)."""
        self.sessions[broker] = self.loop.now + self.config.session_timeout
        self.live = sorted([*self.live, broker])
        if self.controller is None or not self._watched:
            self.tell_fact(QUORUM, "registered-unseen", broker)
            return
        self.tell_fact(QUORUM, "registered", broker)
        self.controller.live = list(self.live)
        self.controller.instruct(broker, tuple(enumerate(self.controller.view)))
        self.controller.reconcile()

    def _drop(self, broker: int, why: str = "fenced") -> None:
        self.live = [b for b in self.live if b != broker]
        if self.controller is None or not self._watched:
            self.tell_fact(QUORUM, "fenced-unseen", broker)
            return
        self.tell_fact(QUORUM, why, broker)
        self.controller.live = list(self.live)

    def is_live(self, broker: int) -> bool:
        return broker in self.live

    def leave(self, broker: int) -> None:
        """Controlled shutdown: the controller takes the broker out of all ISRs and moves its leaderships away, and the
        broker hears of it (ControlledShutdownRequest; in KRaft a heartbeat with WantShutDown)."""
        asks = broker in self.live and self.cluster.brokers[broker].answers() and self._heard(broker)
        if asks and self.controller is not None and self._watched:
            self.leaving.append(broker)
            self._drop(broker, "leaving")
            self.controller.reconcile()

    def left(self, broker: int, orderly: bool) -> None:
        """A process ends. In an orderly shutdown it closes its session with ZooKeeper, whether it was granted a
        controlled one or not."""
        if broker in self.leaving:
            self.leaving.remove(broker)
            self.tell_fact(QUORUM, "left", broker)
        elif orderly and self.rules.zookeeper and broker in self.live and self.hears(broker):
            self._drop(broker)
            if self.controller is not None and self._watched:
                self.controller.reconcile()

    def _tick(self, _: None) -> None:
        now = self.loop.now
        self.loop.at(now + TICK, self._tick)
        gone = [b for b in self.live if self.sessions[b] < now]
        if self.controller is None or not self._watched:
            if self.rules.zookeeper:
                for broker in gone:
                    self._drop(broker)
            self._fail_over(now)
            return
        if gone:
            self._fence(gone, self.controller)
        for other in self.controllers:
            # A zombie goes on reacting to brokers that come and go until somebody tells it that it is none.
            if other is not self.controller and other.works and other.epoch and other.live != self.live:
                self.resume(other)
        if now >= self._due_prefer:
            self._due_prefer = now + self.config.imbalance_check
            self.controller.prefer()

    def _fence(self, gone: list[int], controller: Controller) -> None:
        """KRaft fences one stale broker at a time, the one heard of the longest ago first, and elects in between, even
        one whose turn is still to come (ReplicationControlManager.maybeFenceStaleBroker). So the last one fenced is the
        last known leader."""
        for broker in sorted(gone, key=self.sessions.__getitem__):
            self._drop(broker)
            if not self.rules.fences_together:
                controller.reconcile()
        if self.rules.fences_together:
            controller.reconcile()

    # --- controllers

    def _fail_over(self, now: int) -> None:
        """The active controller is silent: another takes over when its session ends."""
        if self._vacant_until == 0:
            self._vacant_until = now + self.config.controller_timeout
        elif now >= self._vacant_until:
            free = [c for c in self.controllers if c.works and self._joined(c)]
            if free:
                self._take_over(free[0])

    def _take_over(self, controller: Controller) -> None:
        """A new controller epoch: read everything. KRaft's gives every broker a fresh session; ZooKeeper keeps them."""
        self._vacant_until = 0
        self.epoch += 1
        self.controller = controller
        controller.epoch = self.epoch
        controller.view = list(self.states)
        controller.live = list(self.live)
        if not self.rules.zookeeper:
            self._renew_all()
        self.tell_fact(controller.id, "controller", self.epoch)
        controller.broadcast(tuple(range(len(self.states))))
        controller.reconcile()

    def _renew_all(self) -> None:
        for broker in self.live:
            self.sessions[broker] = self.loop.now + self.config.session_timeout

    def resume(self, controller: Controller) -> None:
        """A paused controller wakes. If another took over it is a zombie: it still acts on what changed among
        the brokers while it slept, on top of the states that it remembers."""
        controller.paused = False
        if controller is self.controller or controller.epoch == 0:
            return
        if controller.live != self.live:
            controller.live = list(self.live)
            controller.reconcile()

    def write(self, controller: Controller, partition: int, state: PartitionState) -> bool:
        """A controller's change, refused if its epoch is over (KAFKA-6082 for ZooKeeper; KRaft's quorum)."""
        if controller is not self.controller:
            # Where controllers are not fenced, the zombie's word reaches brokers without being in the store.
            obeyed = self.rules.accepts_controller(self.epoch, controller.epoch)
            if not obeyed:
                controller.epoch = 0  # now it knows
            return obeyed
        self._store(partition, state)
        return True

    def _store(self, partition: int, state: PartitionState) -> None:
        before, self.states[partition] = self.states[partition], state
        self.cluster.on_change(partition, before, state)
        self.tell_fact(QUORUM, "stored", partition, before, state)

    # --- ISR

    def alter_isr(self, alter: AlterIsr) -> None:
        """A leader's new ISR: taken over if nothing changed since it looked, and if its members are alive
        (KIP-841 for the latter)."""
        state = self.states[alter.partition]
        controller = self.controller
        answering = QUORUM
        if not self.rules.zookeeper:
            if controller is None or not controller.works:
                self.network.reset(alter)
                return
            if not self.network.reaches(alter.node, controller.id):
                return  # the active controller takes it (AlterPartition), and a cut link swallowed it
            if not self.network.reaches(controller.id, alter.node):
                answering = controller.id
        joining_dead = any(b not in self.live for b in alter.isr if b not in state.isr)
        alter.accepted = (
            state.leader == alter.node
            and state.epoch == alter.epoch
            and state.version == alter.version
            and not joining_dead
        )
        if alter.accepted:
            new = self.rules.shrink(state, alter.isr, self.config.min_insync_replicas)
            self._store(alter.partition, new)
            alter.version = new.version
            if controller is not None:
                controller.view[alter.partition] = new
                if not self.rules.zookeeper:
                    controller.broadcast((alter.partition,))
        self.network.send(answering, alter.node, alter.owner.on_altered, alter)

    def notify_isr(self, partitions: tuple[int, ...]) -> None:
        """ZooKeeper's /isr_change_notification: the controller tells all brokers' metadata caches."""
        if self.controller is not None and self.controller.works:
            self.controller.broadcast(partitions)

    def standing(self, partition: int, epoch: int) -> Standing:
        """How up to date a broker's log is, for protocols that elect by it. Whoever answers stops following
        the old leader, as a vote does. Simplification: the answer takes no time."""

        def ask(broker: int) -> tuple[int, int] | None:
            node = self.cluster.brokers[broker]
            if not self._heard(broker) or not node.answers():
                return None
            return node.vote(partition, epoch)

        return ask
