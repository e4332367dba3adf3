"""Runs with a part of the evidence taken away: what is missing is named, and no breach appears or turns valid."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from campaign import IS_CAMPAIGN
from command_line import LOSSY, verdict_of_run
from event_lines import CONFIG, lines
from logjudge import check as judged

from .conftest import DATA, RUNS
from .test_commands import Unpack, check
from .transaction_logs import STARTED_AT, transaction, write_run
from .transaction_logs import judged as verdict_of_transactions


def replicas_collected(verdict: dict[str, Any]) -> dict[str, Any]:
    return next(item for item in verdict["assumptions"] if item["name"] == "all replicas collected")


# A recorded run, the files to leave out, and the replicas that are missing then.
MISSED = {
    "a broker": ("kip-101-a", ["snapshots", "dump", "brokers/2"], "orders-0 (1 replica)"),
    "a broker at the end, though a snapshot has it": ("kip-101-a", ["dump", "brokers/2"], "orders-0 (1 replica)"),
    "all logs of a partition": ("clean-a", ["brokers/*/data/orders-1"], "orders-1 (every replica)"),
}


@pytest.mark.parametrize("case", MISSED)
def test_replicas_that_were_not_collected_are_missed(case: str, unpacked: Unpack, tmp_path: Path) -> None:
    name, left_out, missed = MISSED[case]
    root = shutil.copytree(unpacked(name), tmp_path / "run")
    _remove(root, *left_out)
    about = json.loads((root / "run.json").read_text())
    about["topics"]["orders"].pop("replica.assignment", None)
    (root / "run.json").write_text(json.dumps(about))
    _, verdict = check(root, tmp_path / "out")
    assert f"are missing: {missed}" in replicas_collected(verdict)["says"]


def test_a_leader_that_a_reassignment_added_is_missed(unpacked: Unpack, tmp_path: Path) -> None:
    """run.json has the assignment from before it, and there is no metadata log."""
    root = shutil.copytree(unpacked("kip-101-a"), tmp_path / "run")
    _remove(root, "snapshots", "dump", "brokers/1")
    about = json.loads((root / "run.json").read_text())
    about["topics"]["orders"] |= {"replica.assignment": [[2]], "replication.factor": 1}
    (root / "run.json").write_text(json.dumps(about))
    _, verdict = check(root, tmp_path / "out")
    assert "are missing: orders-0 (broker 1)" in replicas_collected(verdict)["says"]
    assert verdict["rules"]["acknowledged-absent"]["verdict"] != "valid"


def test_a_replica_alone_is_not_known_to_agree(unpacked: Unpack, tmp_path: Path) -> None:
    alone = unpacked("kip-101-a") / "brokers" / "1" / "data" / "orders-0"
    checked, verdict = check(alone, tmp_path)
    assert checked.return_value == 3
    collected = replicas_collected(verdict)
    assert not collected["holds"]
    assert "the number of replicas of orders-0 is not recorded" in collected["says"]
    assert verdict["rules"]["replica-divergence"]["verdict"] == "unknown"


@pytest.mark.parametrize("name", ["brokers/", "snapshots/", "brokers.tar.gz", "broker-1.tgz", "notes/", "notes.zip"])
def test_brokers_files_that_were_meant_are_missed_beside_a_history(name: str, unpacked: Unpack, tmp_path: Path) -> None:
    """A collection that failed leaves an empty folder. Folders and archives of other names may have anything."""
    for file in ("history.jsonl", "run.json"):
        (tmp_path / file).symlink_to(unpacked("clean-a") / file)
    (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    result = judged(tmp_path)
    assert result.verdict == ("valid" if name.startswith("notes") else "unknown")
    found = [one["says"] for one in result.assumptions if one["name"] == "brokers' files found"]
    assert [f"was found in {name.rstrip('/')}:" in sentence for sentence in found] == [True] * (
        result.verdict != "valid"
    )
    set_aside = [one["says"] for one in result.assumptions if one["name"] == "archives set aside"]
    assert [sentence.startswith("notes.zip is packed, and not read") for sentence in set_aside] == [True] * (
        name == "notes.zip"
    )


def test_logs_that_retention_emptied_are_not_missing(tmp_path: Path) -> None:
    collected = replicas_collected(check(DATA / "emptied", tmp_path)[1])
    assert collected["holds"]
    assert "the others are empty" in collected["says"]


def _remove(root: Path, *patterns: str) -> None:
    for path in (path for pattern in patterns for path in root.glob(pattern)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _without_outcomes(root: Path) -> None:
    """Every fifteenth send of the history has no known outcome."""
    history = next(root.glob("history.jsonl*"))
    read = gzip.decompress if history.suffix == ".gz" else bytes
    events = [json.loads(line) for line in read(history.read_bytes()).splitlines()]
    history.unlink()
    for event in [one for one in events if (one["f"], one["type"]) == ("send", "ok")][::15]:
        event["type"] = "info"
        event.pop("offset", None)
    (root / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))


TAKEN_AWAY: dict[str, Callable[[Path], None]] = {
    "server logs": lambda root: _remove(root, "**/server.log*"),
    "brokers' files": lambda root: _remove(root, "brokers", "snapshots"),
    "broker 1": lambda root: _remove(root, "brokers/1"),
    "broker 3": lambda root: _remove(root, "brokers/3"),
    "controllers": lambda root: _remove(root, "**/__cluster_metadata-0"),
    "checkpoints": lambda root: _remove(root, "**/*checkpoint"),
    "outcomes": _without_outcomes,
}
# All parts of one run with a loss, and of other runs those on which their verdict depends most.
IN_SHORT = {
    "kip-101-a": tuple(TAKEN_AWAY),
    "clean-a": ("broker 1", "controllers", "outcomes"),
    "txn-unclean-x": ("server logs", "brokers' files", "outcomes"),
}
# Each judges a broker's files by themselves: those that were not collected contradict nothing.
OF_ONE_BROKER = ("checkpoint-order", "epoch-order", "aborted-index", "log-corruption")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "what"),
    [
        (name, what)
        for name in RUNS
        for what in TAKEN_AWAY
        if what in IN_SHORT.get(name, ()) or (IS_CAMPAIGN and name != "custom-kraft")
    ],
)
def test_without_a_part_of_the_evidence_no_breach_appears_and_none_turns_valid(
    name: str, what: str, unpacked: Unpack, tmp_path: Path
) -> None:
    whole = judged(unpacked(name))
    root = shutil.copytree(unpacked(name), tmp_path / "run")
    TAKEN_AWAY[what](root)
    rest = judged(root)
    for rule, result in rest.rules.items():
        before, now = whole.rules[rule]["verdict"], result["verdict"]
        # Without brokers' files a skipped record that became part of an aborted transaction is only skipped.
        assert now != "invalid" or before == "invalid" or rule == "int-poll-skip", (rule, before)
        assert now != "valid" or before != "invalid" or rule in OF_ONE_BROKER, rule
    assert what != "checkpoints" or rest.rules["checkpoint-order"]["verdict"] == "not-judged"
    assert rest.verdict == "invalid" if whole.verdict == "invalid" else rest.verdict != "invalid"


def test_a_broken_assumption_names_the_rules_that_it_leaves_unknown(tmp_path: Path) -> None:
    """And not those that have findings in spite of it. The lost log is the last leader's, which other files name."""
    run = shutil.copytree(LOSSY, tmp_path / "run")
    shutil.rmtree(run / "brokers" / "2")
    result = judged(run)
    sentences = {one["name"]: one["says"] for one in result.assumptions if not one["holds"]}
    for name in ("evidence sufficient", "all replicas collected"):
        assert sentences[name].endswith("; this leaves acknowledged-absent unknown")
    assert "the log of broker 2, the last leader, was not collected" in sentences["evidence sufficient"]
    assert result.rules["lost-write"]["verdict"] == "invalid"


