"""kafka-dump-log: its text as evidence, and its agreement with our reading of the same bytes.

Of texts of one log at two times only the latest is judged, and the others are reported.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from command_line import ROOT, invoke
from hypothesis import given
from hypothesis import strategies as st
from logjudge import check
from logjudge.histories.evidence.cluster_metadata import read_cluster_metadata
from logjudge.histories.evidence.dump_text import is_dump, parse_dump, read_dump
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.segments import read_segment
from logjudge.histories.evidence.tables import BATCHES
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from polars.testing import assert_frame_equal

from .kafka_tools import dump_log, needs_kafka

SEGMENT = f"{0:020d}.log"
HEAD = (
    "baseOffset: 0 lastOffset: 1 count: 2 partitionLeaderEpoch: 3 isTransactional: false isControl: false position: 0"
    " CreateTime: 5 size: 90 magic: 2 compresscodec: none crc: 1 isvalid: true"
)


def agree(dump, segment, without=()):
    # A dump prints no bytes of markers, so they have no digest in it.
    records = segment.records.with_columns(pl.when(pl.col("control").is_null()).then(pl.col("digest")).alias("digest"))
    assert dump.damage.height == 0
    assert_frame_equal(dump.records.drop(without), records.drop(without))
    columns = [name for name in BATCHES if name not in ("max_timestamp", "base_sequence", "size", *without)]
    assert_frame_equal(dump.batches.select(columns), segment.batches.select(columns))


@pytest.mark.parametrize("name", ["kip-101-a", "kip-101-c", "unclean-election-a", "unclean-election-c"])
def test_recorded_dumps_equal_the_segments(unpacked, name):
    root = unpacked(name)
    found = sorted((root / "dump").rglob("*.txt"))
    assert found
    for path in found:
        snapshot = path.relative_to(root / "dump").parent
        base = root / "brokers" if str(snapshot) == "." else root / "snapshots" / snapshot / "brokers"
        segment = read_segment(base / path.name.split("-")[0] / "data" / "orders-0" / SEGMENT)
        [dump] = read_dump(path)
        assert (dump.topic, dump.partition) == ("orders", 0)
        agree(dump, segment)


def test_a_record_of_1970_has_a_timestamp():
    text = "| offset: 0 CreateTime: 0 keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: a\n"
    [dump] = parse_dump(f"{HEAD.replace('CreateTime: 5', 'CreateTime: 0')}\n{text}")
    assert dump.records["timestamp"].to_list() == [0]
    assert dump.batches["max_timestamp"].to_list() == [0]


def test_a_payload_may_have_several_lines_and_look_like_anything():
    text = f"{HEAD}\n| offset: 0 CreateTime: 5 keySize: 1 valueSize: 9 headerKeys: [] key: k payload: one\ntwo\n"
    text += "| offset: 1 CreateTime: 6 keySize: -1 valueSize: -1 headerKeys: [] payload: null\n"
    [dump] = parse_dump(text)
    assert dump.records.select("key", "value", "leader_epoch").rows() == [("k", "one\ntwo", 3), (None, None, 3)]
    assert is_dump(text)
    assert not is_dump("hello")


CRLF = """\
baseOffset: 522 lastOffset: 526 count: 5 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 984217 \
CreateTime: 1795847152600 size: 240 magic: 2 compresscodec: none crc: 1 isvalid: true
| offset: 522 CreateTime: 1795847152207 keySize: 1 valueSize: 7 sequence: -1 headerKeys: [] key: k payload: p1-128\r
| offset: 523 CreateTime: 1795847152299 keySize: 8 valueSize: 6 sequence: -1 headerKeys: [] key: ключ payload: p1-129
| offset: 526 CreateTime: 1795847152600 keySize: -1 valueSize: 8 sequence: -1 headerKeys: [] payload: p1-132\r

