"""The command line of simulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from command_line import invoke
from logjudge.cli.main import cli
from logjudge.histories.errors import LogjudgeError
from logjudge.histories.simulation import scenario_file
from logjudge.models.exploration.narrative import narrate_scenario
from logjudge.models.replication.config import Config
from logjudge.models.replication.options import OPTIONS, OTHER_PROTOCOL
from logjudge.models.replication.scenario import Scenario
from logjudge.plots import style


def test_simulate_draws_each_kind_of_fault_and_writes_a_bundle(tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ["simulate", "--variant", "kip-101", "--seed", "7", "--faults", "crash,unclean"]
    result = invoke(*arguments, "--ops", "2000", "--out", out)
    assert result.exit_code == 0, result.output
    run = json.loads((out / "run.json").read_text())
    assert run["variant"] == "kip-101"
    assert result.output.endswith(f"`logjudge check {out} --engine local` judges it\n")
    assert run["topics"]["orders"]["unclean.leader.election.enable"] is True
    assert len(run["schedule"]) >= 3
    truth = json.loads((out / "truth.json").read_text())
    assert truth["unclean_elections"] >= 1
    assert truth["causes"] == ["unclean-election"]


def test_an_old_variant_has_the_defaults_and_settings_of_its_version(tmp_path: Path) -> None:
    def run_json(*arguments: str) -> dict[str, Any]:
        result = invoke("simulate", *arguments, "--ops", "50", "--out", tmp_path / "run")
        assert result.exit_code == 0, result.output
        return dict(json.loads((tmp_path / "run" / "run.json").read_text()))

    old = run_json("--variant", "high-watermark")
    assert old["system"]["version"] == "0.10.2.2"
    assert old["topics"]["orders"]["unclean.leader.election.enable"] is True
    producer = old["processes"]["p0"]
    assert (producer["acks"], producer["retries"], producer["linger.ms"]) == ("1", 0, 0)
    assert not {"enable.idempotence", "delivery.timeout.ms"} & producer.keys()
    assert old["brokers"]["1"]["zookeeper.session.timeout.ms"] == 6000
    assert "broker.session.timeout.ms" not in old["brokers"]["1"]
    idempotent = run_json("--variant", "kip-101", "--set", "enable.idempotence=true")["processes"]["p0"]
    assert (idempotent["acks"], idempotent["retries"]) == ("all", 2147483647)
    new = run_json("--variant", "kraft")
    assert new["processes"]["p0"]["acks"] == "all"
    assert new["topics"]["orders"]["unclean.leader.election.enable"] is False
    # A scenario made in Python has the defaults of 4.1 in all variants, so variants can be compared.
    assert Scenario("compared", "high-watermark").config() == Config()


def simulate(out: Path, seed: int) -> str:
    """The output of the command, or its error."""
    result = invoke("simulate", "--ops", "50", "--seed", seed, "--out", out)
    return str(result.exception) if result.exception else result.output


def test_only_its_own_bundle_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")
    refused = "found a folder with other files"
    assert refused in simulate(tmp_path, 1)
    out = tmp_path / "run"
    for seed in (1, 2):
        assert simulate(out, seed).startswith(f"{out}: ")
        assert json.loads((out / "truth.json").read_text())["seed"] == seed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "run"]
    (out / "notes.md").write_text("mine too")
    assert refused in simulate(out, 3)
    (out / "notes.md").unlink()
    run = json.loads((out / "run.json").read_text())
    (out / "run.json").write_text(json.dumps({**run, "system": {"name": "kafka"}}))  # like a recorded run
    assert refused in simulate(out, 3)
    (out / "run.json").unlink()
    assert refused in simulate(out, 3)
    assert json.loads((out / "truth.json").read_text())["seed"] == 2


def test_help_and_error_name_the_same_faults() -> None:
    text = " ".join(invoke("simulate", "--help").output.split()).replace("- ", "-")
    error = str(invoke("simulate", "--faults", "flood", "--out", "x").exception)
    for output in (text, error):
        assert (
            "nly in a scenario file (--config): add-partitions, cancel-reassignment, consumer-replace, consumer-seek,"
            " delete-records"
        ) in output


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (["--faults", "flood"], "there is no fault 'flood', expected one of"),
        (["--faults", "delete-records"], "cannot be drawn"),
        (["--set", "acks"], "NAME=VALUE"),
        (["--set", "acks=7"], "acks must be all, 1 or 0"),
        (["--brokers", "2", "--set", "default.replication.factor=3"], "there are 2"),
        (["--brokers", "1", "--faults", "one-way"], "the fault one-way needs at least 2 brokers"),
        (["--brokers", "1", "--faults", "bounce"], "the fault bounce needs at least 2 brokers"),
        (["--brokers", "1", "--faults", "unclean"], "the fault unclean needs at least 2 brokers"),
        (["--brokers", "2", "--faults", "handover"], "the fault handover needs at least 3 brokers"),
        (["--faults", "lagging-mark"], "the fault lagging-mark needs at least 4 brokers"),
    ],
)
def test_wrong_options_are_a_sentence(tmp_path: Path, option: list[str], sentence: str) -> None:
    result = invoke("simulate", *option, "--out", tmp_path / "run")
    assert type(result.exception).__name__ == "UsageError"
    assert sentence in str(result.exception)


def test_a_client_that_is_cut_off_has_its_name_in_history_narrative_and_pictures(tmp_path: Path) -> None:
    file = tmp_path / "cut.toml"
    file.write_text("[[fault]]\nkind = 'partition'\nnodes = [203]\nat_ms = 1000\nfor_ms = 2000\n")
    assert invoke("simulate", "--config", file, "--ops", "50", "--out", tmp_path / "run").exit_code == 0
    lines = map(json.loads, (tmp_path / "run" / "history.jsonl").read_text().splitlines())
    faults = [line["fault"] for line in lines if line["f"] in ("fault", "heal")]
    assert faults == [{"kind": "partition", "nodes": ["c0"]}] * 4
    narrative = "\n".join(narrate_scenario(scenario_file.read(file))[0])
    assert "c0 and all servers no longer reach each other" in narrative
    assert "partition of c0 began" in invoke("timeline", tmp_path / "run").output
    assert style.fault_name({**faults[0], "place": ""}) == "network partition c0"


def test_two_brokers_get_two_replicas(tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = invoke("simulate", "--brokers", "2", "--ops", "50", "--out", out)
    assert result.exit_code == 0, result.output
    assert json.loads((out / "run.json").read_text())["topics"]["orders"]["replication.factor"] == 2


@pytest.mark.parametrize(
    "setting", ["flush.messages=9223372036854775807", "flush.ms=9223372036854775807", "retention.ms=-1"]
)
def test_kafkas_values_for_no_limit_are_the_defaults(setting: str, tmp_path: Path) -> None:
    for name, arguments in (("default", []), ("set", ["--set", setting])):
        result = invoke("simulate", "--ops", "20", *arguments, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
    assert {file.read_bytes() for file in tmp_path.glob("*/history.jsonl")} == {
        (tmp_path / "set" / "history.jsonl").read_bytes()
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "[config]\n'no.such' = 1",
            "found the setting 'no.such', expected a known one; `logjudge simulate --help` lists",
        ),
        ("[config]\n'min.isr' = 1", "found the setting 'min.isr', expected min.insync.replicas; "),
        ("[broker.1]\n'acks.' = 1", "found the setting 'acks.', expected acks"),
        ("[config]\n'simulation.ops' = 1.5", "simulation.ops must be a whole number, not 1.5"),
        ("[config]\n'enable.idempotence' = 'yes'", "enable.idempotence must be true or false, not 'yes'"),
        ("[config]\n'simulation.producers' = 0", "simulation.producers must be 1 to 1000, not 0"),
        ("[config]\n'simulation.brokers' = 1000000000", "simulation.brokers must be 1 to 99"),
        ("[config]\n'linger.ms' = 99999999999999999999", "linger.ms must be 0 to "),
        ("[config]\n'flush.messages' = -1", "flush.messages must be 1 to "),
        ("[config]\n'replica.lag.time.max.ms' = -1", "replica.lag.time.max.ms must be 2 to "),
        ("[config]\n'simulation.topic' = 'a\"b'", "simulation.topic must be a legal topic name"),
        ("[broker.9]\n'flush.messages' = 1", "options for broker 9, but the brokers are 1 to 3"),
        ("[broker.1]\nacks = '1'", "acks cannot differ from broker to broker"),
        ("config = 7", "config = 7, expected a table"),
        ("[broker]\n1 = 7", "1 = 7, expected a table"),
        ("seed = '7'", "seed = '7', expected a whole number"),
        ("seed = true", "seed = True, expected a whole number"),
        ("variant = 'kip-102'", "unknown variant 'kip-102'"),
        ("breaks = 'no-divergence'", "breaks = 'no-divergence', expected a list of texts"),
        ("fault = 'crash'", "fault = 'crash', expected [[fault]]"),
        ("[[fault]]\nkind = []", "kind = [], expected text"),
        ("[[fault]]\nkind = 'crash'\nnodes = 1", "nodes = 1, expected a list of whole numbers"),
        ("[[fault]]\nkind = 'crash'\nnodes = [9]", "the fault crash names node 9; possible are 1, 2, 3"),
        ("[[fault]]\nkind = 'controller-pause'\nnodes = [1]", "possible are 101, 102"),
        ("[[fault]]\nkind = 'crash'\nat_ms = 1100", "wrong.toml: the fault crash at 1100 ms names no nodes"),
        ("[[fault]]\nkind = 'one-way'\nat_ms = 5\nto = [1]", "the fault one-way at 5 ms names no nodes"),
        ("[[fault]]\nkind = 'loss'\namount = 5000", "the amount of loss must be 0 to 1000, not 5000"),
        ("[[fault]]\nkind = 'crash'\nnodes = [1]\namount = 5", "the fault crash takes no amount, but has 5"),
        ("[[fault]]\nkind = 'pause'\nnodes = [1]\nto = [2]", "the fault pause has no direction"),
        ("[[fault]]\nkind = 'loss'\nnodes = [1]", "the fault loss concerns the whole cluster, so it takes no nodes"),
        ("[[fault]]\nkind = 'one-way'\nnodes = [1]\nto = [1]", "the fault one-way goes from 1 to itself"),
        ("[config]\n'flush.ms' = 1\nflush.ms = 2", "found flush.ms twice, expected each setting once"),
        (
            "[config]\n'broker.session.timeout.ms' = 5000\n'zookeeper.session.timeout.ms' = 7000",
            "broker.session.timeout.ms and zookeeper.session.timeout.ms are one setting",
        ),
        ("[config]\n'replica.lag.max.messages' = 9", "only exists in the variant lag-max-messages, not in kip-320"),
        ("breaks = ['foo']", "found the invariant 'foo', expected a known one; `logjudge search --help` lists all"),
        ("breaks = ['no-loss']", "found the invariant 'no-loss', expected no-commit-loss or no-consumer-loss or "),
        ("[[fault]]\nkind = 'crsh'", "found the fault 'crsh', expected crash; `logjudge simulate --help` lists all"),
        ("[[fault]]\nkind = 'crash'\nat_ms = nan", "the time nan, expected milliseconds"),
        ("[[fault]]\nkind = 'crash'\nfor_ms = 1e300", "the time 1e+300, expected milliseconds"),
        ("x = " + "[" * 5000, "text that is not TOML"),
        ("\x00", "text that is not TOML"),
        ("\udcff", "bytes that are not UTF-8"),
    ],
)
def test_a_wrong_scenario_file_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "wrong.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(LogjudgeError) as raised:  # the command line prints it and exits with 2
        CliRunner().invoke(
            cli, ["simulate", "--config", str(file), "--out", str(tmp_path / "run")], catch_exceptions=False
        )
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_a_missing_scenario_file_is_named(tmp_path: Path) -> None:
    error = invoke("simulate", "--config", tmp_path / "none.toml", "--out", tmp_path / "run").exception
    assert str(error) == f"{tmp_path / 'none.toml'}: no such file or folder; check the path"


def test_a_scenario_of_the_catalogue_is_simulated_by_its_name(tmp_path: Path) -> None:
    result = invoke("simulate", "--config", "kip-101-loss", "--out", tmp_path / "run")
    assert "acknowledged records lost: 45 (high-watermark-truncation)" in result.output
    assert "Warning" not in result.stderr
    error = invoke("simulate", "--config", "kip-101-los", "--out", tmp_path / "run").exception
    assert str(error).startswith("there is no scenario kip-101-los; did you mean kip-101-loss or")


NUMBERS = [
    name
    for name, option in OPTIONS.items()
    if option.least < option.most and name != "acks" and type(getattr(Config(), option.attribute)) is int
]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_least_of_each_option_can_be_run(name: str) -> None:
    """Each run ends after few events: no timer fires forever at one instant."""
    least = {
        "simulation.ops": 20,
        "default.replication.factor": 1,
        "enable.idempotence": False,
        "broker.heartbeat.interval.ms": 1,
        name: OPTIONS[name].least,
    }
    if name in OTHER_PROTOCOL["classic"]:
        least = {"group.protocol": "consumer", "group.consumer.heartbeat.interval.ms": 1, **least}
    if name == "delivery.timeout.ms":
        least |= {"linger.ms": 0, "request.timeout.ms": 0}
    variant = {"replica.lag.max.messages": "lag-max-messages"}.get(name, "kip-320")
    if "group.protocol" in least:
        variant = "kip-966"
    cluster = Scenario("least", variant, 0, least).run()
    assert cluster.loop.processed < 2_000_000


def test_sends_that_expire_in_the_producer_are_recorded_as_info(tmp_path: Path) -> None:
    """A client's timeout does not show whether the record was sent before, so a truthful recorder writes no `fail`."""
    settings = ("delivery.timeout.ms=1500", "request.timeout.ms=1000", "linger.ms=0")
    options = [word for setting in settings for word in ("--set", setting)]
    invoke("simulate", "--seed", 3, "--ops", 400, "--faults", "crash", *options, "--out", tmp_path / "run")
    events = map(json.loads, (tmp_path / "run" / "history.jsonl").read_text().splitlines())
    expired = [event["type"] for event in events if event.get("error") == "TIMED_OUT"]
    assert len(expired) > 100
    assert set(expired) == {"info"}
