"""Open transactions that hide records from the final reads, and those records in the logs."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.replicas.replica_logs import replica_logs_of
from logjudge.analysis.rules.loss import lost_write, unseen
from logjudge.analysis.verdict.consequences import link_consequences
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS, Finding
from logjudge.models.internal_topics import coordinator_partition

from .replica_texts import logs
from .transaction_logs import contact, event, judged, send, transaction, write_run

PROCESSES = {"final": {"role": "final"}, "t": {"transactional.id": "tx-t"}}


def in_transaction(tables, offset, producer):
    """The logs, with the record at an offset as one of an open transaction of a producer."""
    own = pl.col("offset") == offset
    opened = {"transactional": pl.when(own).then(True).otherwise("transactional")}
    opened["producer_id"] = pl.when(own).then(pl.lit(producer, pl.Int64)).otherwise("producer_id")
    return {**tables, "records": tables["records"].with_columns(**opened)}


def lost_values(held, snapshot="", leader="1"):
    """The lost values where b, at offset 1, was replaced by x, without final reads; `held` are the brokers' logs."""
    rows = [("p", "ok", 0, "a"), ("p", "ok", 1, "b"), ("q", "ok", 1, "x"), ("q", "ok", 2, "y")]
    sends = [
        {"process": process, "outcome": outcome, "invoked": at, "completed": at, "invoked_at": at, "at": at, "index": 0}
        | {"offset": offset, "value": value, "acks": "all", "acknowledged": True, "txn": False, "synthetic": False}
        for at, (process, outcome, offset, value) in enumerate(rows, 1)
    ]
    replica_logs = replica_logs_of("x", 0, logs(held, snapshot), snapshots=(snapshot,), leader=leader)
    frames = pl.DataFrame(sends, schema=SENDS), pl.DataFrame(schema=READS)
    p = Partition("x", 0, Settings(config={"format": 1}), *frames, replica_logs=replica_logs)
    return [value for finding in lost_write.judges["native"](p).findings for value in finding.values]


def test_a_value_that_the_leader_holds_at_another_offset_is_not_lost():
    assert lost_values("1: 0a 1x 2y") == ["b"]
    assert lost_values("1: 0a 1x 2y 3b") == []
    # A log that was copied before the end, or is not the leader's, may have lost it since.
    assert lost_values("1: 0a 1x 2y 3b", "earlier") == ["b"]
    assert lost_values("1: 0a 1x 2y 3b", leader="2") == ["b"]


def lost_and_unknown(held):
    """The lost ones of c and d, and why the others are unknown: the final reads stop at b, which t left open."""
    config = {"format": 1, "final": True, "processes": PROCESSES}
    settings = Settings(config=config)
    sends = [
        {"process": process, "outcome": outcome, "invoked": at, "completed": at, "invoked_at": at, "at": at, "index": 0}
        | {"offset": offset, "value": value, "acks": "all", "acknowledged": outcome == "ok", "txn": outcome != "ok"}
        | {"synthetic": False}
        for at, (process, outcome, offset, value) in enumerate(
            [("p", "ok", 0, "a"), ("t", "info", 1, "b"), ("p", "ok", 2, "c"), ("p", "ok", 3, "d")], 1
        )
    ]
    read = {
        "process": "final",
        "outcome": "ok",
        "invoked": 20,
        "completed": 21,
        "invoked_at": 20,
        "at": 21,
        "txn": False,
    }
    reads = [{**read, "index": 0, "offset": 0, "value": "a", "exempt": False}]
    frames = pl.DataFrame(sends, schema=SENDS), pl.DataFrame(reads, schema=READS)
    tables = None if held is None else in_transaction(logs(held), 1, 7)
    replica_logs = None if tables is None else replica_logs_of("x", 0, tables, leader="1")
    p = Partition("x", 0, settings, *frames, replica_logs=replica_logs)
    judgement = lost_write.judges["native"](p)
    lost = [value for finding in judgement.findings for value in finding.values]
    return lost, [text.split(": ")[1] for text in judgement.unknowns if "open transaction" in text]


@pytest.mark.parametrize(
    ("held", "lost", "ids", "rest"),
    [
        ("1: 0a 1b 2c 3d", [], "tx-t, producer id 7", "them from the final reads; the leader's log holds all of them"),
        ("1: 0a 1b 2c", ["d"], "tx-t, producer id 7", "it from the final reads; the leader's log holds all of them"),
        (None, [], "tx-t", "them from the final reads"),
    ],
)
def test_an_open_transaction_is_named_where_it_is_known_and_hides_nothing_that_no_log_holds(held, lost, ids, rest):
    transaction = f"an open transaction of t (transactional.id {ids}) with its first record at x-0@1"
    assert lost_and_unknown(held) == (lost, [f"{transaction} may hide {rest}"])


def test_an_open_transaction_hides_nothing_if_no_log_holds_the_records():
    assert lost_and_unknown("1: 0a 1b") == (["c", "d"], [])
    # Records that are in a log of unknown age, or in no collected one, may be there.
    assert lost_and_unknown("2: 0a 1b")[0] == []


