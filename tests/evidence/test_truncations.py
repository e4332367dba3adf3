"""Truncations in brokers' files without a client history: those that removed records for good are explained.

Those of a copy on its way to another disk (kafka-reassign-partitions with log_dirs, KIP-113) are none of the log.
"""

# A log line is one line, as brokers write it.
# ruff: noqa: E501

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import logjudge
import polars as pl
import pytest
from command_line import invoke, verdict_in
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.cases import Lost
from logjudge.analysis.incidents.incident import Explained
from logjudge.analysis.incidents.truncations import explain_truncations
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.timelines.facts import Fact
from logjudge.analysis.timelines.timeline import Timeline
from logjudge.histories import simulation
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS
from logjudge.plots.report.brokers_headline import headline_of_brokers

from .replica_texts import epochs, logs
from .timelines import AFTER, BEGAN, BOOT, CUT, LOADED, SECOND, TWO_LEADS, UNCLEAN, metadata, server_log, timeline

Unpack = Callable[[str], Path]
SCENARIO = Path(simulation.__file__).parent / "scenarios" / "incident-152-153.toml"


def judged_alone(unpacked: Unpack, name: str, folder: Path) -> dict[str, Any]:
    """The verdict on the brokers' files of a recorded run."""
    shutil.copytree(unpacked(name) / "brokers", folder / "run" / "brokers")
    invoke("check", folder / "run", "--engine", "local", "--no-plots", "--out", folder / "out")
    return {**verdict_in(folder / "out"), "report": (folder / "out" / "report.md").read_text()}


def truncations_in(found: Timeline) -> list[Explained]:
    """The truncations of a partition without recorded clients."""
    frames = pl.DataFrame(schema=SENDS), pl.DataFrame(schema=READS)
    return explain_truncations(
        Partition("orders", 0, Settings(), *frames, replica_logs=found.replica_logs, timeline=found)
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("name", "removed", "verdict", "headline"),
    [
        (
            "unclean-election-a",
            {"offsets 255 to 630 of orders-0", "offsets 224 to 602 of orders-1"},
            "invalid",
            "At least 733 committed records were lost: orders-0 at offsets 255 to 615, orders-1 at offsets 224 to 595.",
        ),
        (
            "acks1-failover-a",
            {"offsets 685 to 917 of orders-0"},
            "unknown",
            "about 233 records were removed in 1 place (broker",
        ),
        ("clean-a", set(), "unknown", "The brokers' files show no breach. Without"),
        ("transactions-a", set(), "unknown", "The brokers' files show no breach. Without"),
    ],
)
def test_truncations_name_the_records_that_they_removed_for_good(
    unpacked: Unpack, name: str, removed: set[str], verdict: str, headline: str, tmp_path: Path
) -> None:
    found = judged_alone(unpacked, name, tmp_path)
    assert found["verdict"] == verdict
    sentences = [cause["says"] for cause in found["causes"]]
    assert {re.split("[,;]", text.partition(" truncated ")[2])[0] for text in sentences} == removed
    assert headline in found["report"]
    # The chain of a known cause has the time.
    dated = [re.search(r"; truncated at 2026-11-21 [\d:.]{12}Z$", text) is not None for text in sentences]
    assert dated == [cause["cause"] == "unknown" for cause in found["causes"]]


def test_steps_have_dates_and_no_seconds_without_a_history(unpacked: Unpack, tmp_path: Path) -> None:
    report = judged_alone(unpacked, "unclean-election-a", tmp_path)["report"]
    dated = "1. 2026-11-21 09:24:56.489Z: the controller elected broker 1 leader of orders-0 in epoch 0"
    assert dated in report
    assert "## Trigger\n\nNot recorded.\n\n## Detection\n\nFound by logjudge" in report
    assert "## Impact\n\nAt least 733 committed records. Which of them" in report
    assert "broker 1's high watermark of orders-0 was 616" in report
    assert "unclean.leader.election.enable of topic orders was set to true" in report
    page = (tmp_path / "out" / "report.html").read_text()
    assert 'id="rule-replica-divergence"' in page
    assert 'id="rule-lost-write"' not in page  # in the list of rules that are not judged
    # Brokers 2 and 3 were killed, and the ISR shrank: why the elected broker lacked the records.
    assert ": broker 1 reported the ISR of orders-0 as \\[1\\]" in report
    assert (
        "Cause: unclean-election, at least 361 committed records were lost: orders-0 at offsets 255 to 615"
        in invoke("explain", tmp_path / "run", "orders-0@300").output
    )
    assert "so the plot glance has nothing to draw" in str(invoke("plot", tmp_path / "run", "glance").exception)
    for place in (tmp_path / "run", tmp_path / "out"):
        assert dated.replace("Z:", "Z") in " ".join(invoke("explain", place).output.split())


