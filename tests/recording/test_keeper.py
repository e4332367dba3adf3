"""The life of a lab: none of its processes stays alive after it. A script replaces Java."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import shell
from lab_processes import processes
from logjudge.histories.errors import LogjudgeError, MissingComponentError, UsageError
from logjudge.histories.recording.lab import releases
from logjudge.histories.recording.lab.cluster import Plan
from logjudge.histories.recording.lab.handle import Lab, _listed_by_ps, command_lines
from logjudge.histories.recording.lab.releases import fetch_kafka, find_kafka, release_of

JAVA = f"""#!{sys.executable}
import sys, time, pathlib
if "kafka.tools.StorageTool" not in sys.argv:
    folder = next(a for a in sys.argv if a.startswith("-Dkafka.logs.dir=")).split("=", 1)[1]
    settings = pathlib.Path(sys.argv[-1]).read_text()
    if "fail=at-start" in settings:
        print("ERROR Exiting due to\\njava.lang.IllegalArgumentException: fail\\n\\tat kafka.Kafka")
        sys.exit(1)
    if "never=ready" in settings:
        time.sleep(600)
    with open(folder + "/server.log", "a") as log:
        log.write("[2026-11-23 10:00:00,000] INFO Kafka Server started (kafka)\\n")
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "java-home" / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text(JAVA)
    file.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(file.parents[1]))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka-clients-4.1.1.jar").write_bytes(b"")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path / "kafka"))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(str(tmp_path / "lab"), "4.1.1", str(tmp_path / "kafka" / "libs"), brokers=2)


@pytest.fixture
def lab(plan: Plan) -> Iterator[Lab]:
    with Lab.start(plan) as lab:
        yield lab


