"""Composes the coordinators of one broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from ..brokers.part import Parts
from ..brokers.produce import ProduceHandler
from ..brokers.verification import Verifier
from ..partition_state import ABSENT, NO_LEADER, PartitionState
from ..ports import Inboxes
from ..requests import Request
from ..storage.transactions import FIRST_TRANSACTIONAL
from .classic_group import ClassicGroup
from .consumer_group import ConsumerGroup
from .convertible_group import ConvertibleGroup
from .group_coordinator import GroupCoordinator
from .group_ledger import GroupLedger
from .group_requests import GroupRecord, GroupRequest
from .markers import MarkerHandler
from .transaction_coordinator import TransactionCoordinator
from .transaction_ledger import TransactionLedger
from .transaction_requests import MarkerRequest, TransactionRecord, TransactionRequest


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
        parts: Parts,
        produces: ProduceHandler,
        metadata: Mapping[int, PartitionState],
        inboxes: Inboxes,
        logs: CoordinatorLogs,
    ) -> None:
        self._config = parts.config

        def leader_of(partition: int) -> int:
            state = metadata.get(partition)
            return NO_LEADER if state is None else state.leader

        def count_partitions() -> int:
            known = (metadata.get(partition, ABSENT) for partition in range(self._config.partitions))
            return sum(state.epoch >= 0 for state in known)

        has_both = self._config.has_member_epochs and self._config.classic_members
        make_members = ConsumerGroup if self._config.has_member_epochs and not has_both else ClassicGroup
        make_group = ConvertibleGroup if has_both else GroupCoordinator
        self.groups = make_group(parts, produces, logs.group_records, logs.group, count_partitions, make_members)
        self.transactions = TransactionCoordinator(
            parts, produces, logs.transaction_records, logs.transactions, inboxes, leader_of, logs.pids.__next__
        )
        self.markers = MarkerHandler(*parts, produces, logs.markers.__next__, self._on_marker)
        if self._config.transactional and parts.rules.verifies_transactions():
            produces.verifier = Verifier(*parts, inboxes, leader_of, produces.append)

    def handlers(self) -> dict[type[Request], Callable[[Any], None]]:
        """The handlers by class of request."""
        return {
            GroupRequest: self.groups.handle,
            TransactionRequest: self.transactions.handle,
            MarkerRequest: self.markers.handle,
        }

    def lead(self, partition: int, epoch: int) -> None:
        """Load a coordinator's state, if it is stored in the partition that the broker began to lead."""
        if self._config.has_group and partition == self.groups.partition:
            self.groups.lead(epoch)
        elif self._config.transactional and partition == self.transactions.partition:
            self.transactions.lead(epoch)

    def _on_marker(self, request: MarkerRequest) -> None:
        """A marker in the group's log decides the offsets of its transaction."""
        if self._config.has_group and request.partition == self.groups.partition:
            self.groups.end_transaction(request.pid, request.commit)

    def restart(self) -> None:
        """A new process coordinates nothing."""
        self.groups.restart()
        self.transactions.restart()
