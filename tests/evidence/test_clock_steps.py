"""A clock that was set while its broker ran: its times prove nothing, and move no other broker's."""

from __future__ import annotations

import json

import polars as pl
import pytest
from logjudge.analysis.partitions.broker_clocks import (
    ahead_of_elections,
    clocks_by_elections,
    lines_of_elections,
    without_steps,
)
from logjudge.histories.evidence.clock import Clock, Fault, clock_offset

HOUR = 3_600_000
ELECTED = {0: 1_000_000, 1: 1_030_000}  # ms, by leader epoch
METADATA = pl.DataFrame({"leader_epoch": [*ELECTED], "time": [*ELECTED.values()], "is_copy": [False, False]})
SCHEMA = {"snapshot": str, "broker": str, "kind": str, "time": int, "fields": str, "file": str, "line": int}


def lines(broker, *found, file="server.log"):
    """Lines in the order of the file: pairs of an epoch (None: of the whole broker) and ms."""
    rows = [
        {"snapshot": "", "broker": broker, "kind": "isr" if epoch is None else "leader", "time": time}
        | {"fields": json.dumps({"leader_epoch": epoch}), "file": file, "line": number}
        for number, (epoch, time) in enumerate(found, 1)
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


def steps_left_out(clocks, events, metadata=METADATA):
    return without_steps(clocks, events, lines_of_elections(events, metadata))


@pytest.mark.parametrize(
    ("found", "clock", "was_set"),
    [
        # Set forward after epoch 0 began: the fault that bounds the clock came later.
        ([(0, 1_000_100), (1, 1_030_100 + HOUR)], Clock("1", HOUR, HOUR - 90_000, HOUR + 500), True),
        ([(0, 1_000_100 + HOUR), (1, 1_030_100 + HOUR)], Clock("1", HOUR, HOUR - 90_000, HOUR + 500), False),
        ([(0, 1_000_100), (1, 1_030_100)], Clock("1", 0, -90_000, 500), False),
        # The metadata log has another time than the history.
        ([(0, 1_000_100), (1, 1_030_100)], Clock("1", HOUR, HOUR - 90_000, HOUR + 500), False),
        # It was down when epoch 0 began, or nothing bounds its clock.
        ([(0, 1_030_100), (1, 1_030_100)], Clock("1", 0, -90_000, 500), False),
        ([(0, 1_000_100), (1, 1_030_100 + HOUR)], Clock("1"), False),
        # Set back.
        ([(0, 1_000_100), (None, 1_020_000), (None, 1_010_000), (None, 1_011_000)], Clock("1"), True),
        # A line that waited in a paused process; a difference between threads; files joined in the wrong order.
        ([(0, 1_000_100), (None, 1_020_000), (None, 1_010_000), (None, 1_021_000)], Clock("1"), False),
        ([(0, 1_000_100), (None, 1_002_000), (None, 1_001_000), (None, 1_001_500)], Clock("1"), False),
        ([(1, 1_030_000), (1, 1_031_000), (0, 1_000_100), (None, 1_003_000)], Clock("1"), False),
    ],
)
def test_a_clock_that_was_set_is_doubtful(found, clock, was_set):
    clocks = {"1": clock, "2": Clock("2")}
    checked = steps_left_out(clocks, lines("1", *found))
    assert (checked["1"].has_conflict, checked["1"].was_set) == (was_set, was_set)
    assert checked["1"].offset == clock.offset
    assert checked["2"] == clocks["2"]
    assert ("its clock was set while it ran" in checked["1"].description) == was_set


def test_a_clock_that_a_recorded_fault_set_is_doubtful():
    """The fault is clock-skew. The log may not show it: the times of a broker that was down only go forward."""
    faults = [Fault("fault", "clock-skew", ("1",), 5, 5), Fault("heal", "clock-skew", ("1",), 9, 9)]
    set_, other = (clock_offset(broker, (), faults, 0) for broker in "12")
    assert (set_.has_conflict, set_.was_set) == (True, True)
    assert other == Clock("2")


def test_lines_of_several_files_are_not_compared():
    rolled = [lines("1", (0, 1_000_100), (1, 1_030_100), file="a"), lines("1", (0, 1_000_200), file="b")]
    clocks = {"1": Clock("1")}
    assert steps_left_out(clocks, pl.concat(rolled)) == clocks


def test_a_clock_that_was_set_moves_no_others():
    """Broker 1's clock was set forward by an hour. Those of the others, which no fault bounds, fit the elections."""
    clocks = {"1": Clock("1", HOUR, HOUR - 90_000, HOUR + 500), "2": Clock("2")}
    events = pl.concat([lines("1", (0, 1_000_100), (1, 1_030_100 + HOUR)), lines("2", (0, 1_000_200), (1, 1_030_200))])
    ahead = ahead_of_elections(lines_of_elections(events, METADATA))
    assert clocks_by_elections(clocks, ahead)["2"].offset == HOUR
    assert clocks_by_elections(steps_left_out(clocks, events), ahead)["2"].offset == 0


def test_a_leader_epoch_that_the_metadata_log_only_repeats_dates_no_line():
    """As in a recorded migration from ZooKeeper: the copied epoch 1 began long before its record was written."""
    copied = METADATA.with_columns(is_copy=pl.col("leader_epoch") == 1)
    clocks = {"1": Clock("1", 0, -90_000, 500)}
    found = lines("1", (1, 940_000), (2, 1_060_000))
    later = pl.concat(
        [copied, pl.DataFrame({"leader_epoch": [1, 2], "time": [1_040_000, 1_060_000], "is_copy": False})]
    )
    assert steps_left_out(clocks, found, later) == clocks
    assert steps_left_out(clocks, found, later.with_columns(is_copy=False))["1"].was_set
