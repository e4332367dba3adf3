"""Without fencing of commits, a member that was removed from its group still moves the group's offsets.

Kafka never had such a coordinator; the variant shows what the generation and the member epoch are for.
"""

from __future__ import annotations

from typing import ClassVar

from .kip_966 import Kip966


class NoCommitFencing(Kip966):
    """Kafka 4.x with a group coordinator that accepts every commit."""

    name = "no-commit-fencing"
    summary = "a group coordinator that accepts commits of members that it removed, and of older generations"
    source = "KIP-848; ConsumerGroup.validateOffsetCommit, ClassicGroup.validateOffsetCommit"
    breaks: ClassVar[tuple[str, ...]] = ("no-fenced-commit",)
    needs: ClassVar[tuple[str, ...]] = ("consumer-pause",)

    def fences_commits(self) -> bool:
        """The coordinator accepts every commit."""
        return False