@pytest.mark.parametrize(
    ("removed", "causes"),
    [
        ((), {"unclean-election"}),
        (("1/state-change.log", "2/state-change.log"), {"unknown"}),  # nothing shows who was elected
        (("2/data", "1/data"), {"unclean-election"}),
    ],
)
def test_the_incident_is_explained_without_clients_and_controllers(
    removed: tuple[str, ...], causes: set[str], tmp_path: Path
) -> None:
    """Both logs are empty at the end, so that only the brokers' own lines show who had the records, and who led."""
    invoke("simulate", "--config", SCENARIO, "--out", tmp_path / "simulated")
    for broker in ("1", "2"):
        shutil.copytree(tmp_path / "simulated" / "brokers" / broker, tmp_path / "run" / "brokers" / broker)
    for name in removed:
        path = tmp_path / "run" / "brokers" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    result = logjudge.check(tmp_path / "run")
    assert result.verdict == "unknown"
    removals = sorted(one["says"].partition(",")[0] for one in result.causes if "truncated" in one["says"])
    assert removals == [f"broker 2 truncated offsets 0 to {last} of orders-{n}" for n, last in ((0, 2), (1, 6))]
    assert {one["cause"] for one in result.causes} == causes
    headlines = [one["headline"] for one in result.incidents]
    joined = f"; no acknowledgements are recorded; also {removals[1]}"
    assert any(one.endswith(joined) for one in headlines) == (causes == {"unclean-election"})
    if not removed:
        explained = " ".join(invoke("explain", tmp_path / "run").output.split())
        steps = ["broker 1 halted", "in epoch 1, ISR [2]", "broker 2 halted", "broker 1 started", "in epoch 3, ISR [1]"]
        assert [*map(explained.index, steps)] == sorted(map(explained.index, steps))
        assert "starting broker 2, which still had the records, before broker 1" in explained


@pytest.mark.parametrize(
    ("name", "left", "headline"),
    [
        (
            "unclean-election-a",
            ["1", "2", "3", "100"],
            "At least 733 committed records were lost: orders-0 at offsets 255 to 615, orders-1 at offsets 224 to 595.",
        ),
        ("unclean-election-a", ["2", "3", "100"], "but 2 unclean elections may have lost records."),
        ("leader-kill-a", ["2", "3", "100"], "but about 17 records were removed in 1 place (broker"),
        ("disk-truncate-a", ["1", "2", "100"], "but 1 leader with a log that was cut may have lost records."),
    ],
)
def test_an_unclean_election_is_noted_if_the_logs_of_the_isr_are_missing(
    unpacked: Unpack, tmp_path: Path, name: str, left: list[str], headline: str
) -> None:
    for broker in left:
        source = unpacked(name) / "brokers" / broker
        shutil.copytree(source, tmp_path / "run" / "brokers" / broker)
    result = logjudge.check(tmp_path / "run")
    assert result.verdict == ("invalid" if "committed" in headline else "unknown")
    assert headline in result.headline
    noted = "broker 2, which was not in sync, was elected leader of orders-0 in epoch 2; the"
    assert any(noted in one["headline"] for one in result.incidents) == ("election" in headline)


@pytest.mark.parametrize("is_earlier", [False, True])
def test_an_unclean_election_is_noted_if_only_logs_that_agree_again_are_given(
    unpacked: Unpack, tmp_path: Path, is_earlier: bool
) -> None:
    """The old leader truncated, which its server.log shows, or a copy of its log from before."""
    folder = unpacked("unclean-election-m")
    for broker in ("1", "2", "3"):
        earlier = "snapshots/before-rejoin" if is_earlier and broker == "3" else ""
        shutil.copytree(folder / earlier / "brokers" / broker / "data", tmp_path / "run" / "brokers" / broker / "data")
    result = logjudge.check(tmp_path / "run")
    assert result.rules["replica-divergence"]["findings"] == is_earlier
    values = [value for found in result.findings["values"] for value in found]
    assert (values[:1], len(values)) == ((["p1-163"], 609) if is_earlier else ([], 0))  # what the old leader had
    noted = "the server.log or an earlier copy of the log of broker 3, which was in sync, would show which records it"
    assert any(noted in one["headline"] for one in result.incidents) != is_earlier


