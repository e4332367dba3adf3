"""explain, diff, timeline and the reports on recorded runs, on what is left of them, and on hostile names."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from command_line import invoke, json_lines, verdict_in
from logjudge.analysis.causes.cases import LostRange
from logjudge.analysis.incidents.incident import Explained
from logjudge.analysis.inspect.findings_without_cause import unexplained_findings, why_no_cause
from logjudge.histories.errors import LogjudgeError
from logjudge.histories.tables import Finding

Unpack = Callable[[str], Path]


def run(*arguments: object) -> Result:
    result = invoke(*arguments)
    if result.exception is not None:
        raise result.exception
    return result


def check(path: Path, out: Path) -> tuple[Result, dict[str, Any]]:
    """The result of `logjudge check` without plots, and the verdict that it wrote."""
    result = run("check", path, "--engine", "local", "--no-plots", "--out", out)
    return result, verdict_in(out)


def test_an_offset_has_a_history(unpacked: Unpack) -> None:
    output = run("explain", unpacked("unclean-election-a"), "orders-0@300").output
    assert "p0 sent 'p0-206' at 5.432 s, acknowledged under acks=all at 7.841 s [history.jsonl" in output
    assert "c0 read 'p0-206' at 7.854 s" in output
    assert "epoch 2 was led by broker 2 from offset 255 on, ISR [2] (unclean election)" in output
    assert (
        "Cause: unclean-election, 376 acknowledged writes were lost: orders-0 at offsets 255 to 630; consumers"
        in output
    )
    assert "broker 1 truncated orders-0 to offset 255" in output


def test_generations_of_a_topic_are_explained_where_their_labels_appear(unpacked: Unpack, tmp_path: Path) -> None:
    run_folder = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    before = run_folder / "snapshots" / "before"
    shutil.copytree(run_folder / "brokers", before / "brokers")
    config = json.loads((run_folder / "run.json").read_text())
    config.setdefault("snapshots", {})["before"] = {"time": 1}
    (run_folder / "run.json").write_text(json.dumps(config))
    for file in run_folder.rglob("partition.metadata"):
        topic_id = ("A" if before in file.parents else "B") * 22
        file.write_text(f"version: 0\ntopic_id: {topic_id}")
    for command in ("timeline", "diff", "explain"):
        output = " ".join(invoke(command, run_folder, "orders-0").stdout.split())
        assert "This is generation 2 of topic orders (id BBBBBBBBBBBBBBBBBBBBBB)" in output, command


def test_the_lines_of_the_incident_name_the_leader_and_the_reason(tmp_path: Path) -> None:
    """The article's lines of brokers 152 and 153: the leader was empty, and the follower truncated to its log."""
    follower = tmp_path / "run" / "brokers" / "1"
    leader = tmp_path / "run" / "brokers" / "0"
    for folder in (leader, follower):
        folder.mkdir(parents=True)
    (leader / "server.log").write_text(
        "[2017-09-18 15:00:24,878] INFO Completed load of log feeds.v1-1 with log end offset 0 (kafka.log.Log)\n"
        "[2017-09-18 15:01:42,657] ERROR [Replica Manager on Broker 0]: Error when processing fetch request for "
        "partition [feeds.v1,1] offset 7 from follower with correlation id 0. Possible cause: Request for offset 7 "
        "but we only have log segments in the range 0 to 0. (kafka.server.ReplicaManager)\n"
    )
    (follower / "server.log").write_text(
        "[2017-09-18 15:01:31,533] INFO Completed load of log feeds.v1-1 with log end offset 7 (kafka.log.Log)\n"
        "[2017-09-18 15:01:43,507] INFO Truncating log feeds.v1-1 to offset 0. (kafka.log.Log)\n"
        "[2017-09-18 15:01:43,514] ERROR [ReplicaFetcherThread-0-0], Current offset 7 for partition [feeds.v1,1] out "
        "of range; reset offset to 0 (kafka.server.ReplicaFetcherThread)\n"
    )
    checked = run("check", tmp_path / "run", "--engine", "local", "--out", tmp_path / "out").output
    reason = (
        "broker 1 truncated offsets 0 to 6 of feeds.v1-1, because the log of its leader, broker 0, ended at offset 0"
    )
    assert reason in " ".join(checked.split())
    headline = "(broker 1 truncated offsets 0 to 6 of feeds.v1-1), unless producers sent them again. Without a client"
    assert headline in " ".join(checked.split())
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Not known: no client history was given." in page
    assert "lost after being read" not in page  # no counts of acknowledged and lost records
    with pytest.raises(LogjudgeError, match=r"explain feeds\.v1-1 for its truncations and other events$"):
        run("explain", tmp_path / "run", "feeds.v1-1@7")  # the first offset that was not truncated
    assert reason in " ".join(run("explain", tmp_path / "run", "feeds.v1-1@3").output.split())
    listed = " ".join(run("timeline", tmp_path / "run").output.split())
    refused = "broker 0, the leader, refused a follower's fetch from offset 7 of feeds.v1-1, as its log was empty"
    assert refused in listed
    assert "fetched from offset 7 of feeds.v1-1, which its leader, broker 0, did not have" in listed


