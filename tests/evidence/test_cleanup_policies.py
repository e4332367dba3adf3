"""A topic with a cleanup.policy that changes during the run; run.json has one of its values."""

from __future__ import annotations

import json

import pytest
from logjudge.analysis.partitions.cleanup_policies import with_recorded_policies
from logjudge.histories.settings import Settings

from .replica_texts import checkpoints
from .test_log_starts import LEADS, bundle, judged
from .timelines import metadata, server_log

HISTORY = "{x.cleanup.policy=delete} p:a@0#k p:b@1#k end=2 final:assign=0 final:<b@1"
SET = (
    "[2026-11-22 10:00:00,0{}] INFO [DynamicConfigPublisher broker id=1] Updating topic x with new configuration :"
    " cleanup.policy -> {},segment.bytes -> 16384 (kafka.server.metadata.DynamicConfigPublisher)\n"
)
POLICY = "cleanup.policy"
CLEANS = (
    "INFO Cleaner 0: Building offset map for log orders-0 for 2 segments in offset range [0, 5)."
    " (org.apache.kafka.storage.internals.log.Cleaner)"
)


@pytest.mark.parametrize(
    ("policies", "verdict"),
    [
        ([], "invalid"),
        (["compact", "delete"], "valid"),
        (["compact,delete", "delete"], "valid"),
        (["delete"], "invalid"),
    ],
    ids=["never compacted", "for a while", "with retention", "always delete"],
)
def test_a_record_was_compacted_while_the_topic_had_another_policy(tmp_path, policies, verdict):
    """run.json has the policy of the beginning, and the topic had it again at the end."""
    lines = "".join(SET.format(10 + 10 * number, policy) for number, policy in enumerate(policies))
    rules, found = judged(bundle(tmp_path, HISTORY, logs=[("1", lines)]))
    assert rules["lost-write"] == verdict
    assert (found["rule"].to_list() == []) == (verdict == "valid")


def test_a_record_is_lost_if_its_key_was_sent_again_after_the_compaction(tmp_path):
    lines = LEADS.format(1) + SET.format("00", "compact") + SET.format("01", "delete")
    run = bundle(tmp_path, HISTORY, logs=[("1", lines)])
    lines = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    late = 3_600_000_000_000  # all but the first send is an hour later
    moved = [line | {"time": line["time"] + late * (line.get("value") != "a")} for line in lines]
    (run / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in moved))
    rules, found = judged(run)
    assert rules["lost-write"] == "invalid"
    assert found.filter(rule="lost-write")["values"].to_list() == [["a"]]


@pytest.mark.parametrize(
    ("known", "source", "expected"),
    [
        ("delete", {"metadata": metadata((3, {"name": POLICY, "value": "compact"}))}, "compact,delete"),
        (None, {"metadata": metadata((3, {"name": POLICY, "value": "compact"}))}, "compact"),
        ("delete", {"metadata": metadata((3, {"name": POLICY, "value": "delete"}))}, "delete"),
        ("delete", {"metadata": metadata((3, {"name": "retention.ms", "value": "1"}))}, "delete"),
        ("delete", {"checkpoints": checkpoints(("cleaned", "1", 5))}, "compact,delete"),
        ("delete", {"checkpoints": checkpoints(("log-start", "1", 5))}, "delete"),
        ("delete", {"log_events": server_log("1", (4, CLEANS))}, "compact,delete"),
        ("delete", {}, "delete"),
    ],
)
def test_each_source_shows_that_a_topic_was_compacted(known, source, expected):
    settings = Settings(config={"topics": {"orders": {POLICY: known} if known else {}}})
    assert with_recorded_policies(settings, "orders", source).topic("orders")[POLICY] == expected