def test_a_timeline_of_server_logs_has_internal_topics_last(unpacked: Unpack, tmp_path: Path) -> None:
    shutil.copyfile(unpacked("unclean-election-m") / "brokers" / "1" / "server.log", tmp_path / "server.log")
    listed = invoke("timeline", tmp_path / "server.log").output
    assert listed.startswith("orders-0\n")
    assert listed.endswith("Clocks\n  Times in broker logs are read as UTC.\n")


def test_the_longest_truncation_comes_first() -> None:
    """An old leader had all records, and a follower one of them: their incident is named after the first."""
    events = [server_log(name, (8, LOADED % end), (9, CUT % 1)) for name, end in (("2", 2), ("1", 40), ("3", 3))]
    found = timeline(AFTER, events=events)
    sentences = [one.sentence.partition(" of ")[0] for one in truncations_in(found)]
    assert sentences == [
        "broker 1 truncated offsets 1 to 39",
        "broker 3 truncated offsets 1 to 2",
        "broker 2 truncated offset 1",
    ]


LEADS, FOLLOWS = (
    f"INFO [Broker id=1] {role} orders-0 starts at leader epoch 1 from offset 1 with partition epoch 7{rest} (x)"
    for role, rest in (
        (
            "Leader",
            ", high watermark 1, ISR [1], adding replicas [] and removing replicas [] . Previous leader 1 and previous leader epoch was 0.",
        ),
        ("Follower", " and high watermark 1. Current leader is 3."),
    )
)


@pytest.mark.parametrize(("leader", "line"), [(1, LEADS), (3, FOLLOWS)])
def test_a_term_in_which_a_broker_led_or_followed_wrote_what_it_truncated_at_its_start(leader, line) -> None:
    """Epoch 1 wrote offsets 1 to 39; broker 2 had left the ISR, and was elected uncleanly at offset 1."""
    meta = metadata((4, {"leader": leader, "isr": [1, 3]}), (7, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}))
    tables = {**logs("1: 0a 1x@2\n2: 0a 1x@2"), "epochs": epochs(("2", 0, 0), ("1", 1, 1), ("2", 2, 1))}
    found = timeline(tables, meta=meta, events=[server_log("1", (4, line), (8, LOADED % 40), (9, CUT % 1))])
    assert [one.cause for one in truncations_in(found)] == ["unclean-election"]


FOLLOWS_AT = FOLLOWS.replace("epoch 1 from offset 1 ", "epoch {} from offset {} ").replace(
    "leader is 3", "leader is {}"
)


def test_a_broker_that_restarts_in_an_epoch_has_records_of_that_epoch() -> None:
    """Broker 3 followed in epoch 0 before it restarted, and again with the records that it had fetched."""
    followed = [(at, FOLLOWS_AT.format(*how)) for at, how in ((1, (0, 0, 1)), (7, (0, 40, 1)), (10, (1, 40, 2)))]
    events = [server_log("3", followed[0], (5, BOOT), (6, LOADED % 40), *followed[1:], (11, CUT % 1))]
    explained, *_ = truncations_in(timeline(AFTER, meta=UNCLEAN, events=events))
    assert explained.event == "broker 3 truncated offsets 1 to 39 of orders-0"
    assert explained.cause == "unclean-election"
    assert any("elected broker 1 leader of orders-0 in epoch 0" in fact.sentence for fact in explained.chain)


def test_the_first_epoch_lost_no_records_of_a_broker_that_restarted() -> None:
    """The server.log of broker 3 begins with its restart in epoch 0, so that the term of its records is not known."""
    followed = [(at, FOLLOWS_AT.format(*how)) for at, how in ((7, (0, 40, 1)), (10, (1, 40, 2)))]
    events = [server_log("3", (5, BOOT), (6, LOADED % 40), *followed, (11, CUT % 1))]
    explained, *_ = truncations_in(timeline(AFTER, meta=UNCLEAN, events=events))
    assert (explained.cause, explained.missing) == ("unclean-election", ())


REASON = "Truncating partition orders-0 with TruncationState(offset=%d, completed=true) due to local high watermark 0"
COPIES = f"INFO [ReplicaAlterLogDirsThread-1]: {REASON} (kafka.server.ReplicaAlterLogDirsThread)"
FETCHES = f"INFO [ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] {REASON} (kafka.server.ReplicaFetcherThread)"
NOOP = "INFO [UnifiedLog partition=orders-0, dir=/disk2] Truncating to %d has no effect as the largest offset in the log is -1 (x.UnifiedLog)"
CUT_BY_LOG = "INFO [UnifiedLog partition=orders-0, dir=/disk2] Truncating to offset %d (x.UnifiedLog)"
OTHER = (41, "INFO Rolled new log segment (x)")


