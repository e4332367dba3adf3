"""A cluster with another time than the clients' machine: the metadata log is corrected as the brokers' clocks are."""

from __future__ import annotations

import json
import shutil
from datetime import datetime, timedelta

import polars as pl
import pytest
from logjudge import check
from logjudge.analysis.causes import NO_START
from logjudge.analysis.partitions.broker_clocks import metadata_clock
from logjudge.histories.evidence.clock import Clock

from .timelines import SECOND, START, fault, metadata


def shown(result):
    [loss] = [one for one in result.incidents if one["lost"]]
    return loss, [(fact["kind"], fact["time"]) for fact in loss["chain"] if fact.get("time") is not None]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["unclean-election-m", "disk-truncate-m"])
@pytest.mark.parametrize("minutes", [-7, 7, 61])
def test_the_clients_clock_decides_no_cause(unpacked, tmp_path, name, minutes):
    run = shutil.copytree(unpacked(name), tmp_path / "run")
    expected, dated = shown(check(run))
    about = json.loads((run / "run.json").read_text())
    started = datetime.fromisoformat(about["started_at"]) + timedelta(minutes=minutes)
    (run / "run.json").write_text(json.dumps(about | {"started_at": started.isoformat()}))
    result = check(run)
    loss, moved = shown(result)
    assert (loss["cause"], loss["lost"]) == (expected["cause"], expected["lost"])
    elected, moved_elections = ([time for kind, time in facts if kind == "elected"] for facts in (dated, moved))
    assert elected
    assert all(abs(a - b) < 5 * SECOND for a, b in zip(elected, moved_elections, strict=True))
    clocks = next(one for one in result.assumptions if one["name"] == "brokers' clocks fit the history")
    assert clocks["says"].startswith("clocks were corrected")


def test_without_the_start_of_the_run_a_loss_lacks_the_times_of_brokers(unpacked, tmp_path):
    run = shutil.copytree(unpacked("unclean-election-a"), tmp_path / "run")
    about = json.loads((run / "run.json").read_text())
    del about["started_at"]
    (run / "run.json").write_text(json.dumps(about))
    result = check(run)
    assert all(one["missing"][0] == NO_START for one in result.incidents if one["lost"])
    [clocks] = [one for one in result.assumptions if "clock" in one["name"] and one["name"] != "one clock"]
    assert "does not set started_at" in clocks["says"]


REGISTERED = {"brokerId": 1, "logDirs": "a"}
RESTARTED = (fault("kill", "1", 8), fault("restart", "1", 11))


def found_ahead(seconds, clocks, brokers_ahead, acked=2, registered=14, faults=RESTARTED):
    """The seconds by which a metadata log is found to be ahead that is ahead by `seconds`.

    Broker 1 registers at -1 s and again at `registered` s. brokers_ahead: ms by which brokers are ahead of that log.
    """
    times = [(at + seconds, REGISTERED) for at in (-1, registered)]
    records = metadata(*times).with_columns(
        time=pl.when(pl.col("kind") == "register").then("time").otherwise(pl.col("time") + seconds * 1000)
    )
    sends = pl.DataFrame({"acknowledged": [False, True], "completed": [SECOND, acked * SECOND]})
    ahead = {name: (by, by) for name, by in brokers_ahead.items()}
    found = metadata_clock(clocks, ahead, records, sends, faults, START)
    assert not found.has_conflict
    return found.offset // 1000


@pytest.mark.parametrize("seconds", [-420, 420])
def test_a_difference_is_shown_by_brokers_with_bounded_clocks(seconds):
    ahead = {"1": -seconds * 1000, "2": 0}
    bounded = {"1": Clock("1", 0, -90_000, 500), "2": Clock("2")}
    assert found_ahead(seconds, bounded, ahead) == seconds
    # No broker's lines show it: the bounds are near enough to each other.
    assert found_ahead(seconds, {}, {}) == seconds - 2
    assert found_ahead(seconds, {}, {}, registered=40) == 0
    # Lines that do not fit the bounds, or clocks that prove nothing.
    assert found_ahead(seconds, bounded, {"1": 0}, registered=40) == 0
    doubtful = {"1": Clock("1", 0, -90_000, 500, has_conflict=True)}
    assert found_ahead(seconds, doubtful, ahead, registered=40) == 0


def test_what_nothing_contradicts_is_not_corrected():
    bounded = {"1": Clock("1", 0, -90_000, 500)}
    assert found_ahead(0, bounded, {"1": 0}) == 0
    assert found_ahead(0, bounded, {"1": -420_000}) == 0
    # Nothing was restarted, and the topic may have been created long before the first record was sent.
    assert found_ahead(-420, bounded, {"1": 420_000}, faults=()) == 0
    assert found_ahead(420, bounded, {"1": -420_000}, acked=900, faults=()) == 0
    assert found_ahead(420, bounded, {"1": -420_000}, faults=()) == 420
