"""A topic that was created, deleted and created again within a second, with the metadata log and both topics' logs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import invoke, verdict_of_run
from figure_cases import judged
from logjudge import check
from logjudge.analysis.partitions.topic_generations import TopicGeneration
from logjudge.histories.evidence.metadata_records import encode
from logjudge.plots import draw
from notation import parse

from .transaction_logs import SEGMENT, batch

OLD, NEW = "J0DgbTaRRgumsVCtWMRZBg", "lnugIDh2Sk6s2r7gl-dRIw"
HISTORY = "p:a@0 p:b@1 c:<a@0,b@1 delete-topic create-topic p:d@0 p:e@1 c:<d@0,e@1 end=2 final:<d@0,e@1"
STARTED_AT = "2026-01-01T00:00:00Z"
LED = (
    "[2026-01-01 %s:00:0%d,000] INFO [Broker id=1] Leader x-0 with topic id Some(%s) starts at leader epoch 0 from"
    " offset 0 with partition epoch 0, high watermark 0, ISR [1,2], adding replicas [] and removing replicas [] ."
    " Previous leader None and previous leader epoch was -1. (state.change.logger)\n"
)


def metadata() -> Iterator[bytes]:
    """Broker 1 leads the old generation, first with broker 2 in sync; broker 2 leads the new one."""
    both = {"replicas": [1, 2], "isr": [1, 2], "addingReplicas": [], "removingReplicas": []}
    for offset, (time, kind, fields) in enumerate(
        [
            (0, "TOPIC_RECORD", {"name": "x", "topicId": OLD}),
            (0, "PARTITION_RECORD", {"topicId": OLD, "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, **both}),
            (5, "PARTITION_CHANGE_RECORD", {"topicId": OLD, "isr": [1]}),
            (7, "REMOVE_TOPIC_RECORD", {"topicId": OLD}),
            (9, "TOPIC_RECORD", {"name": "x", "topicId": NEW}),
            (9, "PARTITION_RECORD", {"topicId": NEW, "leader": 2, "leaderEpoch": 0, "partitionEpoch": 0, **both}),
        ]
    ):
        number = {"partitionId": 0} if kind.startswith("PARTITION") else {}
        yield batch(offset, encode(kind, {**number, **fields}), time=time)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    history = parse(HISTORY)
    history.config.update(started_at=STARTED_AT, topics={"x": {"partitions": 1, "replication.factor": 2}})
    folder = history.write(tmp_path / "run")
    for place, id_, values in (("snapshots/early/brokers", OLD, b"ab"), ("brokers", NEW, b"de")):
        for broker in ("1", "2"):
            log = folder / place / broker / "data" / "x-0"
            log.mkdir(parents=True)
            (log / "partition.metadata").write_text(f"version: 0\ntopic_id: {id_}\n")
            (log / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            (log / SEGMENT).write_bytes(b"".join(batch(at, bytes((value,))) for at, value in enumerate(values)))
            (log.parent / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={broker}\n")
    controller = folder / "brokers" / "100" / "data" / "__cluster_metadata-0"
    controller.mkdir(parents=True)
    (controller / SEGMENT).write_bytes(b"".join(metadata()))
    (controller.parent / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=100\n")
    return folder


def test_each_generation_has_its_own_leaders(run: Path) -> None:
    shutil.rmtree(run / "snapshots")  # the time of that copy is not recorded
    assert verdict_of_run(run)["verdict"] == "valid"
    old, new = invoke("timeline", run).output.split("x-0#2")
    assert "broker 1 leader of x-0 in epoch 0" in old
    assert "shrank to [1]" in old
    assert "broker 2 leader" not in old
    assert "broker 2 leader of x-0 in epoch 0" in new
    assert "shrank" not in new


@pytest.mark.parametrize(("has_start", "has_metadata"), [(False, True), (False, False), (True, False)])
def test_a_deletion_without_a_time_on_the_clock_of_the_history(run: Path, has_start: bool, has_metadata: bool) -> None:
    """Then nothing shows whether an acknowledged record was sent before the deletion, so its absence is no loss.

    The start of the run is not recorded, or brokers logged in an unknown time zone.
    """
    shutil.rmtree(run / "snapshots")
    if not has_start:
        (run / "run.json").unlink()
    lines = (run / "history.jsonl").read_text().splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(line for line in lines if "-topic" not in line))
    if not has_metadata:
        shutil.rmtree(run / "brokers" / "100")
        hour = "05" if has_start else "00"
        (run / "brokers" / "1" / "state-change.log").write_text(LED % (hour, 1, OLD) + LED % (hour, 9, NEW))
    result = check(run)
    assert not len(result.findings)
    assert result.rules["lost-write"]["verdict"] == "unknown"
    if has_metadata:
        assert "its deletion, which has no time on the history's clock" in str(result.assumptions)


def test_figures_end_with_the_topic(run: Path) -> None:
    figures = judged(run).figures
    [old] = [part["replicas"] for part in figures["partitions"] if part["name"] == "x-0#1"]
    [term] = old["terms"]
    assert old["isr"][-1] == [term["ended"], []]
    draw("swimlane", figures, {"partition": "x-0#1"})


@pytest.mark.parametrize(
    ("values", "missing", "lost"), [(b"a", None, ["b"]), (b"ab", None, []), (b"a", "1", []), (b"a", "2", ["b"])]
)
def test_a_copy_from_before_the_deletion_shows_what_was_lost_before(
    run: Path, values: bytes, missing: str | None, lost: list[str]
) -> None:
    """No other record was written at b's offset, and a later deletion of the topic does not explain its loss.

    The leader may have had it if its log is missing.
    """
    if missing:
        shutil.rmtree(run / "snapshots" / "early" / "brokers" / missing / "data" / "x-0")
    for log in run.glob("snapshots/early/brokers/*/data/x-0/*.log"):
        log.write_bytes(b"".join(batch(at, bytes((value,))) for at, value in enumerate(values)))
    deletion = next(line for line in map(json.loads, (run / "history.jsonl").open()) if line["f"] == "fault")
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "snapshots": {"early": {"time": deletion["time"] - 1}}}))
    found = check(run).findings
    for rule in ("lost-write", "acknowledged-absent"):
        assert [value for values in found.filter(rule=rule)["values"] for value in values] == lost


def test_a_topic_of_which_an_earlier_one_left_no_records_is_described_so() -> None:
    """With brokers' files alone the logs of the deleted topic are gone."""
    forerunner = " A topic of this name was deleted before."
    assert TopicGeneration(2, topic_id="B").describe("orders") == f"This is topic orders (id B).{forerunner}"
    assert forerunner not in TopicGeneration(1).describe("orders")
    assert forerunner not in TopicGeneration(2, count=2).describe("orders")
