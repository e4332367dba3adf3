"""When the process of a broker was stopped or paused, by faults, brokers' lines and registrations."""

from __future__ import annotations

from dataclasses import replace

import pytest
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.outages import is_paused, is_stopped

from .replica_texts import epochs, logs
from .timelines import BEGINS, BOOT, CRASHED, LOADED, SECOND, fault, lost, metadata, server_log, timeline

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


def test_a_broker_may_find_no_mark_of_a_clean_shutdown_after_its_election():
    """The controller elects it when it registers, before it loads its logs (Kafka 4)."""
    meta = metadata((4, {"isr": [1]}), (8, {"leader": -1}), (9, {"leader": 1}))
    lines = (1, BOOT), (2, LOADED % 0), (8, BOOT), (10, CRASHED), (11, LOADED % 1), (12, BEGINS % (2, 1, 3, "1"))
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("1", 0, 0), ("1", 2, 1))}
    found = timeline(tables, meta=meta, events=[server_log("1", *lines)], leader="1")
    assert explain_loss(found, lost()).cause == "last-replica-standing"
