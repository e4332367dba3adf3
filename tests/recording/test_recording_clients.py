"""Clients of confluent-kafka and aiokafka that record themselves: alone, and against a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import logjudge
import pytest
from kafka_clients import Message
from logjudge.histories.recording.kafka_clients import CommittedGroups
from logjudge.histories.recording.lab.cluster import Plan
from logjudge.histories.recording.lab.handle import Lab
from logjudge.histories.recording.lab.releases import find_kafka
from logjudge.histories.recording.membership import group_of_metadata

confluent_kafka = pytest.importorskip("confluent_kafka")
from logjudge.histories.recording.confluent_clients import fatal_errors  # noqa: E402

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0, "message.timeout.ms": 300}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not shutil.which("java") or (kafka := find_kafka()) is None:
        pytest.skip("Java or Kafka's jars are missing; `logjudge lab up` fetches them")
    with Lab.start(Plan(str(tmp_path_factory.mktemp("lab") / "lab"), kafka.version, str(kafka.jars), 1)) as lab:
        yield lab.bootstrap


def make_topic(bootstrap: str, name: str, partitions: int = 2) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=30).values():
        future.result(60)


def events(folder: Path, f: str, kind: str = "ok") -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "history.jsonl").read_text().splitlines())
    return [line for line in lines if (line["f"], line["type"]) == (f, kind)]


def read_all(recorder: logjudge.Recorder, bootstrap: str, topic: str, partitions: int = 2) -> Path:
    """The final reads, with a recording consumer."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "final", "isolation.level": "read_committed"}
    final = logjudge.confluent.Consumer(
        recorder, "final", {**settings, "enable.partition.eof": True, "enable.auto.commit": False}
    )
    places = [confluent_kafka.TopicPartition(topic, number, 0) for number in range(partitions)]
    left = {place.partition for place in places if final.get_watermark_offsets(place, timeout=30)[1] > 0}
    final.assign(places)
    end = time.monotonic() + 120
    while left and time.monotonic() < end:
        for message in final.consume(500, timeout=0.5):
            if message.error() is not None and message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                left.discard(message.partition())
    final.close()
    assert not left
    return recorder.finish(final_read="final")


def test_local_errors_fail_and_timeouts_are_unknown(tmp_path: Path) -> None:
    reports: list[Any] = []
    recorder = logjudge.Recorder(tmp_path / "run")
    producer = logjudge.confluent.Producer(recorder, "p0", NOWHERE, on_delivery=lambda *about: reports.append(about))
    assert isinstance(producer, confluent_kafka.Producer)
    with pytest.raises(confluent_kafka.KafkaException):
        producer.produce("orders", b"x" * 2_000_000)
    producer.produce("orders", value="late", key="k", timestamp=1_700_000_000_000)
    assert producer.produce_batch("orders", [{"value": "a"}, {"value": b"x" * 2_000_000}, {"value": "b"}]) == 2
    producer.flush(20)
    folder = recorder.finish()
    assert [event["error"].split(":")[0] for event in events(folder, "send", "fail")] == ["MSG_SIZE_TOO_LARGE"] * 2
    assert len(events(folder, "send", "info")) == len(reports) == 3
    stamps = {event["value"]: event.get("timestamp") for event in events(folder, "send", "invoke")}
    assert (stamps["late"], stamps["a"]) == (1_700_000_000_000, None)
    about = json.loads((folder / "run.json").read_text())["processes"]["p0"]
    assert about["message.timeout.ms"] == 300
    assert (about["role"], about["acks"], about["enable.idempotence"]) == ("producer", "all", False)


@pytest.mark.parametrize(("stamp", "expected"), [((1, 1_700_000_000_000), 1_700_000_000_000), ((0, -1), None)])
def test_timestamps_of_polled_messages_are_recorded(tmp_path: Path, stamp: tuple[int, int], expected: Any) -> None:
    message = Message(0, 7, b"a")
    message.timestamp = lambda: stamp  # type: ignore[method-assign]
    recorder = logjudge.Recorder(tmp_path / "run")
    with recorder.poll("c0") as poll:
        poll.ok([message])
    [event] = events(recorder.finish(), "poll", "ok")
    assert [(one["value"], one.get("timestamp")) for one in event["records"]] == [("a", expected)]


