"""`__transaction_state` and the files on producers: decoded as Kafka's own decoder does, and what follows from them."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.inspect.events import events_of_partition
from logjudge.analysis.inspect.offset_history import offset_history
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.histories.evidence.producer_files import read_aborted_index, read_producer_snapshot
from logjudge.histories.evidence.record_schema import MalformedRecordError
from logjudge.histories.evidence.segments import RawRecord, raw_records
from logjudge.histories.evidence.transaction_log import read_transaction_log
from logjudge.histories.evidence.transaction_records import decode

from .kafka_tools import assert_decoded_alike, decoded
from .transaction_logs import SEGMENT, STARTED, Step, state_log, transaction_key, transaction_value

DATA = Path(__file__).parent / "data" / "transactions"
INDEX, SNAPSHOT = DATA / f"{0:020d}.txnindex", DATA / f"{18:020d}.snapshot"


def words(state: str) -> str:
    """A state as Kafka's classes name it: complete-commit is CompleteCommit."""
    return "".join(part.capitalize() for part in state.split("-"))


def dumped(version: str) -> Iterator[tuple[RawRecord, str]]:
    """Records, and the text of `kafka-dump-log --transaction-log-decoder` of the version that wrote the log."""
    records, damage = raw_records(DATA / f"{version}.log")
    lines = (DATA / f"{version}.txt").read_text().splitlines()
    assert damage == []
    assert len(lines) > 40
    return zip(records, lines, strict=True)


def test_agrees_with_kafkas_decoder_record_by_record() -> None:
    for raw, line in dumped("4.1.1"):
        assert_decoded_alike(raw, line)


def test_agrees_with_the_decoder_of_kafka_3() -> None:
    for raw, line in dumped("3.9.1"):
        record, value, found = decoded(raw, line)
        places = {f"{topic}-{partition}" for topic, partition in record.partitions}  # as Kafka prints them: a set
        assert found[3] == f"transaction_metadata::transactionalId={record.transactional_id}"
        listed = re.search(r"partitions=\[(.*?)\],", found[4])
        assert listed
        assert {*filter(None, listed[1].split(","))} == places
        assert found[4].replace(listed[0], "") == (
            f"producerId:{value['producerId']},producerEpoch:{value['producerEpoch']},state={words(record.state)},"
            f"txnLastUpdateTimestamp={value['transactionLastUpdateTimestampMs']},"
            f"txnTimeoutMs={value['transactionTimeoutMs']}"
        )


def test_files_on_producers_agree_with_kafkas_text() -> None:
    """The text is that of kafka-dump-log 4.1.1."""
    aborted, _ = read_aborted_index(INDEX)
    producers, _ = read_producer_snapshot(SNAPSHOT)
    text = (DATA / "producers.txt").read_text()
    expected = re.findall(
        r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text
    )
    columns = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    assert aborted.select(columns).rows() == [tuple(map(int, row)) for row in expected]
    states = re.findall(
        r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (\d+) currentTxnFirstOffset: OptionalLong.(\w+)"
        r" lastTimestamp: (\d+)(?: firstSequence: \d+ lastSequence: (\d+) lastOffset: (\d+))?",
        text,
    )
    assert len(states) == len(producers) > 4
    for row, found in zip(producers.iter_rows(named=True), states, strict=True):
        assert (row["producer_id"], row["producer_epoch"], row["coordinator_epoch"]) == tuple(map(int, found[:3]))
        assert (found[3], row["open_since"], row["timestamp"]) == ("empty", None, int(found[4]))
        assert (row["last_sequence"], row["last_offset"]) == (tuple(map(int, found[5:])) if found[5] else (-1, -1))


@pytest.mark.parametrize("change", ["cut", "flipped", "version"])
def test_a_damaged_file_on_producers_is_named(tmp_path: Path, change: str) -> None:
    def damaged(path: Path, version_at: int) -> Path:
        data = bytearray(path.read_bytes())
        if change == "cut":
            del data[-5:]
        elif change == "version":
            data[version_at] = 9
        else:
            data[-1] ^= 1
        (tmp_path / path.name).write_bytes(data)
        return tmp_path / path.name

    producers, damage = read_producer_snapshot(damaged(SNAPSHOT, 1))
    assert (len(producers), len(damage)) == (0, 1)
    aborted, damage = read_aborted_index(damaged(INDEX, 1))
    assert (len(aborted), len(damage)) == {"cut": (2, 1), "version": (2, 1), "flipped": (3, 0)}[change]


