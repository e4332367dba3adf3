"""Every scenario's run matches its page, and the page in docs/ is the generated one."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from command_line import invoke
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.figures import merge_figures
from logjudge.analysis.results import Results
from logjudge.cli.scenarios import draw_picture
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from logjudge.histories.simulation import pages
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.index_page import index_page
from logjudge.histories.simulation.outcome import outcome
from logjudge.histories.simulation.pages import digest, page
from logjudge.histories.simulation.scenario_file import FAULT_KEYS, KEYS, dump, parse
from logjudge.histories.simulation.scenarios import THEMES, by_theme, load, names
from logjudge.models.exploration.group_truth import group_truth
from logjudge.models.exploration.invariants import INVARIANTS
from logjudge.models.exploration.narrative import narrate_scenario
from logjudge.models.exploration.truth import losses
from logjudge.models.replication.cluster import Cluster
from logjudge.models.replication.config import SECOND
from logjudge.models.replication.events import ClusterEvent
from logjudge.models.replication.faults.kinds import FAULTS
from logjudge.models.replication.options import OPTIONS

DOCS = Path(__file__).parents[2] / "docs" / "scenarios"


@cache
def judged(name: str) -> Results:
    """The judge's findings in the bundle of a scenario."""
    with TemporaryDirectory() as scratch:
        return judge_run(open_run(write_bundle(load(name), Path(scratch) / name).folder))


@cache
def narrated(name: str) -> tuple[list[str], Cluster]:
    """The narrative and the finished run of a scenario."""
    return narrate_scenario(load(name))


def ran(name: str) -> Cluster:
    """The finished run of a scenario."""
    return narrated(name)[1]


# Scenarios in which an invariant breaks or records are removed legally are judged before every commit, the others in a
# campaign.
OFTEN = {name for name in names() if load(name).breaks} | {"retention", "compaction"}
JUDGED = [pytest.param(name, marks=() if name in OFTEN else pytest.mark.campaign) for name in names()]


@pytest.mark.parametrize("name", names())
def test_the_run_is_what_the_scenario_describes(name: str) -> None:
    scenario, cluster = load(name), ran(name)
    assert outcome(cluster, scenario).difference(scenario) == ""
    assert cluster.final


@pytest.mark.parametrize("name", names())
def test_the_page_is_generated_and_its_picture_is_of_this_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "narrate_scenario", lambda scenario: narrated(scenario.name))
    text, picture = page(load(name)), (DOCS / f"{name}.svg").read_text(encoding="utf-8")
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == text
    assert digest(text) in picture
    assert len(picture) < 60_000


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", JUDGED)
def test_the_judge_names_the_causes_of_the_losses(name: str) -> None:
    causes = judged(name).causes()
    assert {cause.cause for cause in causes if cause.lost is not None} == set(load(name).causes)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", JUDGED)
def test_the_picture_is_generated(name: str, tmp_path: Path) -> None:
    """The words are compared: another matplotlib may put a line a hair elsewhere."""
    results = judged(name)
    figures = merge_figures(results.records, results.context, results.run.settings, findings=results.findings())
    draw_picture(load(name), figures, tmp_path / "drawn.svg", "")
    drawn, stored = (path.read_text(encoding="utf-8") for path in (tmp_path / "drawn.svg", DOCS / f"{name}.svg"))
    assert re.findall(">([^<>]+)</text>", drawn) == re.findall(">([^<>]+)</text>", stored)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "commit-before-handle",
            "c0 crashes; it had read up to offset 269, handled up to offset 261, committed up to offset 269",
        ),
        ("commit-after-handle", "c0 handles offsets 254 to 260 again"),
        ("delete-records", "an administrator deletes the records below offset 150"),
        ("idempotence", "20 of 1000 messages are lost with their connections"),
        ("isr-slow-node", "messages between broker 3 and the others take 300 ms longer"),
        ("quorum-slow-node", "messages between broker 3 and the others are no longer delayed"),
        ("offset-reset-latest", "c0 has no committed offset and starts by auto.offset.reset"),
        ("retry-reordering", "the leader of epoch 0 appends p0's values 536 to 537 (attempt 2)"),
    ],
)
def test_a_narrative_has_the_faults_and_what_clients_did(name: str, line: str) -> None:
    assert line in (DOCS / f"{name}.md").read_text(encoding="utf-8")


def test_a_member_that_starts_late_has_not_crashed_before() -> None:
    text = (DOCS / "group-static-fenced.md").read_text(encoding="utf-8")
    assert "c1 crashes" not in text
    assert text.index("c0 owns partitions 0, 1") < text.index("c1 owns partitions 0, 1")


