"""Owners of partitions in a group, and transactions, in the plots: compared with the simulator's state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from figure_cases import figures_of
from logjudge.histories.simulation.bundle import WrittenBundle, write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.plots import PLOTS, draw, style
from logjudge.plots.transactions import MAX_ROWS

Record = dict[str, Any]
GROUP_EVENTS = ("assign", "commit", "crash")


def written_run(name: str, tmp_path: Path) -> WrittenBundle:
    return write_bundle(load(name), tmp_path / name)


def owners(figures: Record) -> dict[int, Record]:
    """The owners in the group, by partition."""
    return {part["partition"]: part["owners"][0] for part in figures["partitions"] if part["owners"]}


def holds_by_owner(record: Record) -> list[tuple[str, int, int | None]]:
    return [(owner, since, until) for owner, _, since, until, _ in record["holds"]]


@pytest.mark.parametrize("name", ["group-eager-rebalance", "group-consumer-static", "group-zombie-member"])
def test_owners_are_those_of_the_simulator(name: str, tmp_path: Path) -> None:
    written = written_run(name, tmp_path)
    figures = figures_of(written.folder)
    for partition, record in owners(figures).items():
        known = [hold for hold in written.cluster.group.ownerships if hold.partition == partition]
        # An assignment ends the one before it, so a hold may be shown in two pieces of one owner.
        shown = holds_by_owner(record)
        for hold in known:
            name = hold.member.partition("-")[0]
            assert (name, hold.since * 1000) in [(owner, since) for owner, since, _ in shown]
            if hold.until < 1 << 60:
                assert (name, hold.until * 1000) in [(owner, until) for owner, _, until in shown]
    assert PLOTS["owners"].subjects(figures) == [{"group": "workers"}]
    style.save(draw("owners", figures, {"group": "workers"}), tmp_path / "x.svg")


@pytest.mark.thorough
def test_the_title_names_the_longest_time_of_two_owners_or_none(tmp_path: Path) -> None:
    titles = {}
    for name in ("group-zombie-member", "group-eager-rebalance"):
        figures = figures_of(written_run(name, tmp_path).folder)
        titles[name] = draw("owners", figures, {}).get_suptitle()
    assert titles == {
        "group-zombie-member": "Group workers: two members owned orders-0 at once, for 5.36 s",
        "group-eager-rebalance": "Group workers: orders-0 had no owner for 7.15 s",
    }


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("group-zombie-member", ["no owner", "two owners", "commit", "refused commit"]),
        ("commit-after-handle", ["no owner", "commit", "crash"]),
    ],
)
def test_the_legend_has_each_mark_of_the_figure_and_no_other(name: str, marks: list[str], tmp_path: Path) -> None:
    figure = draw("owners", figures_of(written_run(name, tmp_path).folder), {})
    [legend] = [axis.get_legend() for axis in figure.axes if axis.get_legend()]
    assert [text for entry in legend.get_texts() if (text := entry.get_text()) not in ("c0", "c1")] == marks


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["group-eager-rebalance", "group-consumer-protocol"])
def test_without_clients_records_the_coordinators_log_names_the_owners(name: str, tmp_path: Path) -> None:
    """Each assignment that a member recorded is in the log, too, at about the same time."""
    folder = written_run(name, tmp_path).folder
    recorded = owners(figures_of(folder))
    history = folder / "history.jsonl"
    lines = [line for line in history.read_text().splitlines() if json.loads(line)["f"] not in GROUP_EVENTS]
    history.write_text("".join(line + "\n" for line in lines))
    stored = owners(figures_of(folder))
    assert stored.keys() == recorded.keys()
    for partition, record in stored.items():
        assert record["commits"] == []
        of_log = [owner.partition("-")[0] for owner, *_ in holds_by_owner(record)]
        by_members = [owner for owner, *_ in holds_by_owner(recorded[partition])]
        without_repeats = [
            [name for n, name in enumerate(names) if names[n - 1 : n] != [name]] for names in (of_log, by_members)
        ]
        assert without_repeats[0] == without_repeats[1]


def test_a_run_without_a_group_has_no_such_picture(tmp_path: Path) -> None:
    figures = figures_of(written_run("min-insync-2", tmp_path).folder)
    assert PLOTS["owners"].subjects(figures) == []
    style.save(draw("owners", figures, {}), tmp_path / "x.svg")


@pytest.mark.parametrize(("name", "held"), [("txn-hanging", None), ("txn-coordinator-failover", 7_000_000_000)])
def test_the_longest_transaction_and_what_waits_behind_it(name: str, held: int | None, tmp_path: Path) -> None:
    written = written_run(name, tmp_path)
    figures = figures_of(written.folder)
    subject = PLOTS["transactions"].subjects(figures)[0]
    part = next(part for part in figures["partitions"] if part["name"] == subject["partition"])
    shown, ends = part["transactions"]["shown"], part["transactions"]["ends"]
    replica = written.cluster.leader_replica(part["partition"])
    assert replica is not None
    assert ends[-1][1:] == [replica.log.end, replica.stable_end]
    assert all(stable <= end for _, end, stable in ends)
    is_open = [one for one in shown if one["ended"] is None]
    if held is None:
        assert [(one["first"], one["marker"]) for one in is_open] == [(replica.stable_end, None)]
    else:
        assert is_open == []
        longest = max(shown, key=lambda one: one["ended"] - one["began"])
        assert longest["ended"] - longest["began"] > held
        assert longest["began"] < longest["prepared"] < longest["ended"]
        assert min(stable for time, _, stable in ends if longest["began"] < time < longest["ended"]) <= longest["first"]
    outcomes = {batch.base for batch in replica.log.batches() if batch.producer == -2}
    assert {one["marker"] for one in shown} <= {*outcomes, None}
    figure = draw("transactions", figures, subject)
    assert len(figure.axes[1].get_yticklabels()) == MAX_ROWS
    style.save(figure, tmp_path / "x.svg")


def test_a_run_without_transactions_has_no_such_picture(tmp_path: Path) -> None:
    figures = figures_of(written_run("min-insync-2", tmp_path).folder)
    assert PLOTS["transactions"].subjects(figures) == []
    style.save(draw("transactions", figures, {"partition": figures["partitions"][0]["name"]}), tmp_path / "x.svg")
