"""How a broker handles DeleteRecords (KIP-107): its log start moves at once; the response waits for the low watermark.

The low watermark is the smallest log start offset of all live replicas: records below it are on no live broker.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..controllers.quorum import Quorum
from .part import BrokerPart
from .replica import DelayedDelete, Replica


@dataclass(slots=True, eq=False)
class DeleteHandler(BrokerPart):
    """Deletes as leader, and responds once the followers deleted too (DelayedDeleteRecords)."""

    _quorum: Quorum

    def handle(self, partition: int, offset: int) -> None:
        """Delete the records below an offset, never beyond the high watermark."""
        replica = self._manager.leader(partition)
        if replica is None:
            return
        target = min(offset, replica.hw)
        replica.log.advance_start(target)
        replica.deletes.append(DelayedDelete(target, self._process.loop.now + self._config.request_timeout))
        self.complete(replica)

    def low_watermark(self, replica: Replica) -> int:
        """The smallest log start of the live replicas (Partition.lowWatermarkIfLeader)."""
        live = [follower for node, follower in replica.followers.items() if self._quorum.is_live(node)]
        return min([replica.log.start, *(follower.start for follower in live)])

    def complete(self, replica: Replica) -> None:
        """A log start moved: complete the requests that the low watermark reached."""
        low = self.low_watermark(replica)
        for delete in replica.deletes:
            if delete.required <= low:
                self._process.report("records-deleted", replica.partition, delete.required, low)
        replica.deletes = [delete for delete in replica.deletes if delete.required > low]

    def expire(self, replica: Replica, now: int) -> None:
        """Complete requests if a replica stopped, and time out the others after request.timeout.ms."""
        self.complete(replica)
        for delete in replica.deletes:
            if now >= delete.deadline:
                low = self.low_watermark(replica)
                self._process.report("delete-timed-out", replica.partition, delete.required, low)
        replica.deletes = [delete for delete in replica.deletes if now < delete.deadline]
