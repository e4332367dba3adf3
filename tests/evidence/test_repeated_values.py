"""Causes of values at several offsets: retries of a producer, and truncated copies that were sent again."""

from __future__ import annotations

import polars as pl
import pytest
from logjudge.analysis.causes.repeated_values import Repeated
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.replicas.replica_logs import replica_logs_of
from logjudge.analysis.rules.identity import duplicate
from logjudge.analysis.rules.sending import nonmonotonic_send
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS

from .conftest import duplicate_cause
from .replica_texts import joined, logs
from .timelines import SECOND, UNCLEAN, epochs, timeline


def test_a_retry_is_known_from_a_log_that_was_truncated_later():
    """A case of real 1.1.1 brokers: the leader of a full ISR responded neither to the send nor to its retry."""
    sent_again = Repeated("orders", 0, "b", (1, 2), "p", producer={"enable.idempotence": False})
    before, after = logs("3: 0a 1b 2b", "before"), logs("1: 0a 1x@1 2y@1\n3: 0a 1x@1 2y@1")
    tables = joined(before, after)
    about = {"snapshots": ("before", ""), "times": {"before": 1}}
    dated = timeline(tables, about, leader="3")
    explained = duplicate_cause(dated, sent_again)
    assert explained.cause == "retry-duplicate"
    assert any("a copy was in snapshot before at offset 2" in fact.sentence for fact in explained.chain)
    apart = timeline(joined(logs("3: 0a 1b", "before"), logs("3: 0a 1x@1 2b@1")), about, leader="3")
    assert duplicate_cause(apart, sent_again).cause == "unknown"


@pytest.mark.parametrize(
    ("read_at", "replaced_at", "cause"),
    [
        (8, None, "retry-duplicate"),
        (10, None, "unclean-election"),
        (None, None, "unclean-election"),
        (8, 7, "unknown"),  # another record was there before the election
        (10, 7, "unknown"),
        (10, 11, "unclean-election"),
    ],
)
def test_copies_that_were_gone_or_read_before_an_election_are_no_consequence_of_it(read_at, replaced_at, cause):
    tables = {**logs("1: 0a 1x@1 2y@1\n2: 0a 1x@1 2y@1"), "epochs": epochs(("2", 0, 0), ("2", 1, 1))}
    read = {1: 6 * SECOND, 2: read_at and read_at * SECOND}
    replaced = {1: (replaced_at * SECOND, 4)} if replaced_at else {}
    own = {"enable.idempotence": False}
    twice = Repeated("orders", 0, "b", (1, 2), "p", 5 * SECOND, 1, "all", own, read, replaced)
    assert duplicate_cause(timeline(tables, meta=UNCLEAN), twice).cause == cause


@pytest.mark.parametrize(("held", "cause"), [("1b 2b", "retry-duplicate"), ("2b", "unknown")])
def test_only_a_log_with_both_copies_shows_that_an_unknown_producer_repeated_a_record(held, cause):
    twice = Repeated("orders", 0, "b", (1, 2), "p")
    assert duplicate_cause(timeline(logs(f"1: 0a {held}"), leader="1"), twice).cause == cause


@pytest.mark.parametrize("producer_id", [None, 7])
@pytest.mark.parametrize(
    ("held", "missing"), [("2b", "a log with all copies"), ("1b 2b", "how an idempotent producer")]
)
def test_what_is_missing_to_explain_the_copies_of_an_idempotent_producer(held, missing, producer_id):
    twice = Repeated("orders", 0, "b", (1, 2), "p", producer={"enable.idempotence": True})
    tables = logs(f"1: 0a {held}")
    session = {"producer_id": pl.lit(producer_id, pl.Int64), "producer_epoch": pl.lit(0, pl.Int32)}
    tables["records"] = tables["records"].with_columns(**session)
    [reason] = duplicate_cause(timeline(tables, leader="1"), twice).missing
    assert reason.startswith(missing)


