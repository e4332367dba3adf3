"""`logjudge record` without a cluster: what it refuses, the settings and scenario files that it reads, its nemesis."""

from __future__ import annotations

import json
import socket
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_line import invoke, json_lines
from logjudge.cli.record import _Report
from logjudge.histories.errors import InputError, LogjudgeError, UsageError
from logjudge.histories.recording import kafka_clients
from logjudge.histories.recording import run as recording
from logjudge.histories.recording.kafka_clients import (
    ClientSettings,
    ConnectionErrors,
    read_properties,
    recorded_config,
)
from logjudge.histories.recording.lab.releases import RELEASES
from logjudge.histories.recording.nemesis import Nemesis
from logjudge.histories.recording.recorder import Recorder
from logjudge.histories.recording.run import Request, record
from logjudge.histories.recording.scenarios import STEPS, load, names
from logjudge.histories.recording.session import Load, Progress
from logjudge.histories.recording.workloads import WORKLOADS
from logjudge.histories.recording.workloads.consumer_group import member_config
from logjudge.histories.recording.workloads.group_member import ClientRecorder

pytest.importorskip("confluent_kafka")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(kafka_clients, "CONNECT_SECONDS", 3.0)


def refused(*arguments: object) -> str:
    """The sentence that ends a recording before it begins."""
    error = invoke("record", *arguments, "--out", "run").exception
    assert isinstance(error, LogjudgeError)
    assert not Path("run").exists()
    assert "\n" not in str(error)
    return str(error)


