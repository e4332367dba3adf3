"""Kafka 4.1 by default: if ISR and ELR are empty, the last known leader is elected as soon as it returns.

That happens even if unclean elections are disabled. The controller logs it as an unclean election, and it may lose the
leader's tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ..config import Config
from ..partition_state import PartitionState
from ..rules import VoteOf
from .kip_966 import Kip966


class LastKnownLeader(Kip966):
    """Kafka 4.1: elects the last known leader if ISR and ELR are empty."""

    name = "last-known-leader"
    summary = "eligible leader replicas, then the last known leader"
    source = "KIP-966; PartitionChangeBuilder.canElectLastKnownLeader of 4.1"
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss")
    needs: ClassVar[tuple[str, ...]] = ("power-loss",)
    options: ClassVar[dict[str, object]] = {"min.insync.replicas": 1}

    def elect(
        self, state: PartitionState, live: Sequence[int], config: Config, vote_of: VoteOf
    ) -> PartitionState | None:
        elected = super().elect(state, live, config, vote_of)
        clean = elected is not None and not elected.is_unclean
        if clean or state.isr or state.elr or state.last_known not in live:
            return elected
        return self.led_by(state, state.last_known, (state.last_known,), True)
