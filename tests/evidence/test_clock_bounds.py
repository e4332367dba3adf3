"""Brokers' local times in a history without faults: the records that clients sent show the time zone."""

from __future__ import annotations

import json
import re
import shutil
import types
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from logjudge import check
from logjudge.analysis.partitions.broker_clocks import (
    ahead_of_elections,
    broker_clocks,
    clocks_by_elections,
    clocks_by_records,
    lines_of_elections,
)
from logjudge.histories.evidence.clock import Clock
from logjudge.histories.evidence.server_log import parse_log
from logjudge.histories.evidence.tables import METADATA, empty, located

from .timelines import AFTER, BEGAN, SECOND, START, server_log, timeline

STAMP = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]", re.MULTILINE)
CLOCKS = "brokers' clocks fit the history"


def _in_local_time(run: Path, ahead: timedelta, *brokers: str) -> None:
    """Moves all times of the logs of these brokers, or of all, and removes the faults of the history."""

    def moved(found: re.Match[str]) -> str:
        return f"[{datetime.fromisoformat(found[1]) + ahead:%Y-%m-%d %H:%M:%S},{found[2]}]"

    for log in run.glob("brokers/*/*.log"):
        if not brokers or log.parent.name in brokers:
            log.write_text(STAMP.sub(moved, log.read_text()))
    lines = (run / "history.jsonl").read_text().splitlines()
    remaining = [line for line in lines if json.loads(line)["process"] != "nemesis"]
    (run / "history.jsonl").write_text("\n".join(remaining) + "\n")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("hours", [0, 5.5, -8, 12.75])
def test_a_time_zone_without_faults_hides_no_cause(unpacked: Callable[..., Path], tmp_path: Path, hours: float) -> None:
    run = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    _in_local_time(run, timedelta(hours=hours))
    result = check(run)
    [loss] = [one for one in result.incidents if one["lost"]]
    assert (loss["cause"], sum(part["count"] for part in loss["lost"])) == ("unclean-election", 597)
    clocks = next(one for one in result.assumptions if one["name"] == CLOCKS)
    assert clocks["holds"]
    ahead = f"its clock is ahead by {int(hours * 3_600_000)} ms"
    assert (ahead if hours else "so it is taken as UTC") in clocks["says"]


@pytest.mark.parametrize("minutes", [7, -23])
def test_a_clock_that_fits_no_time_zone_is_doubtful(
    unpacked: Callable[..., Path], tmp_path: Path, minutes: int
) -> None:
    run = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    _in_local_time(run, timedelta(minutes=minutes))
    result = check(run)
    assert "does not fit the history's times at which records were sent" in _doubt(result)
    assert result.rules["lost-write"]["count"] == 597