@given(st.binary(max_size=200))
def test_noise_in_files_on_producers_is_damage(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    folder = tmp_path_factory.mktemp("noise")
    for name, read in ((INDEX.name, read_aborted_index), (SNAPSHOT.name, read_producer_snapshot)):
        (folder / name).write_bytes(noise)
        frame, damage = read(folder / name)
        assert len(damage) or len(frame) == len(noise) // 34


@pytest.mark.parametrize("version", [0, 1])
def test_all_versions_of_values(version: int) -> None:
    places = [("x", 0), ("y", 3)]
    value = transaction_value(4, places, (9, 5), (20, 10), 30_000, version)
    record = decode(transaction_key("tx"), value)
    assert record is not None
    assert record.value is not None
    assert (record.transactional_id, record.state, record.partitions) == ("tx", "complete-commit", places)
    names = ("producerId", "producerEpoch", "transactionTimeoutMs", "transactionStartTimestampMs")
    assert [record.value[name] for name in names] == [9, 5, 30_000, STARTED + 10]
    if version == 1:
        assert (record.value["clientTransactionVersion"], record.value["nextProducerId"]) == (2, -1)
    removed = decode(transaction_key("tx"), None)
    assert removed is not None
    assert removed.state == "removed"


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=80)))
def test_noise_raises_no_other_error(key: bytes, value: bytes | None) -> None:
    with contextlib.suppress(MalformedRecordError):
        decode(b"\0\0" + key, value)


@pytest.mark.parametrize("version", range(2))
def test_every_shortened_value_is_damage(version: int) -> None:
    whole = transaction_value(4, [("x", 0)], (9, 5), (20, 10), 30_000, version)
    for length in range(len(whole)):
        with pytest.raises(MalformedRecordError):
            decode(transaction_key("tx"), whole[:length])


def read(tmp_path: Path, steps: list[Step]) -> pl.DataFrame:
    (tmp_path / SEGMENT).write_bytes(state_log(steps))
    table, damage = read_transaction_log(tmp_path)
    assert not len(damage)
    return table


def test_a_transaction_is_a_row_for_each_of_its_partitions(tmp_path: Path) -> None:
    steps: list[Step] = [
        ("t", 7, "empty", [], (0, -1)),
        ("t", 7, "ongoing", [("x", 0)], (10, 10)),
        ("u", 8, "ongoing", [("x", 0)], (11, 11)),
        ("t", 7, "ongoing", [("x", 0), ("y", 1)], (12, 10)),
        ("t", 7, "prepare-commit", [("x", 0), ("y", 1)], (20, 10)),
        ("t", 7, "complete-commit", [], (25, 10)),
        ("t", 7, "ongoing", [("x", 0)], (30, 30)),
        ("t", 7, "prepare-abort", [("x", 0)], (40, 30)),
    ]
    table = read(tmp_path, steps)
    columns = ("transactional_id", "partition", "outcome", "state", "began", "added", "prepared", "completed", "at")
    shown = [
        tuple(value - STARTED if isinstance(value, int) and value > STARTED else value for value in row)
        for row in table.select(columns).rows()
    ]
    assert shown == [
        ("t", 0, "commit", "complete-commit", 10, 10, 20, 25, 5),
        ("u", 0, None, "ongoing", 11, 11, None, None, 2),
        ("t", 1, "commit", "complete-commit", 10, 12, 20, 25, 5),
        ("t", 0, "abort", "prepare-abort", 30, 30, 40, None, 7),
    ]
    assert table["partitions"].to_list() == [["x-0", "y-1"], ["x-0"], ["x-0", "y-1"], ["x-0"]]
    assert table["last_state"].to_list() == ["prepare-abort", "ongoing", "prepare-abort", "prepare-abort"]


