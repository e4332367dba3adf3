"""Losses of compacted topics: a truncation gives offsets to other records, and compaction never does."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace

import logjudge
import polars as pl
import pytest
from logjudge.analysis.partitions.later_epochs import _is_of_later_epoch

from .replica_texts import epochs, logs
from .timelines import SECOND, UNCLEAN, timeline


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
    assert _is_of_later_epoch(partition, judged).to_list() == [False, True, True, True]