def test_no_page_is_left_over() -> None:
    assert sorted(path.stem for path in DOCS.glob("*.md")) == sorted([*names(), "README"])
    assert sorted(path.stem for path in DOCS.glob("*.svg")) == names()


def test_every_scenario_file_reads_back() -> None:
    for name in names():
        scenario = load(name)
        assert parse(dump(scenario), "copy.toml") == scenario


def test_the_incident_loses_three_and_seven() -> None:
    """Brokers 152 and 153: both partitions end empty, though consumers had read 3 and 7 messages."""
    cluster = ran("incident-152-153")
    gone = losses(cluster)
    assert [sum(g.ack.end - g.ack.base for g in gone if g.partition == p) for p in (0, 1)] == [3, 7]
    assert all(one.was_read for one in gone)
    assert cluster.log_ranges() == [(0, 0), (0, 0)]


def test_leader_epochs_mend_both_scenarios_of_kip_101() -> None:
    def lost(name: str) -> int:
        return sum(one.ack.end - one.ack.base for one in losses(ran(name)))

    assert (lost("kip-101-loss"), lost("kip-101-loss-mended")) == (45, 0)
    assert (lost("kip-101-divergence"), lost("kip-101-divergence-mended")) == (72, 72)
    for broken, mended in (
        ("kip-101-loss", "kip-101-loss-mended"),
        ("kip-101-divergence", "kip-101-divergence-mended"),
    ):
        assert load(broken).faults == load(mended).faults
        assert load(broken).options == load(mended).options


def test_the_last_replica_standing_loses_what_elr_keeps() -> None:
    assert losses(ran("last-replica-standing"))
    assert not losses(ran("elr"))


def test_a_lagging_mark_harms_only_replicas_that_join_at_it() -> None:
    scenario = load("isr-join-lagging-mark")
    assert sum(one.ack.end - one.ack.base for one in losses(ran("isr-join-lagging-mark"))) == 17
    assert not losses(replace(scenario, variant="kip-320").run())


def test_a_consumer_goes_back_to_the_divergence_point() -> None:
    """The new leader's log is shorter than the position: since KIP-320 the epochs are compared before the ends.
    Without them auto.offset.reset sends the consumer to the very beginning."""
    scenario = load("min-insync-1")
    cluster = ran("min-insync-1")
    first = min(one.ack.base for one in losses(cluster))
    assert cluster.ledger.resets == [("c0", 0, 507, first)]
    assert replace(scenario, variant="kip-101").run().ledger.resets == [("c0", 0, 507, 0)]


def test_fencing_keeps_a_zombie_replica_from_differing() -> None:
    scenario = load("zombie-replica")
    assert "brokers 1 and 2 differ" in outcome(ran("zombie-replica"), scenario).breaks["no-divergence"]
    assert not outcome(replace(scenario, variant="kip-320").run(), scenario).breaks


def test_an_isr_that_flaps_is_propagated_after_60_seconds_and_when_it_rests() -> None:
    events: list[ClusterEvent] = []
    load("isr-propagation").run(listener=events.append)
    changes = [time for time, _, kind, _ in events if kind == "isr-updated"]
    propagated = [(time, details[0]) for time, _, kind, details in events if kind == "isr-propagated"]
    assert [(round(time / SECOND), quiet) for time, quiet in propagated] == [(60, False), (75, True)]
    assert len([time for time in changes if time < propagated[0][0]]) == 14


