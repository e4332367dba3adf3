"""Reads from followers (KIP-392): a consumer fetches from a nearby replica.

A follower gets the new high watermark with its next fetch, so a poll may miss records that were acknowledged before it
began.
"""

from __future__ import annotations

from typing import ClassVar

from ..eras import ERAS
from ..rules import Rules


class FollowerReads(Rules):
    """KIP-320's protocol, with consumers that fetch from followers."""

    name = "follower-reads"
    summary = "consumers read from followers"
    source = "KIP-392; ReplicaManager.findPreferredReadReplica"
    version = "3.3.2"
    era = ERAS["3.3, follower reads"]
    breaks: ClassVar[tuple[str, ...]] = ("no-stale-read",)
    options: ClassVar[dict[str, object]] = {"simulation.poll.timeout.ms": 50, "simulation.send.interval.us": 200000}

    def read_replica(self, reader: int, leader: int, isr: tuple[int, ...]) -> int:
        """A follower of the ISR, by the reader's number instead of its rack."""
        followers = [replica for replica in isr if replica != leader]
        return followers[reader % len(followers)] if followers else leader