@pytest.mark.parametrize(
    ("own", "acks", "is_idempotent"),
    [
        ({"transactional.id": "t"}, "all", True),
        ({"acks": "1"}, "1", False),
        ({"enable.idempotence": True}, "all", True),
    ],
)
def test_defaults_of_a_producer_are_recorded(
    own: dict[str, Any], acks: str, is_idempotent: bool, tmp_path: Path
) -> None:
    recorder = logjudge.Recorder(tmp_path / "run")
    logjudge.confluent.Producer(recorder, "p0", NOWHERE, **own)
    about = json.loads((recorder.finish() / "run.json").read_text())["processes"]["p0"]
    assert (about["acks"], about["enable.idempotence"]) == (acks, is_idempotent)


def test_the_group_of_a_transaction_is_in_its_metadata() -> None:
    consumer = confluent_kafka.Consumer({**NOWHERE, "group.id": "grüppe 7"})
    metadata = consumer.consumer_group_metadata()
    consumer.close()
    assert group_of_metadata(metadata) == "grüppe 7"
    assert [group_of_metadata(other) for other in (b"CGMDv9:" + metadata[7:], None)] == [None, None]
    groups = CommittedGroups()
    assert groups.setting_with("g") == groups.setting_with("g") == {"group.id": "g"}
    assert groups.setting_with("h") == groups.setting_with("g") == CommittedGroups().setting_with(None)
    assert CommittedGroups().setting_with(None) == {"group.id": None}


