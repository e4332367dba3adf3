"""Losses of compacted topics: a truncation gives offsets to other records, and compaction never does."""

from __future__ import annotations

import json
import re
import shutil
from types import SimpleNamespace

import logjudge
import polars as pl
import pytest
from logjudge.analysis.causes import explain_absence
from logjudge.analysis.partitions import early_compactions
from logjudge.analysis.partitions.later_epochs import began_of_later_epoch
from logjudge.histories.recording.batch_bounds import batches
from logjudge.histories.tables import MAX_INT64

from .replica_texts import checkpoints, epochs, logs
from .timelines import SECOND, UNCLEAN, lost, server_log, timeline


def with_compacted_topic(source, folder, keys=7):
    """A copy of a run in which the topic is compacted and its sends have keys."""
    run = shutil.copytree(source, folder)
    about = json.loads((run / "run.json").read_text())
    about["topics"]["orders"]["cleanup.policy"] = "compact"
    (run / "run.json").write_text(json.dumps(about))
    events = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    for event in events:
        if event["f"] == "send" and event["type"] == "invoke":
            event["key"] = f"k{int(event['value'].partition('-')[2]) % keys}"
    (run / "history.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    return run


def lost_values(result, rule="lost-write"):
    return set(result.findings.filter(rule=rule)["values"].explode())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("snapshot", ["a", "m"])
def test_an_unclean_election_lost_records_with_later_records_of_their_keys(unpacked, tmp_path, snapshot):
    source = unpacked(f"unclean-election-{snapshot}")
    expected = lost_values(logjudge.check(source))
    found = logjudge.check(with_compacted_topic(source, tmp_path / "run"))
    assert lost_values(found) == lost_values(found, "acknowledged-absent") == expected
    assert expected
    assert {one["cause"] for one in found.incidents if one["lost"]} == {"unclean-election"}


def test_without_leader_epochs_the_records_now_at_their_offsets_prove_it(unpacked, tmp_path):
    run = with_compacted_topic(unpacked("unclean-election-a"), tmp_path / "run")
    for file in run.glob("brokers/*/data/*/leader-epoch-checkpoint"):
        file.unlink()
    found = logjudge.check(run)
    expected = lost_values(logjudge.check(unpacked("unclean-election-a")))
    assert lost_values(found) == lost_values(found, "acknowledged-absent") == expected


def test_an_epoch_begins_where_its_leader_began_it_and_not_where_a_follower_of_the_compacted_log_did():
    tables = {**logs("1: 0a 5x@1\n2: 0a 5x@1"), "epochs": epochs(("1", 0, 0), ("1", 1, 5), ("2", 0, 0), ("2", 1, 1))}
    term = timeline(tables, meta=UNCLEAN).terms[1]
    assert term.start == 1
    assert [fact.sentence for fact in term.start_facts] == [
        "broker 2's leader-epoch-checkpoint at the end begins epoch 1 at offset 1"
    ]


def test_a_record_above_the_start_of_a_later_epoch_is_truncated_though_compaction_left_nothing_there():
    """Broker 1 fetched epoch 1 from broker 2 after compaction had removed its first records."""
    tables = {**logs("1: 0a 5x@1\n2: 0a 5x@1"), "epochs": epochs(("1", 0, 0), ("1", 1, 5), ("2", 0, 0), ("2", 1, 1))}
    held = timeline(tables, meta=UNCLEAN, leader="1")
    nowhere = pl.DataFrame(schema={"value": pl.String})
    partition = SimpleNamespace(replica_logs=held.replica_logs, timeline=held, elsewhere=nowhere)
    sends = pl.DataFrame({"offset": [0, 1, 4, 5], "value": list("abcd"), "completed": 4 * [5 * SECOND]})
    judged = sends.with_columns(other_since=pl.lit(None, pl.Int64))
    assert began_of_later_epoch(partition, judged).is_not_null().to_list() == [False, True, True, True]


@pytest.fixture
def always_compacted(monkeypatch):
    """The metadata log of the run has another cleanup.policy."""
    monkeypatch.setattr(early_compactions, "compacted_until", lambda _: MAX_INT64)


def cleaned(data, below):
    """Mark a log as cleaned below an offset."""
    (data / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {below}\n")


@pytest.mark.usefixtures("always_compacted")
def test_compaction_before_an_unclean_election_removed_what_a_copy_of_the_old_log_lacks(unpacked, tmp_path):
    """The copy was made while the old leader was down: after the election, and before it truncated its log."""
    expected = lost_values(logjudge.check(unpacked("unclean-election-a")))
    run = with_compacted_topic(unpacked("unclean-election-a"), tmp_path / "run")
    data = run / "snapshots" / "before-rejoin" / "brokers" / "1" / "data"
    cleaned(data, 400)
    [segment] = (data / "orders-0").glob("*.log")
    raw, found = segment.read_bytes(), [*batches(segment)]
    removed = [one for one in found if one.base_offset >= 280 and one.last_offset < 400]
    segment.write_bytes(b"".join(raw[one.start : one.end] for one in found if one not in removed))
    offsets = {offset for one in removed for offset in range(one.base_offset, one.last_offset + 1)}
    events = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    sent = {
        (one["process"], one["op"]): one["value"] for one in events if (one["f"], one["type"]) == ("send", "invoke")
    }
    acked = [one for one in events if (one["f"], one["type"]) == ("send", "ok") and one["partition"] == 0]
    gone = {sent[one["process"], one["op"]] for one in acked if one["offset"] in offsets}
    found = logjudge.check(run)
    assert lost_values(found) == lost_values(found, "acknowledged-absent") == expected - gone
    assert len(gone & expected) > 50
    assert found.rules["lost-write"]["verdict"] == "invalid"


CLEANED = (
    "[2026-11-21 09:25:0{},000] INFO Cleaner 0: Building offset map for log orders-0 for 1 segments in offset range"
    " [{}, 500). (kafka.log.LogCleaner)\n"
)


@pytest.mark.sampled(2)
@pytest.mark.usefixtures("always_compacted")
@pytest.mark.parametrize(
    ("was_cleaned", "line", "first", "count"),
    [
        (False, None, 255, 376),
        (True, None, 621, 7),  # the time is not known: only the last record of each key is surely lost
        (True, (4, 9), 621, 7),  # the times of earlier cleanings are not
        (True, (4, 0), 477, 148),  # also for records with a later one of their key that was sent after the cleaning
        (True, (6, 0), 494, 135),  # also for those with a later one only after the compacted section
        (True, (9, 0), 255, 376),  # the leader had died before
    ],
)
def test_without_a_copy_compaction_may_have_removed_records_with_a_later_one_of_their_key(
    was_cleaned, line, first, count, unpacked, tmp_path
):
    run = with_compacted_topic(unpacked("unclean-election-a"), tmp_path / "run")
    shutil.rmtree(run / "snapshots")
    shutil.rmtree(run / "dump")
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "snapshots": {}}))
    if was_cleaned:
        cleaned(run / "brokers" / "1" / "data", 500)
    if line:
        (run / "brokers" / "1" / "log-cleaner.log").write_text(CLEANED.format(*line))
    lost = logjudge.check(run).findings.filter(rule="lost-write", partition=0)
    assert (lost["first_offset"].min(), lost["last_offset"].max(), lost["count"].sum()) == (first, 630, count)