@pytest.mark.parametrize("line", [NOOP, CUT_BY_LOG])
@pytest.mark.parametrize(
    ("before", "is_of_log"),
    [
        ([(41, COPIES % 0)], False),
        ([(41, COPIES % 0), OTHER], False),
        ([(41, FETCHES % 0)], True),
        ([(41, COPIES % 3)], True),
        ([(41, COPIES % 0), *[OTHER] * 3], True),
        ([], True),
    ],
)
def test_a_truncation_of_the_copy_on_its_way_is_none_of_the_log(before, is_of_log, line):
    found = timeline(logs("1: 0a 0b\n2: 0a 0b"), events=[server_log("1", *before, (41, line % 0))])
    assert [end.end for end in found.ends_of("1", "truncated")] == ([0] if is_of_log else [])


def test_a_snapshot_has_the_same_lines_about_the_copy_on_its_way() -> None:
    lines = server_log("1", (41, COPIES % 0), (41, CUT_BY_LOG % 0))
    in_snapshot = lines.with_columns(snapshot=pl.lit("early"), file=pl.lit("snapshots/early/brokers/1/server.log"))
    found = timeline(logs("1: 0a 0b\n2: 0a 0b"), events=[lines, in_snapshot])
    assert not found.ends_of("1", "truncated")


CREATED = "INFO Created log for partition orders-0 in /disk2/orders-0 with properties {} (kafka.log.LogManager)"


@pytest.mark.parametrize(("line", "is_noted"), [(CREATED, True), (LOADED % 1, False)])
def test_an_unclean_election_is_noted_if_the_broker_in_sync_returned_with_a_new_log(line: str, is_noted: bool) -> None:
    """Its records are not known. A log that ended where the new leader began shows that the election lost nothing."""
    follows = FOLLOWS.replace("leader is 3", "leader is 2")
    found = timeline(AFTER, meta=UNCLEAN, events=[server_log("1", (12, line), (13, follows))])
    noted = ["broker 2, which was not in sync, was elected leader of orders-0 in epoch 1"] if is_noted else []
    assert [one.event for one in truncations_in(found)] == noted


def test_a_leader_lost_nothing_in_a_term_if_it_began_the_next_one_above() -> None:
    """In ZooKeeper mode each broker that leaves the ISR begins a term, and no source has its first offset."""
    meta = metadata(
        (2, {"leader": 1, "isr": [1, 2]}),
        (3, {"leader": 1, "isr": [1]}),
        (9, {"leader": 2, "isr": [2], "leaderRecoveryState": 1}),
    )
    begun = epochs(("1", 0, 0), ("1", 2, 3), ("2", 0, 0), ("2", 3, 1))
    found = timeline({**logs("1: 0a 1x@3\n2: 0a 1x@3"), "epochs": begun}, meta=meta)
    lost = Lost("orders", 0, 1, 9, 9, written=SECOND)
    assert explain_loss(found, lost).cause == "unclean-election"


FOLLOWS_2 = FOLLOWS.replace("leader is 3", "leader is 2").replace("offset 1 ", "offset {} ")


@pytest.mark.parametrize("lines", [[(11, CUT % 1)], [], [(20, FOLLOWS_2.format(50))]])
def test_a_broker_that_did_not_restart_truncates_what_it_had_when_it_began_to_follow(lines: list[Any]) -> None:
    """A leader was paused and resumes after the next one began to lead; its server.log may be missing."""
    events = [server_log("1", (0, LOADED % 0), (10, FOLLOWS_2.format(40)), *lines)]
    found = timeline(AFTER, meta=TWO_LEADS, events=events)
    assert [one.event for one in truncations_in(found)] == ["broker 1 truncated offsets 1 to 39 of orders-0"]


def test_a_truncation_without_a_line_is_known_if_the_broker_leads_again_later() -> None:
    again = metadata((9, {"leader": 2, "isr": [2]}), (30, {"leader": 1, "isr": [1, 2]}))
    found = timeline(AFTER, meta=again, events=[server_log("1", (0, LOADED % 0), (10, FOLLOWS_2.format(40)))])
    assert [one.event for one in truncations_in(found)] == ["broker 1 truncated offsets 1 to 39 of orders-0"]