def test_clocks_are_compared_only_with_a_history(unpacked: Unpack, tmp_path: Path) -> None:
    whole = unpacked("kip-101-c")
    (tmp_path / "brokers").symlink_to(whole / "brokers")
    for folder, name in ((tmp_path, "brokers' clocks are UTC"), (whole, "brokers' clocks fit the history")):
        assumptions = verdict_of_run(folder)["assumptions"]
        assert [one["name"] for one in assumptions if "clocks" in one["name"]] == [name]


@pytest.mark.parametrize("has_logs", [True, False])
def test_a_member_of_the_isr_without_a_log_is_missed(unpacked: Unpack, tmp_path: Path, has_logs: bool) -> None:
    """Folders of brokers 2 and 3 alone, without run.json: only their logs show that broker 1 is in the last ISR.

    Without these logs the number of replicas is not known, so two logs that agree may not be all.
    """
    for broker in ("2", "3"):
        shutil.copytree(unpacked("unclean-election-c") / "brokers" / broker, tmp_path / "run" / "brokers" / broker)
    if not has_logs:
        _remove(tmp_path / "run", "brokers/*/*.log")
    _, verdict = check(tmp_path / "run", tmp_path / "out")
    collected = replicas_collected(verdict)
    assert not collected["holds"]
    known, unknown = "are missing: orders-0 (broker 1)", "the number of replicas of orders-0 is not recorded"
    assert (known if has_logs else unknown) in collected["says"]
    assert verdict["rules"]["replica-divergence"]["verdict"] == "unknown"


