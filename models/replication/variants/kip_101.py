"""0.11 to 1.1: leader epochs in the log and OffsetsForLeaderEpoch (KIP-101), in its first version.

For a requested epoch, the leader returns the start offset of the next higher epoch in its log, but not the number of
that epoch. After fast leader changes, leader and follower may each have epochs that the other lacks. The follower then
keeps records of an epoch that the leader's log does not have, and the logs diverge (KIP-279).
"""

from __future__ import annotations

from typing import ClassVar

from ..eras import ERAS
from ..ports import ReplicaView
from ..rules import EpochTruncation
from ..storage.replica_log import UNDEFINED, UNDEFINED_END, EpochEnd, ReplicaLog
from .zookeeper import Zookeeper


class Kip101(Zookeeper):
    """Kafka 0.11 to 1.1: followers truncate to the end of their last leader epoch."""

    name = "kip-101"
    summary = "leader epochs, first version of OffsetsForLeaderEpoch"
    source = "KIP-101; LeaderEpochFileCache.endOffsetFor of 0.11; KIP-279, Motivation"
    version = "1.0.2"
    era = ERAS["1.0"]
    breaks: ClassVar[tuple[str, ...]] = ("no-acknowledged-loss", "no-committed-loss", "no-divergence")

    def end_offset_for_epoch(self, log: ReplicaLog, epoch: int) -> EpochEnd:
        """The start of the next epoch in this log; undefined for an epoch newer or older than all."""
        epochs = log.epochs
        if epoch == log.last_epoch and epochs:
            return EpochEnd(epoch, log.end)
        if epoch == UNDEFINED or not epochs or epoch > epochs[-1].epoch or epoch < epochs[0].epoch:
            return UNDEFINED_END
        return EpochEnd(epoch, next(entry.start for entry in epochs if entry.epoch > epoch))

    def truncation_for(self, replica: ReplicaView, found: EpochEnd) -> EpochTruncation:
        """Truncate to the offset that the leader returned; to the high watermark if it returned none."""
        offset = replica.hw if found.end == UNDEFINED else found.end
        return EpochTruncation(min(offset, replica.log.end), is_final=True)
