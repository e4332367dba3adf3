"""`logjudge show`: the record batch that a finding cites."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from logjudge.cli.main import cli

from .test_segments import batch as compressed
from .test_segments import legacy
from .transaction_logs import SEGMENT, STARTED, batch, log, number

DATA = Path(__file__).parent / "data" / "transactions"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show")
    shutil.unpack_archive(DATA / "late-write-open.tar.xz", folder)
    return folder / "late-hang" / "brokers"


def show(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["show", *map(str, arguments)])


@pytest.mark.parametrize(
    ("file", "byte", "texts"),
    [
        ("1/data/__transaction_state-0", 591, ["byte 591, offset 5, 1 record", "key tx-t, state prepare-abort"]),
        ("2/data/x-0", 216, ["producer 0, epoch 0, transactional, control, CRC right", "marker abort"]),
        ("2/data/x-0", 294, ["offset 4, 2026-11-26 18:58:04.632Z: key null, value late"]),
    ],
)
def test_a_batch_at_a_byte(brokers: Path, file: str, byte: int, texts: list[str]) -> None:
    result = show(brokers / file / SEGMENT, byte)
    assert result.exit_code == 0
    assert all(text in result.output for text in texts), result.output


def test_records_of_kafkas_own_topics_are_decoded(brokers: Path, tmp_path: Path) -> None:
    controllers = brokers / "100/data/__cluster_metadata-0" / SEGMENT
    [features] = json.loads(show(controllers, 91, "--json").stdout)
    assert [one["key"] for one in features["records"]][:2] == ["BEGIN_TRANSACTION_RECORD", "FEATURE_LEVEL_RECORD"]
    assert features["records"][1]["value"].keys() == {"name", "featureLevel"}
    segment = tmp_path / "__consumer_offsets-0" / SEGMENT
    segment.parent.mkdir()
    key = number(1, 2) + b"\0\1g" + b"\0\1x" + number(0, 4)
    value = number(3, 2) + number(7, 8) + number(2, 4) + number(0, 2) + number(0, 8)
    segment.write_bytes(batch(0, value, key) + batch(1, None, key) + batch(2, b"\0", key))
    begins = [one["byte"] for one in json.loads(show(segment, "--json").stdout)]
    shown = (json.loads(show(segment, begin, "--json").stdout) for begin in begins)
    decoded, removed, malformed = (batches[0]["records"][0] for batches in shown)
    assert decoded["key"] == removed["key"] == {"group": "g", "topic": "x", "partition": 0}
    assert (decoded["value"]["offset"], decoded["value"]["leaderEpoch"], removed["value"]) == (7, 2, None)
    assert malformed["malformed"]
    assert malformed["malformed"] in show(segment, begins[2]).output


def test_all_batches_of_a_segment_and_json(brokers: Path) -> None:
    segment = brokers / "2/data/x-0" / SEGMENT
    lines = [line for line in show(segment).output.splitlines() if line.startswith("  - byte ")]
    begins = [int(line.split()[2].rstrip(",")) for line in lines]
    batches = json.loads(show(segment, "--json").stdout)
    assert [one["byte"] for one in batches] == begins == [0, 69, 147, 216, 294, 366, 436, 506]
    [one] = json.loads(show(segment, 294, "--json").stdout)
    assert (one["base_offset"], one["crc_ok"], one["records"][0]["value"]) == (4, True, "late")
    [decided] = json.loads(show(brokers / "1/data/__transaction_state-0" / SEGMENT, 591, "--json").stdout)
    assert decided["records"][0]["value"]["transactionPartitions"] == [{"topic": "x", "partitionIds": [0, 1]}]


def test_damaged_and_hostile_batches(tmp_path: Path) -> None:
    segment = tmp_path / SEGMENT
    second = len(batch(0, b"a"))
    data = bytearray(batch(0, b"a") + batch(1, b"\x1b[2Jb") + batch(2, b"\xff\xfe"))
    segment.write_bytes(data)
    assert "\x1b" not in show(segment, second).output
    assert "\\x1b[2Jb" in show(segment, second).output
    assert "value bytes:fffe" in show(segment, len(batch(0, b"a") + batch(1, b"\x1b[2Jb"))).output
    data[second - 1] ^= 1
    segment.write_bytes(data)
    assert show(segment, 0).output == (
        "byte 0, offset 0, 1 record, 69 bytes, leader epoch 0, CRC WRONG: its records are not shown\n"
    )


@pytest.mark.parametrize(("magic", "shown"), [(2, ["a", "b"]), (1, [])])
def test_compressed_records_are_shown_or_reported_as_left_out(magic: int, shown: list[str], tmp_path: Path) -> None:
    segment = tmp_path / SEGMENT
    values = [b"a", b"b"]
    segment.write_bytes(compressed(values, codec=1) if magic == 2 else legacy(values, magic, codec=1))
    [found] = json.loads(show(segment, 0, "--json").stdout)
    assert [record["value"] for record in found["records"]] == shown
    left_out = "gzip (records inside a message of format v1 are not shown)"
    assert (left_out in " ".join(show(segment, 0).output.split())) == (not shown)


def test_a_time_that_no_calendar_has(tmp_path: Path) -> None:
    (tmp_path / SEGMENT).write_bytes(batch(0, b"a", time=2**61))
    result = show(tmp_path / SEGMENT, 0)
    assert result.exit_code == 0
    assert f"offset 0, {STARTED + 2**61} ms: key null, value a" in " ".join(result.output.split())


def test_what_is_no_batch_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "text.log").write_text("no segment")
    (tmp_path / SEGMENT).write_bytes(log("a b c"))
    for arguments, expected in (
        ((tmp_path,), "found a folder"),
        ((tmp_path / "missing.log",), "found no file"),
        ((tmp_path / "text.log",), "found no record batch in"),
        ((tmp_path / SEGMENT, 5), "found no batch that begins at byte 5 of"),
    ):
        result = show(*arguments)
        assert result.exception is not None
        assert str(result.exception).startswith(expected)
