"""Retention that empties logs: where a log starts is known from empty segments, all replicas, or server.log."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import polars as pl
import pytest
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.partitions import evidence, unit
from logjudge.analysis.partitions.retention_limits import _is_append_time
from logjudge.analysis.timelines.changes import Setting
from logjudge.analysis.timelines.facts import Fact
from logjudge.analysis.verdict.document import verdict_of
from logjudge.cli.main import cli
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.cluster_metadata import MetadataRecord, replay_records
from logjudge.histories.evidence.tables import located
from logjudge.histories.settings import Settings
from notation import parse

from .replica_texts import logs as texts_of_logs
from .timelines import START, TWO_LEADS, epochs, timeline

SENDS = " ".join(f"p:v{i}@{i}" for i in range(6))
# c was assigned at 0 when retention had taken offsets 0 to 3; the final reads got nothing.
SKIPPED = f"{{x.retention.ms=3600000}} {SENDS} c:assign=0 c:<v4@4,v5@5 end=6 final:assign=0 final:<"
LEADS = (
    "[2026-11-22 10:00:00,000] INFO [Broker id={0}] Leader x-0 with topic id Some(abc) starts at leader epoch 0 from"
    " offset 0 with partition epoch 0, high watermark 0, ISR [1,2,3], adding replicas [] and removing replicas []"
    " (under-min-isr). Previous leader None and previous leader epoch was -1. (state.change.logger)\n"
)
MOVED = (
    "[2026-11-22 10:00:00,017] INFO [UnifiedLog partition=x-0, dir=/d] Incremented log start offset to {} due to {}\n"
)
DELETED = (
    "[2026-11-22 10:00:00,017] INFO [UnifiedLog partition=x-0, dir=/d] Deleting segment LogSegment(baseOffset=0,"
    " size=1, lastModifiedTime=1, largestRecordTimestamp=Some(1)) due to {}\n"
)


def bundle(folder, history, starts=(), logs=(), **topic):
    """A bundle with an empty segment a broker, named by its log start, and lines of server.log by broker."""
    recorded = parse(history)
    recorded.config["started_at"] = "2026-11-22T10:00:00.000Z"
    recorded.config["topics"]["x"] |= topic
    recorded.write(folder)
    for broker, start in enumerate(starts, 1):
        place = folder / "brokers" / str(broker) / "data" / "x-0"
        place.mkdir(parents=True)
        (place / f"{start:020d}.log").write_bytes(b"")
    for broker, text in logs:
        place = folder / "brokers" / broker
        place.mkdir(parents=True, exist_ok=True)
        with (place / "server.log").open("a") as file:
            file.write(text)
    return folder


def judged(folder):
    results = judge_run(open_run(folder))
    rules = {name: rule["verdict"] for name, rule in verdict_of(results)["rules"].items()}
    return rules, results.findings().filter(pl.col("severity") == "violation")


@pytest.mark.parametrize("logs", [[("1", LEADS.format(1))], []], ids=["leader known", "all replicas"])
def test_an_empty_segment_proves_where_the_log_starts(tmp_path, logs):
    run = bundle(tmp_path, SKIPPED, [6, 6, 6], logs, **{"replication.factor": 3})
    rules, found = judged(run)
    assert not found.height
    assert {rules[name] for name in ("lost-write", "unseen", "poll-skip")} == {"valid"}


@pytest.mark.parametrize(
    "logs",
    [
        [("1", LEADS.format(1) + MOVED.format(6, "segment deletion"))],
        [("2", MOVED.format(6, "leader offset increment"))],
        [("1", MOVED.format(6, "client delete records request"))],
    ],
    ids=["retention on the leader", "a follower of the leader's start", "a client's deletion"],
)
def test_lines_of_server_log_date_the_log_start(tmp_path, logs):
    rules, found = judged(bundle(tmp_path, SKIPPED, logs=logs, **{"retention.ms": 1}))
    assert not found.height
    assert {rules[name] for name in ("lost-write", "unseen", "poll-skip")} == {"valid"}


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        ("", "unknown"),
        (DELETED.format("log retention time 3600000ms breach based on the largest record timestamp"), "unknown"),
        (DELETED.format("log retention time 1000ms breach based on the largest record timestamp"), "valid"),
        (DELETED.format("retention time 1000ms breach"), "valid"),
        (DELETED.format("log retention size in bytes 1024 breach. Log size after deletion will be 0"), "valid"),
        (MOVED.format(6, "client delete records request"), "valid"),
        (MOVED.format(3, "client delete records request"), "unknown"),
    ],
    ids=["nothing", "retention.ms of run.json", "another", "its old wording", "size", "a request", "for some of them"],
)
def test_a_log_start_that_retention_ms_does_not_permit_needs_another_reason(tmp_path, lines, verdict):
    """All records are younger than retention.ms in run.json; brokers report what else deleted them."""
    logs = [("1", LEADS.format(1) + MOVED.format(6, "segment deletion") + lines)]
    rules, found = judged(bundle(tmp_path, SKIPPED, logs=logs))
    assert not found.height
    assert {rules[name] for name in ("lost-write", "unseen")} == {verdict}


def test_a_line_dates_the_log_start_earlier_than_the_leaders_log_does(tmp_path):
    """The files are copied after the final reads, and retention.ms may have permitted the deletion by then."""
    logs = [("1", LEADS.format(1)), ("2", MOVED.format(6, "leader offset increment"))]
    run = bundle(tmp_path, SKIPPED, [6, 6, 6], logs, **{"replication.factor": 3})
    rules, found = judged(run)
    assert not found.height
    assert {rules[name] for name in ("lost-write", "unseen")} == {"unknown"}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [("retention.ms=1000", ("age", 1000)), ("retention.bytes=64", ("size", 64)), ("retention.ms=-1", None)],
)
def test_settings_in_the_metadata_log_permit_deletions(changed, expected):
    """A topic's retention may have been shorter for a while than run.json has it."""
    name, value = changed.split("=")
    config = {"resourceType": 2, "resourceName": "orders", "name": name, "value": value}
    topic = MetadataRecord(0, START, "TOPIC_RECORD", {"name": "orders", "topicId": "x"})
    frame, _ = replay_records([topic, MetadataRecord(1, START, "CONFIG_RECORD", config)])
    meta = located(frame.drop("file"), "", "100", "__cluster_metadata-0")
    built = timeline(texts_of_logs("1: 0a"), meta=meta, config={"retention.ms": 604_800_000})
    assert built.deletions == ([expected] if expected else [])