def test_an_offset_is_explained_with_findings_and_causes_of_every_rule(unpacked: Unpack, tmp_path: Path) -> None:
    output = run("explain", unpacked("group-rebalance-a"), "events-3@365").output
    assert "consumer-loss: group workers committed events-3@371" in output
    assert "Cause: commit-before-handle" in output
    assert "Prevented by: committing only after the records are handled" in output
    beside = run("explain", unpacked("group-rebalance-a"), "events-3@371").output
    assert "No rule found a breach here." in beside
    assert "Why:" not in beside
    out = tmp_path / "out"
    check(unpacked("group-rebalance-a"), out)
    assert "Cause: commit-before-handle" in run("explain", out, "events-3@365").output
    assert "Why:" not in run("explain", out, "events-3@371").output


def test_legal_absence_is_explained(unpacked: Unpack) -> None:
    root = unpacked("retention-a")
    start = json.loads((root / "truth.json").read_text())["log_start"]["logs-0"]
    output = run("explain", root, "logs-0@0").output
    assert "No rule found a breach here." in output
    assert "retention: a legal absence" in output
    assert output.count(f"nothing: its log starts at {start}\n") == 3
    assert "retention" not in run("explain", root, f"logs-0@{start}").output


def test_a_run_without_causes_is_reported_as_such(unpacked: Unpack) -> None:
    assert "no breach was found, so there is nothing to explain" in run("explain", unpacked("clean-a")).output


def test_findings_come_before_their_cause(unpacked: Unpack) -> None:
    root = unpacked("unclean-election-a")
    output = run("explain", root, "orders-0").output
    found = output[output.index("Findings") : output.index("Cause: unclean-election")]
    assert found.index("lost-write: 376 writes") < found.index("nonmonotonic-send (permitted)")
    assert "not known" not in output
    assert "Findings without a cause" not in run("explain", root).output


def test_each_kind_of_breach_has_its_reason_for_no_cause() -> None:
    causes = [Explained("unknown", sentence="", findings=("lost-write/t-0/0",), lost=LostRange("t", 0, 5, 9, 5, None))]
    explanations = [
        Finding("lost-write", "", "t", 0, first_offset=5, last_offset=9, id="lost-write/t-0/0"),
        Finding("realtime-order", "", "t", 0, related=["lost-write/t-0/0"]),
        Finding("replica-divergence", "", "t", 0, first_offset=9, last_offset=12),
        Finding("nonmonotonic-send", "", "t", 0, severity="permitted"),
    ]
    left = [
        Finding("replica-divergence", "", "t", 0, first_offset=10, last_offset=12),
        Finding("poll-skip", "", "t", 0, first_offset=3),
        Finding("lost-write", "", "t", 1, first_offset=5, last_offset=9),
    ]
    assert unexplained_findings([*explanations, *left], causes) == left
    assert why_no_cause(left, {"t-0"}) == [
        "The run has no broker files of t-1, so the cause is not known.",
        "Findings of poll-skip have no causes of their own; see their evidence.",
        "The brokers' files prove no cause of replica-divergence.",
    ]


@pytest.mark.parametrize("place", ["orders-0@99999999", "nope-7", "nope-7@1", "nonsense", "orders-0@", "orders-0@-1"])
@pytest.mark.parametrize("command", ["explain", "diff", "timeline"])
def test_a_missing_place_is_one_sentence(unpacked: Unpack, place: str, command: str) -> None:
    with pytest.raises(LogjudgeError) as caught:
        run(command, unpacked("clean-a"), place)
    assert "\n" not in str(caught.value)
    assert "found" in str(caught.value)


def test_diff_shows_the_fork_and_ends_with_1(unpacked: Unpack) -> None:
    result = run("diff", unpacked("kip-101-c"), "orders-1")
    assert result.return_value == 1
    assert "DIFFERENT at 157 offsets: 617 to 773" in result.output
    assert "⋮" in result.output
    assert max(map(len, result.output.splitlines())) < 130


