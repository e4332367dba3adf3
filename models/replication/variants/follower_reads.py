"""Reads from followers (KIP-392): a consumer fetches from a replica near to it. A follower learns the high
watermark one fetch after the leader moved it, so a consumer may not see yet what was acknowledged before it
asked.
"""

from __future__ import annotations

from typing import ClassVar

from ..protocol import Protocol


class FollowerReads(Protocol):
    name = "follower-reads"
    summary = "consumers read from followers"
    source = "KIP-392; ReplicaManager.findPreferredReadReplica"
    version = "3.3.2"
    breaks: ClassVar[tuple[str, ...]] = ("no-stale-read",)
    options: ClassVar[dict[str, object]] = {
        "simulation.poll.timeout.ms": 50,
        "simulation.send.interval.us": 200000,
    }
    reads_followers = True

    def read_from(self, reader: int, leader: int, isr: tuple[int, ...]) -> int:
        """A follower of the ISR, one for each reader in turn: a stand-in for racks."""
        followers = [replica for replica in isr if replica != leader]
        return followers[reader % len(followers)] if followers else leader
