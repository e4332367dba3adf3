"""The rules on brokers' logs: cases that they find and leave alone, and slow twins that agree."""

from __future__ import annotations

import polars as pl
import pytest
from campaign import examples
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.replicas.replica_logs import complete_sends

from .conftest import judge_absence, judge_divergence
from .replica_texts import checkpoints, damage, epochs, joined, logs, of, sends

DIVERGENT = [
    ("the same", "1: 0a 1b\n2: 0a 1b", []),
    ("one is behind", "1: 0a 1b 2c\n2: 0a", []),
    ("no offset is shared", "1: 0a 1b\n2: 5f 6g", []),
    ("another value", "1: 0a 1b\n2: 0a 1x@1", [(1, 1)]),
    ("the same value of another epoch", "1: 0a 1b\n2: 0a 1b@1", [(1, 1)]),
    ("a run, then agreement again", "1: 0a 1b 2c 3d@2\n2: 0a 1x@1 2y@1 3d@2", [(1, 2)]),
    ("two runs", "1: 0a 1b 2c@1 3d\n2: 0x@1 1b 2c@1 3y@2", [(0, 0), (3, 3)]),
    ("compacted on one side alone", "1: 0k=a 2k=c\n2: 2k=c", []),
    ("a run over a gap of compaction", "1: 0a 4b 5c\n2: 0x@1 4y@1 5c", [(0, 4)]),
    ("a marker against a record", "1: 0a 1!\n2: 0a 1b@1", [(1, 1)]),
    ("three replicas, one apart", "1: 0a 1b\n2: 0a 1x@1\n3: 0a 1x@1", [(1, 1)]),
]


@pytest.mark.parametrize(("name", "text", "ranges"), DIVERGENT, ids=[case[0] for case in DIVERGENT])
def test_divergence_is_a_run_of_offsets_with_different_records(name, text, ranges):
    found = judge_divergence(of(logs(text)), sends()).findings
    assert [(f.first_offset, f.last_offset) for f in found] == ranges, name


def test_an_uncommitted_tail_is_a_note():
    [finding] = judge_divergence(of(logs("1: 0a 1b\n2: 0a 1x@1")), sends("x@1")).findings
    assert finding.severity == "note"
    assert finding.values == []


def test_a_retry_at_the_offset_of_a_dead_leader_s_copy_is_a_note():
    """Only the copy of the later epoch was acknowledged, though both are at the acknowledged offset."""
    [finding] = judge_divergence(of(logs("1: 0a 1b\n2: 0a 1b@1")), sends("b@1")).findings
    assert (finding.severity, finding.values) == ("note", [])


def test_a_disk_restored_from_a_copy_wins_if_it_led_again_later():
    """The copy ends with a record of epoch 0 that the election of epoch 1 had replaced elsewhere (backup-x)."""
    [finding] = judge_divergence(of(logs("1: 0a 1b 2y@4\n2: 0a 1c@1 2d@1")), sends("d@2", "y@2")).findings
    assert (finding.first_offset, finding.last_offset, finding.values) == (1, 2, ["d"])


@pytest.mark.parametrize(
    ("evidence", "differ"),
    [
        ({}, [1]),
        ({"checkpoints": checkpoints(("log-start", "1", 2))}, []),
        ({"checkpoints": checkpoints(("log-start", "1", 1))}, [1]),
        ({"epochs": epochs(("2", 1, 2))}, []),  # epoch 1 has a batch at 1: the log start moved to 2 since
        ({"epochs": epochs(("2", 0, 0), ("2", 1, 2))}, [1]),  # contradicts the log
    ],
)
def test_records_below_the_log_start_are_not_compared(evidence, differ):
    """The records of an old leader, for example: the new leader's log starts after the record that replaced them."""
    tables = {**logs("1: 0a 1b 2c@1\n2: 0a 1x@1 2c@1"), **evidence}
    found = judge_divergence(of(tables), sends()).findings
    assert [finding.first_offset for finding in found] == differ


