"""Leader epochs, checkpoints, high watermarks and damage of brokers' logs."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.histories.evidence.server_log import parse_log
from logjudge.histories.evidence.tables import located

from .conftest import judge_checkpoints, judge_divergence, judge_epochs, judge_segments
from .replica_texts import checkpoints, damage, epochs, joined, logs, of, sends


def test_epochs_must_not_decrease():
    [finding] = judge_epochs(of(logs("1: 0a@1 1b@2 2c@1")), sends()).findings
    assert (finding.rule, finding.first_offset) == ("epoch-order", 2)


def claims(*led):
    """Log events of brokers that claim to lead: second, broker, epoch, offset, and the topic's id or None."""
    events = []
    for second, broker, epoch, offset, topic_id in led:
        known = f"with topic id Some({topic_id}) " if topic_id else ""
        line = f"[2027-01-15 08:00:{second:02d},000] INFO [Broker id={broker}] Leader orders-0 {known}starts at leader "
        line += f"epoch {epoch} from offset {offset} with high watermark 0 ISR [1] addingReplicas []. "
        line += "Previous leader epoch was 0. (state.change.logger)"
        events.append(located(parse_log(line), "", broker, f"brokers/{broker}/state-change.log"))
    return {"log_events": pl.concat(events)}


@pytest.mark.parametrize(
    ("led", "both"),
    [
        ([(1, "1", 3, 20, "x"), (2, "2", 3, 21, "x")], ["1", "2"]),
        ([(1, "1", 0, 0, "x"), (2, "2", 0, 0, "x")], ["1", "2"]),
        ([(1, "1", 3, 20, None), (2, "2", 3, 21, None)], ["1", "2"]),
        ([(1, "1", 3, 20, "x"), (2, "1", 3, 25, "x"), (3, "2", 4, 25, "x")], None),
        ([(1, "1", 3, 20, "x"), (2, "2", 3, 0, "y")], None),
        ([(1, "1", 0, 0, None), (2, "2", 0, 0, None)], None),
        ([(1, "1", 1, 0, None), (2, "1", 2, 9, None), (3, "2", 0, 0, None), (4, "2", 1, 5, None)], None),
    ],
    ids=[
        "two",
        "at the first",
        "without ids",
        "one that restarts",
        "made again",
        "perhaps made again",
        "epochs go back",
    ],
)
def test_one_broker_leads_a_leader_epoch(led, both):
    found = judge_epochs(of({**logs("1: 0a"), **claims(*led)}), sends()).findings
    assert [f.replicas for f in found] == ([both] if both else [])
    assert all(len(f.evidence) == 2 for f in found)


@pytest.mark.parametrize(
    ("entries", "ranges"),
    [
        ([(0, 0), (1, 2)], []),
        ([(0, 0), (1, 2), (2, 4)], []),
        ([(0, 0)], []),
        ([(1, 2)], []),
        ([(0, 0), (1, 1)], [(1, 1)]),
        ([(0, 0), (3, 2)], [(2, 3)]),
    ],
    ids=["agrees", "entry at the end", "older than the log", "begins later", "too early", "another epoch"],
)
def test_the_epoch_file_must_agree_with_the_log(entries, ranges):
    tables = {**logs("1: 0a 1b 2c@1 3d@1"), "epochs": epochs(*(("1", *entry) for entry in entries))}
    found = judge_epochs(of(tables), sends()).findings
    assert [(f.first_offset, f.last_offset) for f in found] == ranges


@pytest.mark.parametrize(
    ("name", "offset", "breach"),
    [
        ("high-watermark", 2, False),
        ("high-watermark", 3, True),
        ("recovery-point", 3, True),
        ("log-start", 3, True),
    ],
)
def test_no_checkpoint_is_ahead_of_its_log(name, offset, breach):
    tables = {**logs("1: 0a 1b"), "checkpoints": checkpoints((name, "1", offset))}
    found = judge_checkpoints(of(tables), sends()).findings
    assert [f.severity for f in found] == (["violation"] if breach else [])


def test_a_checkpoint_copied_after_its_running_log_is_a_note():
    tables = joined(logs("1: 0a 1b", "live"), logs("1: 0a 1b 2c 3d"))
    tables["checkpoints"] = checkpoints(("live", "high-watermark", "1", 3), ("", "high-watermark", "1", 4))
    [finding] = judge_checkpoints(of(tables, snapshots=("live", "")), sends()).findings
    assert finding.severity == "note"


def test_a_high_watermark_must_not_go_back():
    tables = joined(logs("1: 0a 1b 2c", "one"), logs("1: 0a 1b 2c"))
    tables["checkpoints"] = checkpoints(("one", "high-watermark", "1", 3), ("", "high-watermark", "1", 1))
    [finding] = judge_checkpoints(of(tables, snapshots=("one", "")), sends()).findings
    assert (finding.first_offset, finding.last_offset, finding.severity) == (1, 2, "violation")


def test_the_order_of_two_undated_snapshots_is_unknown():
    tables = joined(logs("1: 0a 1b 2c", "after"), logs("1: 0a", "before"), logs("1: 0a 1b 2c"))
    marks = ("after", "high-watermark", "1", 3), ("before", "high-watermark", "1", 1), ("", "high-watermark", "1", 3)
    tables["checkpoints"] = checkpoints(*marks)
    judged = judge_checkpoints(of(tables, snapshots=("after", "before", "")), sends())
    assert judged.findings == ()
    assert len(judged.unknowns) == 1
    times = {"before": 1, "after": 2}
    dated = judge_checkpoints(of(tables, snapshots=("before", "after", ""), times=times), sends())
    assert (dated.findings, dated.unknowns) == ((), ())


