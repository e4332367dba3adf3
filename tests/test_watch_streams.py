"""`logjudge watch` over a topic of a cluster in this process, of a real one, and over a stream of Spark."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import invoke, verdict_in
from kafka_clients import KafkaError, KafkaException
from logjudge.histories.errors import InputError, UsageError
from logjudge.histories.recording import topic_reader
from logjudge.histories.stream_copy import StreamCopy
from notation import parse

SOAK = " ".join(f"p:v{n}@{n} c:<v{n}@{n}" for n in range(20)) + " p:lost@20 p:next@21 c:<next@21"
URL = "kafka://h:9092/events"
PARTITION_EOF = -191
SPARK_KAFKA = "4.2.0"  # of Maven Central's, the nearest to pyspark 4.3


@pytest.fixture
def soak(tmp_path: Path) -> tuple[Path, list[bytes]]:
    """A recorded run that is invalid, and its events."""
    folder = parse(SOAK).write(tmp_path / "soak")
    return folder, (folder / "history.jsonl").read_bytes().splitlines()


class Cluster:
    """A cluster with one topic: its admin client and its consumers, as topic_reader.py uses them."""

    def __init__(self, partitions: int = 1) -> None:
        self.logs: list[list[bytes | None]] = [[] for _ in range(partitions)]
        self.markers: set[tuple[int, int]] = set()  # places without a message
        self.start, self.identity, self.policy, self.problem = 0, "first", "delete", ""
        self.on_consume: Callable[[], None] = lambda: None

    def _future(self, value: Any) -> Any:
        found: Future[Any] = Future()
        if self.problem:
            found.set_exception(KafkaException(KafkaError(1, self.problem, f"text of {self.problem}")))
        else:
            found.set_result(value)
        return found

    def describe_topics(self, topics: list[str], request_timeout: float) -> dict[str, Any]:  # noqa: ARG002
        partitions = [SimpleNamespace(id=number) for number in range(len(self.logs))]
        return {topics[0]: self._future(SimpleNamespace(topic_id=self.identity, partitions=partitions))}

    def describe_configs(self, resources: list[Any], request_timeout: float) -> dict[Any, Any]:  # noqa: ARG002
        return {resources[0]: self._future({"cleanup.policy": SimpleNamespace(value=self.policy)})}

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:  # noqa: ARG002
        return self.start, len(self.logs[place[1]])

    def assign(self, places: list[Any]) -> None:
        self.positions = {number: offset for _, number, offset in places}

    def consume(self, count: int, timeout: float) -> list[Any]:  # noqa: ARG002
        self.on_consume()
        found = []
        for number, position in self.positions.items():
            log = self.logs[number]
            places = [place for place in range(position, len(log)) if (number, place) not in self.markers][:7]
            found += [self._message(number, place, log[place]) for place in places]
            self.positions[number] = places[-1] + 1 if places else len(log)
            if not places:
                found.append(self._message(number, len(log), None, KafkaError(PARTITION_EOF, "_PARTITION_EOF", "")))
        return found

    def close(self) -> None:
        """Closes like a consumer that leaves no group."""

    def _message(self, number: int, offset: int, value: bytes | None, error: Any = None) -> Any:
        values = {"partition": number, "offset": offset, "value": value, "error": error}
        values["timestamp"] = (1, round(time.time() * 1000))
        return SimpleNamespace(**{name: lambda value=value: value for name, value in values.items()})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    library = SimpleNamespace(
        KafkaError=SimpleNamespace(_PARTITION_EOF=PARTITION_EOF),
        KafkaException=KafkaException,
        TopicCollection=list,
        TopicPartition=lambda *place: place,
        ConfigResource=lambda *names: names,
    )
    monkeypatch.setattr(topic_reader, "confluent_kafka", lambda: library)
    monkeypatch.setattr(topic_reader, "import_module", lambda _: library)
    monkeypatch.setattr(topic_reader, "admin_client", lambda _: found)
    monkeypatch.setattr(topic_reader, "make_client", lambda *_: found)
    return found


def watch(out: Path, *options: object) -> Any:
    return invoke("watch", URL, "--out", out, "--every", "0.1", "--idle", "0", *options)


def test_a_topic_is_judged_as_its_file_and_a_restart_continues(
    cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    folder, events = soak
    out = tmp_path / "out"
    options = ("--run-json", folder / "run.json")
    cluster.logs[0] = events[:50]
    first = watch(out, *options)
    assert first.return_value == 3
    assert "UNKNOWN, 50 lines" in first.stderr
    assert "not yet: lost-write, unseen" in first.stderr
    assert "messages not judged yet" in (out / "index.html").read_text()
    shutil.rmtree(out / "events.events")  # the topic has it, too
    cluster.logs[0] = events
    again = watch(out, *options)
    assert again.return_value == 1
    assert "judged the whole history" not in again.stderr
    invoke("check", folder, "--engine", "local", "--out", tmp_path / "whole")
    expected = (tmp_path / "whole" / "verdict.json").read_text().replace('"history.jsonl', '"history/events-0.jsonl')
    assert verdict_in(out / "events")["findings"] == json.loads(expected)["findings"]


def test_the_line_of_a_message_is_its_offset_plus_one(cluster: Cluster, tmp_path: Path) -> None:
    cluster.logs = [[b'{\n"time": 1}', b"0", b"1", b"2", b" \n", None], [b"3"]]
    cluster.markers = {(0, 1), (0, 2)}
    assert "nothing to judge" in str(watch(tmp_path).exception)
    history = tmp_path / "events.events" / "history"
    assert (history / "events-0.jsonl").read_bytes().splitlines() == [b'{ "time": 1}', b"", b"", b"2", b"null", b"null"]
    assert (history / "events-1.jsonl").read_bytes() == b"3\n"
    with closing(StreamCopy(tmp_path / "hidden", ".t (id)", {})) as copy:
        copy.append(".t", 0, [(0, b"4")])
    assert (tmp_path / "hidden" / "history" / "t-0.jsonl").read_bytes() == b"4\n"


@pytest.mark.parametrize(("policy", "left_out"), [("delete", 0), ("compact", 1), ("compact,delete", 1)])
def test_only_a_compacted_topic_may_lack_events(
    policy: str, left_out: int, cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    cluster.policy = policy
    cluster.logs[0], cluster.markers = [b"", b"", *soak[1]], {(0, 0), (0, 1)}
    watch(tmp_path, "--run-json", soak[0] / "run.json")
    assert len((tmp_path / "events" / "quarantine.jsonl").read_text().splitlines()) == left_out


def test_a_changed_topic_is_refused_in_one_sentence(
    cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    cluster.logs[0] = soak[1][:30]
    assert watch(tmp_path).return_value == 3
    changes = {
        "expected those of events (second)": {"identity": "second"},
        "no messages before offset 40": {"start": 40},
        "the end of partition 0 at offset 20": {"logs": [soak[1][:20]]},
        "found no such topic": {"problem": "UNKNOWN_TOPIC_OR_PART"},
        "the user needs CREATE, DESCRIBE": {"problem": "TOPIC_AUTHORIZATION_FAILED"},
    }
    before = dict(vars(cluster))
    for sentence, change in changes.items():
        vars(cluster).update({**before, **change})
        error = watch(tmp_path).exception
        assert isinstance(error, InputError | UsageError)
        assert sentence in str(error)
        assert "\n" not in str(error)


def test_a_topic_that_is_replaced_while_it_is_watched_ends_the_watching(
    cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    cluster.logs[0] = soak[1][:30]
    cluster.on_consume = lambda: setattr(cluster, "identity", "second")
    error = watch(tmp_path, "--idle", "60").exception
    assert "another topic of this name" in str(error)
    assert verdict_in(tmp_path / "events")["verdict"] == "unknown"


def test_brokers_that_are_away_are_one_sentence_and_may_return(
    cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, waits = 0.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now, waits
        now, waits = now + seconds, waits + 1
        cluster.problem = "_TIMED_OUT" if waits < 4 else ""
        cluster.logs[0] = soak[1]

    monkeypatch.setattr("logjudge.cli.watch.time", SimpleNamespace(monotonic=lambda: now, sleep=sleep))
    cluster.logs[0] = soak[1][:30]
    done = watch(tmp_path, "--idle", "0.5")
    assert done.stderr.count("found no broker that responds (text of _TIMED_OUT)") == 1
    assert f"{len(soak[1]) - 30} lines" in done.stderr


def test_a_long_backlog_is_judged_in_rounds(
    cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_reader, "MAX_MESSAGES", 14)
    cluster.logs[0] = soak[1]
    copy = tmp_path / "copy"
    source = topic_reader.TopicReader(topic_reader.address_of(URL), {}, copy, {})
    source.fetch()
    assert source.unread() == len(soak[1]) - 14
    assert source.behind(0) < 60
    for _ in range(9):
        source.fetch()
    assert (source.unread(), source.behind(0)) == (0, 0)
    assert (copy / "history" / "events-0.jsonl").read_bytes().splitlines() == soak[1]


def test_a_copy_continues_behind_its_last_whole_line(tmp_path: Path) -> None:
    first = StreamCopy(tmp_path / "copy", "t (id)", {})
    assert first.append("t", 0, enumerate([b"a", b"b"])) == 2
    with pytest.raises(UsageError, match="another process"):
        StreamCopy(tmp_path / "copy", "t (id)", {})
    first.close()
    file = tmp_path / "copy" / "history" / "t-0.jsonl"
    file.write_bytes(b"a\nb\nc is cut")
    second = StreamCopy(tmp_path / "copy", "t (id)", {})
    assert second.next_offset("t", 0) == 2
    assert second.append("t", 0, enumerate([b"a", b"b", b"c"])) == 1
    assert file.read_bytes() == b"a\nb\nc\n"
    with pytest.raises(InputError, match="all messages"):
        second.append("t", 0, [(1 << 30, b"far")])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("kafka://h:1",), "expected kafka://HOST:PORT/TOPIC"),
        (("kafka://h:1/..",), "expected kafka://HOST:PORT/TOPIC"),
        (("s3a://bucket/run",), "or --spark"),
        (("RUN", "--run-json", "RUN/run.json"), "expected them for a topic"),
        ((URL, "--from", "jepsen"), "expected events of the bundle's format"),
        ((URL, "--run-json", "RUN/history.jsonl"), "the run's JSON object"),
        ((URL, "--state", "RUN.events"), "expected another ending"),
        ((URL, "--state", "RUN.state"), "expected none; name another --state"),
    ],
)
def test_bad_arguments_are_one_sentence(
    arguments: tuple[str, ...], sentence: str, cluster: Cluster, soak: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    cluster.logs[0] = soak[1]
    soak[0].with_suffix(".events").mkdir()
    (soak[0].with_suffix(".events") / "notes").write_text("a user's")
    named = [argument.replace("RUN", str(soak[0])) for argument in arguments]
    error = invoke("watch", *named, "--out", tmp_path / "out", "--idle", "0").exception
    assert sentence in str(error)


@pytest.mark.spark
def test_spark_streams_a_folder_and_a_restart_continues(
    spark: Any, soak: tuple[Path, list[bytes]], tmp_path: Path
) -> None:
    del spark  # the command uses the session of this process
    folder, events = soak
    stream, out = tmp_path / "stream", tmp_path / "out"
    stream.mkdir()
    for name, part in {"a": events[:50], "b": events[50:]}.items():
        (stream / f"{name}.jsonl").write_bytes(b"\n".join(part) + b"\n")
        options = ("--spark", "--run-json", folder / "run.json", "--every", "0.2", "--idle", "1")
        done = invoke("watch", stream, "--out", out, *options)
        assert f"{len(part)} lines" in done.stderr
    assert done.return_value == 1
    found = verdict_in(out / "stream")["findings"]
    invoke("check", folder, "--engine", "local", "--out", tmp_path / "whole")
    expected = verdict_in(tmp_path / "whole")["findings"]
    assert [one["id"] for one in found] == [one["id"] for one in expected]
    shutil.rmtree(out / "stream.events")
    (out / "stream.state").unlink()
    shutil.copy(stream / "b.jsonl", stream / "c.jsonl")
    assert "a checkpoint beside its copy" in str(
        invoke("watch", stream, "--out", out, "--spark", "--idle", "1").exception
    )


@pytest.mark.slow
@pytest.mark.lab
@pytest.mark.parametrize("options", [(), ("--spark",)])
def test_a_topic_of_a_real_broker(options: tuple[str, ...], soak: tuple[Path, list[bytes]], tmp_path: Path) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    from confluent_kafka.admin import AdminClient, NewTopic
    from logjudge.histories.recording.lab import releases
    from logjudge.histories.recording.lab.cluster import Plan
    from logjudge.histories.recording.lab.handle import Lab

    folder, events = soak
    kafka = releases.fetch_kafka()
    if options:  # as --conf spark.jars.packages, through a mirror of Maven's, too
        package = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_KAFKA)
        jars = tmp_path / "jars"
        releases._fetch(releases._command("for Spark", (package,), tmp_path, jars), jars, "for Spark")
        options = (*options, "--conf", f"spark.jars={','.join(map(str, jars.glob('*.jar')))}")
    with Lab.start(Plan(str(tmp_path / "lab"), kafka.version, str(kafka.jars), brokers=1)) as lab:
        admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("events", 1, 1)])["events"].result()
        producer = confluent.Producer(
            {"bootstrap.servers": lab.bootstrap, "transactional.id": "recorder", "log_level": 0}
        )
        producer.init_transactions()
        command = [sys.executable, "-m", "logjudge.cli", "watch", f"kafka://{lab.bootstrap}/events", *options]
        command += ["--out", str(tmp_path / "out"), "--run-json", str(folder / "run.json"), "--idle", "20"]
        for part, code in ((events[:50], 3), (events[50:], 1)):
            producer.begin_transaction()
            for event in part:
                producer.produce("events", event)
            producer.commit_transaction()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == code, done.stderr
            assert (tmp_path / "out" / "events" / "quarantine.jsonl").read_text() == "" or options
        admin.delete_topics(["events"])["events"].result()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert done.stderr.count("\n") <= 2, done.stderr
    findings = verdict_in(tmp_path / "out" / "events")["findings"]
    invoke("check", folder, "--engine", "local", "--out", tmp_path / "whole")
    expected = verdict_in(tmp_path / "whole")["findings"]
    assert [one["id"] for one in findings] == [one["id"] for one in expected]
