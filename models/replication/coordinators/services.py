"""Composes the coordinators of one broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from ..brokers.process import Process
from ..brokers.produce import ProduceHandler
from ..brokers.replica_manager import ReplicaManager
from ..brokers.verification import Verifier
from ..config import Config
from ..network import Network
from ..partition_state import NO_LEADER, PartitionState
from ..ports import Inboxes
from ..requests import Request
from ..rules import Rules
from ..storage.transactions import FIRST_TRANSACTIONAL
from .coordinator import GroupCoordinator
from .group_ledger import GroupLedger
from .markers import MarkerHandler
from .requests import GroupRecord, GroupRequest
from .transaction_ledger import TransactionLedger
from .transaction_requests import MarkerRequest, TransactionRecord, TransactionRequest
from .transactions import TransactionCoordinator


@dataclass(slots=True)
class CoordinatorLogs:
    """The state that all brokers' coordinators share: all appended records, and the ledgers."""

    group: GroupLedger
    transactions: TransactionLedger
    group_records: list[GroupRecord] = field(default_factory=list)
    transaction_records: list[TransactionRecord] = field(default_factory=list)
    pids: count[int] = field(default_factory=lambda: count(FIRST_TRANSACTIONAL))
    markers: count[int] = field(default_factory=count)


class CoordinatorServices:
    """The group and the transaction coordinator of a broker, and its handler of markers."""

    def __init__(
        self,
        process: Process,
        network: Network,
        manager: ReplicaManager,
        produces: ProduceHandler,
        config: Config,
        metadata: Mapping[int, PartitionState],
        rules: Rules,
        inboxes: Inboxes,
        logs: CoordinatorLogs,
    ) -> None:
        parts = (process, network, manager, produces)
        leader_of = partial(_leader_of, metadata)
        self.groups = GroupCoordinator(*parts, config, records=logs.group_records, ledger=logs.group, rules=rules)
        self.transactions = TransactionCoordinator(
            *parts,
            config,
            records=logs.transaction_records,
            ledger=logs.transactions,
            rules=rules,
            inboxes=inboxes,
            leader_of=leader_of,
            next_pid=logs.pids.__next__,
        )
        self.markers = MarkerHandler(*parts, rules, logs.markers.__next__, self._on_marker)
        self._config = config
        if config.transactional and rules.verifies_transactions():
            produces.verifier = Verifier(process, network, manager, rules, config, inboxes, leader_of, produces.append)
        self._verifier = produces.verifier

    def handlers(self) -> dict[type[Request], Callable[[Any], None]]:
        """The handlers by class of request."""
        return {
            GroupRequest: self.groups.handle,
            TransactionRequest: self.transactions.handle,
            MarkerRequest: self.markers.handle,
        }

    def lead(self, partition: int, epoch: int) -> None:
        """Load a coordinator's state, if it is stored in the partition that the broker began to lead."""
        if self._config.strategy and partition == self.groups.log:
            self.groups.lead(epoch)
        elif self._config.transactional and partition == self.transactions.log:
            self.transactions.lead(epoch)

    def _on_marker(self, request: MarkerRequest) -> None:
        """A marker in the group's log decides the offsets of its transaction."""
        if self._config.strategy and request.partition == self.groups.log:
            self.groups.end_transaction(request.pid, request.commit)

    def restart(self) -> None:
        """A new process coordinates nothing."""
        self.groups.restart()
        self.transactions.restart()

    def expire(self, now: int) -> None:
        """Give up requests that wait for too long."""
        if self._verifier is not None:
            self._verifier.expire(now)

    def parked(self) -> Iterator[Request]:
        """The requests that wait for other clients."""
        yield from self.groups.parked()


def _leader_of(metadata: Mapping[int, PartitionState], partition: int) -> int:
    state = metadata.get(partition)
    return NO_LEADER if state is None else state.leader