def test_brokers_in_two_time_zones_are_doubtful(unpacked: Callable[..., Path], tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    _in_local_time(run, timedelta(hours=2), "2")
    assert "its times are not reliable" in _doubt(check(run))


def test_a_leader_that_starts_again_without_its_log_makes_no_clock_doubtful(
    unpacked: Callable[..., Path], tmp_path: Path
) -> None:
    """It leads its epoch again from offset 0; the records after that were acknowledged before it died."""
    run = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    _in_local_time(run, timedelta())
    leading = re.compile(r"^\[.*Leader orders-0 .* starts at leader epoch 0 from offset 0 .*$", re.MULTILINE)
    [(log, line)] = [
        (log, found[0]) for log in run.glob("brokers/*/state-change.log") if (found := leading.search(log.read_text()))
    ]
    last = STAMP.findall(log.read_text())[-1]
    log.write_text(log.read_text() + STAMP.sub(f"[{last[0]},{last[1]}]", line) + "\n")
    result = check(run)
    assert next(one for one in result.assumptions if one["name"] == CLOCKS)["holds"]


def test_a_doubtful_clock_leaves_a_run_without_a_breach_valid(unpacked: Callable[..., Path], tmp_path: Path) -> None:
    run = shutil.copytree(unpacked("leader-kill-a"), tmp_path / "run")
    _in_local_time(run, timedelta(minutes=7))
    result = check(run)
    assert "its times are not reliable" in _doubt(result)
    assert result.verdict == "valid"


def _doubt(result: Any) -> str:
    """The sentence of the assumption that no cause uses the times of doubtful clocks."""
    assert CLOCKS not in {one["name"] for one in result.assumptions}
    return str(next(one["says"] for one in result.assumptions if one["name"] == "causes use no doubtful clock"))


@pytest.mark.parametrize("hours", [0, 5.5, -8])
def test_elections_in_the_metadata_log_show_the_time_zone_without_a_history(
    unpacked: Callable[..., Path], tmp_path: Path, hours: float
) -> None:
    run = shutil.copytree(unpacked("unclean-election-m"), tmp_path / "run")
    _in_local_time(run, timedelta(hours=hours))
    for name in ("history.jsonl", "run.json"):
        (run / name).unlink()
    result = check(run)
    assert "unclean-election" in {one["cause"] for one in result.incidents}
    clocks = next(one for one in result.assumptions if "clocks" in one["name"])
    assert clocks["name"] == ("brokers' clocks fit the metadata log" if hours else "brokers' clocks are UTC")
    assert (f"its clock is ahead by {int(hours * 3_600_000)} ms" in clocks["says"]) is bool(hours)


def _events(*lines: tuple[str, int, int]) -> pl.DataFrame:
    """Lines of logs in which a broker begins to lead an epoch: broker, epoch, ms."""
    rows = [
        {"snapshot": "", "broker": broker, "kind": "leader", "time": time}
        | {"fields": json.dumps({"leader_epoch": epoch})}
        for broker, epoch, time in lines
    ]
    return pl.DataFrame(rows, schema={"snapshot": str, "broker": str, "kind": str, "time": int, "fields": str})


def test_a_broker_that_logs_no_epoch_soon_after_its_election_shows_no_time_zone() -> None:
    clocks = {"1": Clock("1"), "100": Clock("100")}
    metadata = pl.DataFrame({"leader_epoch": [0, 1, None], "time": [1_000_000, 2_000_000, 3_000_000], "is_copy": False})

    def ahead(*lines: tuple[str, int, int]) -> dict[str, int]:
        found = clocks_by_elections(clocks, ahead_of_elections(lines_of_elections(_events(*lines), metadata)))
        return {name: clock.offset for name, clock in found.items()}

    hour = 3_600_000
    assert ahead(("1", 0, 1_000_200)) == {"1": 0, "100": 0}
    assert ahead(("1", 0, 1_400_000 + hour), ("1", 1, 2_000_200 + hour)) == {"1": hour, "100": hour}
    assert ahead(("1", 0, 1_400_000 + hour)) == {"1": 0, "100": 0}
    assert ahead(("1", 0, 1_000_100 + hour), ("2", 0, 1_000_100)) == {"1": hour, "100": 0}
    assert ahead() == {"1": 0, "100": 0}
    # At the time of an earlier election, or both were logged at once after a pause.
    assert ahead(("1", 0, 1_400_000), ("1", 1, 2_400_100)) == {"1": 400_000, "100": 400_000}
    assert ahead(("1", 0, 2_400_000), ("1", 1, 2_400_100)) == {"1": 0, "100": 0}
    # Before both elections, the second one late after a restart; before one of them, as after a step of the clock.
    assert ahead(("1", 0, 600_000), ("1", 1, 1_650_000)) == {"1": -400_000, "100": -400_000}
    assert ahead(("1", 0, 600_000), ("1", 1, 2_000_200)) == {"1": 0, "100": 0}


def test_a_controller_that_logs_an_election_shows_its_own_time_zone() -> None:
    """Kafka 4.1: broker 1 and the controller 100 in a time zone, broker 2 in another one."""
    hour = 3_600_000
    line = (
        "[2026-11-28 17:39:12,671] INFO [QuorumController id=100] UNCLEAN partition change for orders-0 with topic ID"
        " 0H3wEy1vQ1uWzQ5mNn2bIA: isr: [] -> [3], leader: -1 -> 3, leaderEpoch: 1 -> 2, leaderRecoveryState:"
        " RECOVERED -> RECOVERING, partitionEpoch: 3 -> 4 (org.apache.kafka.controller.ReplicationControlManager)"
    )
    controllers = located(parse_log(line), "", "100", "controller.log")
    elected = 1795916352671
    brokers = _events(("1", 2, elected - 8 * hour + 200), ("2", 2, elected + 5 * hour + 300))
    lines = pl.concat([brokers, controllers.select(brokers.columns)])
    metadata = pl.DataFrame({"leader_epoch": [2], "time": [elected], "is_copy": False})
    clocks = {name: Clock(name) for name in ("1", "2", "100")}
    found = clocks_by_elections(clocks, ahead_of_elections(lines_of_elections(lines, metadata)))
    assert [clock.offset for clock in found.values()] == [-8 * hour, 5 * hour, -8 * hour]


# A run of Kafka 4.2 whose three brokers had the wrong time: 3 hours ahead, 40 minutes and 2 days behind. Broker 1 was
# killed and restarted, which bounds its clock. The controller's was right.
WRONG = [("1", 0, 1795928385176), ("2", 0, 1795915184214), ("2", 1, 1795915208753)]
WRONG += [("3", 0, 1795744784252), ("3", 1, 1795744808658)]
HOURS_3 = 3 * 3_600_000


@pytest.mark.parametrize(
    ("lines", "started_late", "offsets"),
    [
        (WRONG, 0, [HOURS_3, -2_399_856, -2 * 86_400_000, 0]),
        # The others have the time zone of the bounded broker, or show nothing.
        ([("2", 0, 1795928385214), *WRONG[:1]], 0, [HOURS_3] * 4),
        (WRONG[:1], 0, [HOURS_3] * 4),
        (WRONG[1:], 0, [HOURS_3] * 4),
        # The history's clock is behind by an hour: the metadata log's time is not the history's.
        (WRONG, 3_600_000, [HOURS_3 + 3_600_000, 3_600_000 - 2_399_856, 3_600_000 - 2 * 86_400_000, 3_600_000]),
    ],
)
def test_elections_contradict_the_clock_of_a_bounded_broker(lines, started_late, offsets) -> None:
    shared = HOURS_3 + started_late
    clocks = {"1": Clock("1", shared, shared - 90_000, shared + 500)}
    clocks |= {broker: Clock(broker, shared) for broker in ("2", "3", "100")}
    metadata = pl.DataFrame({"leader_epoch": [0, 1], "time": [1795917584031, 1795917608609], "is_copy": False})
    found = clocks_by_elections(clocks, ahead_of_elections(lines_of_elections(_events(*lines), metadata)))
    assert [clock.offset for clock in found.values()] == offsets
    assert found["1"] == clocks["1"]


def _sends(behind: int = 0) -> pl.DataFrame:
    """A send of `a` before broker 2 led, and one of `x` after that, if the brokers' clocks are `behind` (seconds)."""
    sent, acked = [SECOND, (behind + 10) * SECOND], [2 * SECOND, (behind + 11) * SECOND]
    return pl.DataFrame({"value": ["a", "x"], "acknowledged": True, "invoked": sent, "completed": acked})


@pytest.mark.parametrize(
    ("behind", "offsets"),
    [(0, [-412_000, 0, 0]), (412, [-412_000] * 3)],  # only broker 1's clock is behind, or all are
)
def test_records_show_that_only_the_bounded_broker_has_the_wrong_time(behind: int, offsets: list[int]) -> None:
    """The clock of broker 1 is minutes behind. It is killed and restarted; broker 2 leads from offset 1 on, at 9 s."""
    clocks = {"1": Clock("1", -412_000, -450_000, -411_500)} | {name: Clock(name, -412_000) for name in ("2", "100")}
    events = server_log("2", (9, BEGAN % (2, 1, 1, 1, "2")))
    found = clocks_by_records(clocks, timeline(AFTER).replica_logs, events, _sends(behind), START)
    assert [clock.offset for clock in found.values()] == offsets


@pytest.mark.parametrize(
    ("minutes", "offset", "is_doubtful"), [(0, 0, False), (4, 0, True), (-4, 0, True), (120, 7_200_000, False)]
)
def test_records_contradict_the_time_of_a_broker_beside_a_bounded_one(minutes, offset, is_doubtful) -> None:
    """Without the metadata log. A kill bounds the clock of broker 1; broker 2 leads from offset 1 on, at 9 s."""
    ahead = minutes * 60_000
    events = server_log("2", (9, BEGAN % (2, 1, 1, 1, "2"))).with_columns(pl.col("time") + ahead)
    about = types.SimpleNamespace(
        clocks={"1": Clock("1", 0, -30_000, 500), "2": Clock("2")},
        settings=types.SimpleNamespace(started_ms=START),
        faults=[],
    )
    frames = {"sends": _sends(), "log_events": events}
    no_metadata = empty(METADATA, True)
    found = broker_clocks(timeline(AFTER).replica_logs, frames, about, no_metadata, events)
    assert (found["2"].offset, found["2"].has_conflict) == (offset, is_doubtful)
    assert found["1"] == about.clocks["1"]