@pytest.mark.parametrize(("topics", "count"), [({"x": {"partitions": 1}}, 2), ({}, 0)])
@pytest.mark.parametrize("deleted", ["", "delete=2"])
def test_a_limit_that_is_not_recorded_may_have_removed_what_is_below_a_log_start(tmp_path, topics, count, deleted):
    """a and b were at offsets 0 and 1, where an unclean election had others written; the log starts at 2 at the end."""
    history = f"p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill q:x@0 q:y@1 {deleted} q:z@2 end=3/2 final:assign=2 final:<z@2"
    recorded = parse(history)
    recorded.config["topics"] = topics
    recorded.write(tmp_path)
    found = judged(tmp_path)[1].filter(rule="lost-write")
    assert found["count"].sum() == (2 if deleted else count)


def test_records_that_consumers_read_are_not_called_unread_without_final_reads(tmp_path):
    history = f"{{x.retention.ms=86400000}} {SENDS} c:assign=0 c:<v0@0,v1@1,v2@2,v3@3,v4@4,v5@5 end=6/4"
    results = judge_run(open_run(bundle(tmp_path, history)))
    sentences = " ".join(one["says"] for one in verdict_of(results)["assumptions"] if not one["holds"])
    assert re.search(
        r"4 acknowledged records of x-0 \(v0, .*?\) may be lost or not: the log start moved to offset 4 while they were"
        r" younger than retention.ms \(by the time of the send",
        sentences,
    )
    assert "no read returned" not in sentences


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
@pytest.mark.parametrize(
    ("elected", "lost"), [("10:00:09,000", ["b", "e"]), ("10:00:11,000", ["e"])], ids=["too young", "old enough"]
)
def test_retention_removes_no_record_that_an_election_lost_before_it_was_old_enough(tmp_path, elected, lost, policy):
    """b and e are sent at 3 s and 5 s, and others are at their offsets from 12 s and 14 s on. With 5 s for clocks that
    differ, retention.ms lets a broker delete b from 10 s on, and e from 12 s on."""
    history = "p:a@0 p:b@1 p:e@2 c:<a@0,b@1,e@2 nemesis:kill q:x@1 q:y@2 c:<x@1,y@2 end=3/0 end=3/0 end=3/3"
    lines = LEADS.format(1), LEADS.format(2).replace("epoch 0 from offset 0", "epoch 1 from offset 1")
    logs = [("1", lines[0]), ("2", lines[1].replace("10:00:00,000", elected))]
    settings = {"retention.ms": 12_000, "cleanup.policy": policy, "replication.factor": 2}
    run = bundle(tmp_path, f"{history} final:assign=3 final:<", [3, 3], logs, **settings)
    events = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    slow = "".join(json.dumps(event | {"time": event["time"] * 1000}) + "\n" for event in events)
    (run / "history.jsonl").write_text(slow)
    for broker in ("1", "2"):
        (run / "brokers" / broker / "data/x-0/leader-epoch-checkpoint").write_text("0\n1\n1 3\n")
    rules, found = judged(run)
    assert found.filter(rule="lost-write")["values"].explode().to_list() == lost
    assert rules["lost-write"] == "invalid"


