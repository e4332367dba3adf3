"""Transactions as they began, in 0.11 to 2.4: a producer with an undecided batch must be closed.

Offsets in a transaction are not fenced by the member's generation (KIP-447, 2.5). Simplification: quorum and
replication are those of 3.3, so that only transactions differ.
"""

from __future__ import annotations

from typing import ClassVar

from ..rules import Rules


class Kip98(Rules):
    """KIP-320's protocol, with transactions before KIP-360 and KIP-890."""

    name = "kip-98"
    summary = "transactions before KIP-360 and KIP-447"
    source = 'KIP-98; Sender.runOnce of 2.4: "It isn\'t safe to continue"'
    version = "2.4.1"
    breaks: ClassVar[tuple[str, ...]] = ("exactly-once",)

    def bumps_epoch_after_abort(self) -> bool:
        """The error is fatal. The next producer's InitProducerId aborts the open transaction."""
        return False

    def fences_members(self) -> bool:
        """Only the transactional.id fences. Brokers before 2.5 never see the generation of a transaction's offsets."""
        return False
