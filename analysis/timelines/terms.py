"""Terms of leadership: their leaders, where they begin, and how each leader was elected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .facts import Dated, Fact, listed


class Election(NamedTuple):
    """The record of an election."""

    electable: frozenset[str]  # in-sync and eligible replicas just before it
    fact: Fact


@dataclass
class Term(Dated):
    """One leader epoch: its leader, its first offset, and the replicas that could have been elected."""

    epoch: int
    leader: str | None = None
    start: int | None = None  # the first offset of the epoch
    time: int | None = None  # ns, when it was elected or began to lead
    ended: int | None = None  # ns, when the controller recorded that there was no leader
    isr: frozenset[str] | None = None  # at its beginning
    electable: frozenset[str] | None = None  # in-sync and eligible replicas just before the election
    eligible: frozenset[str] = frozenset()  # those of `electable` that brokers' logs name as eligible (KIP-966)
    electable_fact: Fact | None = None  # the source of `electable`, if it is not among the facts of this term
    elections: list[Election] = field(default_factory=list)
    chosen_outside_isr: Fact | None = None  # the report of it, by the controller or by this leader
    was_last_known: bool | None = False  # it was elected as the last known leader (KIP-966); None: not known
    has_conflict: bool = False
    claims: dict[str, int | None] = field(default_factory=dict)  # broker -> time of its first report that it leads (ns)
    facts: list[Fact] = field(default_factory=list)
    start_facts: list[Fact] = field(default_factory=list)
    partition_epochs: list[int] = field(default_factory=list)  # recorded during the term

    def name_leader(self, leader: str) -> None:
        """Sets the leader. A second, different leader puts the term in conflict."""
        if self.leader is not None and self.leader != leader:
            self.has_conflict = True
        self.leader = leader

    def begin(self, time: int | None, isr: frozenset[str] | None = None) -> None:
        """Sets the time and the ISR of its beginning, unless an earlier source did."""
        self.time = time if self.time is None else self.time
        self.isr = isr if self.isr is None else self.isr

    @property
    def elected_uncleanly(self) -> bool | None:
        """Whether the leader was out of sync when it was elected; None if not known.

        The last known leader that KIP-966 elects again is not out of sync, although Kafka calls its election
        unclean: it has all records that it acknowledged, unless its disk lost them.
        """
        if self.leader is None or self.has_conflict or self.was_last_known is None:
            return None
        if self.electable:
            return self.leader not in self.electable
        return None if self.chosen_outside_isr is None else True

    @property
    def how_elected(self) -> str:
        """A clause on how the leader was elected, or that it is unknown; empty for epoch 0 without a known election."""
        if self.has_conflict:
            return "sources name different leaders of this epoch"
        unclean = self.elected_uncleanly
        if unclean is None:
            return "" if self.epoch == 0 else "whether it was clean is not known"
        if unclean:
            return "unclean election"
        return "election of the last known leader" if self.was_last_known else "clean election"


def isr_clause(isr: frozenset[str]) -> str:
    """A clause on the ISR before an election."""
    return f"; the ISR had been {listed(isr)}" if isr else "; the ISR had been empty"


def last_known_clause(is_last_known: bool | None) -> str:
    """A clause on the election of the last known leader; empty for other elections, or if it is not known."""
    clause = "; it was the last known leader, which Kafka elects again although no broker is in sync (KIP-966)"
    return clause if is_last_known else ""


def is_last_known_leader(
    clean_only: bool | None, leader: str, sync: frozenset[str], elr: frozenset[str], known: frozenset[str]
) -> bool | None:
    """Whether a leader outside of ISR (`sync`) and ELR was elected as the last known leader (KIP-966).

    Kafka requires that both are empty (PartitionChangeBuilder.canElectLastKnownLeader). The record of the election may
    have emptied the ELR: its last member returned from an unclean shutdown. If unclean elections are disabled
    (`clean_only`), this is the only explanation; if that setting is not recorded (None), neither is known.
    """
    if leader not in known or leader in elr or sync:
        return False
    return True if not elr else clean_only


def broker_names(values: Any) -> frozenset[str]:
    """The names of brokers: their ids as text."""
    return frozenset(str(v) for v in values or ())
