"""Lines of brokers' logs that report one event, several, or none of the replica's own log."""

from __future__ import annotations

import pytest

from .test_truncations import COPIES
from .timelines import LOADED, SECOND, server_log, timeline

CORRUPT = "ERROR [ReplicaFetcher replicaId={}, leaderId=1, fetcherId=0] Found invalid messages during fetch for "
CORRUPT += "partition orders-0 offset {} (kafka.server.ReplicaFetcherThread)"
HALTS = "ERROR Shutdown broker because all log dirs in /d have failed (x)"
FENCED = "INFO [QuorumController id=9] Fencing broker 1 at epoch 3 because its session has timed out. (x)"


def corrupt(broker, offset, at):
    return server_log(broker, (at, CORRUPT.format(broker, offset)))


@pytest.mark.parametrize(
    ("events", "count"),
    [
        ([corrupt("2", 5, 3), corrupt("2", 5, 4)], 1),
        ([corrupt("2", 5, 3), corrupt("2", 6, 4)], 2),
        ([corrupt("2", 5, 3), corrupt("3", 5, 4)], 2),
    ],
)
def test_a_follower_reports_a_damaged_batch_once(events, count):
    assert len(timeline({}, events=events).disk_errors) == count


@pytest.mark.parametrize(
    ("events", "times"),
    [
        ([server_log("1", (3, HALTS), (4, HALTS))], [3]),
        ([server_log("1", (3, HALTS), (9, HALTS))], [3, 9]),
        ([server_log("1", (3, HALTS)), server_log("9", (3, FENCED))], [3, 3]),
    ],
)
def test_each_thread_that_cannot_write_reports_the_halt_of_its_broker(events, times):
    assert [died.time // SECOND for died in timeline({}, events=events).deaths_of("1")] == times


def test_a_load_next_to_the_truncation_of_a_copy_is_of_the_log():
    found = timeline({}, events=[server_log("1", (3, COPIES % 5), (3, LOADED % 5))])
    assert [end.end for end in found.ends_of("1", "loaded")] == [5]


@pytest.mark.parametrize(
    ("segment", "expected"),
    [
        ("Deleting segment LogSegment(baseOffset=286, size=1) due to log", "the segment at offset 286"),
        ("Found deletable segments with base offsets [0] due to", "segments"),
    ],
)
def test_a_line_on_a_deleted_segment_names_no_log_start(segment, expected):
    line = f"INFO [Log partition=orders-0, dir=/d] {segment} retention time 9ms breach by the record (kafka.log.Log)"
    [fact] = timeline({}, events=[server_log("1", (3, line))]).log_starts
    reason = f"{'log ' * segment.endswith('log')}retention time 9ms breach by the record"
    assert fact.sentence == f"broker 1 deleted {expected} of orders-0 ({reason})"