def test_partitions_that_a_closing_consumer_gets_are_not_its_own(tmp_path: Path) -> None:
    class Library(confluent_kafka.Consumer):  # type: ignore[misc]
        def subscribe(self, topics: list[str], on_assign: Callable[..., None], **_: object) -> None:
            self.rebalance = lambda: on_assign(self, [confluent_kafka.TopicPartition(topics[0], 0)])

        def committed(self, partitions: list[Any], **_: object) -> list[Any]:
            return partitions

        def close(self) -> None:
            self.rebalance()
            super().close()

    class Member(logjudge.confluent.Consumer, Library):
        pass

    recorder = logjudge.Recorder(tmp_path / "run")
    for name in ("c0", "c1"):
        member = Member(recorder, name, {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
        member.subscribe(["x"])
        if name == "c1":
            member.rebalance()
        member.close()
    assert {event["process"] for event in events(recorder.finish(), "assign")} == {"c1"}


def test_a_fatal_error_is_raised_as_without_delivery_reports() -> None:
    fatal = confluent_kafka.KafkaException("fatal")
    with pytest.raises(confluent_kafka.KafkaException, match="fatal"), fatal_errors():
        raise SystemError("returned a result with an exception set") from fatal
    with pytest.raises(SystemError), fatal_errors():
        raise SystemError("another")


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_of_confluent_kafka_is_judged_valid(strategy: str, bootstrap: str, tmp_path: Path) -> None:
    make_topic(bootstrap, f"orders-{strategy}", 4)
    topic, recorder = f"orders-{strategy}", logjudge.Recorder(tmp_path / "run")
    producer = logjudge.confluent.Producer(recorder, "p0", {"bootstrap.servers": bootstrap})
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "partition.assignment.strategy": strategy,
    }
    members = [logjudge.confluent.Consumer(recorder, f"c{number}", settings) for number in range(2)]
    handled: set[str] = set()

    def work(number: int, seconds: float, asynchronous: bool) -> bool:
        """Whether a member got a record; it handles and commits it."""
        message = members[number].poll(seconds)
        if message is None or message.error() is not None:
            return False
        recorder.handle(f"c{number}", message)
        handled.add(message.value().decode())
        with contextlib.suppress(confluent_kafka.KafkaException):  # a rebalance began
            members[number].commit(message, asynchronous=asynchronous)
        return True

    for turn in range(300):
        producer.produce(topic, value=f"m{turn}", partition=turn % 4)
        producer.poll(0.01)
        if turn in (0, 101):  # the second joins later, and the first leaves before the end
            members[turn // 101].subscribe([topic])
        # A synchronous commit would wait for a rebalance that waits for the other member's poll, in this thread.
        for number in range(1 + (turn > 100)):
            work(number, 0.02, asynchronous=turn > 100 or turn % 3 == 0)
    producer.flush(30)
    members[0].close()
    end = time.monotonic() + 120
    while len(handled) < 300 and time.monotonic() < end:
        work(1, 1, asynchronous=len(handled) % 3 == 0)
    members[1].close()
    result = logjudge.check(read_all(recorder, bootstrap, topic, 4))
    assert result.verdict == "valid", result.headline
    assert len(handled) == 300
    assigned = events(tmp_path / "run", "assign")
    assert {event["process"] for event in assigned if event.get("group") and event.get("member")} == {"c0", "c1"}
    assert any("revoked" in event for event in assigned)
    kinds = Counter(event.get("auto", False) for event in events(tmp_path / "run", "commit", "invoke"))
    assert kinds[True] > 0
    assert kinds[False] > 0


@pytest.mark.slow
def test_transactions_of_confluent_kafka_are_judged_valid(bootstrap: str, tmp_path: Path) -> None:
    make_topic(bootstrap, "payments")
    recorder = logjudge.Recorder(tmp_path / "run")
    own = {"bootstrap.servers": bootstrap, "transactional.id": "t"}
    producers = [logjudge.confluent.Producer(recorder, f"t{number}", own) for number in range(2)]
    producers[0].init_transactions(30)
    for turn in range(6):
        producers[0].begin_transaction()
        for number in range(3):
            producers[0].produce("payments", f"{turn}-{number}", partition=number % 2)
        if turn % 3 == 2:
            producers[0].abort_transaction(30)
        else:
            producers[0].commit_transaction(30)
    producers[0].begin_transaction()
    producers[0].produce("payments", "fenced", partition=0)
    producers[1].init_transactions(30)
    with pytest.raises(confluent_kafka.KafkaException):
        producers[0].commit_transaction(30)
    result = logjudge.check(read_all(recorder, bootstrap, "payments"))
    assert result.verdict == "valid", result.headline
    ends = Counter(kind for kind in ("ok", "fail", "info") for _ in events(tmp_path / "run", "txn", kind))
    assert ends == {"ok": 4, "fail": 2, "info": 1}
    placed = [step for event in events(tmp_path / "run", "txn") for step in event["ops"] if step["offset"] is not None]
    assert len(placed) == 12


@pytest.mark.slow
def test_a_pipeline_of_confluent_kafka_is_judged_valid(bootstrap: str, tmp_path: Path) -> None:
    """Offsets that a producer commits in its transactions are of the consumer's group."""
    make_topic(bootstrap, "inputs")
    recorder = logjudge.Recorder(tmp_path / "run")
    feeder = logjudge.confluent.Producer(recorder, "p0", {"bootstrap.servers": bootstrap})
    for number in range(40):
        feeder.produce("inputs", f"in-{number}", key=f"k{number % 3}", partition=number % 2)
    feeder.flush(30)
    producer = logjudge.confluent.Producer(
        recorder, "t0", {"bootstrap.servers": bootstrap, "transactional.id": "pipeline"}
    )
    producer.init_transactions(30)
    settings = {"bootstrap.servers": bootstrap, "group.id": "pipeline", "isolation.level": "read_committed"}
    own = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = logjudge.confluent.Consumer(recorder, "c0", {**settings, **own})
    consumer.subscribe(["inputs"])
    done, turn, end = 0, 0, time.monotonic() + 120
    while done < 40 and time.monotonic() < end:
        batch = [message for message in consumer.consume(7, 1) if message.error() is None]
        if not batch:
            continue
        turn += 1
        producer.begin_transaction()
        for message in batch:
            if message.value().startswith(b"in-"):
                producer.produce("inputs", f"out-{message.value().decode()}-{turn}", partition=message.partition())
        places = {message.partition(): message.offset() for message in reversed(batch)}
        ends = {message.partition(): message.offset() + 1 for message in batch}
        offsets = [confluent_kafka.TopicPartition("inputs", *place) for place in ends.items()]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if turn == 2:
            producer.abort_transaction(30)
            for partition, offset in places.items():
                consumer.seek(confluent_kafka.TopicPartition("inputs", partition, offset))
            continue
        producer.commit_transaction(30)
        recorder.handle("c0", batch)
        done += sum(message.value().startswith(b"in-") for message in batch)
    consumer.close()
    result = logjudge.check(read_all(recorder, bootstrap, "inputs"))
    assert result.verdict == "valid", result.headline
    assert json.loads((tmp_path / "run" / "run.json").read_text())["processes"]["t0"]["group.id"] == "pipeline"


@pytest.mark.slow
def test_aiokafka_is_judged_valid(bootstrap: str, tmp_path: Path) -> None:
    structs = pytest.importorskip("aiokafka.structs")
    make_topic(bootstrap, "aio")
    recorder = logjudge.Recorder(tmp_path / "run")

    async def work() -> None:
        producer = logjudge.aiokafka.AIOKafkaProducer(
            recorder,
            "p0",
            bootstrap_servers=bootstrap,
            enable_idempotence=True,
            value_serializer=lambda value: json.dumps(value).encode(),
        )
        consumer = logjudge.aiokafka.AIOKafkaConsumer(
            recorder,
            "c0",
            "aio",
            bootstrap_servers=bootstrap,
            group_id="aio",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            value_deserializer=json.loads,
        )
        async with producer, consumer:
            await asyncio.gather(*(producer.send_and_wait("aio", {"n": n}) for n in range(50)))
            record = await consumer.getone()
            assert list(record.value) == ["n"]
            recorder.handle("c0", [(record.topic, record.partition, record.offset, json.dumps(record.value))])
            found = 1
            end = time.monotonic() + 120
            while found < 50 and time.monotonic() < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    values = [(r.topic, r.partition, r.offset, json.dumps(r.value)) for r in records]
                    recorder.handle("c0", values)
                    found += len(values)
            await consumer.commit()
            place = structs.TopicPartition("aio", 0)
            position = await consumer.position(place)
        own = {"bootstrap_servers": bootstrap, "transactional_id": "aio-t"}
        async with logjudge.aiokafka.AIOKafkaProducer(recorder, "t0", **own) as producer:
            async with producer.transaction():
                await producer.send("aio", b"in a transaction")
                await producer.send_offsets_to_transaction({place: position}, "aio")
            await producer.begin_transaction()
            await producer.send("aio", b"aborted")
            await producer.abort_transaction()

    asyncio.run(work())
    result = logjudge.check(read_all(recorder, bootstrap, "aio"))
    assert result.verdict == "valid", result.headline
    folder = tmp_path / "run"
    assert len(events(folder, "send")) == 50
    assert json.loads((folder / "run.json").read_text())["processes"]["t0"]["group.id"] == "aio"
    assert [len(events(folder, "txn", kind)) for kind in ("ok", "fail", "info")] == [1, 1, 0]
    assigned = [event for event in events(folder, "assign") if event["process"] == "c0" and "revoked" not in event]
    assert assigned[0]["member"].startswith("aiokafka")
    assert [place["offset"] for place in assigned[0]["offsets"]] == [None, None]
    (commit,) = events(folder, "commit", "invoke")
    assert sum(place["offset"] for place in commit["offsets"]) == 50
