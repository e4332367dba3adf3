"""When the process of a broker was stopped or paused, by faults, brokers' lines and registrations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logjudge.analysis.causes.outages import is_paused, is_stopped

from .timelines import BOOT, SECOND, fault, metadata, server_log, timeline

HALTS = server_log("1", (3, "ERROR Shutdown broker because all log dirs in /d have failed (x)"))


@pytest.mark.parametrize(
    ("faults", "events", "expected"),
    [
        ([], [], False),
        ([fault("shutdown", "1", 3)], [], True),
        ([fault("shutdown", "1", 3)], [server_log("1", (4, BOOT))], False),
        ([], [HALTS], True),
        ([], [HALTS, server_log("1", (5, BOOT))], False),
    ],
)
def test_a_process_is_stopped_from_its_end_to_its_next_start(faults, events, expected):
    assert is_stopped(timeline({}, events=events, faults=faults), "1", 6 * SECOND) == expected


@pytest.mark.parametrize(
    ("faults", "registered", "expected"),
    [
        ([], [], False),
        ([fault("pause", "1", 3)], [], True),
        ([fault("pause", "1", 3), replace(fault("pause", "1", 5), type="heal")], [], False),
        ([fault("pause", "1", 3)], [(5, {"brokerId": 1, "logDirs": "a"})], False),
    ],
)
def test_a_broker_that_registers_is_no_longer_paused(faults, registered, expected):
    found = timeline({}, meta=metadata(*registered), faults=faults)
    assert is_paused(found, "1", 4 * SECOND, 6 * SECOND) == expected
