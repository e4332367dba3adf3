"""One controller process: elects leaders and removes dead brokers from ISRs, by its own view of the metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from .. import reassignment
from ..config import Config
from ..network import Network
from ..partition_state import ABSENT, NO_LEADER, LeaderAndIsr, PartitionState
from ..rules import Rules, Vote, VoteOf


class BrokerCalls(NamedTuple):
    """The methods of a broker that the quorum and the controllers call."""

    is_responsive: Callable[[], bool]
    apply: Callable[[LeaderAndIsr], None]
    vote: Callable[[int, int], Vote | None]  # in a partition, for a leader epoch


class MetadataStore(Protocol):
    """The methods of ZooKeeper or the quorum (quorum.py) that a controller calls."""

    leaving: list[int]
    incarnations: dict[int, int]

    def write(self, controller: Controller, partition: int, state: PartitionState) -> bool:
        """Store a change; False if the controller's epoch is over."""

    def vote_of(self, partition: int, epoch: int) -> VoteOf:
        """The function that returns a broker's vote."""


@dataclass(slots=True, eq=False)
class Controller:
    """A controller with its own view of brokers and partitions, and its controller epoch."""

    id: int
    _store: MetadataStore
    _network: Network
    _brokers: Mapping[int, BrokerCalls]
    _rules: Rules
    _config: Config
    _report: Callable[..., Any]
    alive: bool = field(default=True, init=False)
    is_paused: bool = field(default=False, init=False)
    epoch: int = field(default=0, init=False)
    view: list[PartitionState] = field(default_factory=list, init=False)
    live: list[int] = field(default_factory=list, init=False)

    @property
    def is_running(self) -> bool:
        """Whether its process runs and is not paused."""
        return self.alive and not self.is_paused

    def reconcile(self, unclean: int = 0) -> None:
        """Bring every partition in line with the live brokers: fence the dead, then elect missing leaders.

        `unclean` is a broker that came back without a clean shutdown.
        """
        rules, config = self._rules, self._config
        for partition in range(len(self.view)):
            self.finish_reassignment(partition)
            state = before = self.view[partition]
            if state is ABSENT:
                continue
            for broker in state.replicas:
                if broker not in self.live or broker == unclean:
                    state = rules.fence(state, broker, config.min_insync_replicas, broker == unclean)
            if state.leader == NO_LEADER:
                elected = rules.elect(state, self.live, config, self._store.vote_of(partition, state.epoch + 1))
                if elected is not None and before.leader != NO_LEADER:
                    # Removing the old leader and electing the new one is one change, with one new epoch.
                    elected = replace(elected, epoch=before.epoch + 1, version=before.version + 1)
                state = elected or state
            if state is not before:
                self.change(partition, state)

    def change(self, partition: int, state: PartitionState) -> None:
        """Store a partition's new state and send it to the brokers."""
        before = self.view[partition]
        if self._store.write(self, partition, state):
            self.view[partition] = state
            if state.leader != before.leader:
                self._report(self.id, "elected", partition, before, state)
            self.broadcast((partition,))

    def broadcast(self, partitions: tuple[int, ...]) -> None:
        """LeaderAndIsr and UpdateMetadata to all live brokers, and to those that are shutting down (KAFKA-7482)."""
        states = tuple((p, self.view[p]) for p in partitions)
        for broker in (*self.live, *self._store.leaving):
            self.send_states(broker, states)

    def send_states(self, broker: int, states: tuple[tuple[int, PartitionState], ...]) -> None:
        """LeaderAndIsr to one broker."""
        request = LeaderAndIsr(self.id, self.epoch, states, self._store.incarnations.get(broker, 0))
        self._network.send_reliably(self.id, broker, self._brokers[broker].apply, request)

    def reassign(self, partition: int, target: tuple[int, ...]) -> None:
        """Move a partition to other brokers (kafka-reassign-partitions)."""
        state = self.view[partition]
        self._move(partition, "begun", reassignment.begin(state, target, self._rules.era))
        self.finish_reassignment(partition)

    def complete_reassignment(self, partition: int, state: PartitionState) -> bool:
        """If a move ends with this state, store the state and that end in one change. Returns whether it does."""
        changes = reassignment.finish(state, self.live, self._rules.era)
        if changes:
            self._move(partition, "completed", replace(changes[-1], version=state.version))
        return bool(changes)

    def finish_reassignment(self, partition: int) -> None:
        """End a move if the replicas that it requires are in the ISR."""
        for state in reassignment.finish(self.view[partition], self.live, self._rules.era):
            self._move(partition, "completed", state)

    def cancel_reassignment(self, partition: int) -> None:
        """Cancel a move (kafka-reassign-partitions --cancel)."""
        state = reassignment.revert(self.view[partition], self.live)
        if state is not None:
            self._move(partition, "cancelled", state)

    def _move(self, partition: int, what: str, state: PartitionState) -> None:
        before = self.view[partition]
        self.change(partition, state)
        if self.view[partition] is state and state.replicas != before.replicas:
            self._report(self.id, "reassignment", partition, what, before, state)

    def rebalance_leaders(self) -> None:
        """Elect preferred leaders by the timer of auto.leader.rebalance.enable.

        ZooKeeper's controller elects those of a broker only if more than leader.imbalance.per.broker.percentage of its
        partitions have another leader (KafkaController.checkAndTriggerAutoLeaderRebalance); KRaft's elects all.
        """
        if not self._rules.era.zookeeper:
            self.elect_preferred()
            return
        preferred: dict[int, list[int]] = {}
        for partition, state in enumerate(self.view):
            if state is ABSENT:
                continue
            preferred.setdefault(state.replicas[0], []).append(partition)
        for broker in sorted(preferred):
            own = preferred[broker]
            elsewhere = [partition for partition in own if self.view[partition].leader != broker]
            if 100 * len(elsewhere) > self._config.imbalance_percentage * len(own):
                self.elect_preferred(elsewhere)

    def elect_preferred(self, partitions: Sequence[int] | None = None) -> None:
        """Elect preferred replicas that are in the ISR, of all partitions if none are given."""
        rules = self._rules
        for partition in range(len(self.view)) if partitions is None else partitions:
            state = self.view[partition]
            if state is ABSENT:
                continue
            first = state.replicas[0]
            if state.leader not in (first, NO_LEADER) and first in self.live and rules.may_prefer(state, first):
                self.change(partition, rules.led_by(state, first, state.isr, False))
