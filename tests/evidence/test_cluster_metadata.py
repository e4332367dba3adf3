"""The metadata log: records, replay, snapshots, and its text."""

from __future__ import annotations

import shutil
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.evidence.cluster_metadata import (
    MetadataRecord,
    read_cluster_metadata,
    replay_records,
    without_aborted,
)
from logjudge.histories.evidence.metadata_records import NAMES, decode, encode
from logjudge.histories.evidence.record_schema import MalformedRecordError
from polars.testing import assert_frame_equal

from .conftest import DATA
from .transaction_logs import batch

TOPIC, UUID = "orders", "AAAAAAAAAAAAAAAAAAAAAA"


def record(offset, kind, **data):
    return MetadataRecord(offset, 1000 + offset, kind, data)


def beginning():
    return [
        record(0, "TOPIC_RECORD", name=TOPIC, topicId=UUID),
        record(
            1,
            "PARTITION_RECORD",
            partitionId=0,
            topicId=UUID,
            replicas=[1, 2, 3],
            isr=[1, 2, 3],
            leader=1,
            leaderEpoch=0,
            partitionEpoch=0,
        ),
    ]


def change(offset, **data):
    return record(offset, "PARTITION_CHANGE_RECORD", partitionId=0, topicId=UUID, **data)


def states(records):
    frame, damage = replay_records(records)
    assert damage.height == 0
    rows = frame.filter(pl.col("kind").is_in(["partition", "change"]))
    return rows.select("leader", "leader_epoch", "partition_epoch", "isr").rows()


def test_a_change_of_isr_keeps_the_leader_epoch():
    assert states([*beginning(), change(2, isr=[1])])[-1] == (1, 0, 1, [1])


def test_a_named_leader_raises_the_leader_epoch_even_if_it_is_the_same():
    assert states([*beginning(), change(2, leader=1)])[-1] == (1, 1, 1, [1, 2, 3])
    assert states([*beginning(), change(2, leader=-1), change(3, leader=2, isr=[2])])[-1] == (2, 2, 2, [2])


def test_eligible_leaders_and_recovery_stay_until_they_change():
    frame, _ = replay_records(
        [
            *beginning(),
            change(2, isr=[], leader=-1, eligibleLeaderReplicas=[1], lastKnownElr=[2]),
            change(3, leader=2, isr=[2], leaderRecoveryState=1, eligibleLeaderReplicas=[]),
            change(4, leaderRecoveryState=0),
        ]
    )
    rows = frame.filter(pl.col("kind") == "change").select("elr", "last_known_elr", "recovering").rows()
    assert rows == [([1], [2], False), ([], [2], True), ([], [2], False)]


def test_an_aborted_metadata_transaction_never_happened():
    begin, end = record(2, "BEGIN_TRANSACTION_RECORD"), record(4, "END_TRANSACTION_RECORD")
    abort = record(4, "ABORT_TRANSACTION_RECORD")
    inside = change(3, isr=[1])
    assert without_aborted([begin, inside, abort]) == []
    assert without_aborted([begin, inside, end]) == [inside]
    assert without_aborted([begin, inside]) == []


@pytest.mark.parametrize(("end", "isr"), [("END", [[1, 2, 3], [1], [1, 2]]), ("ABORT", [[1, 2, 3], [1, 2]])])
def test_a_metadata_transaction_may_end_in_a_later_segment(tmp_path, end, isr):
    begun = [*beginning(), record(2, "BEGIN_TRANSACTION_RECORD"), change(3, isr=[1])]
    ended = [record(4, f"{end}_TRANSACTION_RECORD"), change(5, isr=[1, 2])]
    for first, records in ((0, begun), (4, ended)):
        written = (batch(each.offset, encode(each.type, each.data)) for each in records)
        (tmp_path / f"{first:020d}.log").write_bytes(b"".join(written))
    frame, damage = read_cluster_metadata(tmp_path)
    assert damage.is_empty()
    assert frame["isr"].drop_nulls().to_list() == isr


def test_records_that_repeat_an_earlier_state_are_copies():
    """Those between the states PRE_MIGRATION (2) and MIGRATION (1) are ZooKeeper's, those of a .checkpoint earlier."""
    topic, partition = beginning()
    before, after = (record(at, "ZK_MIGRATION_STATE_RECORD", zkMigrationState=s) for at, s in ((0, 2), (3, 1)))
    later = change(5, isr=[1, 2])
    migrated, _ = replay_records([before, topic, partition, after, later])
    assert migrated["is_copy"].to_list() == [True, True, False]
    snapshot = f"{9:020d}-{1:010d}.checkpoint"
    repeated, _ = replay_records([replace(topic, file=snapshot), replace(partition, file=snapshot), later])
    assert repeated["is_copy"].to_list() == [True, True, False]
    assert decode(encode("ZK_MIGRATION_STATE_RECORD", {"zkMigrationState": 2})).fields == {"zkMigrationState": 2}


