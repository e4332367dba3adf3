"""A recording keeps its events, whatever ends it. Clients are stand-ins; no cluster is needed."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from logjudge.histories.errors import LogjudgeError
from logjudge.histories.recording import final_reads, topics
from logjudge.histories.recording.kafka_clients import ClientSettings
from logjudge.histories.recording.recorder import Recorder
from logjudge.histories.recording.run import Request, _work
from logjudge.histories.recording.session import Load, Progress, Session
from logjudge.histories.recording.workloads.sending import Sender


class Stub:
    """A client that sends until the session stops, or until its own end."""

    name = "p0"

    def __init__(self, session: Session, error: Exception | None = None) -> None:
        self.session, self.error, self.count = session, error, 0

    def run(self) -> None:
        while not self.session.stopping.wait(0.001):
            with self.session.recorder.send(self.name, "orders", f"m{self.count}", partition=0) as op:
                op.ok(0, self.count)
            self.count += 1
            if self.error and self.count == 5:
                raise self.error


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(Recorder(tmp_path / "run"), ClientSettings("h:1"), Load("orders"), None)


def test_clients_work_until_the_time_is_over_and_progress_is_reported(session: Session) -> None:
    client = Stub(session)
    session.start([client])
    reports: list[float | None] = []
    started = time.monotonic()
    session.wait(1.2, reports.append)
    session.stop()
    assert time.monotonic() - started >= 1.2
    assert len(reports) >= 2
    assert client.count > 0
    assert session.error is None


def test_an_error_of_a_client_ends_the_recording_and_keeps_its_events(session: Session) -> None:
    session.start([Stub(session, LogjudgeError("no permission"))])
    started = time.monotonic()
    session.wait(60, lambda _: None)
    session.stop()
    assert time.monotonic() - started < 30
    assert str(session.error) == "no permission"
    folder = session.recorder.finish()
    assert len((folder / "history.jsonl").read_text().splitlines()) == 10
    assert "final" not in json.loads((folder / "run.json").read_text())


def test_a_bug_in_a_client_is_not_hidden(session: Session) -> None:
    session.start([Stub(session, ZeroDivisionError())])
    session.wait(60, lambda _: None)
    with pytest.raises(ZeroDivisionError):
        session.stop()


def test_the_recording_ends_when_the_recorder_can_write_no_more(session: Session) -> None:
    session.start([Stub(session)])
    threading.Timer(0.3, session.recorder.finish).start()  # as a full disk does, it refuses further events
    session.wait(60, lambda _: None)
    session.stop()
    assert "records no further operation" in str(session.error)


def test_a_scenario_lasts_until_its_steps_are_done(session: Session) -> None:
    ended: list[str] = []
    nemesis: Any = SimpleNamespace(run=lambda: time.sleep(0.2), stop=lambda: ended.append("nemesis"))
    request = Request(session.recorder.folder, "append-and-read", 0.0, session.load, session.settings)
    reports: list[float | None] = []
    _work(session, request, lambda _, left: reports.append(left), nemesis)
    assert (ended, set(reports)) == (["nemesis"], {None})
    assert not session.stopping.is_set()


def test_lag_counts_acknowledged_records_that_were_not_read() -> None:
    class Message:
        def __init__(self, offset: int) -> None:
            self.at = offset

        def topic(self) -> str:
            return "orders"

        def partition(self) -> int:
            return 0

        def offset(self) -> int:
            return self.at

    progress = Progress()
    for offset in range(10):
        progress.completed(None, Message(offset))
    progress.has_read([Message(offset) for offset in range(4)])
    assert (progress.sends["ok"], progress.read, progress.lag) == (10, 4, 6)
    progress.completed("_MSG_TIMED_OUT: Local: Message timed out")
    progress.completed("MSG_SIZE_TOO_LARGE: too large")
    assert (progress.sends["info"], progress.sends["fail"]) == (1, 1)
    assert progress.errors == {"_MSG_TIMED_OUT": 1, "MSG_SIZE_TOO_LARGE": 1}


class Coordinator:
    """A stand-in for a producer: its calls fail with these errors, one after the other, and then succeed."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.initialised: list[str] = []

    def connect(self, _kind: str, _settings: ClientSettings, config: dict[str, str]) -> Coordinator:
        self.config = config
        return self

    def init_transactions(self, _seconds: float) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.initialised.append(self.config["transactional.id"])


@pytest.mark.parametrize(
    ("retriable", "outcome", "initialised"), [(True, "ok", ["orders-t0", "orders-t1"]), (False, "info", [])]
)
def test_open_transactions_are_aborted_before_the_final_reads(
    session: Session, monkeypatch: pytest.MonkeyPatch, retriable: bool, outcome: str, initialised: list[str]
) -> None:
    library = pytest.importorskip("confluent_kafka")
    error = library.KafkaException(library.KafkaError(library.KafkaError._TIMED_OUT, "late", retriable=retriable))
    coordinator = Coordinator(error)
    monkeypatch.setattr(final_reads, "make_client", coordinator.connect)
    for name in ("orders-t1", "orders-t0"):
        session.transactional[name] = {"transactional.id": name}
    final_reads.abort_transactions(session)
    assert coordinator.initialised == initialised
    lines = (session.recorder.finish() / "history.jsonl").read_text().splitlines()
    begun, done = (json.loads(line) for line in lines)
    assert begun["fault"] == {"kind": "init-transactions", "nodes": [], "transactional_ids": ["orders-t0", "orders-t1"]}
    assert (begun["process"], done["type"]) == ("nemesis", outcome)


def test_a_run_without_transactions_has_no_such_step(session: Session) -> None:
    final_reads.abort_transactions(session)
    assert not (session.recorder.finish() / "history.jsonl").read_text()


