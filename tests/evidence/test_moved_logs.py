"""A broker moves a partition to another of its disks (kafka-reassign-partitions with log_dirs, KIP-113)."""

# A log line stands on one line, as brokers write it.
# ruff: noqa: E501

from __future__ import annotations

import pytest

from .replica_texts import logs
from .timelines import server_log, timeline

REASON = "Truncating partition orders-0 with TruncationState(offset=%d, completed=true) due to local high watermark 0"
COPIES = f"INFO [ReplicaAlterLogDirsThread-1]: {REASON} (kafka.server.ReplicaAlterLogDirsThread)"
FETCHES = f"INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] {REASON} (kafka.server.ReplicaFetcherThread)"
NOOP = "INFO [UnifiedLog partition=orders-0, dir=/disk2] Truncating to %d has no effect as the largest offset in the log is -1 (x.UnifiedLog)"
CUT = "INFO [UnifiedLog partition=orders-0, dir=/disk2] Truncating to offset %d (x.UnifiedLog)"
OTHER = (41, "INFO Rolled new log segment (x)")


@pytest.mark.parametrize("line", [NOOP, CUT])
@pytest.mark.parametrize(
    ("before", "is_of_log"),
    [
        ([(41, COPIES % 0)], False),
        ([(41, COPIES % 0), OTHER], False),
        ([(41, FETCHES % 0)], True),
        ([(41, COPIES % 3)], True),
        ([(41, COPIES % 0), *[OTHER] * 3], True),
        ([], True),
    ],
)
def test_a_truncation_of_the_copy_on_its_way_is_none_of_the_log(before, is_of_log, line):
    found = timeline(logs("1: 0a 0b\n2: 0a 0b"), events=[server_log("1", *before, (41, line % 0))])
    assert [end.end for end in found.ends_of("1", "truncated")] == ([0] if is_of_log else [])
