"""The command line of simulate."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from logjudge.cli.main import cli


def test_simulate_draws_each_kind_of_fault_and_writes_a_bundle(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["simulate", "--variant", "kip-101", "--seed", "7", "--faults", "crash,unclean"]
    result = CliRunner().invoke(cli, [*arguments, "--ops", "2000", "--out", str(out)])
    assert result.exit_code == 0, result.output
    run = json.loads((out / "run.json").read_text())
    assert run["variant"] == "kip-101"
    assert run["topics"]["orders"]["unclean.leader.election.enable"] is True
    assert len(run["schedule"]) >= 3
    truth = json.loads((out / "truth.json").read_text())
    assert truth["unclean_elections"] >= 1
    assert truth["causes"] == ["unclean-election"]


def test_it_never_writes_over_a_folder(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    result = CliRunner().invoke(cli, ["simulate", "--out", str(tmp_path)])
    assert "not an empty folder" in str(result.exception)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (["--faults", "flood"], "there is no fault 'flood'"),
        (["--faults", "delete-records"], "cannot be drawn"),
        (["--set", "acks"], "NAME=VALUE"),
        (["--set", "acks=7"], "acks must be all, 1 or 0"),
        (["--brokers", "2", "--set", "default.replication.factor=3"], "there are 2"),
    ],
)
def test_wrong_options_are_a_sentence(tmp_path: Path, option: list[str], sentence: str) -> None:
    result = CliRunner().invoke(cli, ["simulate", *option, "--out", str(tmp_path / "run")])
    assert type(result.exception).__name__ == "UsageError"
    assert sentence in str(result.exception)


def test_two_brokers_get_two_replicas(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = CliRunner().invoke(cli, ["simulate", "--brokers", "2", "--ops", "50", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert json.loads((out / "run.json").read_text())["topics"]["orders"]["replication.factor"] == 2