def test_an_unread_tail_is_lost_if_the_last_logs_lack_it():
    """An unclean election cut the tail, and no record was written after it."""
    rows = [("a", 0), ("b", 1), ("c", 2)]
    sends = [
        {"process": "p", "outcome": "ok", "invoked": at, "completed": at, "invoked_at": at, "at": at, "index": 0}
        | {"offset": offset, "value": value, "acks": "all", "acknowledged": True, "txn": False, "synthetic": False}
        for at, (value, offset) in enumerate(rows, 1)
    ]
    read = {"process": "final", "outcome": "ok", "invoked": 20, "completed": 21, "invoked_at": 20, "at": 21}
    reads = [{**read, "txn": False, "index": 0, "offset": 0, "value": "a", "exempt": False}]
    frames = pl.DataFrame(sends, schema=SENDS), pl.DataFrame(reads, schema=READS)
    settings = Settings(config={"format": 1, "final": True, "processes": PROCESSES})

    def values(rule, held):
        replica_logs = None if held is None else replica_logs_of("x", 0, logs(held), leader="1")
        p = Partition("x", 0, settings, *frames, replica_logs=replica_logs)
        return [value for finding in rule.judges["native"](p).findings for value in finding.values]

    assert (values(lost_write, "1: 0a"), values(unseen, "1: 0a")) == (["b", "c"], [])
    assert (values(lost_write, "1: 0a 1b"), values(unseen, "1: 0a 1b")) == (["c"], ["b"])
    # Nothing proves that they are gone: no log was collected, or not that of the leader.
    assert (values(lost_write, None), values(unseen, None)) == ([], ["b", "c"])
    assert (values(lost_write, "2: 0a"), values(unseen, "2: 0a")) == ([], ["b", "c"])


@pytest.mark.parametrize(("text", "number"), [("t", 116 % 50), ("transfer-1", 21), ("polygenelubricants", 0)])
def test_the_partition_of_a_transactional_id_is_that_of_kafka(text: str, number: int) -> None:
    """The last text has the hash -2^31, whose absolute value Kafka takes as 0."""
    assert coordinator_partition(text, 50) == number


def test_a_loss_elsewhere_leaves_records_that_wait_behind_an_open_transaction_linked_to_it() -> None:
    found = {"lost-write": (0, ["a"]), "unseen": (8, ["b"]), "hanging-transaction": (7, ["b", "c"])}
    findings = [
        Finding(rule, "", "x", 0, "violation", first, first, values=values, id=rule)
        for rule, (first, values) in found.items()
    ]
    p = Partition("x", 0, Settings(config={"format": 1}))
    linked = {one.id: one.related for one in link_consequences(findings, p)}
    assert linked == {"lost-write": [], "unseen": ["hanging-transaction"], "hanging-transaction": []}


@pytest.mark.parametrize(("kind", "verdict"), [("init-transactions", "invalid"), ("kill", "valid")])
def test_an_attempt_to_initialise_gives_the_coordinator_no_more_time(tmp_path, kind, verdict):
    """The attempt waited until 39 s for the markers of a transaction that was decided at 2 ms, and timed out."""
    states = [("ongoing", (1, 1)), ("prepare-commit", (2, 1))]
    steps = [("t", 7, state, [("x", 0)], times) for state, times in states]
    about = {"kind": kind, "nodes": ["1"] if kind == "kill" else [], "transactional_ids": ["t"]}
    events = [*transaction("t", 0, [(0, "a", None)], "info", (0, 500)), *send("b", 1, 600, 0), *contact(40_000)]
    events += [
        event(at, "nemesis", 0, type_, "fault", fault=about) for at, type_ in ((10_000, "invoke"), (39_000, "info"))
    ]
    folder = write_run(tmp_path, {0: "7a b"}, events, steps)
    found, judgement = judged(folder, "hanging-transaction")
    assert judgement == verdict
    assert all("its coordinator decided to commit it at 0.002 s" in one["sentence"] for one in found)


@pytest.mark.parametrize(
    ("epoch", "cause", "clause"),
    [
        (14, "transaction-state-lost", "its timeout of 60 s ended at 60.600 s"),
        (0, None, "its coordinator decided to abort it at 0.002 s"),
    ],
)
def test_a_coordinator_with_lower_producer_epochs_lost_the_transaction(tmp_path, epoch, cause, clause):
    """As in a recorded run: all copies of __transaction_state came back from a backup, with an older transaction."""
    states = [("ongoing", (1, 1)), ("prepare-abort", (2, 1))]
    steps = [("t", 7, state, [("x", 0)], times) for state, times in states]
    written = [*transaction("t", 0, [(0, "a", None)], "info", (0, 500)), *send("b", 1, 600, 0)]
    folder = write_run(tmp_path, {0: f"7a^{epoch} b"}, [*written, *contact(100_000)], steps)
    [finding], _ = judged(folder, "hanging-transaction")
    assert finding["cause"] == cause
    assert clause in finding["sentence"]
