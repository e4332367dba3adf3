"""Transactions as they began, in 0.11 to 2.4: a producer with an undecided batch must be closed.

Simplification: quorum and replication are those of 3.3, so that only transactions differ.
"""

from __future__ import annotations

from typing import ClassVar

from ..rules import Rules


class Kip98(Rules):
    """KIP-320's protocol, with transactions before KIP-360 and KIP-890."""

    name = "kip-98"
    summary = "transactions before KIP-360"
    source = 'KIP-98; Sender.runOnce of 2.4: "It isn\'t safe to continue"'
    version = "2.4.1"
    breaks: ClassVar[tuple[str, ...]] = ()

    def bumps_epoch_after_abort(self) -> bool:
        """The error is fatal. The next producer's InitProducerId aborts the open transaction."""
        return False
