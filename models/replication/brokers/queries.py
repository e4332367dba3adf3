"""How a broker handles read-only requests: epochs, metadata, offsets, API versions."""

from __future__ import annotations

from dataclasses import dataclass

from .. import errors
from ..partition_state import ABSENT, PartitionState
from ..ports import OffsetRange
from ..requests import ApiVersionsRequest, EpochRequest, EpochResult, MetadataRequest, OffsetsRequest, PartitionLeader
from ..storage.replica_log import UNDEFINED_END
from .part import BrokerPart


@dataclass(slots=True, eq=False)
class QueryHandler(BrokerPart):
    """Responds from the replicas and the metadata cache."""

    _metadata: dict[int, PartitionState]

    def handle_epochs(self, request: EpochRequest) -> None:
        """OffsetsForLeaderEpoch."""
        if request.is_closed:
            return
        for lookup in request.lookups:
            replica = self._manager.leader(lookup.partition)
            error = (
                errors.NOT_LEADER_OR_FOLLOWER
                if replica is None
                else self._rules.check_epoch(replica, lookup.current_epoch)
            )
            found = UNDEFINED_END
            if replica is not None and not error:
                found = self._rules.end_offset_for_epoch(replica.log, lookup.epoch)
            request.results.append(EpochResult(lookup.partition, error, found))
        self._reply(request)

    def handle_metadata(self, request: MetadataRequest) -> None:
        """Metadata, from this broker's cache."""
        known = [self._metadata.get(partition) for partition in range(self._config.logs)]
        if any(known):
            states = [state or ABSENT for state in known]
            request.leaders = [PartitionLeader(state.leader, state.epoch, state.isr) for state in states]
        self._reply(request)

    def handle_offsets(self, request: OffsetsRequest) -> None:
        """ListOffsets."""
        hides = self._rules.era.hides_lagging_high_watermark
        request.offsets = {
            partition: OffsetRange(replica.log.start, -1 if hides and replica.hw < replica.epoch_start else replica.hw)
            for partition, replica in self._manager.replicas.items()
            if replica.is_leader
        }
        self._reply(request)

    def handle_api_versions(self, request: ApiVersionsRequest) -> None:
        """ApiVersions, whose content is not simulated."""
        self._reply(request)