def test_diff_of_replicas_that_are_behind_is_no_divergence(unpacked: Unpack) -> None:
    result = run("diff", unpacked("disk-truncate-m"))
    assert result.return_value == 0
    assert "a replica that is behind is no divergence" in result.output
    assert "DIFFERENT" not in result.output


def test_diff_as_json_has_the_ranges_of_the_truth(unpacked: Unpack) -> None:
    result = run("diff", unpacked("unclean-election-m"), "--json")
    (part,) = json.loads(result.stdout)
    spans = {s["snapshot"]: [(d["first"], d["last"]) for d in s["divergences"]] for s in part["snapshots"]}
    assert spans == {"before-rejoin": [(477, 1085)], "after-rejoin": [], "": []}


def test_timeline_is_in_order_with_sources(unpacked: Unpack) -> None:
    events = json.loads(run("timeline", unpacked("unclean-election-a"), "orders-0", "--json").stdout)
    (part,) = events["partitions"]
    times = [event["time"] for event in part["moments"] if event["time"] is not None]
    assert times == sorted(times)
    elections = [event for event in part["moments"] if event["kind"] == "election"]
    assert "[unclean election]" in elections[-1]["says"]
    assert (elections[-1]["source"], elections[-1]["line"]) == ("brokers/100/server.log", 479)
    noops = [event["says"] for event in part["moments"] if event["kind"] == "noop"]
    assert noops
    assert all("changed nothing" in sentence for sentence in noops)
    assert events["clocks"]


def test_an_event_in_several_files_is_listed_once(unpacked: Unpack) -> None:
    events = json.loads(run("timeline", unpacked("unclean-election-m"), "orders-0", "--json").stdout)
    (part,) = events["partitions"]
    (elected,) = [event for event in part["moments"] if "elected broker 2 leader" in event["says"]]
    assert elected["source"].startswith("brokers/1/data/__cluster_metadata-0/")
    assert [(other["source"], other["line"]) for other in elected["also"]] == [("brokers/100/server.log", 133)]
    (restart,) = [event for event in part["moments"] if event["says"] == "broker 3 was restarted"]
    assert (restart["source"], restart["also"][0]["source"]) == ("history.jsonl", "brokers/3/server.log")
    assert all("checkpoint" not in event["says"] for event in part["moments"])
    chain = run("explain", unpacked("unclean-election-m"), "orders-0@500").output
    assert chain.count("fenced broker 3") == 1


def test_explain_names_the_leader_that_acknowledged_the_lost_record(unpacked: Unpack) -> None:
    output = run("explain", unpacked("kip-101-c"), "orders-0@640").output
    led = output[output.index("Leaders") : output.index("Cause:")]
    assert "epoch 0 was led by broker 1" in led
    assert "epoch 1 was led by broker 2" in led  # though records of that version have no epoch


def test_a_chain_has_the_decisive_steps_of_each_partition_in_order_of_time(unpacked: Unpack) -> None:
    output = " ".join(run("explain", unpacked("unclean-election-a")).output.split())
    steps = [
        "broker 1 leader of orders-0 in epoch 0", "broker 1 leader of orders-1 in epoch 0",
        "broker 2 was killed", "broker 3 was killed",
        "the ISR of orders-0 as [1]", "the ISR of orders-1 as [1]",
        "first acknowledgement with acks=all of offsets 255 to 630 of orders-0 (376 lost records)",
        "broker 1 was killed", "broker 2 was restarted",
        "elected broker 2 leader of orders-0 in epoch 2; the ISR had been [1]",
        "broker 2 began to lead orders-1 in epoch 2 from offset 224",
        "broker 1 truncated orders-1 to offset 224",
    ]  # fmt: skip
    assert [output.count(step) for step in steps] == [1] * len(steps)
    assert [output.index(step) for step in steps] == sorted(output.index(step) for step in steps)


def test_timeline_and_explain_write_markdown(unpacked: Unpack) -> None:
    output = run("explain", unpacked("kip-101-a"), "--markdown").output
    assert (
        "## Cause: high-watermark-truncation, 895 acknowledged writes were lost: orders-0 at offsets 0 to 894" in output
    )
    assert "\n1. " in output
    assert run("timeline", unpacked("kip-101-a"), "--markdown").output.startswith("## orders-0")


