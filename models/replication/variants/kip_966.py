"""Eligible leader replicas (KIP-966).

A replica that leaves an ISR below min.insync.replicas stays eligible, because no record can be committed without it. A
broker that returns after an unclean shutdown is in neither ISR nor ELR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from ..config import Config
from ..partition_state import NO_LEADER, PartitionState
from ..rules import VoteOf
from .kraft import Kraft


class Kip966(Kraft):
    """Kafka 4.x: replicas that left a small ISR stay eligible."""

    name = "kip-966"
    summary = "eligible leader replicas"
    source = "KIP-966; PartitionChangeBuilder.maybePopulateTargetElr, Partition.maybeIncrementLeaderHW of 4.1"
    version = "4.1.1"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss", "exactly-once")
    needs: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[dict[str, object]] = {"min.insync.replicas": 2}

    def bumps_epoch_at_end(self) -> bool:
        """Since 4.0 (transaction.version=2). Late markers are refused as in 4.2 (KIP-1228; coordinators/markers.py)."""
        return True

    def has_next_offsets(self) -> bool:
        """Since 4.0 (ConsumerRecords.nextOffsets)."""
        return True

    def fence(self, state: PartitionState, broker: int, min_isr: int, is_unclean: bool) -> PartitionState:
        """The ISR may become empty. A broker that leaves it becomes eligible, unless its disk may have lost records."""
        isr = tuple(r for r in state.isr if r != broker)
        elr = tuple(r for r in state.elr if r != broker) if is_unclean else state.elr
        leader = NO_LEADER if state.leader == broker else state.leader
        if isr == state.isr and elr == state.elr and leader == state.leader:
            return state
        elr = self._eligible(state, isr, elr, min_isr, (broker,) if is_unclean else ())
        last_known = state.last_known
        if not isr and leader == NO_LEADER and state.leader != NO_LEADER:
            last_known = state.leader
        epoch = state.epoch + 1 if leader != state.leader else state.epoch
        return replace(
            state, leader=leader, epoch=epoch, isr=isr, elr=elr, last_known=last_known, version=state.version + 1
        )

    def alter_isr(self, state: PartitionState, isr: tuple[int, ...], min_isr: int) -> PartitionState:
        elr = self._eligible(state, isr, state.elr, min_isr, ())
        return replace(state, isr=isr, elr=elr, version=state.version + 1)

    @staticmethod
    def _eligible(
        state: PartitionState, isr: tuple[int, ...], elr: tuple[int, ...], min_isr: int, unclean: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The ELR for a new ISR: empty once the ISR is large enough again."""
        if len(isr) >= min(min_isr, len(state.replicas)):
            return ()
        return tuple(r for r in state.replicas if (r in elr or r in state.isr) and r not in isr and r not in unclean)

    def elect(
        self, state: PartitionState, live: Sequence[int], config: Config, vote_of: VoteOf
    ) -> PartitionState | None:
        """Elect from the ISR; if it is empty, from the ELR, which is also a clean election."""
        if not state.isr:
            for replica in state.replicas:
                if replica in state.elr and replica in live:
                    return self.led_by(state, replica, (replica,), False)
        return super().elect(state, live, config, vote_of)