def test_a_compacted_log_has_the_last_transaction_of_each_id(tmp_path: Path) -> None:
    steps: list[Step] = [
        ("t", 7, "complete-commit", [], (25, 10)),
        ("u", 8, "ongoing", [("x", 0)], (30, 30)),
        ("u", 8, "ongoing", [("x", 1)], (50, 50)),  # the end of the one before is gone
        ("u", 8, "complete-abort", [], (60, 50)),
    ]
    table = read(tmp_path, steps).select("transactional_id", "partition", "outcome", "state")
    assert table.rows() == [("u", 0, None, "ongoing"), ("u", 1, None, "complete-abort")]


def test_a_value_of_a_later_version_is_damage(tmp_path: Path) -> None:
    from .transaction_logs import batch

    value = transaction_value(1, [("x", 0)], version=2)
    (tmp_path / SEGMENT).write_bytes(batch(0, value, transaction_key("t")))
    table, damage = read_transaction_log(tmp_path)
    assert not len(table)
    assert "version 2" in damage["reason"][0]


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Inspected:
    """A real run of Kafka 4.1.1, in which the COMMIT marker of t7 was cut from audit-0; opened."""
    folder = tmp_path_factory.mktemp("runs")
    shutil.unpack_archive(DATA / "hanging.tar.xz", folder)
    return Inspected(folder / "hanging")


def test_undecided_transactions_of_a_real_run_are_resolved(hanging: Inspected) -> None:
    """t2 was fenced, t4 timed out, the responses to t6's commit were lost, t8 was left open."""
    p = hanging.partition("orders-0")
    outcomes = dict(p.sends.filter("txn").select("process", pl.col("outcome").cast(pl.String)).rows())
    assert outcomes == {
        **{"t0": "ok", "t1": "ok", "t2": "fail", "t3": "ok", "t4": "fail"},
        **{"t6": "ok", "t7": "ok", "t8": "info"},
    }
    assert p.resolved_count == 3  # t2, t4 and t6
    acknowledged = dict(p.sends.select("process", "acknowledged").rows())
    assert not any(acknowledged[name] for name in ("t2", "t4", "t6", "t8"))


def test_a_hanging_transaction_of_a_real_run_is_found(hanging: Inspected) -> None:
    [finding] = hanging.judged(hanging.partition("audit-0"))[0]
    assert (finding.rule, finding.first_offset, finding.count, finding.values) == (
        *("hanging-transaction", 0),
        *(3, ["w0", "w1", "w2"]),
    )
    assert "(transactional.id tx-t7, producer id 6, epoch 0)" in finding.sentence
    assert "its coordinator had committed it at" in finding.sentence
    sources = [item.source or "" for item in finding.evidence]
    assert any("__transaction_state-0" in source for source in sources)
    assert any(source.endswith(".snapshot") for source in sources)  # of the producers, which has it open
    for name in ("orders-0", "orders-1"):  # t8 is open within its timeout
        assert not [one for one in hanging.judged(hanging.partition(name))[0] if one.rule == "hanging-transaction"]


def test_the_story_of_a_transaction(hanging: Inspected) -> None:
    p = hanging.partition("orders-0")
    [offset] = p.sends.filter(pl.col("process") == "t7")["offset"]
    history = offset_history(p, offset, hanging.results.locator())
    assert history is not None
    assert [fact.sentence for fact in history.transaction] == [
        "transactional.id tx-t7 (producer id 6, timeout 60 s) began a transaction with audit-0, orders-0",
        f"producer 6 wrote 1 record with epoch 0 at orders-0@{offset}",
        "the coordinator decided to commit it",
        f"its COMMIT marker is at orders-0@{offset + 1}",
        "the coordinator completed it",
        f"rc read orders-0@{offset}",
        f"final read orders-0@{offset}",
    ]
    outside = offset_history(hanging.partition("audit-0"), 3, hanging.results.locator())
    assert outside is not None
    assert outside.transaction == []


def test_the_timeline_names_the_open_transaction(hanging: Inspected) -> None:
    events = [event for event in events_of_partition(hanging.partition("audit-0")) if event.kind == "transaction"]
    sentences = [event.sentence for event in events]
    assert "the log of audit-0 has no marker of it" in sentences
    assert "transactional.id tx-t7 ended the last of 1 transaction in audit-0: 1 commit" in sentences