def test_an_unclean_election_is_explained_though_retention_deleted_what_it_began_with() -> None:
    """Kafka 3.9: two brokers of the ISR are dead, and the one that was fenced first left the other to lead for no time.

    Broker 3 leads epoch 2 from offset 3. Its log starts at 7 when broker 1 returns, so it lets it truncate to 7 only.
    """
    began = "INFO [Broker id=3] Leader orders-0 with topic id Some(x) starts at leader epoch 2 from offset 3 with partition epoch 3, high watermark 3, ISR [3], adding replicas [] and removing replicas [] . Previous leader Some(1) and previous leader epoch was 1. (state.change.logger)"
    follows = FOLLOWS.replace("leader epoch 1 from offset 1 ", "leader epoch 2 from offset 20 ")
    unclean = {"leader": 3, "isr": [3], "leaderRecoveryState": 1}
    meta = metadata((1, {"isr": [1, 2], "replicas": [1, 2, 3]}), (8, {"leader": 2, "isr": [2]}), (8, unclean))
    tables = {**logs("1: 30x@2\n2: 30x@2\n3: 30x@2"), "epochs": epochs(("3", 2, 30))}
    tables["batches"] = tables["batches"].with_columns(file=pl.lit(f"orders-0/{30:020d}.log"))
    led = LEADS.replace("leader epoch 1 from offset 1 ", "leader epoch 0 from offset 0 ")
    returned = (12, LOADED % 20), (13, follows), (14, CUT % 7)
    events = [server_log("1", (1, led), *returned), server_log("3", (9, began))]
    found = timeline(tables, {"replicas": ("1", "2", "3")}, meta, events, leader="3")
    [explained] = truncations_in(found)
    assert explained.cause == "unclean-election"
    assert explained.event == "broker 1 truncated offsets 7 to 19 of orders-0"


@pytest.mark.parametrize(
    ("began", "events"),
    [
        (2, ["broker 1 began to lead orders-0 in epoch 2 from offset 2, below offset 9, where epoch 1 had begun"]),
        (9, []),
        (12, []),
    ],
)
def test_a_leader_that_begins_below_an_earlier_one_lost_records(began, events) -> None:
    """The only replica restarts with an empty disk, so no broker truncates its log."""
    lines = (
        (at, BEGAN % (1, epoch, offset, epoch, "1")) for at, epoch, offset in ((1, 0, 0), (4, 1, 9), (8, 2, began))
    )
    found = timeline(logs("1: 0a@2"), events=[server_log("1", *lines)])
    assert [one.event for one in truncations_in(found)] == events


NO_LOG = "INFO Created log for partition orders-0 in /d/orders-0 with properties {} (kafka.log.LogManager)"
LOST_DISK = "broker 1, which had led epoch 0, found no log when it started"


@pytest.mark.parametrize(
    ("began", "restarted", "followed", "event"),
    [
        (0, True, False, f"{LOST_DISK}, and led orders-0 from offset 0 in epoch 1"),
        (0, True, True, "broker 2 truncated offsets 0 to 8 of orders-0"),
        (0, False, False, None),  # it created its first log after it was elected
        (9, True, False, None),  # the line is of a copy on its way to another disk
    ],
)
def test_a_leader_that_found_no_log_lost_its_disk(began, restarted, followed, event) -> None:
    """The followers, if any, truncate their logs to the empty log; what only the old log had is unknown."""
    lines = [(1, BEGAN % (1, 0, 0, 0, "1")), *([(5, BOOT)] if restarted else []), (6, NO_LOG)]
    others = [(2, LOADED % 9), *([(9, BOOT), (10, LOADED % 9), (11, CUT % 0)] if followed else [])]
    events = [server_log("1", *lines, (8, BEGAN % (1, 1, began, 1, "1"))), server_log("2", *others)]
    found = timeline(logs("1: 0a@1\n2: 0a@1"), events=events, leader="1")
    explained = truncations_in(found)
    assert [one.event for one in explained] == [event] * (event is not None)
    assert all((f"because {LOST_DISK}, and led from offset 0" in one.sentence) == followed for one in explained)


def test_a_headline_ends_the_clause_on_records_that_were_sent_again() -> None:
    [removal] = truncations_in(timeline(AFTER, events=[server_log("1", (8, LOADED % 40), (9, CUT % 1))]))
    election = replace(removal, truncated=None, chain=(Fact("", "elected"),))
    causes = [one.record() for one in (removal, election)]
    rules = {"committed-absent": {"verdict": "unknown", "count": 0}}
    headline = headline_of_brokers({"rules": rules, "incidents": [], "counts": {"kept records": 1}, "causes": causes})
    assert ", unless producers sent them again, and 1 unclean election may have lost records. " in headline
