"""The search finds KIP-101's loss, shrinks it, and writes a run that replays; it finds nothing in a sound protocol."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_line import invoke
from logjudge.cli.search import search
from logjudge.histories.simulation.scenario_file import read
from logjudge.models.exploration.invariants import INVARIANTS
from logjudge.models.exploration.narrative import narrate, narrate_scenario
from logjudge.models.exploration.search import Space, explore
from logjudge.models.exploration.shrink import shrink
from logjudge.models.exploration.trace import Tracer
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.variants import VARIANTS

LOSS = "no-acknowledged-loss"


def searched(*arguments: str) -> Result:
    return invoke("search", *arguments)


def first_broken(space: Space, name: str = LOSS) -> int:
    """The first seed whose run breaks an invariant."""
    return explore(space, range(200), (name,), stop=True).first[name][0]


def test_it_finds_shrinks_and_replays_the_loss_of_kip_101(tmp_path: Path) -> None:
    out = tmp_path / "found.toml"
    result = searched("--variant", "high-watermark", "--runs", "200", "--out", str(out))
    assert result.return_value == 1, result.output
    assert "distinct states" in result.output
    assert "its high watermark" in result.output
    scenario = read(out)
    assert "1 acknowledged record lost" in (tmp_path / "found.svg").read_text(encoding="utf-8")
    assert 1 <= len(scenario.faults) <= 4
    assert scenario.config().ops < 60
    found = INVARIANTS[LOSS].check(scenario.run())
    assert "high-watermark-truncation" in found[0].text
    replay = invoke("simulate", "--config", out, "--out", tmp_path / "run")
    assert replay.exit_code == 0, replay.output
    assert "acknowledged records lost: " in replay.output
    assert "Warning" not in replay.stderr  # about faults after the only send, which is what the loss needs
    assert "no-acknowledged-loss was broken, as the scenario file expects: offset" in replay.output
    arguments = ["simulate", "--config", str(out), "--variant", "kip-320", "--out", str(tmp_path / "run")]
    repeated = invoke(*arguments)
    assert "no-acknowledged-loss held, but the scenario file expects it to be broken" in repeated.output


def test_a_shrunk_scenario_needs_each_of_its_faults() -> None:
    space = Space("high-watermark")
    small, _ = shrink(space.scenario(first_broken(space)), LOSS)
    for index in range(len(small.faults)):
        fewer = small.with_faults(small.faults[:index] + small.faults[index + 1 :])
        assert not INVARIANTS[LOSS].check(fewer.run())


def test_shrinking_moves_faults_and_shortens_them() -> None:
    """The same schedule some seconds earlier, with a few records, breaks the invariant too."""
    scenario = Space("high-watermark").scenario(794)
    small, tries = shrink(scenario, LOSS)
    assert INVARIANTS[LOSS].check(small.run())
    assert small.config().ops <= 3 < scenario.config().ops
    assert small.config().consumers == 0
    assert small.faults[0].at < SECOND < scenario.faults[0].at
    assert max(f.lasts for f in small.faults) < max(f.lasts for f in scenario.faults)
    assert tries < 200
    partly_shrunk, tries = shrink(scenario, LOSS, 5)
    assert tries == 5
    assert INVARIANTS[LOSS].check(partly_shrunk.run())


def test_a_search_that_finds_nothing_reports_how_many_schedules_it_ran() -> None:
    result = searched("--variant", "kip-320", "--runs", "30", "--set", "min.insync.replicas=2")
    assert result.return_value == 0, result.output
    assert "30 schedules" in result.output
    assert f"{LOSS} held in all schedules" in result.output


@pytest.mark.thorough
def test_the_result_does_not_depend_on_the_number_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logjudge.cli.search.CHUNK", 20)
    one, two = (search(Space("asynchronous"), range(50), (LOSS,), jobs, stop=False) for jobs in (1, 2))
    assert one.runs == 50
    assert one.broken
    assert one == two


def test_a_search_shows_how_long_it_still_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logjudge.cli.search.CHUNK", 10)
    clock = iter(range(0, 100, 20))  # a chunk takes 20 s
    monkeypatch.setattr("logjudge.cli.search.time.monotonic", lambda: next(clock))
    seen: list[tuple[int, str]] = []
    search(Space("kip-320"), range(30), (LOSS,), 1, progress=lambda _, done, __, unit: seen.append((done, unit)))
    left = ["schedules", "schedules, about 40 s left", "schedules, about 20 s left", "schedules"]
    assert seen == list(zip((0, 10, 20, 30), left, strict=True))


def _seconds_of(process: str) -> float:
    """The processor time of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.thorough