def test_a_refused_permission_ends_the_recording_and_is_named(session: Session) -> None:
    kafka_error = pytest.importorskip("confluent_kafka").KafkaError
    session.completed("p0", kafka_error(kafka_error._MSG_TIMED_OUT))
    assert not session.stopping.is_set()
    session.completed("p0", kafka_error(kafka_error.TOPIC_AUTHORIZATION_FAILED))
    assert session.stopping.is_set()
    assert str(session.error).startswith("p0: the cluster refused a request (TOPIC_AUTHORIZATION_FAILED); ")
    assert "WRITE on the topic" in str(session.error)
    assert session.progress.sends == {"info": 1, "fail": 1}


class Broker:
    """An AdminClient that is connected to one broker, which reports a leader and in-sync replicas, or nothing."""

    def __init__(self, number: int, leader: int, isr: list[int] | None) -> None:
        self.number, self.leader, self.isr = number, leader, isr

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert timeout > 0
        partition = SimpleNamespace(leader=self.leader, isrs=self.isr, replicas=[1, 2, 3])
        about = SimpleNamespace(error=None, partitions={} if self.isr is None else {0: partition})
        brokers = {number: SimpleNamespace(host="h", port=number) for number in (1, 2, 3)}
        return SimpleNamespace(topics={topic: about}, brokers=brokers, orig_broker_id=self.number)


@pytest.mark.parametrize(
    ("views", "leader", "in_sync"),
    [
        ([(2, [1, 2, 3])] * 3, 2, True),
        ([(1, [1, 2, 3]), (2, [2, 3]), (2, [2, 3])], 2, False),  # 1 is cut off and has old metadata
        ([(1, [1, 2, 3]), (2, [1, 2, 3]), (2, [1, 2, 3])], 2, False),  # 1 is back and has not received the change
        ([(1, None), (3, [1, 2, 3]), (3, [1, 2, 3])], 3, True),  # 1 does not describe the topic
    ],
)
def test_the_metadata_of_most_brokers_decides(
    views: list[Any], leader: int, in_sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("confluent_kafka")
    brokers = {f"h:{number}": Broker(number, *view) for number, view in enumerate(views, 1)}
    monkeypatch.setattr(topics, "make_client", lambda _kind, _settings, config: brokers[config["bootstrap.servers"]])
    found = topics.BrokerViews(ClientSettings("h:1"), brokers["h:1"])
    assert found.usual("orders")[0].leader == leader
    assert found.are_in_sync("orders") is in_sync
    assert found.lacks_leader("orders") == []


@pytest.mark.parametrize(("connections", "leader"), [([1, 2], 2), ([-1], 2), ([1] * 20, None)])
def test_a_client_that_is_connected_to_another_broker_is_replaced(
    connections: list[int], leader: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broker 1 is cut off and describes the past; -1 is a bootstrap server without a known number."""
    pytest.importorskip("confluent_kafka")
    made = iter(connections)

    def make_client(*_: Any) -> Broker:
        return Broker(number := next(made), 1 if number == 1 else 2, [2, 3])

    monkeypatch.setattr(topics, "make_client", make_client)
    admin = Broker(2, 2, [2, 3])
    monkeypatch.setattr(
        admin, "list_topics", lambda *_, **__: SimpleNamespace(brokers={2: SimpleNamespace(host="h", port=2)})
    )
    views = topics.BrokerViews(ClientSettings("h:2"), admin).of("orders")
    assert [view[0].leader for view in views] == ([] if leader is None else [leader])


@pytest.mark.parametrize("ends", [TimeoutError(), None])
def test_a_topic_that_the_cluster_does_not_make_in_time_is_an_error_with_advice(ends: Exception | None) -> None:
    def result(_: float) -> None:
        if ends is not None:
            raise ends

    admin = SimpleNamespace(create_topics=lambda *_, **__: {"orders": SimpleNamespace(result=result)})
    made = [topics.Topic("orders", 1, 1)]
    if ends is None:
        topics.create_topics(admin, made)
        return
    with pytest.raises(LogjudgeError, match="orders: the cluster did not respond within 30 s"):
        topics.create_topics(admin, made)


# A member that never leaves its group, as without brokers, and may take a second to end.
STUCK = """
import time
from logjudge.histories.recording.workloads import group_member
group_member.MAX_SECONDS_TO_END = 1
group_member.GroupMember.run = lambda _: time.sleep(600)
group_member.main()
"""


def test_a_member_ends_if_its_recorder_dies_and_it_cannot_leave(tmp_path: Path) -> None:
    config = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    plan = {"name": "m1", "topic": "t", "handle_ms": 0, "start": time.time_ns(), "config": config}
    plan["file"] = str(tmp_path / "m1.jsonl")
    # The end of the input is what a recorder leaves that was killed.
    done = subprocess.run(
        [sys.executable, "-c", STUCK], input=json.dumps(plan) + "\n", text=True, timeout=60, check=False
    )
    assert done.returncode == 1


def test_a_producer_outlives_an_error_that_is_no_exception() -> None:
    """In a recorded run the fatal error of an idempotent producer came out of flush as a KafkaError."""
    library = pytest.importorskip("confluent_kafka")
    error = library.KafkaError(45, "out of order", True)
    restore, keep = ctypes.pythonapi.PyErr_Restore, ctypes.pythonapi.Py_IncRef
    restore.argtypes, restore.restype = [ctypes.py_object, ctypes.py_object, ctypes.c_void_p], None
    keep.argtypes, keep.restype = [ctypes.py_object], None

    def flush(_: float) -> None:
        keep(type(error))
        keep(error)
        restore(type(error), error, None)

    sender = object.__new__(Sender)
    sender._is_broken = False
    sender._serve(flush, 0.0)
    assert sender._is_broken