def test_a_majority_does_not_wait_for_the_slow_node() -> None:
    def median(name: str) -> int:
        latencies = sorted(ran(name).ledger.latencies)
        return latencies[len(latencies) // 2]

    assert median("isr-slow-node") > 500_000
    assert median("quorum-slow-node") < 50_000


def test_run_writes_a_bundle_and_exits_with_the_verdict(tmp_path: Path) -> None:
    losing = invoke("scenarios", "run", "kip-101-loss", "--out", tmp_path / "a")
    assert losing.exit_code == 1, losing.output
    assert "high-watermark-truncation" in losing.output
    assert (tmp_path / "a" / "truth.json").exists()
    keeping = invoke("scenarios", "run", "elr", "--out", tmp_path / "b")
    assert keeping.exit_code == 0, keeping.output
    assert "no acknowledged record was lost" in keeping.output
    assert "longest time without an acknowledgement: " in keeping.output


def test_the_exit_code_is_the_judge_s(tmp_path: Path) -> None:
    """A finding that the configuration permits is no breach, although the simulator counts a loss."""
    result = invoke("scenarios", "run", "retry-reordering", "--out", tmp_path / "run")
    assert "retry-reordering: VALID" in result.output
    assert result.output.endswith(
        "Exit code 0, from the verdict; invariants broken in the simulation: no-duplicates, no-reordering\n"
    )
    assert result.exit_code == 0
    text = " ".join(invoke("scenarios", "run", "--help").output.split())
    assert all(part in text for part in ("NAME-judged", "The exit code is that of `check`"))


def test_the_judge_names_the_reset_that_skipped_records() -> None:
    assert "consumer-reset" in {cause.cause for cause in judged("offset-reset-latest").causes()}


def test_a_consumer_repeats_what_it_had_handled_and_not_committed() -> None:
    """The later a crash after the last commit, the more; without a commit everything."""
    scenario = load("commit-after-handle")
    rare = replace(scenario, options={**scenario.options, "auto.commit.interval.ms": 5000})
    again = [(known := group_truth(cluster)) and known["handled_again"] for cluster in (ran(scenario.name), rare.run())]
    assert again == [7, 261]


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"simulation.commit": "none"}, None),
        ({"simulation.commit": "after"}, "records handled again: 0"),
        (
            {"simulation.commit": "after", "partition.assignment.strategy": "range"},
            "records handled again: 0; generations of the group: 1; "
            "longest time of a partition without an owner: 0.0 s",
        ),
    ],
)
def test_the_summary_counts_what_consumers_handled_again(
    settings: dict[str, str], line: str | None, tmp_path: Path
) -> None:
    arguments = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    output = invoke("simulate", "--ops", 20, *arguments, "--out", tmp_path / "run").output
    found = [text for text in output.splitlines() if text.startswith("records handled again")]
    assert found == ([] if line is None else [line])


@pytest.mark.parametrize(("expected", "is_compared"), [("", False), ('breaks = ["no-divergence"]\n', True)])
def test_only_a_file_with_an_expectation_is_compared_with_it(expected: str, is_compared: bool, tmp_path: Path) -> None:
    scenario = replace(load("acks1-failover"), breaks=(), causes=())
    file = tmp_path / "mine.toml"
    file.write_text(expected + dump(scenario))
    output = invoke("scenarios", "run", file, "--out", tmp_path / "run").output
    assert "no-acknowledged-loss was broken" in output
    assert ("The outcome differs" in output) == is_compared


def short_file(folder: Path, at_ms: int) -> str:
    """A scenario file with ten sends within a second, and a crash."""
    file = folder / "short.toml"
    file.write_text(f'[config]\n"simulation.ops" = 10\n[[fault]]\nat_ms = {at_ms}\nkind = "crash"\nnodes = [2]\n')
    return str(file)


def test_a_second_run_replaces_the_first(tmp_path: Path) -> None:
    arguments = ["scenarios", "run", short_file(tmp_path, 500), "--out", str(tmp_path / "run")]
    assert [invoke(*arguments).exit_code for _ in range(2)] == [0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "run-judged", "short.toml"]
    (tmp_path / "run-judged" / "verdict.json").unlink()
    before = (tmp_path / "run" / "truth.json").stat().st_mtime_ns
    assert "found a folder with other files" in str(invoke(*arguments).exception)
    assert (tmp_path / "run" / "truth.json").stat().st_mtime_ns == before


def test_a_broken_invariant_names_all_neighbouring_offsets() -> None:
    scenario = load("kip-101-loss")
    text = outcome(ran("kip-101-loss"), scenario).breaks["no-acknowledged-loss"]
    assert text.startswith(
        "offsets 187 to 231, acknowledged with acks=all, are gone: broker 2 led epoch 1 without them"
    )
    both = INVARIANTS["no-acknowledged-loss"].check(ran("incident-152-153"))
    assert [(one.partition, one.text.split(",")[0]) for one in both] == [(0, "offsets 0 to 2"), (1, "offsets 0 to 6")]


def test_the_list_names_every_scenario() -> None:
    output = invoke("scenarios").output
    assert invoke("scenarios", "list").output == output
    listed = {
        theme: [line.split()[0] for line in lines]
        for theme, *lines in (part.splitlines() for part in output.split("\n\n"))
    }
    assert listed == {theme: [one.name for one in scenarios] for theme, scenarios in by_theme().items()}
    assert all(listed.values())
    assert sorted(name for group in listed.values() for name in group) == names()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name = ", "not TOML"),
        ("nme = 'x'", "the key 'nme'"),
        ("[[fault]]\nkind = 'flood'", "the fault 'flood'"),
        ("[[fault]]\nkind = 'crash'\nat_ms = -1", "the time -1"),
        ("[broker.one]\nacks = '1'", "the broker 'one'"),
    ],
)
def test_mistakes_in_a_scenario_file_are_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match="file.toml: found .*" + sentence):
        parse(text, "file.toml")