@pytest.mark.parametrize("command", ["explain", "diff", "timeline"])
def test_a_document_has_one_form(unpacked: Unpack, command: str) -> None:
    with pytest.raises(LogjudgeError, match="found --json and --markdown, expected one of them"):
        run(command, unpacked("kip-101-c"), "--json", "--markdown")


def test_explain_and_diff_describe_logs_in_the_same_words(unpacked: Unpack) -> None:
    root = unpacked("kip-101-c")
    for result in (run("explain", root, "orders-1"), run("diff", root, "orders-1")):
        assert re.search(r"broker 1 has offsets \d+ to \d+", result.output)
        assert "at the end" in result.output
        assert "617 to 773" in result.output


def test_missing_brokers_files_are_reported_once(unpacked: Unpack, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(unpacked("kip-101-c"), root)
    history = next(root.glob("history*"))
    lines = history.read_text().splitlines()
    for topic in ("aaa", "aab"):
        sent = {"process": topic, "op": 0, "f": "send", "topic": topic, "partition": 0, "value": "a"}
        lines.append(json.dumps({**sent, "type": "invoke", "time": 1}))
        lines.append(json.dumps({**sent, "type": "ok", "offset": 0, "time": 2}))
    history.write_text("\n".join(lines) + "\n")
    output = run("timeline", root).output
    once = "aaa-0, aab-0\n  The run has no broker files that record events of this partition."
    assert output.count("The run has no broker files") == output.count(once) == 1
    common = output[output.index("All partitions with broker files") : output.index("aaa-0")]
    assert "broker 2 was killed" in common
    assert run("diff", root).output.count("aaa-0, aab-0\n  No broker log with records was collected.") == 1


def test_a_report_has_the_cause_as_a_chain(unpacked: Unpack, tmp_path: Path) -> None:
    out = tmp_path / "out"
    checked, _ = check(unpacked("kip-101-a"), out)
    assert "UTC: 895 acknowledged writes were lost: orders-0 at offsets 0 to 894" in " ".join(checked.output.split())
    text = (out / "report.md").read_text()
    story = text[text.index("## Root causes") : text.index("## Trigger")]
    assert "broker 2 truncated orders-0 to offset 0 (brokers/2/server.log:371)" in story
    assert "Prevented by: Kafka 0.11" in story
    assert "| high-watermark-truncation | 895 | 895 |" in text
    assert "broker 2 truncated orders-0 to offset 0" in text[text.index("## Timeline") :]
    assert "high-watermark-truncation" in (out / "report.html").read_text()
    # The same from saved results.
    assert "broker 2 truncated orders-0 to offset 0" in run("explain", out, "orders-0@3").output
    beside = run("explain", out, "orders-0@2000").output
    assert "orders-0@2000: the saved results name no cause (the results explain offsets 0 to 894 of orders-0)" in beside
    for arguments in (["orders-7"], ["orders-7@3"], ["orders-7", "--json"]):
        with pytest.raises(LogjudgeError, match=r"found orders-7, which is not in the results, .* orders-0"):
            run("explain", out, *arguments)


def test_without_clients_the_brokers_files_are_judged(unpacked: Unpack, tmp_path: Path) -> None:
    root = tmp_path / "run"
    shutil.copytree(unpacked("kip-101-c") / "brokers", root / "brokers")
    checked, _ = check(root, tmp_path / "out")
    assert checked.return_value == 1
    assert "0 operations" not in checked.output
    assert "no history of clients; 7,520 records" in checked.output
    assert "BROKEN clients recorded" in checked.output
    text = (tmp_path / "out" / "report.md").read_text()
    assert "Replicas hold different records at 350 offsets" in text
    assert "2026-11-21 09:52:05.127Z: broker 2 truncated orders-0 to offset 635 (brokers/2/server.log:363)" in text
    assert "When: 2026-11-21 09:52:05 to 09:52:28 UTC." in text
    # Without a start of the run all times are those of the brokers.
    assert "2026-11-21 09:52:05.127" in run("timeline", root, "orders-0").output


def test_server_logs_alone_have_a_timeline(unpacked: Unpack, tmp_path: Path) -> None:
    for log in unpacked("unclean-election-a").glob("brokers/*/*.log"):
        target = tmp_path / "run" / "brokers" / log.parent.name / log.name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, target)
    checked, verdict = check(tmp_path / "run", tmp_path / "out")
    assert checked.return_value == 1
    assert "no partition logs" in checked.output
    assert "unclean-election, 2026-11-21 09:25:21 UTC: at least 733 committed records were lost" in checked.output
    chain = verdict["causes"][0]["chain"]
    assert chain[-1]["says"] == "broker 1 truncated orders-0 to offset 255"
    assert not any("acknowledged" in fact["says"] for fact in chain)
    assert "unclean election" in run("timeline", tmp_path / "run", "orders-0").output
    compared = run("diff", tmp_path / "run", "orders-0")
    assert (compared.return_value, "No broker log with records" in compared.output) == (3, True)
    assert run("diff", tmp_path / "run", "--json").return_value == 3


