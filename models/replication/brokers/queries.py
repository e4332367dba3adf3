"""How a broker handles read-only requests: epochs, metadata, offsets, API versions."""

from __future__ import annotations

from dataclasses import dataclass

from ..partition_state import ABSENT, PartitionState
from ..requests import NONE, NOT_LEADER, ApiVersionsRequest, EpochRequest, MetadataRequest, OffsetsRequest
from .part import BrokerPart


@dataclass(slots=True, eq=False)
class QueryHandler(BrokerPart):
    """Responds from the replicas and the metadata cache."""

    _metadata: dict[int, PartitionState]

    def handle_epochs(self, request: EpochRequest) -> None:
        """OffsetsForLeaderEpoch."""
        if request.closed:
            return
        for partition, current, epoch in request.parts:
            replica = self._manager.leader(partition)
            if replica is None:
                request.results.append((partition, NOT_LEADER, -1, -1))
                continue
            error = self._rules.check_epoch(replica, current)
            if error:
                request.results.append((partition, error, -1, -1))
                continue
            found, end = self._rules.end_offset_for_epoch(replica.log, epoch)
            request.results.append((partition, NONE, found, end))
        self._reply(request)

    def handle_metadata(self, request: MetadataRequest) -> None:
        """Metadata, from this broker's cache."""
        known = [self._metadata.get(partition) for partition in range(self._config.logs)]
        if any(known):
            states = [state or ABSENT for state in known]
            request.leaders = [(state.leader, state.epoch, state.isr) for state in states]
        self._reply(request)

    def handle_offsets(self, request: OffsetsRequest) -> None:
        """ListOffsets."""
        hides = self._rules.era.hides_lagging_high_watermark
        request.offsets = {
            partition: (replica.log.start, -1 if hides and replica.hw < replica.epoch_start else replica.hw)
            for partition, replica in self._manager.replicas.items()
            if replica.is_leader
        }
        self._reply(request)

    def handle_api_versions(self, request: ApiVersionsRequest) -> None:
        """ApiVersions, whose content is not simulated."""
        self._reply(request)