def test_an_interrupt_ends_the_search_with_all_its_processes() -> None:
    """A terminal sends it to the whole process group, not only to the first process."""
    options = ["--variant", "kip-320", "--runs", "100000", "--jobs", "2"]
    command = [sys.executable, "-m", "logjudge.cli", "search", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            while len([child for child in children.read_text().split() if _seconds_of(child) > 1.5]) < 2:
                time.sleep(0.1)  # until two workers have begun: their imports take half a second
            os.killpg(process.pid, signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 130, errors
    assert "Traceback" not in errors


def test_the_narrative_has_the_truncation_before_the_election() -> None:
    space = Space("high-watermark")
    lines, cluster = narrate_scenario(space.scenario(first_broken(space)))
    cut = next(i for i, line in enumerate(lines) if "truncates its log" in line and "to its high watermark" in line)
    assert any("elects broker" in line for line in lines[cut:])
    assert cluster.final


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["--variant", "follower-reads", "--invariant", "no-stale-read", "--faults", "delay"],
            ["p0 sends its value", "no-stale-read is broken: c0 polled nothing", "c0 reads p0's value", "ms longer"],
        ),
        (
            [
                *("--variant", "kip-320", "--invariant", "no-duplicates", "--faults", "loss"),
                *("--set", "enable.idempotence=false"),
            ],
            ["of 1000 messages are lost", "p1 sends its value", "(attempt 2)", "and again at offset"],
        ),
    ],
)
def test_the_narrative_shows_what_broke(arguments: list[str], lines: list[str], tmp_path: Path) -> None:
    result = searched(*arguments, "--runs", "300", "--out", str(tmp_path / "found.toml"))
    assert result.return_value == 1, result.output
    story = read(tmp_path / "found.toml").story
    assert [line for line in lines if line not in story] == []


def test_a_narrative_that_is_too_long_keeps_what_broke() -> None:
    space = Space("kip-101", ("unclean", "crash"), max_faults=12)
    scenario = replace(space.scenario(first_broken(space)), breaks=(LOSS,))
    events: list[ClusterEvent] = []
    tracer = Tracer()
    cluster = scenario.run(tracer, events.append, prepare=tracer.attach)
    found = INVARIANTS[LOSS].check(cluster)
    long, short = (narrate(cluster, events, tracer, found, limit) for limit in (10_000, 30))
    assert len(short) < len(long)
    assert any("events omitted" in line for line in short)
    broken = [line.partition(" s: ")[2] for line in long if "is broken" in line or " sends " in line]
    assert broken
    assert all(any(line in other for other in short) for line in broken)


@pytest.mark.parametrize(
    "option",
    [
        ["--faults", "flood"],
        ["--faults", "crash,bounce", "--set", "simulation.brokers=1", "--set", "default.replication.factor=1"],
        ["--set", "no.such=1"],
        ["--set", "x"],
        ["--out", "x.svg"],
        ["--out", "no/such/x.toml"],
    ],
)
def test_wrong_options_are_a_sentence(option: list[str]) -> None:
    result = invoke("search", "--variant", "kraft", *option)
    assert result.exit_code != 0
    assert type(result.exception).__name__ == "UsageError"