def wait_until_none(folder: str | Path) -> None:
    end = time.monotonic() + 30
    while (left := processes(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left


def states(lab: Lab) -> dict[str, str]:
    return {name: node["state"] for name, node in lab.request("status")["nodes"].items()}


def test_nodes_are_killed_paused_and_started_again(lab: Lab) -> None:
    assert states(lab) == {"1": "running", "2": "running", "100": "running"}
    lab.request("kill", nodes=["1"])
    lab.request("pause", nodes=["2"])
    assert states(lab) == {"1": "ended", "2": "paused", "100": "running"}
    with pytest.raises(UsageError, match="found node 2 running"):
        raise_as_usage(lab, "start", nodes=["2"])
    lab.request("start", nodes=["1"])
    lab.request("heal")
    assert set(states(lab).values()) == {"running"}


def raise_as_usage(lab: Lab, do: str, **fields: Any) -> None:
    try:
        lab.request(do, **fields)
    except LogjudgeError as error:
        raise UsageError(str(error)) from error


def configure(lab: Lab, node: str, line: str) -> None:
    with (lab.folder / "configs" / f"{node}.properties").open("a") as file:
        file.write(f"{line}\n")


def settings(lab: Lab, node: str) -> dict[str, str]:
    lines = (lab.folder / "configs" / f"{node}.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines)


def addresses(lab: Lab, node: str, name: str) -> dict[str, str]:
    return dict(item.split("://") for item in settings(lab, node)[name].split(","))


def test_a_start_that_waits_for_the_controller_blocks_no_other_request(lab: Lab) -> None:
    lab.request("kill", nodes=["1"])
    configure(lab, "1", "never=ready")
    with ThreadPoolExecutor() as pool:
        starting = pool.submit(lab.request, "start", nodes=["1"])
        while states(lab)["1"] != "running":
            time.sleep(0.01)
        assert not starting.done()
        lab.request("kill", nodes=["100"])
        with pytest.raises(LogjudgeError, match="these nodes do not run: 100; `logjudge lab start 100`"):
            starting.result(30)
    lab.request("start", nodes=["100"])
    assert states(lab) == {"1": "running", "2": "running", "100": "running"}


def test_a_failed_start_names_its_own_error_and_the_exception_after_it(lab: Lab) -> None:
    lab.request("kill", nodes=["1"])
    (lab.folder / "brokers" / "1" / "server.log").write_text("[2026-11-23 09:00:00,000] ERROR of an earlier start\n")
    configure(lab, "1", "fail=at-start")
    with pytest.raises(LogjudgeError, match=r"start: ERROR Exiting due to java.lang.IllegalArgumentException: fail \("):
        lab.request("start", nodes=["1"])


def test_links_and_disks_are_faulted_and_healed(lab: Lab) -> None:
    hold: dict[str, Any] = {"kind": "hold"}
    lab.request("links", around=["1"], clients=False, forward=hold, backward=hold)
    lab.request("links", source="clients", target="2", forward={}, backward={"kind": "discard"})
    lab.request("fill-disk", nodes=["2"], bytes=4096)
    found = lab.request("status")["links"]
    assert set(found) == {"1 -> 2", "2 -> 1", "1 -> 100", "clients -> 2"}
    assert found["clients -> 2"] == "<- discard"
    lab.request("heal")
    assert not lab.request("status")["links"]
    with pytest.raises(LogjudgeError, match="no link from 1 to 9"):
        lab.request("links", source="1", target="9", forward={}, backward={})
    with pytest.raises(LogjudgeError, match="no node 9, expected one of: 1, 2, 100"):
        lab.request("kill", nodes=["9"])
    with pytest.raises(LogjudgeError, match="found node 1 running"):
        lab.request("truncate", node="1", partition="orders-0", records=1)


def test_each_node_reaches_the_others_through_links_of_its_own(lab: Lab) -> None:
    own, advertised = (addresses(lab, "2", name) for name in ("listeners", "advertised.listeners"))
    assert set(own) == set(advertised) == {"CLIENT", "FROM1", "FROM2"}
    assert {name for name in own if own[name] != advertised[name]} == {"CLIENT", "FROM1"}
    assert lab.bootstrap.split(",")[1] == advertised["CLIENT"]
    assert settings(lab, "1")["inter.broker.listener.name"] == "FROM1"
    assert settings(lab, "1")["controller.quorum.voters"] != settings(lab, "2")["controller.quorum.voters"]


def test_a_quorum_serves_as_long_as_most_of_its_controllers_run(plan: Plan) -> None:
    with Lab.start(replace(plan, controllers=3)) as lab:
        own, advertised = (addresses(lab, "101", name) for name in ("listeners", "advertised.listeners"))
        assert [*own] == [f"CONTROLLER{source}" for source in ("101", "1", "2", "100", "102")]
        assert settings(lab, "101")["controller.listener.names"].split(",") == [*own]
        assert {name for name in own if own[name] == advertised[name]} == {"CONTROLLER101"}
        voters = dict(item.split("@") for item in settings(lab, "100")["controller.quorum.voters"].split(","))
        assert voters.keys() == {"100", "101", "102"}
        assert voters["101"] == advertised["CONTROLLER100"]
        lab.request("kill", nodes=["1", "100"])
        lab.request("start", nodes=["1"])
        lab.request("kill", nodes=["1", "101"])
        configure(lab, "1", "never=ready")
        with pytest.raises(LogjudgeError, match="these nodes do not run: 100, 101; `logjudge lab start 100 101`"):
            lab.request("start", nodes=["1"])


def test_a_stranger_without_the_token_is_not_answered(lab: Lab) -> None:
    state = json.loads((lab.folder / "lab.json").read_text())
    assert (lab.folder / "lab.json").stat().st_mode & 0o077 == 0
    state["keeper"]["token"] = "guessed"
    with pytest.raises(LogjudgeError, match="another lab listens"):
        Lab(lab.folder, state).request("down")
    assert set(states(lab).values()) == {"running"}


def test_nothing_is_left_after_the_end(plan: Plan) -> None:
    with Lab.start(plan) as lab:
        assert len(processes(plan.folder)) == 4
    assert not processes(plan.folder)
    with pytest.raises(UsageError, match="found no lab"):
        Lab.find(lab.folder)


OWNER = """
import sys, time
from logjudge.histories.recording.lab.cluster import Plan
from logjudge.histories.recording.lab.handle import Lab
from logjudge.histories.recording.lab.handle import _listed_by_ps, command_lines
with Lab.start(Plan(sys.argv[1], "4.1.1", sys.argv[2], brokers=1)) as lab:
    print("up", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_command_that_is_killed_leaves_no_process(plan: Plan, number: signal.Signals) -> None:
    command = [sys.executable, "-c", OWNER, plan.folder, plan.jars]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        owner.send_signal(number)
        owner.wait(60)
    wait_until_none(plan.folder)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_nodes_die_with_their_keeper_and_down_cleans_up(plan: Plan, tmp_path: Path) -> None:
    lab = Lab.start(plan)
    lab.leave()
    [keeper] = [pid for pid in processes(plan.folder) if any(".keeper" in one for one in command_lines()[pid])]
    os.kill(keeper, signal.SIGKILL)
    wait_until_none(plan.folder)
    done = shell("lab", "down", "--lab", plan.folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert shell("lab", "down", "--lab", plan.folder, cwd=tmp_path).returncode == 2


@pytest.mark.skipif(shutil.which("ps") is None, reason="this system has no ps")
def test_ps_lists_the_same_processes() -> None:
    own = command_lines()[os.getpid()]
    assert _listed_by_ps()[os.getpid()] == " ".join(own).split()


def test_the_command_leaves_the_cluster_running(tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    done = shell("lab", "up", "--brokers", 1, "--set", "log.retention.ms=5", "--lab", folder, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    try:
        assert done.stdout.startswith("127.0.0.1:")
        assert "log.retention.ms=5\n" in (folder / "configs" / "1.properties").read_text()
        assert shell("lab", "kill", 1, "--lab", folder, cwd=tmp_path).returncode == 0
        status = shell("lab", "status", "--lab", folder, cwd=tmp_path).stdout
        assert "1          ended" in status
        assert "100        running" in status
        again = shell("lab", "up", "--lab", folder, cwd=tmp_path)
        assert (again.returncode, "found a lab" in again.stderr) == (2, True)
    finally:
        assert shell("lab", "down", "--lab", folder, cwd=tmp_path).returncode == 0
    wait_until_none(folder)


def test_a_node_that_fails_at_its_start_is_named_with_its_reason(plan: Plan) -> None:
    with pytest.raises(
        LogjudgeError, match=r"ended at its start: ERROR Exiting due to java.lang.IllegalArgumentException: fail"
    ):
        Lab.start(Plan(plan.folder, plan.kafka, plan.jars, brokers=1, settings={"fail": "at-start"}))
    assert not processes(plan.folder)


@pytest.mark.parametrize(
    ("version", "message"), [("4.1.1", ""), ("4.1.9", "by java: module not found: org.apache.kafka")]
)
def test_without_maven_the_ivy_of_pyspark_fetches_kafka(
    version: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for Java checks which versions Ivy is asked for, and has one."""
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(
        """#!/bin/sh
case "$2" in */ivy-*.jar) ;; *) exit 3 ;; esac
while [ "$1" != -ivy ]; do shift; done
/usr/bin/grep -q 'name="kafka_2.13" rev="4.1.1"' "$2" || { echo "module not found: org.apache.kafka"; exit 1; }
while [ "$1" != -retrieve ]; do shift; done
/usr/bin/mkdir "${2%/*}" && : > "${2%/*}/kafka-clients-4.1.1.jar"
"""
    )
    (tmp_path / "bin" / "java").chmod(0o755)
    if message:
        with pytest.raises(MissingComponentError, match=message):
            fetch_kafka(version)
    else:
        assert [path.name for path in fetch_kafka(version).jars.iterdir()] == ["kafka-clients-4.1.1.jar"]
        assert [path.name for path in (tmp_path / "cache" / "logjudge" / "kafka").iterdir()] == ["4.1.1"]


def test_kafka_is_found_or_refused_in_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = find_kafka()
    assert kafka is not None
    assert kafka.version == "4.1.1"
    with pytest.raises(UsageError, match=r"found Kafka 4.1.1, expected 3.9"):
        find_kafka("3.9")
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="expected an unpacked Kafka"):
        find_kafka()
    monkeypatch.delenv("KAFKA_HOME")
    assert find_kafka() is None
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(releases, "ivy", lambda: None)
    with pytest.raises(MissingComponentError, match="neither KAFKA_HOME nor Maven"):
        fetch_kafka()
    assert release_of("3.9.2")[0] == "3.9.2"
    with pytest.raises(UsageError, match=r"expected one of .*, 3.9, 2.8, 1.1, 0.10.2"):
        release_of("2.7")