@pytest.mark.parametrize(
    ("marks", "known", "unknown"),
    [((), (), 1), ((), ("x@1",), 0), ((("high-watermark", "1", 1), ("high-watermark", "2", 2)), (), 0)],
)
def test_without_history_and_high_watermark_committed_records_are_unknown(marks, known, unknown):
    tables = {**logs("1: 0a 1b\n2: 0a 1x@1"), "checkpoints": checkpoints(*marks)}
    judged = judge_divergence(of(tables), sends(*known))
    assert ([f.severity for f in judged.findings], len(judged.unknowns)) == (["note"], unknown)


@pytest.mark.parametrize(
    "proof",
    [
        {"sends": sends("b@1", "x@1")},
        {"sends": complete_sends(sends("b@1?").with_columns(read=pl.lit(True)))},
        {"checkpoints": checkpoints(("high-watermark", "1", 2))},
    ],
    ids=["acknowledged", "read", "below the high watermark"],
)
def test_a_committed_record_on_the_losing_side_is_a_breach(proof):
    tables = {**logs("1: 0a 1b\n2: 0a 1x@1"), "checkpoints": proof.get("checkpoints", checkpoints())}
    [finding] = judge_divergence(of(tables), proof.get("sends", sends())).findings
    assert finding.severity == "violation"
    assert finding.replicas == ["1", "2"]
    assert finding.values == ["b"]


def test_snapshots_are_judged_one_by_one():
    tables = joined(logs("1: 0a 1b\n2: 0a 1x@1", "before"), logs("1: 0a 1x@1\n2: 0a 1x@1"))
    [finding] = judge_divergence(of(tables, snapshots=("before", "")), sends("b@1")).findings
    assert (finding.snapshot, finding.severity, finding.values) == ("before", "violation", ["b"])


def together(sent):
    """The sends as one transaction, whose completion is one line."""
    return sent.with_columns(place=pl.lit(0, pl.Int64), completed=pl.lit(9, pl.Int64))


ABSENT = [
    ("all there", "1: 0a 1b", ["a@0", "b@1"], {"leader": "1"}, []),
    ("gone everywhere", "1: 0a\n2: 0a", ["a@0", "b@1", "c@2"], {"leader": "1"}, [(1, 2, 2)]),
    ("replaced", "1: 0a 1x@1", ["a@0", "b@1", "x@1"], {"leader": "1"}, [(1, 1, 1)]),
    ("only on a follower", "1: 0a\n2: 0a 1b", ["a@0", "b@1"], {"leader": "1"}, [(1, 1, 1)]),
    ("at another offset", "1: 0a 5b", ["b@1"], {"leader": "1"}, []),
    ("not acknowledged", "1: 0a", ["b@1?"], {"leader": "1"}, []),
    ("without an offset", "1: 0a", ["b@"], {"leader": "1"}, [(None, None, 1)]),
    ("below the log start", "1: 3d", ["a@0", "d@3"], {"leader": "1", "log-start": 3}, []),
    ("below the log start, and one gone", "1: 3d", ["a@0", "d@3", "e@4"], {"leader": "1", "log-start": 3}, [(4, 4, 1)]),
    ("compacted by a newer record", "1: 1k=b", ["a/k@0", "b/k@1"], {"leader": "1", "is_compacted": True}, []),
    ("compacted, its tombstone too", "1: 5j=z", ["a/k@0", "-/k@1"], {"leader": "1", "is_compacted": True}, []),
    ("the newest of its key", "1: 1j=b", ["a/k@0", "b/j@1"], {"leader": "1", "is_compacted": True}, [(0, 0, 1)]),
    ("cleaned, keys unknown", "1: 9k=z", ["a@3"], {"leader": "1", "is_compacted": True, "cleaned": 5}, []),
]


@pytest.mark.parametrize("in_one_transaction", [False, True])
@pytest.mark.parametrize(("name", "text", "sent", "about", "expected"), ABSENT, ids=[case[0] for case in ABSENT])
def test_an_acknowledged_record_in_no_required_log_is_absent(name, text, sent, about, expected, in_one_transaction):
    points = [(kind, "1", about[kind]) for kind in ("log-start", "cleaned") if kind in about]
    settings = {name: value for name, value in about.items() if name not in ("log-start", "cleaned")}
    acked = together(sends(*sent)) if in_one_transaction else sends(*sent)
    judged = judge_absence(of({**logs(text), "checkpoints": checkpoints(*points)}, **settings), acked)
    found = [(f.first_offset, f.last_offset, f.count) for f in judged.findings]
    assert found == expected, name
    assert judged.unknowns == ()