@pytest.mark.parametrize(
    ("producer", "expected"),
    [
        ({"acks": 1}, "acks=1 disables idempotence for p"),
        ({"acks": "0"}, "acks=0 disables idempotence for p"),
        ({"acks": "all", "enable.idempotence": "false"}, "enable.idempotence=false for p"),
    ],
)
def test_a_retry_is_known_by_what_turns_idempotence_off(producer, expected):
    held = timeline(logs("1: 0a 1b 2b"), leader="1")
    explained = duplicate_cause(held, Repeated("orders", 0, "b", (1, 2), "p", producer=producer))
    assert explained.cause == "retry-duplicate"
    assert expected in [fact.sentence for fact in explained.chain]
    sure = {**producer, "enable.idempotence": True}
    assert duplicate_cause(held, Repeated("orders", 0, "b", (1, 2), "p", producer=sure)).cause == "unknown"


@pytest.mark.parametrize(
    ("sessions", "cause"),
    [
        ([(7, 6, 3), (7, 10, 0)], "idempotence-reset"),
        ([(7, 0, 3), (8, 0, 0)], "idempotence-reset"),
        ([(7, 6, None), (7, 6, None)], "unknown"),
        ([(7, 6, 3), (7, 6, 4)], "unknown"),
        ([(7, None, 3), (7, 1, 0)], "unknown"),
        ([(7, 6, 195), (7, 6, 195)], "producer-state-lost"),
    ],
)
def test_copies_of_an_idempotent_producer_are_explained_by_epochs_and_sequence_numbers(sessions, cause):
    tables = logs("1: 0a 1b 2b")
    ids, epochs, sequences = zip((7, 0, 0), *sessions, strict=True)
    types = (("producer_id", ids, pl.Int64), ("producer_epoch", epochs, pl.Int32))
    tables["records"] = tables["records"].with_columns(pl.Series(name, of, dtype) for name, of, dtype in types)
    tables["batches"] = tables["batches"].with_columns(base_sequence=pl.Series(sequences, dtype=pl.Int32))
    held = timeline(tables, leader="1")
    for about in ({}, {"enable.idempotence": True}):
        explained = duplicate_cause(held, Repeated("orders", 0, "b", (1, 2), "p", producer=about))
        assert explained.cause == cause
        assert not explained.chain or "producer id 7, producer epoch" in explained.chain[0].sentence


@pytest.mark.parametrize(
    ("producer_id", "producer", "severity"),
    [
        (None, {}, "permitted"),
        (7, {}, "violation"),
        (None, {"enable.idempotence": True}, "violation"),
        (7, {"acks": "1"}, "permitted"),
    ],
)
@pytest.mark.parametrize("held", ["1: 0a 1c 2b 3b", "1: 0a 1c"], ids=["own batches", "other batches of the producer"])
def test_batches_without_a_producer_id_excuse_duplicates_and_reordering(held, producer_id, producer, severity):
    tables = logs(held)
    tables["records"] = tables["records"].with_columns(producer_id=pl.lit(producer_id, pl.Int64))
    settings = Settings(config={"processes": {"p": producer}})
    sends = [
        {
            "process": "p",
            "outcome": "ok",
            "invoked": at,
            "completed": at + 9,
            "invoked_at": at,
            "at": at + 9,
            "index": 0,
        }
        | {"offset": offset, "value": value, "acks": settings.acks("p")}
        | {"acknowledged": True, "txn": False, "synthetic": False}
        for at, offset, value in ((1, 3, "b"), (2, 1, "c"))
    ]
    read = {"process": "q", "outcome": "ok", "invoked": 20, "completed": 21, "invoked_at": 20, "at": 21, "txn": False}
    reads = [{**read, "index": i, "offset": o, "value": "b", "exempt": False} for i, o in enumerate((2, 3))]
    seen = pl.DataFrame(sends, schema=SENDS), pl.DataFrame(reads, schema=READS)
    p = Partition("orders", 0, settings, *seen, replica_logs=replica_logs_of("orders", 0, tables, leader="1"))
    assert [(found.values, found.severity) for found in duplicate.judges["native"](p).findings] == [(["b"], severity)]
    assert [(found.values, found.severity) for found in nonmonotonic_send.judges["native"](p).findings] == [
        (["b", "c"], severity)
    ]