def test_without_reads_no_record_is_called_unread(unpacked: Unpack, tmp_path: Path) -> None:
    """A history of acknowledgements alone, as an application's own log has them."""
    root = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    sends = [line for line in (root / "history.jsonl").read_text().splitlines() if json.loads(line)["f"] == "send"]
    (root / "history.jsonl").write_text("\n".join(sends) + "\n")
    result = judged(root)
    assert result.rules["lost-write"]["count"] == 597
    assert result.headline == (
        "At least 597 acknowledged writes of 2,324 were lost. No reads are recorded, so whether consumers had read them"
        " is not known."
    )
    (lost,) = result.findings.filter(rule="lost-write").to_dicts()
    assert "; no reads are recorded; " in lost["sentence"]
    (incident,) = [one for one in result.incidents if one["lost"]]
    assert incident["cause"] == "unclean-election"
    assert incident["headline"] == "597 acknowledged writes were lost: orders-0 at offsets 487 to 1083"
    result.save(tmp_path / "out", plots=False)
    text = (tmp_path / "out" / "report.md").read_text()
    assert "| lost after being read | not known |" in text
    assert "| orders | 2,324 | 597 | not known | 0 |" in text
    assert re.search(r"\nWhen: 2026-\d\d-\d\d [\d:]{8} to [\d:]{8} UTC\.\n", text)