@pytest.mark.parametrize(("cleaned_below_mark", "is_missing"), [(0, False), (1, True), (None, True)])
def test_compaction_and_a_truncation_empty_a_log(cleaned_below_mark, is_missing, unpacked, tmp_path):
    """The cleaner removed every record below the high watermark, then a truncation cut those above."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    settings = json.loads((run / "run.json").read_text())
    settings["topics"]["orders"]["cleanup.policy"] = "compact"
    (run / "run.json").write_text(json.dumps(settings))
    folder = run / "brokers/1/data/orders-0"
    (folder / f"{0:020d}.log").unlink()
    (folder / f"{5:020d}.log").touch()
    [mark] = re.findall(r"orders 0 (\d+)", (folder.parent / "replication-offset-checkpoint").read_text())
    if cleaned_below_mark is not None:
        cleaned = f"0\n1\norders 0 {int(mark) - cleaned_below_mark}\n"
        (folder.parent / "cleaner-offset-checkpoint").write_text(cleaned)
    (folder.parent / "recovery-point-offset-checkpoint").unlink()
    # Broker 1 left the ISR: an empty log of a member below the high watermark is missing.
    shrunk = (
        "INFO [Partition orders-0 broker=3] Shrinking ISR from 3,1,2 to 3,2. Leader: (highWatermark: 0, endOffset: 1)."
    )
    with (run / "brokers/3/server.log").open("a") as log:
        log.write(f"[2026-11-21 09:23:13,000] {shrunk} (kafka.cluster.Partition)\n")
    collected = next(one for one in logjudge.check(run).assumptions if one["name"] == "all replicas collected")
    assert collected["holds"] != is_missing


@pytest.mark.parametrize(
    ("text", "cleaned", "is_compacted", "cause"),
    [
        ("1: 0a 2c", 2, True, "compaction"),
        ("1: 0a 2c", 2, None, "compaction"),
        ("1: 0a 2c", 2, False, "unknown"),
        ("1: 0a 2c", 1, True, "unknown"),  # the cleaner has not passed it
        ("1: 0a 2c", 1, None, "unknown"),
        ("1: 0a", 2, True, "unknown"),  # the newest record stays
        ("1: 0a 1b 2c", 2, True, "unknown"),  # it is there
    ],
)
def test_compaction_removes_what_its_cleaner_has_passed_and_no_newest_record(text, cleaned, is_compacted, cause):
    tables = {**logs(text), "checkpoints": checkpoints(("cleaned", "1", cleaned))}
    found = explain_absence(timeline(tables, {"is_compacted": is_compacted}, leader="1"), lost())
    assert found.cause == cause
    assert any("cleaner" in item for item in found.missing) == (cleaned == 1 and is_compacted is True)


def test_compaction_does_not_explain_an_absence_if_the_offset_was_acknowledged_again(unpacked, tmp_path):
    """The last logs are compacted there, and no leader epoch shows whether a truncation removed the record."""
    run = with_compacted_topic(unpacked("unclean-election-a"), tmp_path / "run")
    for folder in ("snapshots", "dump"):
        shutil.rmtree(run / folder)
    for file in [*run.glob("brokers/*/*.log"), *run.glob("brokers/*/data/*/leader-epoch-checkpoint")]:
        file.unlink()
    for segment in run.glob("brokers/*/data/orders-*/*.log"):
        raw, found = segment.read_bytes(), [*batches(segment)]
        left = [one for one in found if one.base_offset >= 700]
        segment.write_bytes(b"".join(raw[one.start : one.end] for one in left))
    assert logjudge.check(run).rules["acknowledged-absent"]["verdict"] == "unknown"


def test_the_first_move_of_a_log_start_beyond_a_record_shows_when_it_was_deleted():
    moved = "INFO [UnifiedLog partition=orders-0, dir=/d] Incremented log start offset to {} due to {} (x.UnifiedLog)"
    request = "client delete records request"
    moves = server_log("1", *((at, moved.format(at, request)) for at in (1, 3, 4)))
    tables = {**logs("1: 4c"), "checkpoints": checkpoints(("log-start", "1", 4))}
    found = explain_absence(timeline(tables, events=[moves], leader="1"), lost())
    assert found.cause == "retention"
    assert [fact.offset for fact in found.chain if fact.time == 3 * SECOND] == [3]
    assert sum("moved the log start" in fact.sentence for fact in found.chain) == 1