@pytest.mark.parametrize(
    ("row", "severity"),
    [
        (damage("crc", first=3, last=4, byte=77), "violation"),
        (damage("magic", first=3, last=4), "violation"),
        (damage("torn-tail", first=3), "note"),
        (damage("zeros", first=3), "note"),
        (damage("zeros", first=3, last=4), "violation"),
    ],
)
def test_corruption_is_a_breach_and_a_torn_tail_a_note(row, severity):
    [finding] = judge_segments(of({**logs("1: 0a"), "damage": row}), sends()).findings
    assert finding.severity == severity
    assert finding.evidence[0].byte == row["byte"][0]


def test_the_same_damage_in_two_snapshots_is_one_finding():
    rows = [damage("crc", first=3, last=4, byte=77).with_columns(snapshot=pl.lit(name)) for name in ("early", "")]
    other = damage("crc", first=5, last=5, byte=99)
    tables = {**logs("1: 0a"), "damage": pl.concat([*rows, other])}
    both, one = judge_segments(of(tables, snapshots=("early", "")), sends()).findings
    assert (both.first_offset, both.count, both.snapshot, len(both.evidence)) == (3, 2, None, 2)
    assert (one.first_offset, len(one.evidence)) == (5, 1)


def test_an_unreadable_file_is_unknown():
    judged = judge_segments(of({**logs("1: 0a"), "damage": damage("unreadable")}), sends())
    assert (len(judged.findings), len(judged.unknowns)) == (0, 1)


@pytest.mark.parametrize(
    ("text", "is_compacted", "places"),
    [
        ("1: 0a 2c 1b 3d", False, [(1, 2), (1, 2)]),  # either may be the wrong one
        ("1: 0a 1b 2c 0d", True, [(3, None)]),
        ("1: 0a 1b 2c 9d", False, [(3, None)]),
        ("1: 0a 1b 2c 9d", True, []),  # compaction leaves gaps
        ("1: 0a 1b 2c 9d", None, []),
        ("1: 7a 1b 2c 3d", False, [(0, 0)]),
        ("1: 7a 8b 9c", True, []),
        ("1: 0a 9b", False, [(1, None)]),  # the first of two batches is at the offset in the file's name
        ("1: 0a 0b", True, [(1, None)]),
        ("1: 7a 1b", None, [(0, None), (0, None)]),  # either may be the wrong one
        ("1: 0a 9b", True, []),
        ("1: 5a 9b", False, []),  # the first may have come from 8
    ],
)
def test_offsets_must_rise_within_a_log(text, is_compacted, places):
    whole = "\n2: 0a 1b 2c 3d"
    replica_logs = of(logs(text + whole), is_compacted=is_compacted)
    found = judge_segments(replica_logs, sends()).findings
    assert [(f.rule, f.first_offset, f.last_offset) for f in found] == [("log-corruption", *place) for place in places]
    if places:
        assert not judge_divergence(replica_logs, sends()).findings


def test_the_last_batch_may_come_after_a_gap_of_damage():
    tables = logs("1: 0a 1b 2c 9d")
    tables["batches"] = tables["batches"].with_columns(
        byte=pl.col("byte") + pl.when(base_offset=9).then(50).otherwise(0)
    )
    assert not judge_segments(of(tables, is_compacted=False), sends()).findings


@pytest.mark.parametrize(("name", "places"), [(3, [(3, None)]), (9, [])])
def test_the_last_batch_begins_where_the_name_of_its_file_and_the_batch_before_say(name, places):
    tables = logs("1: 0a 1b 2c 9d")
    for table, offset in (("batches", "base_offset"), ("records", "offset")):
        is_last = pl.col(offset) == 9
        file = pl.when(is_last).then(pl.lit(f"brokers/1/data/orders-0/{name:020d}.log")).otherwise("file")
        tables[table] = tables[table].with_columns(file=file, byte=pl.when(~is_last).then("byte").otherwise(0))
    found = judge_segments(of(tables, is_compacted=False), sends()).findings
    assert [(f.first_offset, f.last_offset) for f in found if f.rule == "log-corruption"] == places


def test_a_log_with_two_records_at_one_offset_is_not_compared_there():
    replica_logs = of(logs("1: 0a 1b 2c 0x 1y\n2: 0a 1b 2d"))
    found = judge_divergence(replica_logs, sends("c@2", "d@2")).findings
    assert [(f.first_offset, f.last_offset) for f in found] == [(2, 2)]
    assert judge_segments(replica_logs, sends()).findings
    assert not judge_divergence(of(logs("1: 0a 1b 2c 0x 1y")), sends("a@0", "x@0")).findings


@pytest.mark.parametrize("is_torn", [True, False])
def test_a_checkpoint_ahead_of_a_torn_log_is_a_breach_that_names_the_torn_batch(is_torn):
    tables = {**logs("1: 0a 1b"), "checkpoints": checkpoints(("high-watermark", "1", 3))}
    if is_torn:
        tables["damage"] = damage("torn-tail", first=2, byte=200)
    [finding] = judge_checkpoints(of(tables), sends()).findings
    assert (finding.severity, finding.count) == ("violation", 1)
    assert ("ends within a batch" in finding.sentence) == is_torn