def test_what_others_replaced_is_absent_from_the_logs_though_these_were_deleted_later(tmp_path):
    history = "p:a@0 p:b@1 c:<a@0,b@1 nemesis:kill q:x@1 q:y@2 c:<x@1,y@2 delete=3 end=3/3 final:assign=3 final:<"
    settings = {"replication.factor": 2, "cleanup.policy": "delete"}
    _, found = judged(bundle(tmp_path, history, [3, 3], [("1", LEADS.format(1))], **settings))
    for rule in ("lost-write", "acknowledged-absent"):
        assert found.filter(rule=rule)["values"].explode().to_list() == ["b"]


def test_a_follower_that_deletes_on_its_own_proves_no_log_start_of_the_leader(tmp_path):
    rules, found = judged(bundle(tmp_path, SKIPPED, logs=[("2", MOVED.format(6, "segment deletion"))]))
    assert not found.height
    assert rules["lost-write"] == "unknown"


@pytest.mark.parametrize("starts", [[4, 4, 4], [6, 4, 4]], ids=["the leader's", "the least"])
def test_records_behind_the_log_start_stay_lost(tmp_path, starts):
    """Retention removed offsets 0 to 3; offsets 4 and 5 were truncated, which retention does not explain."""
    logs = [("2", LEADS.format(2))] if starts[0] == 6 else [("1", LEADS.format(1))]
    history = f"{{x.retention.ms=3600000}} {SENDS} end=4 final:assign=4 final:<"
    rules, found = judged(bundle(tmp_path, history, starts, logs, **{"replication.factor": 3}))
    assert rules["lost-write"] == "invalid"
    lost = found.filter(pl.col("rule") == "lost-write")
    assert lost["values"].to_list() == [["v4", "v5"]]


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        (MOVED.format(4, "client delete records request"), 2),
        (MOVED.format(4, "segment deletion"), 6),
        (MOVED.format(4, "client delete records request").replace(",017]", ",900]"), 6),
    ],
    ids=["requested before", "not permitted", "later"],
)
def test_a_leaders_line_dates_a_deletion_before_other_records_took_the_offsets(tmp_path, line, lost):
    """The last six writes replaced the first six; a deletion had removed four of these."""
    writes = f"{SENDS} c:<v0@0,v1@1,v2@2,v3@3,v4@4,v5@5 {'nemesis:kill ' * 20}{SENDS.replace('p:v', 'q:w')}"
    history = f"{{x.retention.ms=86400000}} {writes} final:assign=0 final:<w0@0,w1@1,w2@2,w3@3,w4@4,w5@5"
    _, found = judged(bundle(tmp_path, history, logs=[("1", LEADS.format(1) + line)]))
    values = found.filter(pl.col("rule") == "lost-write")["values"].explode().to_list()
    assert values == [f"v{offset}" for offset in range(6 - lost, 6)]


@pytest.mark.parametrize(
    ("at", "started_at", "lost"),
    [(17, "2026-11-22T10:00:00.000Z", 2), (900, "2026-11-22T10:00:00.000Z", 6), (17, None, 2)],
    ids=["before", "after", "at an unknown time"],
)
def test_a_line_shows_a_deletion_though_the_sends_of_the_other_records_are_missing(tmp_path, at, started_at, lost):
    """The other records may have been written before the deletion, or after it, unless they were read before it."""
    history = f"{{x.retention.ms=86400000}} {SENDS} c:<v0@0,v1@1,v2@2,v3@3,v4@4,v5@5 {'nemesis:kill ' * 20}"
    history += " final:assign=0 final:<w0@0,w1@1,w2@2,w3@3,w4@4,w5@5"
    line = MOVED.format(4, "client delete records request").replace(",017]", f",{at:03d}]")
    run = bundle(tmp_path, history, logs=[("1", LEADS.format(1) + line)])
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**about, "started_at": started_at}))
    _, found = judged(run)
    values = found.filter(pl.col("rule") == "lost-write")["values"].explode().to_list()
    assert values == [f"v{offset}" for offset in range(6 - lost, 6)]