"""


def test_a_payload_may_have_carriage_returns(tmp_path):
    """A real dump of kafka_2.13-4.1.1, and one with the line ends of Windows."""
    path = tmp_path / "1-orders-0.txt"
    for text in (CRLF, CRLF.replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        [dump] = read_dump(path)
        assert dump.records["value"].to_list() == ["p1-128\r", "p1-129", "p1-132\r\n"] if text == CRLF else True
        assert dump.damage.height == 0
        assert dump.records["digest"].null_count() == 0


def test_a_payload_that_is_no_utf_8_has_no_digest():
    """kafka-dump-log prints a replacement character (3 bytes) for a byte of another encoding."""
    text = f"{HEAD}\n| offset: 0 CreateTime: 5 keySize: -1 valueSize: 4 headerKeys: [] payload: caf\ufffd\n"
    text += "| offset: 1 CreateTime: 5 keySize: -1 valueSize: 4 headerKeys: [] payload: cafe\n"
    [dump] = parse_dump(text)
    assert dump.records["digest"].is_null().to_list() == [True, False]


@pytest.mark.parametrize("kind", ["COMMIT", "ABORT"])
def test_a_marker_has_neither_key_nor_value(kind):
    head = HEAD.replace("isTransactional: false isControl: false", "isTransactional: true isControl: true")
    line = "| offset: 0 CreateTime: 5 keySize: 4 valueSize: 6 sequence: -1 headerKeys: []"
    [dump] = parse_dump(f"{head}\n{line} endTxnMarker: {kind} coordinatorEpoch: 0\n")
    assert dump.damage.is_empty()
    assert dump.records.select("control", "key", "value", "digest").rows() == [(kind.lower(), None, None, None)]


@pytest.mark.parametrize("value", ['{"type":"order"', '{"type":"order","data":1}', '{"type":"TOPIC_RECORD","data":1}'])
def test_a_payload_may_look_like_a_metadata_record(value):
    text = f"{HEAD}\n| offset: 0 CreateTime: 5 keySize: -1 valueSize: {len(value)} headerKeys: [] payload: {value}\n"
    [dump] = parse_dump(text)
    assert dump.records["value"].to_list() == [value]
    assert dump.metadata.is_empty()
    assert dump.damage.is_empty()


@given(st.text(max_size=200))
def test_noise_never_crashes(text):
    for dump in parse_dump("Dumping x/orders-0/00000000000000000000.log\n" + text):
        assert dump.records.height == 0 or "offset:" in text


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
class TestKafka:
    pytestmark = needs_kafka

    def test_agrees_on_every_compression(self, tmp_path, codec):
        from aiokafka.record.default_records import DefaultRecordBatchBuilder

        data, offset = b"", 0
        for size in (1, 7, 400):
            builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 22)
            for i in range(size):
                builder.append(i, 1_700_000_000_000 + i, b"k%d" % (i % 3), b"value %d " % i * (i % 5), [])
            built = bytearray(builder.build())
            built[0:8] = offset.to_bytes(8, "big")
            data, offset = data + bytes(built), offset + size
        folder = tmp_path / "orders-0"
        folder.mkdir()
        (folder / SEGMENT).write_bytes(data)
        [dump] = parse_dump(dump_log("--print-data-log", files=[folder / SEGMENT]))
        agree(dump, read_segment(folder / SEGMENT))


@pytest.mark.parametrize("where", ["transactions-a/brokers/1/data/orders-0", "retention-a/brokers/2/data/state-0"])
class TestKafkaOnRealLogs:
    pytestmark = needs_kafka

    def test_agrees_record_by_record(self, unpacked, where):
        name, _, rest = where.partition("/")
        for path in sorted((unpacked(name) / rest).glob("*.log")):
            [dump] = parse_dump(dump_log("--print-data-log", files=[path]))
            agree(dump, read_segment(path))


@pytest.mark.parametrize("name", ["unclean-election-m", "disk-truncate-m", "acks1-failover-m", "leader-kill-m"])
class TestKafkaOnMetadata:
    pytestmark = needs_kafka

    def test_agrees_on_the_timeline(self, unpacked, name):
        folder = unpacked(name) / "brokers" / "100" / "data" / "__cluster_metadata-0"
        text = dump_log("--cluster-metadata-decoder", files=[folder / SEGMENT])
        [dump] = parse_dump(text)
        ours, _ = read_cluster_metadata(folder)
        assert_frame_equal(dump.metadata, ours.drop("file"))
        assert ours.height > 20


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("group-coordinator-failover", {"0", "1", "2"}),
        ("group-consumer-protocol", {"0", "1", "3", "5", "6", "7", "8"}),
        ("group-both-protocols", {"0", "1", "3", "5", "6", "7", "8"}),
    ],
)
class TestKafkaOnSimulatedGroups:
    pytestmark = needs_kafka

    def test_every_record_of_the_groups_log_is_decoded(self, tmp_path, name, kinds):
        brokers = write_bundle(load(name), tmp_path).folder / "brokers"
        for path in sorted(brokers.glob(f"*/data/__consumer_offsets-0/{SEGMENT}")):
            text = dump_log("--offsets-decoder", files=[path])
            records = [line for line in text.splitlines() if line.startswith("| offset: ")]
            assert len(records) == read_segment(path).records.height > 0
            assert all(
                re.search(r' key: \{"type":"\d+","data":\{.* payload: (\{|null|<DELETE>)', line) for line in records
            )
            assert {found for line in records for found in re.findall(r'key: \{"type":"(\d+)"', line)} <= kinds


@pytest.mark.parametrize("name", ["kip-101-loss", "kip-279-mended", "last-known-leader", "zombie-controller"])
class TestKafkaOnSimulatedLogs:
    pytestmark = needs_kafka

    def test_every_segment_and_the_metadata_log_are_read(self, tmp_path, name):
        brokers = write_bundle(load(name), tmp_path).folder / "brokers"
        for path in sorted(brokers.glob(f"*/data/orders-*/{SEGMENT}")):
            text = dump_log("--deep-iteration", "--print-data-log", files=[path])
            assert "isvalid: false" not in text
            assert text.count("payload: ") == read_segment(path).records.height
        for folder in brokers.glob("*/data/__cluster_metadata-0"):
            [dump] = parse_dump(dump_log("--cluster-metadata-decoder", files=[folder / SEGMENT]))
            ours, _ = read_cluster_metadata(folder)
            assert_frame_equal(dump.metadata, ours.drop("file"))


RECORD = "| offset: {} CreateTime: 5 keySize: -1 valueSize: 1 sequence: 0 headerKeys: [] payload: a\n"


@pytest.mark.parametrize(("old", "new"), [("crc: 1 ", f"crc: {1 << 32} "), ("size: 90", f"size: {1 << 31}")])
def test_a_number_that_fits_no_field_is_damage(old: str, new: str) -> None:
    [dump] = parse_dump(f"{HEAD.replace(old, new)}\n")
    assert not len(dump.batches)
    assert dump.damage["line"].to_list() == [1]


@pytest.mark.parametrize("head", ["", HEAD + "\n"])
def test_records_without_their_batch_are_damage(head: str) -> None:
    """The lines of the text were filtered. The records of other batches are read."""
    lines = [RECORD.format(7), RECORD.format(8), HEAD + "\n", RECORD.format(1), RECORD.format(9)]
    [dump] = parse_dump(f"Dumping /x/orders-0/{SEGMENT}\n{head}{''.join(lines)}")
    first = 2 + bool(head)
    assert dump.damage["line"].to_list() == [first, first + 4]
    assert dump.damage["reason"].str.contains("without the line of its batch").all()
    assert dump.records["offset"].to_list() == [1]


def test_a_filtered_dump_does_not_end_the_judgement(tmp_path: Path) -> None:
    run = shutil.copytree(ROOT / "examples" / "unclean-election", tmp_path / "run")
    (run / "brokers" / "1" / "1-other-0.txt").write_text(f"Dumping /x/other-0/{SEGMENT}\n{RECORD.format(1)}")
    before, after = check(ROOT / "examples" / "unclean-election"), check(run)
    assert after.findings.equals(before.findings)
    [about] = [one for one in after.assumptions if "without the line of its batch" in one["says"]]
    assert (about["name"], about["holds"]) == ("evidence sufficient", False)


def metadata_dump(folder: Path, topic: str) -> str:
    """The text of `kafka-dump-log --cluster-metadata-decoder`, of a log that creates the partition orders-0."""
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    created = {"name": "orders", "topicId": topic_id}
    partition = {"partitionId": 0, "topicId": topic_id, "replicas": [1], "isr": [1], "leader": 1, "leaderEpoch": 0}
    records = [("TOPIC_RECORD", created), ("PARTITION_RECORD", {**partition, "partitionEpoch": 0})]
    lines = [f"Dumping {folder}/{topic}-0/{SEGMENT}", "Log starting offset: 0", HEAD]
    for offset, (name, data) in enumerate(records):
        payload = json.dumps({"type": name, "version": 0, "data": data}, separators=(",", ":"))
        lines.append(f"| offset: {offset} CreateTime: 5 keySize: -1 valueSize: 9 headerKeys: [] payload: {payload}")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(
    ("topic", "partitions", "tables"),
    [("__cluster_metadata", 0, {"metadata"}), ("orders", 1, {"batches", "records"})],
)
def test_a_dump_of_cluster_metadata_is_no_partition_to_judge(
    tmp_path: Path, topic: str, partitions: int, tables: set[str]
) -> None:
    for node in ("100", "101"):
        dump = tmp_path / "brokers" / node / "metadata.txt"
        dump.parent.mkdir(parents=True)
        dump.write_text(metadata_dump(tmp_path, topic))
    assert {block.table for part in find_parts(tmp_path) for block in read_part(part)} == tables
    assert check(tmp_path, engine="local").report["counts"]["partitions"] == partitions


SEGMENT_1, SEGMENT_2 = f"{0:020d}.log", f"{2:020d}.log"


def _dump(file: str, first: int, last: int, epoch: int) -> str:
    offsets = "".join(
        f"| offset: {n} CreateTime: 5 keySize: -1 valueSize: 1 sequence: -1 headerKeys: [] payload: v{n}-{epoch}\n"
        for n in range(first, last + 1)
    )
    return (
        f"Dumping /data/orders-0/{file}\nLog starting offset: 0\n"
        f"baseOffset: {first} lastOffset: {last} count: {last - first + 1} partitionLeaderEpoch: {epoch}"
        " isTransactional: false isControl: false position: 0 CreateTime: 5 size: 90 magic: 2 compresscodec: none"
        f" crc: 1 isvalid: true\n{offsets}"
    )


def _kinds(root: Path) -> dict[str, str]:
    return {part.name: part.kind for part in find_parts(root)}


def test_of_two_dumps_of_a_recorded_log_the_later_is_judged(unpacked: Callable[..., Path], tmp_path: Path) -> None:
    """The dumps of unclean-election-c before and after broker 3 truncated its log."""
    run = shutil.copytree(unpacked("unclean-election-c") / "dump", tmp_path / "texts")
    result = check(run)
    assert result.verdict == "unknown"
    assert not any(rule["findings"] for rule in result.rules.values())
    copies = next(one for one in result.assumptions if one["name"] == "one copy of each log")
    assert not copies["holds"]
    assert "before-rejoin/3-orders-0.txt: is a second dump of orders-0 of broker 3" in copies["says"]
    assert _kinds(run) == {f"{broker}-orders-0.txt": "dump" for broker in "123"} | {
        f"before-rejoin/{broker}-orders-0.txt": "left-out" for broker in "123"
    }


def test_dumps_of_several_segments_and_snapshots_are_all_judged(tmp_path: Path) -> None:
    first, second = _dump(SEGMENT_1, 0, 1, 0), _dump(SEGMENT_2, 2, 3, 1)
    for place, text in [
        ("brokers/1/one/orders-0.txt", first),
        ("brokers/1/two/orders-0.txt", second),
        ("brokers/2/orders-0.txt", first + second),
        ("snapshots/early/brokers/1/orders-0.txt", first),
    ]:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    assert set(_kinds(tmp_path).values()) == {"dump"}
    assert check(tmp_path).rules["epoch-order"]["verdict"] == "valid"


def test_dumps_without_leader_epochs_are_not_ordered(tmp_path: Path) -> None:
    """A log that ends later may be the older one: it was truncated since."""
    for name, last in (("one", 1), ("two", 3)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1-orders-0.txt").write_text(_dump(SEGMENT_1, 0, last, -1))
    assert set(_kinds(tmp_path).values()) == {"left-out"}
    assert check(tmp_path).verdict == "unknown"


def test_diff_of_logs_with_one_record_names_one_offset(tmp_path):
    for broker, value in (("1", "a"), ("2", "b")):
        record = f"| offset: 0 CreateTime: 5 keySize: -1 valueSize: 1 headerKeys: [] payload: {value}"
        head = HEAD.replace("lastOffset: 1 count: 2", "lastOffset: 0 count: 1")
        (tmp_path / f"{broker}-orders-0.txt").write_text(f"{head}\n{record}\n")
    output = invoke("diff", tmp_path).output
    assert "DIFFERENT at 1 offset: 0\n" in output
    assert "broker 2 has offset 0\n" in output