@pytest.mark.parametrize(
    ("invoked", "completed", "log", "expected"),
    [
        (5, 9, "1: 3k=b", []),
        (5, 2, "1: 3k=b", ["a"]),  # b was acknowledged before a was sent
        (5, 2, "1: 3k=b 7k=b", []),  # b was written again
        (5, 2, "1: 3k=b 7k=c", []),
    ],
)
def test_a_record_acknowledged_before_a_send_does_not_replace_it(invoked, completed, log, expected):
    sent = sends("a/k@0", "b/k@3").with_columns(
        invoked=pl.Series([invoked, 1], dtype=pl.Int64), completed=pl.Series([10, completed], dtype=pl.Int64)
    )
    judged = judge_absence(of(logs(log), leader="1", is_compacted=True), sent)
    assert [value for finding in judged.findings for value in finding.values] == expected


def test_without_the_leader_s_log_absence_is_unknown():
    judged = judge_absence(of(logs("1: 0a\n2: 0a"), replicas=("1", "2", "3")), sends("a@0", "b@1"))
    assert judged.findings == ()
    [reason] = judged.unknowns
    assert "no collected log is known to be the last leader's: only the logs of brokers 1, 2" in reason
    judged = judge_absence(of(logs("1: 0a\n2: 0a"), replicas=("1", "2", "3"), leader="3"), sends("a@0", "b@1"))
    [reason] = judged.unknowns
    assert reason.endswith("but the log of broker 3, the last leader, was not collected")


def test_all_assigned_replicas_are_enough_without_a_leader():
    judged = judge_absence(of(logs("1: 0a\n2: 0a"), replicas=("1", "2")), sends("a@0", "b@1"))
    assert [f.values for f in judged.findings] == [["b"]]


@pytest.mark.parametrize(
    ("replicas", "where"),
    [(("1", "2"), "on no replica"), (("1", "2", "3"), "in no collected log"), ((), "in no collected log")],
)
def test_a_record_is_on_no_replica_only_if_all_were_collected(replicas, where):
    [lost] = judge_absence(of(logs("1: 0a\n2: 0a"), replicas=replicas, leader="1"), sends("a@0", "b@1")).findings
    assert lost.sentence == f"1 acknowledged record of orders-0 (offset 1) at the end is {where}"


def test_an_absent_record_of_a_producer_that_may_have_had_no_acks_is_unknown():
    judgement = judge_absence(of(logs("1: 0a")), sends("a@0", "b@").with_columns(unsure_acks=True, process=pl.lit("p")))
    assert judgement.findings == ()
    assert judgement.unknowns == (
        "1 absent record of orders-0 may not have been acknowledged: acks of p is not recorded, and may be 0, as no"
        " acknowledgement to p has an offset",
    )


def test_absences_within_a_damaged_range_are_unknown():
    tables = {**logs("1: 0a 2c"), "damage": damage("crc", first=1, last=1)}
    judged = judge_absence(of(tables, leader="1"), sends("a@0", "b@1", "c@2"))
    assert judged.findings == ()
    assert len(judged.unknowns) == 1


def test_a_record_in_a_damaged_batch_of_the_leader_that_final_reads_returned_is_no_outdated_copy():
    tables = {**logs("1: 0a 2c\n2: 0a 1b 2c"), "damage": damage("crc", first=1, last=1)}
    sent = sends("a@0", "b@1", "c@2").with_columns(held=True)
    judged = judge_absence(of(tables, leader="1"), sent)
    assert judged.findings == ()
    [reason] = judged.unknowns
    assert reason == (
        "1 acknowledged record of orders-0 is not readable on broker 1, the leader, but broker 1's log is damaged there"
    )


def test_a_record_that_final_reads_returned_may_be_in_a_log_that_was_not_collected():
    sent = sends("a@0", "b@1").with_columns(held=True)
    [reason] = judge_absence(of(logs("1: 0a"), replicas=("1", "2"), leader="2"), sent).unknowns[-1:]
    assert reason == (
        "the final reads of orders-0 returned 1 acknowledged record that is in no collected log, so it is in a log that"
        " was not collected, or the logs were copied before the run ended, or changed after it"
    )


