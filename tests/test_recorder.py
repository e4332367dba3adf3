"""The recorder writes a bundle that can be judged, however the recording process ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import errors as aiokafka_errors
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from command_line import json_lines, verdict_of_run
from kafka_clients import KafkaError, KafkaException, Message, Metadata
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import LogjudgeError, UsageError
from logjudge.histories.outcomes import is_indeterminate
from logjudge.histories.recording.recorder import Recorder
from logjudge.histories.send_errors import SEND_ERRORS, outcome_of

TOPICS = {"orders": {"partitions": 1, "replication.factor": 3, "min.insync.replicas": 2, "cleanup.policy": "delete"}}


def events(folder: Path) -> list[dict[str, Any]]:
    return json_lines(folder / "history.jsonl")


def completions(folder: Path) -> list[tuple[str, str]]:
    return [(event["f"], event["type"]) for event in events(folder) if event["type"] != "invoke"]


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(tmp_path / "run", topics=TOPICS)


def record_everything(recorder: Recorder, lost: bool = False) -> Path:
    for offset in range(20):
        with recorder.send("p0", "orders", f"m{offset}", partition=0) as op:
            op.ok(0, offset)
    recorder.assign("final", {("orders", 0): 0})
    with recorder.poll("final") as poll:
        poll.ok([("orders", 0, offset, f"m{offset}") for offset in range(20) if not (lost and offset == 7)])
    with recorder.end_offsets("final") as ends:
        ends.ok([("orders", 0, 20, 0)])
    return recorder.finish(final_read="final")


def test_a_recorded_run_is_valid(recorder: Recorder) -> None:
    folder = record_everything(recorder)
    assert verdict_of_run(folder)["verdict"] == "valid"
    config = json.loads((folder / "run.json").read_text())
    assert config["processes"] == {"final": {"role": "final"}, "p0": {"role": "producer"}}
    assert config["final"] is True
    assert "finished" not in config


def test_a_recorded_loss_is_found(recorder: Recorder) -> None:
    found = verdict_of_run(record_everything(recorder, lost=True))
    assert found["rules"]["lost-write"] == {**found["rules"]["lost-write"], "verdict": "invalid", "count": 1}


def test_without_final_reads_nothing_is_valid(recorder: Recorder) -> None:
    with recorder.send("p0", "orders", "m") as op:
        op.ok(0, 0)
    assert verdict_of_run(recorder.finish())["verdict"] == "unknown"


def test_every_function_of_the_format_is_read(recorder: Recorder) -> None:
    recorder.subscribe("c0", "orders")
    recorder.assign("c0", [("orders", 0, 0)], group=True)
    with recorder.txn("t0") as txn:
        txn.send("orders", "a", partition=0).ok(0, 0)
        txn.poll([("orders", 0, 0, "a")])
        txn.commit({TopicPartition("orders", 0): OffsetAndMetadata(1, "")})
        txn.ok()
    with recorder.poll("c0") as poll:
        poll.ok([Message(0, 0, b"a"), Message(0, 1, b"", KafkaError(-191, "_PARTITION_EOF", "end"))])
    recorder.handle("c0", Message(0, 0, b"a"))
    with recorder.commit("c0", [TopicPartition("orders", 0)], auto=True) as commit:
        commit.ok()
    recorder.seek("c0", ("orders", 0, 0))
    recorder.revoke("c0")
    with recorder.end_offsets("admin") as ends:
        ends.ok({("orders", 0): 2})
    recorder.crash("c0")
    with recorder.fault("kill", nodes=[1]) as fault:
        fault.ok()
    with recorder.heal("restart", nodes=[1]) as heal:
        heal.ok()
    with recorder.send("p0", "orders", 7, key=b"k", acks=-1) as op:
        op.ok(0, -1001)
    folder = recorder.finish()
    results = judge_run(open_run(folder))
    assert results.left_out == 0
    assert results.counts["operations"] == 13
    assert {event["f"] for event in events(folder)} == {
        *("send", "poll", "txn", "commit", "handle", "assign"),
        *("subscribe", "seek", "end_offsets", "crash", "fault", "heal"),
    }
    assert [len(event["records"]) for event in events(folder) if event["f"] == "poll" and "records" in event] == [1]
    invocation, completion = events(folder)[-2:]
    assert (invocation["value"], invocation["key"], invocation["acks"], completion["offset"]) == (7, "k", "all", None)


class _Consumer:
    """The interface of confluent_kafka.Consumer, in a generation that it can change."""

    def __init__(self, metadata: bytes) -> None:
        self.metadata = metadata

    def consumer_group_metadata(self) -> bytes:
        return self.metadata


def test_members_and_generations_are_those_after_a_commit(recorder: Recorder) -> None:
    consumer = _Consumer(b"CGMDv2:" + struct.pack("=i", 4) + b"g\0c0-77e1\0\x01")
    recorder.assign("c0", {("orders", 0): 0}, group=True, member=consumer, assignment=[("orders", 0), ("orders", 1)])
    with recorder.commit("c0", {("orders", 0): 2}, member=consumer) as commit:
        consumer.metadata = b"CGMDv2:" + struct.pack("=i", -1) + b"g\0\0\x01"
        commit.ok()
    recorder.commit("c0", {("orders", 0): 3}, member=("c0-9", 6)).ok()
    recorder.revoke("c0", member=SimpleNamespace(_coordinator=SimpleNamespace(member_id="c0-9", generation=7)))
    with pytest.raises(UsageError, match="member id, generation"):
        recorder.revoke("c0", member="c0")
    found = [event for event in events(recorder.finish()) if event["type"] == "ok"]
    assert [(event.get("member"), event.get("generation")) for event in found] == [
        *(("c0-77e1", 4), (None, None), ("c0-9", 6), ("c0-9", 7))
    ]
    assert found[0]["assignment"] == [{"topic": "orders", "partition": number} for number in (0, 1)]


def test_a_send_without_an_outcome_is_info(recorder: Recorder) -> None:
    with recorder.send("p0", "orders", "m"):
        pass
    recorder.send("p0", "orders", "n")
    assert completions(recorder.finish()) == [("send", "info")]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KafkaException(KafkaError(10, "MSG_SIZE_TOO_LARGE", "Broker: Message size too large")), "fail"),
        (KafkaException(KafkaError(-192, "_MSG_TIMED_OUT", "Local: Message timed out")), "info"),
        (KafkaException(KafkaError(-152, "_PURGE_QUEUE", "Local: Purged in queue")), "info"),
        (BufferError("Local: Queue full"), "fail"),
        (BufferError("existing exports of data"), "info"),
        (aiokafka_errors.MessageSizeTooLargeError("9 bytes"), "fail"),
        (aiokafka_errors.NotEnoughReplicasError(), "info"),
        (aiokafka_errors.NotEnoughReplicasAfterAppendError(), "info"),
        (aiokafka_errors.RequestTimedOutError(), "info"),
        (aiokafka_errors.KafkaConnectionError(), "info"),
        (aiokafka_errors.OutOfOrderSequenceNumber(), "info"),
        (aiokafka_errors.TopicAuthorizationFailedError(), "fail"),
        (TimeoutError(), "info"),
        (ConnectionResetError(), "info"),
        (asyncio.CancelledError(), "info"),
        (asyncio.InvalidStateError("the message is not too large"), "info"),
        (AssertionError("RecordTooLargeException"), "info"),
        ("org.apache.kafka.common.errors.RecordTooLargeException: too large", "fail"),
        ("NOT_ENOUGH_REPLICAS: Broker: Not enough in-sync replicas", "info"),  # an attempt before it may be written
        (19, "info"),
        (10, "fail"),
        (20, "info"),
        (-1, "info"),
        (9999, "info"),
    ],
)
def test_an_exception_is_classified(recorder: Recorder, error: Any, outcome: str) -> None:
    op = recorder.send("p0", "orders", "m")
    if isinstance(error, BaseException):
        with pytest.raises(type(error)), op:
            raise error
    else:
        op.error(error)
    assert completions(recorder.finish()) == [("send", outcome)]


def test_no_error_of_the_table_contradicts_it() -> None:
    """A history that the recorder wrote never breaks the assumption that timeouts are not called failures."""
    for row in SEND_ERRORS:
        for name in row.names:
            assert (row.outcome, outcome_of(name)[0]) == ("fail", "fail")
            assert not _is_indeterminate(name)
        for code in row.codes:
            assert _is_indeterminate(str(code)) is (row.outcome == "info")
        assert all(_is_indeterminate(text) and outcome_of(text)[0] == "info" for text in row.texts)
        assert row.reason
        assert row.source


def _is_indeterminate(error: str) -> bool:
    import polars as pl

    return bool(pl.select(is_indeterminate(pl.lit(error))).item())


def test_delivery_reports(recorder: Recorder) -> None:
    with recorder.send("p0", "orders", "a") as one:
        report = one.on_delivery
    with recorder.send("p0", "orders", "b") as other:
        second = other.on_delivery
    second(KafkaError(-195, "_TRANSPORT", "Local: Broker transport failure"), None)
    report(None, Message(0, 5, b"a"))
    report(None, Message(0, 6, b"a"))
    folder = recorder.finish()
    assert completions(folder) == [("send", "info"), ("send", "ok")]
    assert events(folder)[-1]["offset"] == 5


def test_a_queue_that_is_full_is_a_failure_though_a_report_was_expected(recorder: Recorder) -> None:
    def produce(on_delivery: Any) -> None:  # noqa: ARG001
        raise BufferError("Local: Queue full")

    with pytest.raises(BufferError), recorder.send("p0", "orders", "a") as op:
        produce(on_delivery=op.on_delivery)
    assert completions(recorder.finish()) == [("send", "fail")]


def test_futures(recorder: Recorder) -> None:
    acknowledged: Future[Metadata] = Future()
    refused: Future[Metadata] = Future()
    cancelled: Future[Metadata] = Future()
    for future in (acknowledged, refused, cancelled):
        with recorder.send("p0", "orders", str(id(future))) as op:
            op.watch(future)
    acknowledged.set_result(Metadata("orders", 0, 3))
    refused.set_exception(aiokafka_errors.MessageSizeTooLargeError())
    cancelled.cancel()
    assert completions(recorder.finish()) == [("send", "ok"), ("send", "fail"), ("send", "info")]


def test_coroutines(recorder: Recorder) -> None:
    async def produce(process: str) -> None:
        for number in range(50):
            with recorder.send(process, "orders", f"{process}-{number}") as op:
                await asyncio.sleep(0)
                op.ok(0, number)

    async def run() -> None:
        await asyncio.gather(*(produce(f"p{number}") for number in range(10)))

    asyncio.run(run())
    assert Counter(completions(recorder.finish())) == {("send", "ok"): 500}


def test_threads(recorder: Recorder) -> None:
    def produce(worker: int) -> None:
        for number in range(500):
            with recorder.send(f"p{worker % 3}", "orders", f"{worker}-{number}") as op:
                op.ok(0, worker * 500 + number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(produce, range(8)))
    found = events(recorder.finish())
    assert len(found) == 8000
    assert set(Counter((event["process"], event["op"]) for event in found).values()) == {2}


def test_a_callback_closes_the_poll_around_it(recorder: Recorder) -> None:
    with recorder.poll("c0") as poll:
        recorder.assign("c0", [("orders", 0, 0)], group=True)
        poll.ok([("orders", 0, 0, "a")])
    folder = recorder.finish()
    assert [(event["f"], event["type"]) for event in events(folder)] == [
        *(("poll", "invoke"), ("poll", "ok"), ("assign", "invoke"), ("assign", "ok")),
        *(("poll", "invoke"), ("poll", "ok")),
    ]
    assert judge_run(open_run(folder)).left_out == 0


KILLED = """
import os, sys, time
from logjudge.histories.recording.recorder import Recorder
recorder = Recorder(sys.argv[1], topics={"orders": {"partitions": 1}})
txn = recorder.txn("t0")
txn.send("orders", "in-transaction", partition=0).ok(0, 0)
with recorder.poll("c0") as poll:
    poll.ok([("orders", 0, 0, "in-transaction")])