def test_a_topic_that_is_created_again_has_no_partitions_of_the_removed_one():
    again = [replace(each, data={**each.data, "topicId": "B" * 22, "leader": 2}) for each in beginning()]
    frame, damage = replay_records([*beginning(), record(2, "REMOVE_TOPIC_RECORD", topicId=UUID), *again])
    assert damage.is_empty()
    assert frame.filter(kind="remove-topic").select("topic", "topic_id").rows() == [(TOPIC, UUID)]
    assert frame.filter(kind="partition").select("topic", "topic_id", "leader").rows() == [
        (TOPIC, UUID, 1),
        (TOPIC, "B" * 22, 2),
    ]
    removed = [*beginning(), record(2, "REMOVE_TOPIC_RECORD", topicId=UUID), change(3, isr=[1])]
    assert replay_records(removed)[1].height == 1


def test_a_record_without_a_field_is_damage():
    frame, damage = replay_records([record(0, "TOPIC_RECORD", name=TOPIC), *beginning()])
    assert damage.select("kind", "first_offset").rows() == [("decode", 0)]
    assert frame.height == 2


def test_a_change_without_its_beginning_is_damage():
    frame, damage = replay_records([change(5, isr=[1])])
    assert frame.height == 0
    assert damage["kind"].to_list() == ["order"]


def test_records_of_kafka_4_4_are_read():
    """Its brokers name cordoned log directories (KIP-1066): later versions of two records, with a tagged field each."""
    frame, damage = read_cluster_metadata(DATA / "kraft-4.4" / "__cluster_metadata-0")
    assert damage.is_empty()
    unclean = frame.filter(kind="change", recovering=True, topic="orders").row(0, named=True)
    assert (unclean["partition"], unclean["leader"], unclean["isr"], unclean["leader_epoch"]) == (0, 2, [2], 2)
    assert frame["kind"].value_counts().filter(kind="register")["count"].item() == 6


@given(st.binary(max_size=60))
def test_noise_is_a_malformed_record_or_none(noise):
    try:
        found = decode(noise)
    except MalformedRecordError:
        return
    assert found is None or found[0] in NAMES


def test_the_timeline_of_a_real_controller(recorded):
    frame = recorded("unclean-election-m").table("metadata", ("orders", 0)).filter(pl.col("broker") == "100")
    rows = frame.select("leader", "leader_epoch", "isr", "recovering").rows()
    assert rows[:6] == [
        (3, 0, [3, 1, 2], False),
        (3, 0, [3, 1], False),
        (3, 0, [3], False),
        (-1, 1, [3], False),
        (2, 2, [2], True),
        (2, 2, [2, 1], False),
    ]


def test_a_flipped_bit_loses_one_batch_and_is_reported(unpacked, tmp_path):
    source = unpacked("unclean-election-m") / "brokers" / "100" / "data" / "__cluster_metadata-0"
    folder = tmp_path / "__cluster_metadata-0"
    shutil.copytree(source, folder)
    path = folder / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[1900] ^= 4
    path.write_bytes(data)
    whole, none = read_cluster_metadata(source)
    broken, damage = read_cluster_metadata(folder)
    assert none.height == 0
    assert "crc" in damage["kind"].to_list()
    assert broken.height < whole.height


def test_copies_of_the_log_agree(recorded):
    frame = recorded("disk-truncate-m").table("metadata", ("orders", 1))
    copies = frame.drop("file", "broker").partition_by("snapshot")
    [copy] = copies
    by_broker = frame.drop("file").partition_by("broker", include_key=False)
    shortest = min(part.height for part in by_broker)
    for part in by_broker[1:]:
        assert_frame_equal(part.head(shortest), by_broker[0].head(shortest))
    assert copy.height == sum(part.height for part in by_broker)


@pytest.mark.parametrize("cut", [10, 61, 300, 1000])
def test_a_cut_log_is_read_to_its_end(unpacked, tmp_path, cut):
    source = unpacked("unclean-election-m") / "brokers" / "100" / "data" / "__cluster_metadata-0"
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    data = (source / f"{0:020d}.log").read_bytes()
    (folder / f"{0:020d}.log").write_bytes(data[:-cut])
    whole, _ = read_cluster_metadata(source)
    frame, damage = read_cluster_metadata(folder)
    assert_frame_equal(frame, whole.head(frame.height))
    assert set(damage["kind"]) <= {"torn-tail"}