def test_acknowledgements_alone_show_the_loss_and_no_other_breach(unpacked: Unpack, tmp_path: Path) -> None:
    """An application's own log, written as docs/format.md describes: no invocation has its time or its order."""
    source = unpacked("unclean-election-c")
    root = tmp_path / "run"
    shutil.copytree(source / "brokers", root / "brokers")
    lines = []
    events = [json.loads(line) for line in (source / "history.jsonl").read_text().splitlines()]
    for number, event in enumerate(one for one in events if (one["f"], one["type"]) == ("send", "ok")):
        about = {name: event[name] for name in ("f", "topic", "partition", "value")} | {
            "process": f"app{number}",
            "op": 1,
        }
        lines.append({**about, "time": 0, "type": "invoke"})
        lines.append({**about, "time": event["time"], "type": "ok", "offset": event["offset"]})
    (root / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    result = judged(root)
    broken = {name for name, rule in result.rules.items() if rule["verdict"] == "invalid"}
    assert broken == {"lost-write", "inconsistent-offsets", "acknowledged-absent"}
    assert {result.rules[name]["count"] for name in broken} == {597}
    assert [one["cause"] for one in result.incidents] == ["unclean-election"]


@pytest.mark.parametrize(("left_out", "lost"), [([], 597), (["snapshots", "dump"], 10)])
def test_a_log_of_the_leader_that_wrote_records_shows_that_retention_had_not_removed_them(
    left_out: list[str], lost: int, unpacked: Unpack, tmp_path: Path
) -> None:
    """retention.bytes may have removed all but the last lost records, if no copy is from before the truncation."""
    root = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    _remove(root, *left_out)
    about = json.loads((root / "run.json").read_text())
    about["topics"]["orders"]["retention.bytes"] = 1000
    (root / "run.json").write_text(json.dumps(about))
    assert judged(root).rules["lost-write"]["count"] == lost


@pytest.mark.parametrize(("left_out", "lost"), [([], 597), (["brokers/3/server.log"], 10)])
def test_log_starts_of_other_brokers_do_not_show_what_retention_had_removed(
    left_out: list[str], lost: int, unpacked: Unpack, tmp_path: Path
) -> None:
    """Broker 3 wrote the lost records, and broker 2 led next."""
    root = shutil.copytree(unpacked("unclean-election-c"), tmp_path / "run")
    _remove(root, "snapshots", "dump", *left_out)
    about = json.loads((root / "run.json").read_text())
    about["topics"]["orders"]["retention.bytes"] = 1000
    (root / "run.json").write_text(json.dumps(about))
    with (root / "brokers" / "2" / "server.log").open("a") as log:
        line = "INFO [UnifiedLog partition=orders-0, dir=/d] Incremented log start offset to 1 due to segment deletion"
        log.write(f"[2026-11-21 09:51:16,000] {line} (kafka.log.UnifiedLog)\n")
    assert judged(root).rules["lost-write"]["count"] == lost


def _only_logs_after_retention(source: Path, root: Path, time: str, start: int) -> Path:
    """The run without disks and recorded faults; broker 3, which wrote the lost records, deleted those before `start`.

    Nothing bounds the clocks of the brokers then.
    """
    shutil.copytree(source, root)
    _remove(root, "snapshots", "dump", *(f"brokers/{broker}/data" for broker in (1, 2, 3)))
    about = json.loads((root / "run.json").read_text())
    about["topics"]["orders"]["retention.bytes"] = 1000
    (root / "run.json").write_text(json.dumps(about))
    history = root / "history.jsonl"
    history.write_text("".join(line for line in history.open() if '"process":"nemesis"' not in line.replace(" ", "")))
    with (root / "brokers" / "3" / "server.log").open("a") as log:
        line = "[UnifiedLog partition=orders-0, dir=/d] Incremented log start offset to {} due to segment deletion"
        log.write(f"[2026-11-21 {time}] INFO {line.format(start)} (kafka.log.UnifiedLog)\n")
    return root


@pytest.mark.parametrize(("hours", "lost"), [(0, 597), (-5, 10), (6, 10)])
def test_log_starts_in_another_time_zone_do_not_show_what_retention_had_removed(
    hours: int, lost: int, unpacked: Unpack, tmp_path: Path
) -> None:
    root = _only_logs_after_retention(unpacked("unclean-election-c"), tmp_path / "run", "09:51:16,000", 1)
    for log in root.glob("brokers/*/*.log"):
        log.write_text(re.sub(r"(?m)^\[(\S+ \S+),", lambda found: f"[{_later(found[1], hours)},", log.read_text()))
    assert judged(root).rules["lost-write"]["count"] == lost


@pytest.mark.parametrize("time", ["09:51:03,000", "09:51:00,000"])  # acknowledged at 09:51:02.4
def test_a_log_start_before_the_acknowledgement_may_be_by_a_clock_that_is_behind(
    time: str, unpacked: Unpack, tmp_path: Path
) -> None:
    root = _only_logs_after_retention(unpacked("unclean-election-c"), tmp_path / "run", time, 600)
    assert judged(root).rules["lost-write"]["count"] == 484


def _later(time: str, hours: int) -> str:
    return str(datetime.fromisoformat(time) + timedelta(hours=hours))


@pytest.mark.parametrize("topic", ["__cluster_metadata", "orders"])
def test_a_partition_that_only_lines_of_logs_name_is_not_counted(unpacked: Unpack, tmp_path: Path, topic: str) -> None:
    root = tmp_path / "run"
    shutil.copytree(unpacked("unclean-election-a"), root, ignore=shutil.ignore_patterns("data", "snapshots", "dump"))
    for log in root.glob("brokers/*/*.log"):
        log.write_text(log.read_text().replace("orders-", f"{topic}-"))
    _, verdict = check(root, tmp_path / "out")
    assert "unclean-election" in {cause["cause"] for cause in verdict["causes"]}
    assert verdict["counts"]["partitions"] == 2  # those of the history: orders-0 and orders-1


@pytest.mark.parametrize(("has_final_read", "expected"), [(False, "unknown"), (True, "invalid")])
def test_records_are_absent_from_logs_that_are_all_empty(has_final_read: bool, expected: str, tmp_path: Path) -> None:
    """No batch was collected, as with new disks. Without a final read, the logs may have been copied too early."""
    sends, (assign, assigned, *_, end_offsets, ended) = lines()[:4], lines()[4:]
    ended |= {"offsets": [{"topic": "orders", "partition": 0, "offset": 0, "start": 0}]}
    events = [*sends, *([assign, assigned, end_offsets, ended] if has_final_read else [])]
    (tmp_path / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in events))
    config = CONFIG | {"topics": {"orders": {"replica.assignment": [[1, 2]]}}}
    (tmp_path / "run.json").write_text(json.dumps(config if has_final_read else {"topics": config["topics"]}))
    for broker in "12":
        log = tmp_path / "brokers" / broker / "data" / "orders-0" / f"{0:020d}.log"
        log.parent.mkdir(parents=True)
        log.touch()
    _, verdict = check(tmp_path, tmp_path / "out")
    absent = verdict["rules"]["acknowledged-absent"]
    assert (absent["verdict"], absent["count"]) == (expected, 2 * has_final_read)
    assert "all logs are empty" in replicas_collected(verdict)["says"]


def test_logs_of_another_topic_do_not_judge_acknowledged_records(tmp_path: Path) -> None:
    run = shutil.copytree(LOSSY, tmp_path / "run")
    for log in [*run.glob("**/orders-*")]:
        log.rename(log.with_name(log.name.replace("orders", "other")))
    assert judged(run).rules["acknowledged-absent"]["verdict"] == "not-judged"


@pytest.mark.parametrize(("policy", "verdict"), [("delete", "invalid"), ("compact", "valid"), (None, "unknown")])
def test_whether_a_record_of_a_transaction_was_compacted_is_unknown_without_the_policy(policy, verdict, tmp_path: Path):
    """The transaction of c and b is committed, and its log lacks c."""
    topic = {"x": {"replication.factor": 1, **({} if policy is None else {"cleanup.policy": policy})}}
    folder = write_run(tmp_path, {0: "z 7b 7!"}, transaction("t", 0, [(0, "c", None), (0, "b", 1)], "ok", (2, 8)))
    (folder / "run.json").write_text(json.dumps({"format": 1, "started_at": STARTED_AT, "topics": topic}))
    assert verdict_of_transactions(folder, "torn-transaction")[1] == verdict