number = 0
print("begun", flush=True)
while True:
    with recorder.send("p0", "orders", f"m{number}") as op:
        op.ok(0, 1 + number)
    number += 1
    print(number, flush=True)
    time.sleep(0.002)
"""


def test_a_killed_process_loses_at_most_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout
    assert child.stdout.readline() == "begun\n"
    time.sleep(2)
    os.kill(child.pid, signal.SIGKILL)
    printed = child.stdout.read().split()
    child.wait()
    recorded = sum(event["type"] == "ok" and event["f"] == "send" for event in events(folder))
    assert 0 <= int(printed[-1]) - recorded <= 500  # sends of a second
    assert recorded > 0
    results = judge_run(open_run(folder))
    assert results.left_out == 0
    found = verdict_of(results)
    assert found["verdict"] == "unknown"
    assert not [name for name, rule in found["rules"].items() if rule["verdict"] == "invalid"]
    config = json.loads((folder / "run.json").read_text())
    assert (config["processes"]["p0"], config["finished"]) == ({"role": "producer"}, False)


FULL = """
import resource, sys, time
from logjudge.histories.errors import LogjudgeError
from logjudge.histories.recording.recorder import Recorder
recorder = Recorder(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    for number in range(1_000_000):
        with recorder.send("p0", "orders", f"m{number}") as op:
            op.ok(0, number)
        time.sleep(0.0005)
except LogjudgeError as error:
    print(error)
"""


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", FULL, str(folder)], capture_output=True, text=True, check=True)
    assert "history.jsonl: cannot be written (File too large); the events before that are complete" in done.stdout
    assert 9_000 < (folder / "history.jsonl").stat().st_size <= 10_000
    assert judge_run(open_run(folder)).left_out == 0


def test_transactions(recorder: Recorder) -> None:
    with recorder.txn("t0") as aborted:
        aborted.send("orders", "a", partition=0)
        aborted.fail("aborted by the application")
    fenced = recorder.txn("t0")
    fenced.send("orders", "b")
    with pytest.raises(aiokafka_errors.ProducerFenced), fenced:
        raise aiokafka_errors.ProducerFenced
    left = recorder.txn("t1")
    left.send("orders", "c")
    recorder.flush()
    assert [path.name for path in (recorder.folder / "history").iterdir()] == ["open-transactions.jsonl"]
    folder = recorder.finish()
    assert not (folder / "history").exists()
    assert completions(folder) == [("txn", "fail"), ("txn", "info"), ("txn", "info")]
    assert [step["value"] for event in events(folder) for step in event.get("ops", ())] == ["a", "b", "c"]
    with pytest.raises(UsageError, match="after its outcome"):
        left.send("orders", "d")


def test_misuse_is_explained(recorder: Recorder, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="found bytes that are not UTF-8, expected text"):
        recorder.send("p0", "orders", b"\xff")
    with pytest.raises(UsageError, match="found text that is not Unicode"):
        recorder.txn("t0").send("orders", "\ud800")
    with pytest.raises(UsageError, match="expected text that UTF-8 can encode"):
        recorder.send("p0", "orders", "\ud800")
    with pytest.raises(UsageError, match="value: found float, expected str, bytes, int or None"):
        recorder.send("p0", "orders", 1.5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"found .'topic': 'orders'.*expected a dictionary"):
        recorder.handle("c0", {"topic": "orders"})
    with pytest.raises(UsageError, match="expected a process that recorded polls"):
        recorder.finish(final_read="c9")
    folder = recorder.finish()
    assert recorder.finish() == folder
    with pytest.raises(LogjudgeError, match="the recorder is finished"):
        recorder.send("p0", "orders", "late")
    with pytest.raises(UsageError, match="found a recorded run, expected a new folder"):
        Recorder(folder)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        Recorder(tmp_path / "file" / "run")


def test_an_error_that_is_not_unicode_is_escaped(recorder: Recorder) -> None:
    """An exception may name a file whose name is not UTF-8."""
    recorder.send("p0", "orders", "a").info("cannot read \udcff")
    folder = recorder.finish()
    assert json.loads((folder / "history.jsonl").read_text().splitlines()[-1])["error"] == "cannot read \\udcff"
