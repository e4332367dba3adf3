"""Copies of brokers' logs from before the history's end: records after their end are not lost."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from logjudge import check
from logjudge.analysis.partitions.collected_copies import with_copies
from logjudge.analysis.partitions.partition import Partition
from logjudge.analysis.replicas.replica_logs import replica_logs_of
from logjudge.analysis.rules.loss import lost_write
from logjudge.analysis.rules.replica_absent import acknowledged_absent
from logjudge.analysis.timelines.changes import LogEnd
from logjudge.analysis.timelines.facts import Fact
from logjudge.analysis.timelines.timeline import Builder
from logjudge.histories.settings import Settings
from logjudge.histories.tables import READS, SENDS

from .replica_texts import epochs, joined, logs

# Values in the order of their sends, each at its offset: one is acknowledged before the next is sent.
SENT = [("a", 0), ("b", 1), ("c", 2)]


def judged(
    held: str,
    earlier: str = "",
    sent: Sequence[tuple[str, int | None]] = SENT,
    leader: str | None = "1",
    elected: int | None = None,
    ended: Mapping[str, tuple[int, int]] | None = None,
    synthetic: bool = False,
) -> tuple[list[str], list[str], bool]:
    """The lost values, those that acknowledged-absent finds, and whether this rule is unknown. No final reads.

    `elected`: when the leader was elected in epoch 1, which it began at offset 1. `ended`: when brokers loaded their
    logs, and where these ended.
    """
    sends = [
        {"process": "p", "outcome": "ok", "invoked": at, "completed": at, "invoked_at": at, "at": at, "index": 0}
        | {"offset": offset, "value": value, "acks": "all", "acknowledged": True, "txn": False}
        | {"synthetic": synthetic}
        for at, (value, offset) in enumerate(sent, 1)
    ]
    tables = joined(logs(earlier, "early"), logs(held)) if earlier else logs(held)
    tables = {**tables, "epochs": epochs(("1", 0, 0), ("1", 1, 1))}
    collected = replica_logs_of("orders", 0, tables, snapshots=("early", ""), leader=leader, replicas=("1", "2"))
    timeline = Builder(collected, {}, [])
    timeline.term(1).begin(elected)
    for broker, (time, end) in (ended or {}).items():
        timeline.ends.append(LogEnd(Fact("", "loaded", time, broker=broker, offset=end), broker, end, "loaded"))
    frames = pl.DataFrame(sends, schema=SENDS), pl.DataFrame(schema=READS)
    settings = Settings(config={"format": 1})
    p = with_copies(Partition("orders", 0, settings, *frames, replica_logs=collected, timeline=timeline))
    absent = acknowledged_absent.judges["native"](p)
    lost = [value for finding in lost_write.judges["native"](p).findings for value in finding.values]
    return lost, [value for finding in absent.findings for value in finding.values], bool(absent.unknowns)


def test_a_record_that_the_logs_lack_is_lost_though_it_was_acknowledged_without_an_offset() -> None:
    held = "1: 0a 1b 2d\n2: 0a 1b 2d"
    assert judged(held, sent=[("a", 0), ("b", 1), ("c", None), ("d", 2)]) == (["c"], ["c"], False)


@pytest.mark.parametrize(
    ("held", "leader"),
    [("1: 0a 1b\n2: 0a 1b", "1"), ("1: 0a\n2: 0a 1b 2c", "1"), ("1: 0a 1b\n2: 0a", None)],
    ids=["all logs are early", "the leader's log is early", "early, and the leader is not known"],
)
def test_a_record_behind_the_end_of_early_copies_is_not_lost(held: str, leader: str | None) -> None:
    assert judged(held, leader=leader) == ([], [], True)


@pytest.mark.parametrize(
    ("held", "earlier", "sent", "gone"),
    [
        ("1: 0a 1x@1\n2: 0a 1x@1", "", [*SENT, ("x", 1)], ["b", "c"]),
        ("1: 0a 1y@1\n2: 0a 1y@1", "", [*SENT, ("y", 1), ("z", 2)], ["b", "c"]),
        ("1: 0a 1b\n2: 0a 1b", "1: 0a 1b 2c", SENT, ["c"]),
        ("1: 0a 2c\n2: 0a 2c", "", SENT, ["b"]),
    ],
    ids=["a later record is in the logs", "and one is behind", "an earlier snapshot has it", "below the end"],
)
def test_a_record_that_later_copies_lack_is_lost(
    held: str, earlier: str, sent: list[tuple[str, int]], gone: list[str]
) -> None:
    lost, absent, _ = judged(held, earlier, sent)
    assert (lost, absent) == (gone, gone)


@pytest.mark.parametrize(
    ("elected", "gone"),
    [(5, ["b", "c"]), (3, ["b"]), (None, [])],
    ids=["after the sends", "before the last", "undated"],
)
def test_an_election_dates_the_copy_of_its_leaders_log(elected: int | None, gone: list[str]) -> None:
    """The new leader wrote nothing yet, but its leader-epoch-checkpoint has its epoch."""
    lost, absent, is_unknown = judged("1: 0a\n2: 0a 1b 2c", elected=elected)
    assert (lost, absent, is_unknown) == (gone, gone, len(gone) < 2)


@pytest.mark.parametrize(
    ("leader", "ended", "gone"),
    [
        ("1", {"1": (5, 1)}, ["b", "c"]),
        ("1", {"1": (3, 1)}, ["b"]),
        ("1", {"1": (5, 3)}, []),
        ("1", {"2": (5, 1)}, []),
        (None, {"1": (5, 1), "2": (5, 1)}, ["b", "c"]),
        (None, {"1": (5, 1)}, []),
    ],
    ids=["after the sends", "before the last", "a longer log", "a follower's", "all logs", "one of two logs"],
)
def test_a_log_end_that_its_broker_reported_later_shows_what_it_lacks(
    leader: str | None, ended: dict[str, tuple[int, int]], gone: list[str]
) -> None:
    lost, absent, is_unknown = judged("1: 0a\n2: 0a", leader=leader, ended=ended)
    assert (lost, absent, is_unknown) == (gone, gone, len(gone) < 2)


def _run_with_early_copies(recorded: Any, target: Path) -> Path:
    """A healthy run whose brokers were copied, without checkpoints, when they had 70 % of the batches."""
    run: Path = shutil.copytree(recorded("clean-a").root, target / "run")
    for file in [*run.glob("brokers/*/data/*checkpoint"), *run.glob("brokers/*/data/*/*.snapshot")]:
        file.unlink()
    for segment in run.glob("brokers/*/data/orders-*/*.log"):
        content, starts, byte = segment.read_bytes(), [], 0
        while byte + 12 <= len(content):
            starts.append(byte)
            byte += 12 + struct.unpack(">i", content[byte + 8 : byte + 12])[0]
        segment.write_bytes(content[: starts[int(len(starts) * 0.7)]])
    return run


@pytest.mark.parametrize("final", [True, False])
def test_a_healthy_run_with_early_copies_has_no_breach(recorded: Any, tmp_path: Path, final: bool) -> None:
    run = _run_with_early_copies(recorded, tmp_path)
    if not final:
        history = run / "history.jsonl"
        lines = [line for line in history.read_text().splitlines() if json.loads(line)["process"] != "final"]
        history.write_text("\n".join(lines) + "\n")
    result = check(run)
    assert result.verdict == "unknown"
    assert not any(rule["findings"] for rule in result.rules.values())
    assert result.rules["acknowledged-absent"]["verdict"] == "unknown"
    broken = " ".join(one["says"] for one in result.assumptions if not one["holds"])
    assert ("may have been written after the brokers' logs were copied" in broken) is not final


def test_an_acknowledgement_dates_no_copy() -> None:
    """The tools of Kafka write no invocations: with acks=all a later record may be acknowledged before."""
    sent = [("a", 0), ("c", 2), ("b", 1)]
    assert judged("1: 0a 1b\n2: 0a 1b", sent=sent, synthetic=True) == ([], [], True)
    assert judged("1: 0a 1b\n2: 0a 1b", sent=sent) == (["c"], ["c"], False)  # b was sent after the acknowledgement


# kafka-dump-log of a broker that ran on, and the lines of two VerifiableProducers: acks=-1 and acks=1.
COPIED = """\
Dumping /brokers/2/data/orders-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 22197 lastOffset: 22197 count: 1 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 2 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 413020 \
CreateTime: 1795848050037 size: 75 magic: 2 compresscodec: none crc: 1234179103 isvalid: true
| offset: 22197 CreateTime: 1795848050037 keySize: -1 valueSize: 7 sequence: -1 headerKeys: [] payload: 1.16108
baseOffset: 22198 lastOffset: 22199 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 2 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 413095 \
CreateTime: 1795848051239 size: 87 magic: 2 compresscodec: none crc: 1422041202 isvalid: true
| offset: 22198 CreateTime: 1795848051239 keySize: -1 valueSize: 6 sequence: -1 headerKeys: [] payload: 2.8108
| offset: 22199 CreateTime: 1795848051239 keySize: -1 valueSize: 6 sequence: -1 headerKeys: [] payload: 2.8109
"""
SUCCESSES = {
    "producer-0": [(1795848051619, "1.16108", 22197)],
    "producer-1": [
        (1795848051343, "2.8108", 22198),
        (1795848051343, "2.8109", 22199),
        (1795848051451, "2.8110", 22200),
    ],
}


def test_histories_of_kafkas_tools_stay_histories_beside_brokers_files(tmp_path: Path) -> None:
    """`collect` adds brokers/ to the folder; the record after the end of the copy is not lost."""
    for name, lines in SUCCESSES.items():
        about = {"name": "producer_send_success", "key": None, "topic": "orders", "partition": 0}
        events = [{"timestamp": at, **about, "value": value, "offset": offset} for at, value, offset in lines]
        (tmp_path / f"{name}.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    (tmp_path / "notes.jsonl").write_text('{"by": "an operator"}\n')
    (tmp_path / "brokers" / "2").mkdir(parents=True)
    (tmp_path / "brokers" / "2" / "2-orders-0.txt").write_text(COPIED)
    result = check(tmp_path)
    assert result.counts["acknowledged"] == 4
    assert result.findings.filter(severity="violation").height == 0
    assert result.rules["acknowledged-absent"]["verdict"] == "unknown"
