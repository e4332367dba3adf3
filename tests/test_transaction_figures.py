"""The transactions of a partition as the plots show them: against what the simulator knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures import merge_figures
from logjudge.histories.bundle import open_run
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from logjudge.models.replication.cluster import Cluster
from logjudge.plots import PLOTS, draw, style
from logjudge.plots.transactions import MAX_ROWS


def figures_of(name: str, tmp_path: Path) -> tuple[dict[str, Any], Cluster]:
    written = write_bundle(load(name), tmp_path / name)
    results = judge_run(open_run(written.folder))
    return merge_figures(results.summaries, results.context, results.run.settings), written.cluster


@pytest.mark.parametrize(("name", "held"), [("txn-hanging", None), ("txn-coordinator-failover", 7_000_000_000)])
def test_the_longest_transaction_and_what_waits_behind_it(name: str, held: int | None, tmp_path: Path) -> None:
    figures, cluster = figures_of(name, tmp_path)
    subject = PLOTS["transactions"].subjects(figures)[0]
    part = next(part for part in figures["partitions"] if part["name"] == subject["partition"])
    shown, ends = part["transactions"]["shown"], part["transactions"]["ends"]
    replica = cluster.leader_replica(part["partition"])
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
    figures, _ = figures_of("min-insync-2", tmp_path)
    assert PLOTS["transactions"].subjects(figures) == []
    style.save(draw("transactions", figures, {"partition": figures["partitions"][0]["name"]}), tmp_path / "x.svg")