@pytest.mark.parametrize("topic", ["__transaction_state", "unwritten"])
def test_a_tail_that_a_clean_election_cut_from_a_topic_without_clients_is_no_loss(
    unpacked: Unpack, tmp_path: Path, topic: str
) -> None:
    """Brokers write their own topics with acks=all; of a topic that no recorded client wrote to nothing was lost."""
    root = tmp_path / "run"
    shutil.copytree(unpacked("kip-101-c"), root, ignore=shutil.ignore_patterns("data", "snapshots"))
    logs = list(root.glob("brokers/*/*.log"))
    for log in logs:
        log.write_text(log.read_text().replace("orders-", f"{topic}-"))
    _, verdict = check(root, tmp_path / "out")
    assert [cause for cause in verdict["causes"] if "; no acknowledgements" in cause["says"]] == []


@pytest.mark.parametrize("name", ["unclean-election-a", "kip-101-a", "acks1-failover-a", "leader-kill-a"])
def test_a_history_and_server_logs_prove_the_cause_or_it_is_unknown(
    unpacked: Unpack, tmp_path: Path, name: str
) -> None:
    root = tmp_path / "run"
    shutil.copytree(unpacked(name), root, ignore=shutil.ignore_patterns("data", "snapshots"))
    checked, verdict = check(root, tmp_path / "out")
    named = {cause["cause"] for cause in verdict["causes"] if cause["lost"]}
    known = {
        "unclean-election-a": {"unclean-election"},
        "kip-101-a": {"high-watermark-truncation"},
        "acks1-failover-a": {"single-ack-failover"},
    }
    assert named == known.get(name, {"unknown"} if checked.return_value == 1 else set())


def test_records_on_one_broker_alone_give_no_finding_and_are_not_valid(unpacked: Unpack, tmp_path: Path) -> None:
    checked, verdict = check(unpacked("custom-kraft"), tmp_path / "out")
    assert checked.return_value == 3
    assert not verdict["findings"]
    assert any("there is nothing to compare" in item["says"] for item in verdict["assumptions"])
    compared = run("diff", unpacked("custom-kraft"))
    assert compared.return_value == 3
    assert "no records from broker 101, 102" in compared.output
    assert "leader of demo-0 in epoch" in run("timeline", unpacked("custom-kraft"), "demo-0").output


def test_damage_is_quarantined_with_file_and_byte(unpacked: Unpack, tmp_path: Path) -> None:
    root = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    segment = sorted((root / "brokers" / "1" / "data" / "orders-0").glob("*.log"))[0]
    blob = bytearray(segment.read_bytes())
    blob[len(blob) // 2] ^= 0x10
    segment.write_bytes(bytes(blob))
    _, verdict = check(root, tmp_path / "out")
    rows = json_lines(tmp_path / "out" / "quarantine.jsonl")
    assert any(row["source"].endswith(segment.name) and row["byte"] is not None for row in rows)
    [damage] = [item for item in verdict["assumptions"] if "could not be read (quarantine.jsonl)" in item["says"]]
    assert (damage["name"], damage["holds"]) == ("damage in brokers' files bounded", True)
    assert "brokers' files readable" not in [item["name"] for item in verdict["assumptions"]]
    assert verdict["counts"]["quarantined"] == 0


def test_diff_names_copies_that_it_does_not_compare(unpacked: Unpack, tmp_path: Path) -> None:
    """A second copy of broker 3's log, of before its truncation, differs from the logs that are equal now."""
    root = unpacked("unclean-election-c")
    run_folder = tmp_path / "copies"
    shutil.copytree(root / "brokers", run_folder / "brokers")
    assert "Not compared" not in run("diff", run_folder).output
    shutil.copytree(root / "snapshots/before-rejoin/brokers/3", run_folder / "brokers/3-before")
    result = run("diff", run_folder)
    assert "  equal\n" in result.output
    assert "brokers/3-before/data: is a second copy of a log of broker 3" in result.output.partition("Not compared")[2]
