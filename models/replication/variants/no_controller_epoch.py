"""Without a controller epoch, brokers obey a zombie, a controller that resumes after another took over.

It has an old view of the metadata, so two brokers may lead in one leader epoch.
"""

# ruff: noqa: ARG002  a rule gets everything that any variant of it may need

from __future__ import annotations

from typing import ClassVar

from ..rules import Rules


class NoControllerEpoch(Rules):
    """KIP-320's protocol, with brokers that accept any controller's requests."""

    name = "no-controller-epoch"
    summary = "brokers obey a zombie controller"
    source = "KAFKA-340, KAFKA-6082; KafkaApis.handleLeaderAndIsrRequest, STALE_CONTROLLER_EPOCH"
    version = "3.3.2"
    breaks: ClassVar[tuple[str, ...]] = ("one-leader-per-epoch", "no-committed-loss", "no-acknowledged-loss")
    needs: ClassVar[tuple[str, ...]] = ("controller-pause",)

    def accepts_controller(self, known: int, epoch: int) -> bool:
        """Brokers obey every controller."""
        return True