@pytest.mark.parametrize(("at", "lost"), [(7, 2), (5, 3)])
def test_a_leaders_line_may_come_before_the_acknowledgement(tmp_path, at, lost):
    """The fourth write was sent at 7 ms and acknowledged at 8 ms: kafka-delete-records up to the high watermark."""
    writes = f"{SENDS} {'nemesis:kill ' * 20}{SENDS.replace('p:v', 'q:w')}"
    history = f"{{x.retention.ms=86400000}} {writes} final:assign=0 final:<w0@0,w1@1,w2@2,w3@3,w4@4,w5@5"
    line = MOVED.format(4, "client delete records request").replace(",017]", f",{at:03d}]")
    _, found = judged(bundle(tmp_path, history, logs=[("1", LEADS.format(1) + line)]))
    values = found.filter(pl.col("rule") == "lost-write")["values"].explode().to_list()
    assert values == [f"v{offset}" for offset in range(6 - lost, 6)]


@pytest.mark.parametrize("starts", [(), (0,)], ids=["no log", "the log of the end"])
def test_a_consumer_passes_nothing_that_was_deleted_before_other_records_took_the_offsets(tmp_path, starts):
    """The collected log begins at 0 again, so only the line shows the deletion of the first four writes."""
    reads = f"c:<v0@0 d:<v1@1,v2@2,v3@3 {'nemesis:kill ' * 20}c:<v4@4,v5@5"
    history = f"{SENDS} {reads} {SENDS.replace('p:v', 'q:w')} final:assign=0 final:<w0@0,w1@1,w2@2,w3@3,w4@4,w5@5"
    line = MOVED.format(4, "client delete records request")
    rules, found = judged(bundle(tmp_path, history, starts, logs=[("1", LEADS.format(1) + line)]))
    assert found.filter(rule="lost-write")["values"].explode().to_list() == ["v4", "v5"]
    assert rules["poll-skip"] == "valid"


def test_a_damaged_first_segment_is_no_sign_of_retention(tmp_path):
    run = bundle(tmp_path, SKIPPED, [6], [("1", LEADS.format(1))])
    (run / "brokers/1/data/x-0/00000000000000000000.log").write_bytes(b"\1" * 200)
    rules, _ = judged(run)
    assert rules["lost-write"] != "valid"


def test_explain_names_the_empty_segment(tmp_path, capsys):
    run = bundle(tmp_path, SKIPPED, [6, 6, 6], [("1", LEADS.format(1) + MOVED.format(6, "segment deletion"))])
    cli.main(["explain", str(run), "x-0@2", "--json"], standalone_mode=False)
    output = json.dumps(json.loads(capsys.readouterr().out))
    assert re.search(r"broker 1's log starts at offset 6.*00000000000000000006\.log", output)


HOUR_MS = 3_600_000
STARTED_MS = 1_795_341_600_000  # 2026-11-22T10:00:00Z
TWO_DAYS_AGO, NOW = STARTED_MS - 48 * HOUR_MS, STARTED_MS


def stamped(folder, stamp, fields=("send", "poll"), **topic):
    """Judges SKIPPED without brokers' files, after the sends or polls (`fields`) got the timestamps `stamp(offset)`."""
    history = parse(SKIPPED.replace("c:assign=0", "b:<v0@0,v1@1,v2@2,v3@3,v4@4,v5@5 c:assign=0"))
    for event in history.events:
        if event["f"] == "send" and "send" in fields:
            event["timestamp"] = stamp(int(event["value"][1:]))
        for record in event.get("records", ()) if "poll" in fields else ():
            record["timestamp"] = stamp(record["offset"])
    history.config["started_at"] = "2026-11-22T10:00:00.000Z"
    history.config["topics"]["x"] |= topic
    history.write(folder)
    return judged(folder)


