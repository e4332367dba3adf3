"""Texts of kafka-dump-log of one log at two times: only the latest is judged, and the others are reported."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from logjudge import check
from logjudge.histories.evidence.layout import find_parts

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