@pytest.fixture
def closing_port() -> object:
    """A port that accepts connections and closes them, as a TLS listener does with plain text."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    server.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


def test_brokers_that_cannot_be_reached_are_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    found = refused("--bootstrap-server", f"127.0.0.1:{port}")
    assert f"127.0.0.1:{port}: found no usable broker" in found
    assert "Connection refused" in found


def test_a_wrong_protocol_is_one_sentence_that_names_tls(tmp_path: Path, closing_port: int) -> None:
    found = refused("--bootstrap-server", f"127.0.0.1:{closing_port}")
    assert "security.protocol" in found
    (tmp_path / "tls").write_text("security.protocol=SSL\n")
    found = refused("--bootstrap-server", f"127.0.0.1:{closing_port}", "--client-config", "tls")
    assert "--client-config" in found


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (
            "sasl_ssl://h:1/bootstrap: SASL authentication error: Authentication failed: Invalid username",
            "sasl.password",
        ),
        ("sasl_ssl://h:1/bootstrap: SSL handshake failed: certificate verify failed", "ssl.ca.location"),
        ("h:1/bootstrap: Disconnected: connection closed by peer (in state APIVERSION_QUERY)", "wants TLS"),
        ("sasl_ssl://h:1/bootstrap: Connect to ipv4#h:1 failed: Connection refused", "check the address, and that it"),
    ],
)
def test_the_advice_fits_the_reason(reason: str, advice: str) -> None:
    errors = ConnectionErrors()
    errors(SimpleNamespace(name=lambda: "_TRANSPORT", str=lambda: reason))
    assert advice in errors.sentence("h:1", OSError())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected either --bootstrap-server"),
        (("--lab", "clean", "--bootstrap-server", "h:1"), "expected either --bootstrap-server"),
        (("--lab", "claen"), "did you mean clean"),
        (("--lab", "clean", "--client-config", "x"), "found --client-config with --lab, whose scenario sets it"),
        (("--bootstrap-server", "h:1", "--kafka", "3.9"), "found --kafka with --bootstrap-server"),
        (("--bootstrap-server", "h:1", "--workload", "transaction"), "did you mean transactions"),
        (("--bootstrap-server", "h:1", "--duration", "soon"), "expected a time such as 60s"),
        (("--bootstrap-server", "h:1", "--producer", "acks"), "found --producer acks, expected NAME=VALUE"),
        (("--bootstrap-server", "h:1", "--client-config", "none"), "none: no such file or folder"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)


def test_a_folder_with_files_is_refused_and_stays(tmp_path: Path, closing_port: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes").write_text("mine")
    assert "run: found files" in str(invoke("record", "--lab", "clean", "--out", "run").exception)
    settings = ClientSettings(f"127.0.0.1:{closing_port}")
    with pytest.raises(UsageError, match="found files"):
        record(Request(tmp_path / "run", "append-and-read", 1.0, Load("t"), settings), lambda *_: None, print)
    assert (tmp_path / "run" / "notes").read_text() == "mine"


def test_a_lab_that_could_record_nothing_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class StartedLab:
        bootstrap, version = "127.0.0.1:1", "4.1"

        def __enter__(self) -> StartedLab:
            (tmp_path / "run-lab").mkdir()
            return self

        def __exit__(self, *_: object) -> None:
            (tmp_path / "run-lab" / "closed").touch()

    def fail(*_: object) -> None:
        raise LogjudgeError("the broker refused")

    monkeypatch.setattr(
        recording, "fetch_kafka", lambda _: SimpleNamespace(version="4.1", jars="", release=RELEASES["4.1"])
    )
    monkeypatch.setattr(recording.Lab, "start", lambda _: StartedLab())
    monkeypatch.setattr(recording, "record", fail)
    assert "the broker refused" in refused("--lab", "clean")
    assert not (tmp_path / "run-lab").exists()
    # Without the client's library no cluster starts.
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.setattr(recording, "fetch_kafka", fail)
    assert "found no confluent-kafka" in refused("--lab", "clean")
    monkeypatch.delitem(sys.modules, "confluent_kafka")
    (tmp_path / "run-lab").mkdir()
    assert "run-lab: found the lab of a recording" in refused("--lab", "clean")


def test_progress_names_the_nodes_of_lasting_faults(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.faults = {"dead": ["3"], "paused": ["1", "2"]}
    _Report(quiet=False).show(progress, None)
    assert "; dead: broker 3; paused: brokers 1, 2" in capsys.readouterr().err


def test_what_members_in_other_processes_read_is_not_counted_as_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    report = _Report(quiet=False)
    report.summary(Progress())
    assert "0 unknown; 0 read" in capsys.readouterr().err
    progress = Progress()
    progress.has_other_readers = True
    report.show(progress, None)
    report.summary(progress)
    shown = capsys.readouterr().err
    assert "0 unknown (0/s); no fault" in shown
    assert "read" not in shown


def test_a_configuration_that_the_client_refuses_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("security.protokoll=SSL\n")
    found = refused("--bootstrap-server", "127.0.0.1:1", "--client-config", "config")
    assert "the client refused its configuration" in found
    assert "security.protokoll" in found


def test_properties_are_read_or_refused_by_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# TLS\nsecurity.protocol = SSL\n\nsasl.password=a=b\n")
    assert read_properties(file) == {"security.protocol": "SSL", "sasl.password": "a=b"}
    file.write_text("security.protocol=SSL\nsasl\n")
    with pytest.raises(InputError, match=r"client.properties:2: found 'sasl', expected NAME=VALUE"):
        read_properties(file)


def test_run_json_has_no_secrets_and_the_settings_that_decide() -> None:
    settings = ClientSettings("h:1", {"sasl.password": "x"}, {"acks": "1"}, {"ssl.key.password": "x", "group.id": "g"})
    producer = recorded_config(
        {**settings.connection, **settings.for_producer(), "sasl.jaas.config": "x", "error_cb": print}
    )
    assert producer["acks"] == "1"
    assert producer["enable.idempotence"] is False
    assert not {"sasl.password", "sasl.jaas.config", "error_cb"} & set(producer)
    consumer = recorded_config(settings.for_consumer("mine"))
    assert (consumer["group.id"], consumer["enable.auto.commit"]) == ("g", False)
    assert "ssl.key.password" not in consumer
    assert ClientSettings("h:1").for_producer()["enable.idempotence"] is True


@pytest.mark.parametrize(("protocol", "has_timeout"), [({}, True), ({"group.protocol": "consumer"}, False)])
def test_members_of_kip_848_leave_the_session_timeout_to_the_brokers(
    protocol: dict[str, str], has_timeout: bool
) -> None:
    settings = ClientSettings("127.0.0.1:1", consumer=protocol)
    config = member_config(settings, "orders-group")
    assert ("session.timeout.ms" in config) is has_timeout
    # librdkafka refuses settings that do not fit the protocol.
    kafka_clients.make_client("Consumer", settings, config).close()


def test_a_client_of_its_own_process_records_into_its_own_file(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", topics={"t": {"partitions": 1}})
    client = ClientRecorder(recorder.client_file("m0"), recorder.start_ns)
    client.subscribe("m0", "t")
    with client.poll("m0") as poll:
        poll.ok([("t", 0, 0, "a")])
    lines = json_lines(tmp_path / "run" / "history" / "m0.jsonl")
    assert [(line["f"], line["type"]) for line in lines] == [
        *(("subscribe", "invoke"), ("subscribe", "ok"), ("poll", "invoke"), ("poll", "ok"))
    ]
    with recorder.txn("t0") as transaction:
        transaction.send("t", "b")
        recorder.flush()  # a file of open transactions beside that of the client, and away again
        transaction.ok()
    recorder.crash("m0")
    recorder.flush()
    recorder.finish()
    assert sorted(path.name for path in (tmp_path / "run" / "history").iterdir()) == ["m0.jsonl"]
    operations = {line["op"] for line in lines}
    crash = json_lines(tmp_path / "run" / "history.jsonl")[-1]
    assert crash["op"] not in operations
    assert 0 < lines[0]["time"] < crash["time"]


def test_topics_and_snapshots_are_recorded_during_the_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", topics={"t": {"partitions": 1}})
    recorder.configure_topic("t", partitions=2, **{"cleanup.policy": "delete"})
    assert recorder.snapshot("before") == tmp_path / "run" / "snapshots" / "before"
    content = json.loads((recorder.finish() / "run.json").read_text())
    assert content["topics"] == {"t": {"partitions": 2, "cleanup.policy": "delete"}}
    assert content["snapshots"]["before"]["time"] > 0


def test_every_scenario_is_whole() -> None:
    for name in names():
        scenario = load(name)
        assert scenario.workload in WORKLOADS
        assert scenario.verdict in ("valid", "invalid")
        assert (scenario.verdict == "invalid") == bool(scenario.rules)
        assert scenario.title
        assert scenario.story
    with pytest.raises(UsageError, match="did you mean clean"):
        load("cleann")


def test_a_scenario_of_a_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('rules = ["lost-write"]\n[cluster]\nbrokers = 5\n[[step]]\ndo = "kill"\nnodes = ["leader", "2"]\n')
    scenario = load(str(file))
    assert (scenario.name, scenario.brokers, scenario.rules) == ("mine", 5, ("lost-write",))
    assert scenario.steps == ({"do": "kill", "nodes": ["leader", "2"]},)


def test_the_documented_scenario_is_read(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "recording.md").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.split("```toml\n")[1].split("```")[0])
    assert [step["do"] for step in load(str(file)).steps] == ["pause", "wait"]
    table = text.split("| `do` |")[1].split("\n\n")[0]
    assert all(f"`{step}`" in table for step in STEPS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("do = ", "not TOML"),
        ("titel = 'x'", "there is no key titel; did you mean title"),
        ("workload = 'append'", "there is no workload append; did you mean append-and-read"),
        ("rules = 'lost-write'", "found rules = 'lost-write', expected a list"),
        ("load = 3", "found load = 3, expected a table"),
        ("[load]\nrat = 3", r"\[load\]: there is no key rat"),
        ("[cluster]\nnodes = 3", r"\[cluster\]: there is no key nodes"),
        ("[step]\ndo = 'look'", r"found \[step\], expected \[\[step\]\]"),
        ("[[step]]\nnodes = ['leader']", "step 1: found do = None"),
        ("[[step]]\ndo = 'kil'", "step 1: found do = 'kil', expected one of"),
        ("[[step]]\ndo = 'look'\n[[step]]\ndo = 'kill'", r"step 2 \(kill\): nodes is missing"),
        ("[[step]]\ndo = 'kill'\nnodes = ['leaders']", "found the node 'leaders', expected one of leader"),
        ("[[step]]\ndo = 'wait'", "expected either seconds or until"),
        ("[[step]]\ndo = 'wait'\nuntil = 'quiet'", "found until = 'quiet', expected one of in-sync"),
        ("[[step]]\ndo = 'wait'\nseconds = 'two'", "found seconds = 'two', expected a whole number"),
    ],
)
def test_a_faulty_scenario_file_is_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(content)
    with pytest.raises(UsageError, match=message) as raised:
        load(str(file))
    assert str(raised.value).startswith(str(file))


def test_the_nemesis_carries_out_every_step_that_a_scenario_may_have() -> None:
    unused: Any = None
    assert Nemesis(unused, unused, load("clean")).steps.keys() == STEPS.keys()


def test_faults_of_nodes_are_recorded_and_ended(tmp_path: Path) -> None:
    """A node that was killed while it was paused is only started again."""
    requests = []
    lab: Any = SimpleNamespace(request=lambda do, nodes: requests.append((do, *nodes)))
    recorder = Recorder(tmp_path / "run")
    session: Any = SimpleNamespace(recorder=recorder, progress=Progress())
    nemesis = Nemesis(session, lab, load("clean"))
    for do, node in (("pause", "1"), ("pause", "2"), ("kill", "1"), ("stop", "3")):
        nemesis.steps[do]({"do": do, "nodes": [node]})
    assert session.progress.faults == {"dead": ["1", "3"], "paused": ["2"]}
    nemesis.heal()
    assert session.progress.faults == {}
    assert requests[4:] == [("resume", "2"), ("start", "1", "3")]
    events = [json.loads(line) for line in (recorder.finish() / "history.jsonl").read_text().splitlines()]
    done = [(event["f"], event["fault"]) for event in events if event["type"] == "invoke"]
    assert done[2:] == [
        ("fault", {"kind": "kill", "nodes": ["1"], "signal": "SIGKILL"}),
        ("fault", {"kind": "shutdown", "nodes": ["3"], "signal": "SIGTERM"}),
        ("heal", {"kind": "pause", "nodes": ["2"]}),
        ("heal", {"kind": "restart", "nodes": ["1", "3"]}),
    ]