FILES = Path(__file__).parents[2] / "docs" / "scenario-files.md"


def test_the_documentation_of_scenario_files_has_every_key_and_its_example_runs(tmp_path: Path) -> None:
    text = FILES.read_text(encoding="utf-8")
    [example] = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    written = tomllib.loads(example)
    assert {*written} == set(KEYS)
    assert {key for fault in written["fault"] for key in fault} == set(FAULT_KEYS)
    assert set(FAULTS) <= set(re.findall("`([a-z-]+)`", text))
    assert {name for name in OPTIONS if name.startswith("simulation.")} <= set(
        re.findall("`(simulation[.a-z]+)`", text)
    )
    file = tmp_path / "mine.toml"
    file.write_text(example)
    result = invoke("scenarios", "run", file, "--out", tmp_path / "run", "--page", tmp_path)
    assert result.exit_code == 0, result.output
    assert "What happens, and why." in result.output
    page_of_it = (tmp_path / "run.md").read_text()
    assert page_of_it.startswith("<!--")
    assert f"logjudge scenarios run {file}" in page_of_it
    assert "<svg" in (tmp_path / "run.svg").read_text()


def test_a_scenario_runs_under_another_variant_and_with_other_settings(tmp_path: Path) -> None:
    arguments = ["scenarios", "run", "kip-101-loss", "--variant", "kip-101", "--set", "simulation.ops=700"]
    result = invoke(*arguments, "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    note = "This run has variant=kip-101, simulation.ops=700; title and story are those of the scenario without"
    assert note in result.output
    assert note not in invoke(*arguments[:3], "--seed", "1", "--out", tmp_path / "run").output  # which is its own seed
    assert "no acknowledged record was lost" in result.output
    assert "differs from what kip-101-loss expects: no-acknowledged-loss held" in result.output


def test_another_variant_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variant in ("kip-101", load("kip-101-loss").variant):
        text = invoke("scenarios", "run", "kip-101-loss", "--variant", variant, "--set", "simulation.ops=590").stdout
        assert text.startswith("This run has ")  # before title and story
    folders = {"kip-101-loss", "kip-101-loss-kip-101"}
    assert {path.name for path in tmp_path.iterdir()} == folders | {f"{name}-judged" for name in folders}


def test_the_index_has_every_scenario_and_the_trade_off_of_unclean_elections() -> None:
    text = index_page()
    assert (DOCS / "README.md").read_text() == text
    links = re.findall(r"\]\(([^)#]*)[^)]*\)", text)
    assert {f"{name}.md" for name in names()} <= set(links)
    assert all((DOCS / link).exists() for link in filter(None, links))
    assert re.findall("^## (.*)", text, re.MULTILINE)[:-1] == list(THEMES)
    rows = [re.split(r" *\| *", line)[1:5] for line in text.splitlines() if re.match(r"\| (true|false)", line)]
    seconds = [float(row[2].removesuffix(" s")) for row in rows]
    lost = [int(row[3].split(";")[0]) for row in rows]
    assert [row[:2] for row in rows] == [["true", "1"], ["false", "1"], ["true", "2"], ["false", "2"]]
    assert lost[0] > 0 == max(lost[1:])
    assert seconds[0] == min(seconds)
    assert seconds[3] == max(seconds)


def test_a_fault_after_the_last_send_is_warned_of(tmp_path: Path) -> None:
    for at_ms, is_late in ((50_000, True), (500, False)):
        file = short_file(tmp_path, at_ms)
        for command in (["scenarios", "run", file], ["simulate", "--config", file]):
            result = invoke(*command, "--out", tmp_path / f"run-{command[0]}")
            warning = "Warning: the fault crash begins at 50 s, after the last send at 1.0 s"
            assert (warning in result.stderr) == ("Warning" in result.stderr) == is_late
    run = ("scenarios", "run", "incident-152-153", "--out", tmp_path / "incident")
    assert "Warning" not in invoke(*run).stderr  # its second disk is full after the last send, on purpose
    assert "Warning" not in invoke(*run, "--seed", "3").stderr  # the loss that the scenario expects shows the same
    changed = invoke(*run, "--set", "unclean.leader.election.enable=false")
    assert "Warning: the fault disk-full begins at 60 s" in changed.stderr