@pytest.mark.spark
def test_spark_finds_what_one_process_finds(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logjudge.cli.search.CHUNK", 40)
    space = Space("high-watermark")
    found = search(space, range(100), (LOSS,), 1)
    assert found.first
    assert search(space, range(100), (LOSS,), 1, session=spark) == found


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_option_spark_runs_the_search_on_spark() -> None:
    result = searched("--variant", "kip-320", "--runs", "3", "--jobs", "2", "--spark")
    assert (result.return_value, result.exception) == (0, None)
    assert result.output.startswith("3 schedules")


MECHANISMS = Path(__file__).parents[2] / "docs" / "mechanisms.md"
SEARCHES = re.findall("`(logjudge search --variant [^`]*)`", MECHANISMS.read_text(encoding="utf-8"))
MENDED = ("kip-279", "kip-966")  # their rows' commands show that the fault is mended


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", SEARCHES)
@pytest.mark.parametrize("shrinks", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_each_search_of_the_mechanisms_finds_what_its_row_states(
    command: str, shrinks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shrinks:  # as other tests shrink and draw what was found
        monkeypatch.setattr("logjudge.cli.search._write_shrunk", lambda *_: None)
    arguments = [*command.split()[1:], "--runs", "120", "--out", str(tmp_path / "found.toml")]
    if any(variant in arguments for variant in MENDED):
        arguments[arguments.index("--runs") + 1] = "20"
    result = invoke(*arguments)
    if any(variant in arguments for variant in MENDED):
        assert "held in all schedules" in result.output
    else:
        assert "breaks" in result.output, result.output


def test_a_search_of_unclean_elections_enables_them() -> None:
    space = Space("kip-279", ("unclean", "crash"))
    assert any(space.scenario(seed).run().ledger.unclean_elections for seed in range(5))
    disabled = Space("kip-320", ("unclean",), {"unclean.leader.election.enable": False})
    assert not disabled.scenario(0).config().unclean_election


@pytest.mark.parametrize("variant", VARIANTS)
def test_no_variant_enables_unclean_elections_by_itself(variant: str) -> None:
    assert not Space(variant).scenario(0).config().unclean_election


def test_a_search_lists_its_settings_and_their_origin() -> None:
    found = searched("--variant", "kip-101", "--runs", "60")
    assert found.return_value == 0, found.output
    assert "min.insync.replicas=1, unclean.leader.election.enable=false\n" in found.output
    drawn = Space("kip-966", ("unclean",), {"acks": "1"}).settings()
    assert "min.insync.replicas=2 (set by the variant)" in drawn
    assert "unclean.leader.election.enable=true (set by --faults unclean)" in drawn
    assert "acks=1 (set by --set)" in drawn
    refused = Space("kip-966", ("unclean",), {"unclean.leader.election.enable": False}).settings()
    assert "unclean.leader.election.enable=false (set by --set)" in refused


def test_the_narrative_of_a_reordering_names_the_batch_that_overtook() -> None:
    options = {"enable.idempotence": False, "simulation.burst.records": 10, "simulation.ops": 300}
    space = Space("kip-966", ("loss",), options)
    scenario = replace(space.scenario(first_broken(space, "no-reordering")), breaks=("no-reordering",))
    lines, cluster = narrate_scenario(scenario)
    breach = INVARIANTS["no-reordering"].check(cluster)[0]
    log = cluster.leader_log(breach.partition)
    assert log is not None
    late = log.at(breach.base)
    assert late is not None
    assert breach.text.startswith(f"p{late.producer}'s value")
    before = [b for b in log.batches() if b.base < late.base and b.producer == late.producer and b.first > late.first]
    names = [f"value {b.first}" if b.end == b.base + 1 else f"values {b.first} to" for b in (before[0], late)]
    for name in names:
        assert any(" appends " in line and name in line for line in lines), (name, lines)