def test_a_record_that_only_the_leader_lacks_is_named_so():
    sent = sends("a@0", "b@1").with_columns(held=True)
    [reason] = judge_absence(of(logs("1: 0a\n2: 0a 1b"), leader="1"), sent).unknowns
    assert "1 acknowledged record that is not in the log of broker 1, the leader" in reason


def test_logs_that_end_before_the_final_reads_prove_nothing_beyond_their_end():
    sent = sends("a@0", "b@1", "c@2", "d@3").with_columns(held=pl.col("value") == "d")
    judged = judge_absence(of(logs("1: 0a 1x"), leader="1"), sent)
    assert [f.values for f in judged.findings] == [["b"]]
    [reason] = judged.unknowns
    assert "copied before the run ended" in reason


def test_an_early_snapshot_proves_nothing_about_later_sends():
    tables = logs("1: 0a", "early")
    judged = judge_absence(of(tables, snapshots=("early",), times={"early": 2}, leader="1"), sends("a@0", "b@1"))
    assert judged.findings == ()


def test_an_undated_snapshot_proves_nothing_about_acknowledged_records():
    tables = logs("1: 0a", "before")
    judged = judge_absence(of(tables, snapshots=("before", "")), sends("b@1"))
    assert judged.findings == ()
    assert len(judged.unknowns) == 1


LOG = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 1)), max_size=5)


def as_text(broker, log, skipped=()):
    ordered = sorted(log, key=lambda entry: entry[1])
    return f"{broker}: " + " ".join(f"{i}{v}@{e}" for i, (v, e) in enumerate(ordered) if i not in skipped)


@given(LOG, LOG, LOG, st.sets(st.integers(0, 4)))
@examples(50, 500)
def test_divergence_is_what_a_comparison_of_each_offset_finds(one, two, three, skipped):
    text = "\n".join([as_text("1", one), as_text("2", two, skipped), as_text("3", three)])
    tables = logs(text)
    by_offset = {}
    for row in tables["records"].iter_rows(named=True):
        by_offset.setdefault(row["offset"], {})[row["broker"]] = (row["value"], row["leader_epoch"])
    expected = {o for o, held in by_offset.items() if len(held) > 1 and len(set(held.values())) > 1}
    found = set()
    for finding in judge_divergence(of(tables), sends()).findings:
        offsets = range(finding.first_offset, finding.last_offset + 1)
        covered = {o for o, held in by_offset.items() if o in offsets and len(held) > 1}
        assert not covered & found
        found |= covered
    assert found == expected


OFFSETS = st.sets(st.integers(0, 4), min_size=1)


@given(OFFSETS, OFFSETS, st.sampled_from(["1", "2"]), st.integers(0, 3), st.booleans())
@examples(50, 500)
def test_absent_is_what_the_log_of_the_leader_does_not_have(one, two, leader, start, in_one_transaction):
    in_logs = {"1": one, "2": two}
    text = "\n".join(f"{broker}: " + " ".join(f"{i}v{i}" for i in sorted(at)) for broker, at in in_logs.items())
    tables = {**logs(text), "checkpoints": checkpoints(("log-start", leader, start))}
    acked = sends(*(f"v{i}@{i}" for i in range(6)))
    judged = judge_absence(of(tables, leader=leader), together(acked) if in_one_transaction else acked)
    values = [value for finding in judged.findings for value in finding.values]
    assert sorted(values) == [f"v{i}" for i in range(start, 6) if i not in in_logs[leader]]


@pytest.mark.parametrize(("start", "overwritten", "lost"), [(0, False, 1), (2, False, 0), (2, True, 1)])
def test_a_truncated_record_below_the_log_start_is_not_deleted(start, overwritten, lost):
    """The log has another record at its offset: that one was deleted."""
    tables = {**logs("1: 0a 1x@1 2c@1"), "checkpoints": checkpoints(("log-start", "1", start))}
    acked = sends("b@1").with_columns(overwritten=pl.lit(overwritten))
    assert sum(one.count for one in judge_absence(of(tables, leader="1"), acked).findings) == lost