@pytest.mark.parametrize("fields", [("send", "poll"), ("send",), ("poll",)])
def test_records_with_old_timestamps_may_be_retained_no_longer(tmp_path, fields):
    rules, found = stamped(tmp_path, lambda _: TWO_DAYS_AGO, fields)
    assert not found.height
    assert rules["lost-write"] == "unknown"


@pytest.mark.parametrize(
    ("stamp", "fields", "topic"),
    [
        (lambda _: NOW, ("send", "poll"), {}),
        (lambda offset: NOW if offset == 0 else TWO_DAYS_AGO, ("send", "poll"), {}),
        (lambda _: TWO_DAYS_AGO, ("send", "poll"), {"retention.ms": 72 * HOUR_MS}),
        (lambda _: TWO_DAYS_AGO, ("send",), {"message.timestamp.type": "LogAppendTime"}),
        (lambda _: -1, ("send", "poll"), {}),
        (lambda _: None, ("send", "poll"), {}),
        (lambda _: STARTED_MS - HOUR_MS + 60_000, ("send", "poll"), {}),
        (lambda _: STARTED_MS - HOUR_MS + 20, ("send", "poll"), {}),
    ],
    ids=[
        "new",
        "first is new",
        "long retention",
        "not the broker's",
        "NO_TIMESTAMP",
        "missing",
        "too old after the run",
        "too old after the poll",
    ],
)
def test_records_that_retention_may_not_remove_stay_lost(tmp_path, stamp, fields, topic):
    rules, found = stamped(tmp_path, stamp, fields, **topic)
    assert rules["poll-skip"] == "invalid"
    assert found.filter(pl.col("rule") == "poll-skip")["count"].to_list() == [4]


TYPE = "message.timestamp.type"
SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("configured", "changes", "types"),
    [
        ("CreateTime", [("LogAppendTime", 60)], [False, None, True]),
        ("LogAppendTime", [("CreateTime", 60)], [True, None, False]),
        ("LogAppendTime", [("LogAppendTime", 60)], [None, None, True]),
        ("CreateTime", [("LogAppendTime", 60), ("CreateTime", 61)], [False, None, False]),
        (None, [], [False] * 3),
        ("LogAppendTime", [], [True] * 3),
        (None, [("LogAppendTime", None)], [None] * 3),
    ],
)
def test_the_type_of_timestamps_is_that_of_the_time_of_a_send(configured, changes, types):
    """Sends at 10, 60 and 100 seconds, and changes of the topic's setting in the metadata log."""
    config = {} if configured is None else {TYPE: configured}
    set_ = [Setting(Fact("", "setting", at and at * SECOND_NS), TYPE, value.lower()) for value, at in changes]
    built = replace(timeline(texts_of_logs("1: 0a"), config=config), settings=set_)
    sends = pl.DataFrame({"invoked": [10, 60, 100], "completed": [11, 61, None]}) * SECOND_NS
    p = SimpleNamespace(timeline=built, topic="x", settings=Settings(config={"topics": {"x": config}}))
    assert _is_append_time(p, sends).to_list() == types


@pytest.mark.parametrize(("at", "is_lost"), [(-60, True), (60, False)])
def test_timestamps_of_sends_count_until_the_topic_has_append_time(at, is_lost, tmp_path, monkeypatch):
    """Retention may have removed records whose producer set an old timestamp, as run.json has the later type."""
    changed = Setting(Fact("", "setting", at * SECOND_NS), TYPE, "logappendtime")
    build = evidence.timeline_of
    monkeypatch.setattr(unit, "MENTIONED", ("sends",))
    monkeypatch.setattr(unit, "timeline_of", lambda *given: replace(build(*given), settings=[changed]))
    rules, _ = stamped(tmp_path, lambda _: TWO_DAYS_AGO, ("send",), **{TYPE: "LogAppendTime"})
    assert (rules["poll-skip"] == "invalid") is is_lost


@pytest.mark.parametrize("log_start", [0, 5])
def test_an_epoch_that_retention_shortened_began_at_an_unknown_offset(log_start):
    """Kafka moves the first entry of leader-epoch-checkpoint up to the log start."""
    tables = {**texts_of_logs("2: 5x@1"), "epochs": epochs(("2", 1, 5))}
    tables["batches"] = tables["batches"].with_columns(file=pl.lit(f"orders-0/{log_start:020d}.log"))
    found = timeline(tables, meta=TWO_LEADS)
    assert found.terms[1].start == (None if log_start else 5)
    assert bool(found.terms[1].start_facts) == (log_start == 0)
