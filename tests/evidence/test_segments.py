"""Segments: every format and compression, ranges, and damage of every kind."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import polars as pl
import pytest
from aiokafka.codec import lz4_encode, snappy_encode
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.evidence import batch_layout, batch_loops, unpacking
from logjudge.histories.evidence.record_filter import lookups_of, record_filter_of
from logjudge.histories.evidence.segments import parse, read_segment, split_segment
from polars.testing import assert_frame_equal

from .conftest import DATA

BASE_TIME = 1_700_000_000_000


def batch(values, offset=0, epoch=0, codec=0, keys=None, headers=(), transactional=False, producer=(-1, -1, -1)):
    """A v2 batch as a broker keeps it: with its offset and its leader epoch."""
    builder = DefaultRecordBatchBuilder(2, codec, int(transactional), *producer, 1 << 20)
    for i, value in enumerate(values):
        builder.append(i, BASE_TIME + i, keys[i] if keys else None, value, list(headers))
    built = bytearray(builder.build())
    built[0:8] = offset.to_bytes(8, "big")
    built[12:16] = epoch.to_bytes(4, "big")
    return bytes(built)


def with_right_crc(data: bytearray) -> bytes:
    """A batch of format 2 with the CRC of its bytes."""
    body = np.frombuffer(bytes(data[21:]), np.uint8)
    data[17:21] = batch_loops.PLAIN.crc(batch_layout.CRC32C, body, 0, len(body)).to_bytes(4, "big")
    return bytes(data)


def marker(kind, offset, epoch=0, producer_id=9, producer_epoch=0):
    """A control batch that ends a transaction: kind 0 aborts, 1 commits."""
    key, value = (0).to_bytes(2, "big") + kind.to_bytes(2, "big"), bytes(6)
    record = bytes([0, 0, 0, len(key) * 2]) + key + bytes([len(value) * 2]) + value + b"\0"
    payload = bytes([len(record) * 2]) + record
    body = (0x30).to_bytes(2, "big") + bytes(4) + BASE_TIME.to_bytes(8, "big") * 2
    body += producer_id.to_bytes(8, "big") + producer_epoch.to_bytes(2, "big") + b"\xff" * 4
    body += (1).to_bytes(4, "big") + payload
    rest = epoch.to_bytes(4, "big") + b"\x02" + bytes(4) + body
    return with_right_crc(bytearray(offset.to_bytes(8, "big") + len(rest).to_bytes(4, "big") + rest))


def legacy(values, magic, codec=0, offset=0, keys=None):
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for i, value in enumerate(values):
        builder.append(offset + i, BASE_TIME + i, keys[i] if keys else None, value)
    built = bytearray(builder.build())
    if codec:
        # The broker gives the wrapper the offset of its last message; its CRC does not cover that.
        built[0:8] = (offset + len(values) - 1).to_bytes(8, "big")
    return bytes(built)


def text(value):
    return None if value is None else bytes(value).decode()


def read(data):
    return parse(np.frombuffer(data, dtype=np.uint8))


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_reads_batches_of_every_compression_as_aiokafka_does(codec):
    values = [b"a", None, "h\u00fc".encode(), b"x" * 3000, b""]
    data = batch(values, 40, 7, codec, keys=[b"k", None, b"", b"k", b"l"])
    segment = read(data)
    other = MemoryRecords(data).next_batch()
    assert segment.damage.height == 0
    assert segment.records["offset"].to_list() == [record.offset for record in other]
    expected = [(r.timestamp, text(r.key), text(r.value)) for r in MemoryRecords(data).next_batch()]
    assert segment.records.select("timestamp", "key", "value").rows() == expected
    assert [v is None for v in segment.records["value"]] == [False, True, False, False, False]
    assert segment.records["leader_epoch"].unique().to_list() == [7]
    row = segment.batches.row(0, named=True)
    assert (row["base_offset"], row["last_offset"], row["count"], row["size"]) == (40, 44, 5, len(data))
    assert row["crc_ok"]
    assert row["codec"] == ["none", "gzip", "snappy", "lz4", "zstd"][codec]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(3), ids=["none", "gzip", "snappy"])
def test_reads_message_sets_of_the_old_formats(magic, codec):
    segment = read(legacy([b"a", None, b"ccc"], magic, codec, offset=10 if codec == 0 or magic == 1 else 0))
    first = 10 if codec == 0 or magic == 1 else 0
    assert segment.damage.height == 0
    assert segment.records["offset"].to_list() == [first, first + 1, first + 2]
    assert segment.records["value"].to_list() == ["a", None, "ccc"]
    assert segment.records["leader_epoch"].null_count() == 3
    times = segment.records["timestamp"].to_list()
    assert times == ([None] * 3 if magic == 0 else [BASE_TIME, BASE_TIME + 1, BASE_TIME + 2])
    assert segment.batches["crc_ok"].all()


def test_with_log_append_time_all_records_of_a_compressed_message_have_its_time():
    data = bytearray(legacy([b"a", b"b"], 1, codec=1))
    data[17] |= 8  # the attributes
    data[18:26] = (BASE_TIME + 99).to_bytes(8, "big")
    data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    assert read(bytes(data)).records["timestamp"].to_list() == [BASE_TIME + 99] * 2
    assert [record.timestamp for record in MemoryRecords(bytes(data)).next_batch()] == [BASE_TIME + 99] * 2


def test_markers_are_control_records_and_have_no_value():
    data = batch([b"a"], 0, transactional=True, producer=(9, 0, 0)) + marker(0, 1)
    data += batch([b"b"], 2, transactional=True, producer=(9, 0, 1)) + marker(1, 3)
    segment = read(data)
    assert segment.damage.height == 0
    assert segment.records["control"].to_list() == [None, "abort", None, "commit"]
    assert segment.records["value"].to_list() == ["a", None, "b", None]
    assert segment.batches["control"].to_list() == [False, True, False, True]
    from logjudge.analysis.replicas.replica_logs import with_aborted

    frame = segment.records.with_columns(snapshot=pl.lit(""), broker=pl.lit("1"))
    assert with_aborted(frame)["aborted"].to_list() == [True, True, False, False]


def test_a_value_that_is_no_text_is_named_by_its_digest():
    segment = read(batch([b"\xff\xfe", b"\xff\xfe", b"\xff\xff", "\U0001f600".encode()]))
    one, same, other, text = segment.records["value"]
    assert one == same == f"bytes:{segment.records['digest'][0]:016x}"
    assert other.startswith("bytes:")
    assert other != one
    assert text == "\U0001f600"


@given(st.lists(st.one_of(st.none(), st.binary(max_size=12)), min_size=1, max_size=4))
def test_text_is_what_python_takes_for_utf8(values):
    def text(value, digest):
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            return f"bytes:{digest:016x}"

    records = parse(np.frombuffer(batch(values), dtype=np.uint8)).records
    assert records["value"].to_list() == list(map(text, values, records["digest"]))


@given(st.binary(max_size=100))
def test_crc32_is_zlib_s(data):
    assert batch_loops.PLAIN.crc(batch_layout.CRC32, np.frombuffer(data, np.uint8), 0, len(data)) == zlib.crc32(data)


def test_digests_distinguish_keys_from_values_and_null_from_empty():
    records = [([b"ab"], None), ([b"b"], [b"a"]), ([b""], [b"ab"]), ([None], [b"ab"]), ([b"ab"], [b""])]
    digests = {read(batch(values, keys=keys)).records["digest"][0] for values, keys in records}
    digests.add(read(batch([b"ab"], headers=[("h", b"1")])).records["digest"][0])
    assert len(digests) == 6


def log_of(batches, per_batch=3):
    return b"".join(
        batch([f"v{i}-{j}".encode() for j in range(per_batch)], i * per_batch, codec=i % 2) for i in range(batches)
    )


def test_equal_ranges_are_decoded_once(tmp_path):
    copies = [tmp_path / broker / f"{0:020}.log" for broker in "123"]
    for path, value in zip(copies, (b"same", b"same", b"else"), strict=True):
        path.parent.mkdir()
        path.write_bytes(batch([value, b"b"]))
    first, second, third = map(read_segment, copies)
    assert second is first
    assert [segment.records["value"].to_list() for segment in (first, third)] == [["same", "b"], ["else", "b"]]


@pytest.mark.parametrize("target", [1, 100, 1000, 10**9])
def test_ranges_of_a_segment_are_read_as_the_whole(tmp_path, target):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(log_of(40))
    whole = read_segment(path)
    ranges = split_segment(path, target)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == path.stat().st_size
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    parts = [read_segment(path, *part) for part in ranges]
    assert_frame_equal(pl.concat([part.batches for part in parts]), whole.batches)
    assert_frame_equal(pl.concat([part.records for part in parts]), whole.records)
    assert len(ranges) == {1: 40, 10**9: 1}.get(target, len(ranges))


def test_a_torn_tail_is_reported_and_the_rest_is_read():
    data = log_of(3)
    cut = read(data[:-5])
    assert cut.records["offset"].to_list() == list(range(6))
    [row] = cut.damage.rows(named=True)
    assert (row["kind"], row["first_offset"], row["last_offset"]) == ("torn-tail", 6, None)
    assert row["byte"] == cut.batches["byte"][-1] + cut.batches["size"][-1]


def test_zeros_at_the_end_are_reported():
    [row] = read(log_of(2) + bytes(500)).damage.rows(named=True)
    assert (row["kind"], row["byte"], row["first_offset"]) == ("zeros", len(log_of(2)), 6)


def test_a_broken_length_hides_one_batch_alone():
    first, second, third = (batch([b"x"], i) for i in range(3))
    broken = second[:8] + (3).to_bytes(4, "big") + second[12:]
    segment = read(first + broken + third)
    assert segment.records["offset"].to_list() == [0, 2]
    [row] = segment.damage.rows(named=True)
    assert (row["kind"], row["byte"], row["first_offset"], row["last_offset"]) == ("length", len(first), 1, 1)


def test_an_unknown_magic_hides_only_its_batch():
    first, second, third = (batch([b"x"], i) for i in range(3))
    segment = read(first + second[:16] + b"\x07" + second[17:] + third)
    assert segment.records["offset"].to_list() == [0, 2]
    assert segment.damage["kind"].to_list() == ["magic"]


@given(st.integers(0, 10**6), st.integers(0, 7))
def test_a_flipped_bit_is_found_and_changes_no_record(position, bit):
    data = bytearray(log_of(6))
    position %= len(data)
    data[position] ^= 1 << bit
    whole, flipped = read(log_of(6)), read(bytes(data))
    headers = {p: int(b) for b in whole.batches["byte"] for p in range(b, b + 16)}
    if position not in headers:
        # Base offset, length and leader epoch are not under the CRC: Kafka does not cover them either.
        assert flipped.damage.height > 0
    columns = ["value", "key", "timestamp"]
    if position not in headers or position - headers[position] >= 8:
        remaining = flipped.records.select("offset", *columns)
        assert remaining.join(whole.records, on=["offset", *columns], how="anti", nulls_equal=True).height == 0


@given(st.data())
def test_mangled_segments_never_crash_or_invent(data):
    original = log_of(5)
    mangled = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(mangled) - 1, 0)))
        length = data.draw(st.integers(0, 60))
        action = data.draw(st.sampled_from(["cut", "zero", "noise", "swap", "repeat"]))
        piece = bytes(mangled[at : at + length])
        if action == "cut":
            del mangled[at : at + length]
        elif action == "zero":
            mangled[at : at + length] = bytes(len(piece))
        elif action == "noise":
            mangled[at : at + length] = data.draw(st.binary(min_size=len(piece), max_size=len(piece)))
        elif action == "swap":
            mangled[at : at + length] = piece[::-1]
        else:
            mangled[at:at] = piece
    values = set(read(original).records["value"])
    assert set(read(bytes(mangled)).records["value"]) <= values


@given(st.binary(max_size=400))
def test_noise_is_no_segment(noise):
    segment = read(noise)
    assert segment.records.height == 0
    assert (segment.damage.height > 0) == (len(noise) > 0)


def test_a_count_that_lies_is_damage():
    data = bytearray(batch([b"a", b"b"]))
    data[57:61] = (2_000_000_000).to_bytes(4, "big")
    segment = read(with_right_crc(data))
    assert segment.records.height == 2
    assert segment.damage["kind"].to_list() == ["decode"]


def test_a_compressed_batch_that_does_not_unpack_is_damage():
    data = bytearray(batch([b"a" * 50], 5, codec=1))
    data[63:70] = b"\0" * 7
    segment = read(with_right_crc(data))
    [row] = segment.damage.rows(named=True)
    assert (row["kind"], row["first_offset"], row["last_offset"]) == ("decode", 5, 5)


def test_a_file_that_cannot_be_read_is_damage(tmp_path):
    segment = read_segment(tmp_path / "missing.log")
    assert segment.damage["kind"].to_list() == ["unreadable"]


@pytest.mark.parametrize(
    ("name", "first", "time"), [("v0-0.9.0.1", 0, None), ("v0-0.10.2.2", 100, None), ("v1-0.10.2.2", 100, BASE_TIME)]
)
def test_message_sets_that_old_clients_compressed_with_lz4(name, first, time):
    segment = read_segment(DATA / "lz4" / f"{name}.log")
    assert segment.damage.height == 0
    assert segment.batches.select("base_offset", "last_offset", "count", "codec", "crc_ok").rows() == [
        (first, first + 4, 5, "lz4", True)
    ]
    expected = [
        (
            first + i,
            None if time is None else time + i,
            None if i == 1 else f"k{i}",
            None if i == 3 else f"lz4-{i} " * (9 * i + 1),
        )
        for i in range(5)
    ]
    assert segment.records.select("offset", "timestamp", "key", "value").rows() == expected


def test_aiokafka_reads_the_frame_with_the_right_checksum_alike():
    path = DATA / "lz4" / "v1-0.10.2.2.log"
    other = [(r.offset, r.timestamp, text(r.key), text(r.value)) for r in MemoryRecords(path.read_bytes()).next_batch()]
    assert read_segment(path).records.select("offset", "timestamp", "key", "value").rows() == other


def test_a_frame_of_many_blocks():
    values = read_segment(DATA / "lz4" / "v0-blocks.log").records["value"].to_list()
    assert values == ["lz4" * 30000 + str(i) for i in range(3)]


@pytest.mark.parametrize("flip", range(8))
def test_a_header_checksum_that_is_wrong_in_another_way_is_damage(flip):
    good = (DATA / "lz4" / "v0-0.9.0.1.log").read_bytes()[26:]
    at = 6 if flip < 4 else 4
    bad = good[:at] + bytes([good[at] ^ 1 << flip]) + good[at + 1 :]
    assert unpacking.decompress_lz4(good)
    with pytest.raises(Exception, match=r"(?i)lz4|header|checksum|frame|version|flag"):
        unpacking.decompress_lz4(bad)


def test_the_checksum_is_that_of_frames_that_a_library_writes():
    for content in (b"", b"a" * 10, bytes(100_000)):
        frame = lz4_encode(content)
        at = 14 if frame[4] & unpacking.CONTENT_SIZE_BIT else 6
        assert unpacking.checksum(frame[4:at]) == frame[at : at + 1]
        wrong = frame[:at] + unpacking.checksum(frame[:at]) + frame[at + 1 :]
        assert unpacking.decompress_lz4(wrong) == unpacking.decompress_lz4(frame) == content


@pytest.mark.parametrize("codec", range(1, 5), ids=["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_becomes_too_much_is_damage(monkeypatch, codec):
    bomb = batch([b"0" * 5000] * 20, codec=codec)
    monkeypatch.setattr(unpacking, "MAX_BATCH_BYTES", 100_000)
    found = read(bomb + batch([b"1"], offset=20))
    assert found.records["value"].to_list() == ["1"]
    kind, first, last, reason = found.damage.select("kind", "first_offset", "last_offset", "reason").row(0)
    assert (kind, first, last) == ("decode", 0, 19)
    assert "more than 0 MiB" in reason
    monkeypatch.setattr(unpacking, "MAX_BATCH_BYTES", 101_000)
    assert read(bomb).records.height == 20


def test_snappy_is_bounded_whether_in_blocks_or_not():
    for blocks in (True, False):
        payload = bytes(snappy_encode(b"0" * 100_000, xerial_compatible=blocks))
        assert unpacking.decompress_snappy(payload, 100_000) == b"0" * 100_000
        with pytest.raises(ValueError, match="more than"):
            unpacking.decompress_snappy(payload, 99_999)
        for broken in (payload[:-1], payload[:20], payload + b"\xff"):
            with pytest.raises(Exception, match="snappy"):
                unpacking.decompress_snappy(broken, 100_000)


def test_records_that_are_not_looked_up_are_ranges():
    lookups = lookups_of("sends", pl.DataFrame({"value": ["b", ""], "key": ["k", None], "offset": [None, 6]}))
    data = batch([b"a", b"b", None, b"c"], epoch=3) + batch([b"", b"d", b"\xff", b"e"], offset=4, epoch=3)
    data += batch([b"f", b"g"], offset=8, transactional=True, producer=(9, 0, 0)) + marker(0, 10)
    data += batch([b"h", b"i"], offset=11, keys=[b"k", b"b"])
    for compacted, found in ((False, [1, 4, 6, 10]), (True, [1, 4, 6, 10, 11])):
        record_filter = record_filter_of(lookups, compacted)
        passed = parse(np.frombuffer(data, np.uint8), wanted=record_filter)
        assert passed.records["offset"].to_list() == found
        ranges = passed.dropped.select("first_offset", "last_offset", "leader_epoch", "producer_id").rows()
        both = [(8, 9, 0, 9), (11, 12, 0, None)] if not compacted else [(8, 9, 0, 9), (12, 12, 0, None)]
        assert ranges == [(0, 0, 3, None), (2, 3, 3, None), (5, 5, 3, None), (7, 7, 3, None), *both]


@given(st.lists(st.text(max_size=40), max_size=60), st.lists(st.text(max_size=40), max_size=60))
def test_a_looked_up_value_is_always_found(wanted, others):
    lookups = lookups_of("reads", pl.DataFrame({"value": wanted}, schema={"value": pl.String}))
    values = sorted({*wanted, *others})
    data = np.frombuffer(batch([value.encode() for value in values]), np.uint8)
    found = parse(data, wanted=record_filter_of(lookups, None))
    assert {*wanted} <= {*found.records["value"]}
    ranges = [offset for first, last, *_ in found.dropped.rows() for offset in range(first, last + 1)]
    assert sorted([*ranges, *found.records["offset"]]) == [*range(len(values))]


def test_a_value_of_escaped_bytes_matches_every_record():
    frames = [lookups_of("sends", pl.DataFrame({"value": [value]})) for value in ("a", "bytes:0123456789abcdef")]
    assert record_filter_of(frames[0], None) is not None
    assert record_filter_of(pl.concat(frames), None) is None
