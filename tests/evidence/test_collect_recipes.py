"""The recipes of docs/recording.md that copy brokers' files from containers, with stand-ins for kubectl and docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT
from judged_once import constant
from logjudge import check

from .test_commands import Unpack

PAGE = (ROOT / "docs" / "recording.md").read_text()
# Each serves recorded brokers' files as its tool does: below $DISKS is a folder for each container, by number.
STAND_INS = {
    "kubectl": """#!/usr/bin/env bash
set -eu
what=$1; shift
[ "$what" = get ] || { [ "$1 $2 $3 $4" = "-n kafka -c kafka" ]; shift 4; }
case "$what" in
    get) [ "$*" = "pods -n kafka -l strimzi.io/name=my-cluster-kafka -o jsonpath={.items[*].metadata.name}" ]
        cd "$DISKS"
        for n in *; do
            if [ -e "$n/data" ]; then echo "my-cluster-broker-$n"; else echo "my-cluster-controller-$n"; fi
        done ;;
    cp) [ "${1#*:}" = /var/lib/kafka ]; name=${1%%:*}; n=${name##*-}; mkdir -p "$2/data"
        [ ! -e "$DISKS/$n/data" ] || cp -r "$DISKS/$n/data" "$2/data/kafka-log$n" ;;
    logs) cat "$DISKS/${1##*-}/server.log" ;;
    exec) n=${1##*-}; [ "$2" = -- ]; shift 2
        case "$1 $2" in
            "find /var/lib/kafka") shift 2; [ ! -e "$DISKS/$n/data" ] ||
                find "$DISKS/$n/data" "$@" | sed "s,^$DISKS/$n/data,/var/lib/kafka/data/kafka-log$n," ;;
            "cat "*) cat "$DISKS/$n/data${2#/var/lib/kafka/data/kafka-log"$n"}" ;;
            *) exit 1 ;;
        esac ;;
    *) exit 1 ;;
esac
""",
    "docker": """#!/usr/bin/env bash
set -eu
[ "$1" = compose ]
case "$2" in
    cp) [ "${3#*:}" = /tmp/kraft-combined-logs ]; name=${3%%:*}; cp -r "$DISKS/${name##*-}/data" "$4" ;;
    logs) sed "s/^/$(printf '\\033[36m')$3  |$(printf '\\033[0m') /" "$DISKS/${3##*-}/server.log" ;;
    *) exit 1 ;;
esac
""",
}
RECIPES = {"kubectl": "Kubernetes (", "kubectl exec": "Kubernetes without", "docker": "docker compose ("}
LINE = re.compile(r"^\[(\S+ [\d:]+)(,\d+)\] ([A-Z]+) (.*) \((?:[\w.]+\.)?(\w+)\)$", re.MULTILINE)
STRIMZI = r"\1\2 \3 \4 (kafka.\5) [data-plane-kafka-request-handler-1]"  # before Kafka 4.0
STRIMZI_4 = r"\1 \3  [kafka-0-raft-io-thread] \5:110 - \4"  # since


def recipe(title: str) -> str:
    """The commands below a line of the page."""
    _, _, after = PAGE.partition(f"\n{title}")
    return (
        after.partition("\n\n")[2].partition("\n\n")[0].replace("    logjudge", f"    {sys.executable} -m logjudge.cli")
    )


@pytest.fixture(scope="module")
def in_containers(unpacked: Unpack, tmp_path_factory: pytest.TempPathFactory) -> Unpack:
    """Recorded runs with what containers have: no snapshots, no dump, and one log, as a container prints one stream."""
    base = constant(tmp_path_factory.mktemp("containers"))

    def strip(name: str) -> Path:
        if not (base / name).exists():
            run = shutil.copytree(unpacked(name), base / name)
            shutil.rmtree(run / "snapshots")
            shutil.rmtree(run / "dump")
            for log in run.rglob("state-change.log"):
                log.unlink()
        return base / name

    return strip


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("form", "layout", "name"),
    [
        ("kubectl", STRIMZI, "kip-101-a"),
        ("kubectl", STRIMZI_4, "kip-101-a"),
        ("kubectl", r"\g<0>", "unclean-election-a"),  # with a controller that has only a log
        ("kubectl exec", r"\g<0>", "unclean-election-a"),
        ("docker", r"\g<0>", "kip-101-a"),
    ],
)
def test_brokers_in_containers_are_collected(
    form: str, layout: str, name: str, in_containers: Unpack, tmp_path: Path
) -> None:
    tool = form.split()[0]
    recorded = in_containers(name)
    run = shutil.copytree(recorded, tmp_path / "RUN")
    disks = Path(shutil.move(run / "brokers", tmp_path / "disks"))
    for log in disks.rglob("server.log"):
        log.write_text(LINE.sub(layout, log.read_text()))
    (tmp_path / tool).write_text(STAND_INS[tool])
    (tmp_path / tool).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", recipe(RECIPES[form])],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "DISKS": str(disks)},
        check=True,
    )
    assert_same_judgement(recorded, run)


def assert_same_judgement(recorded: Path, run: Path) -> None:
    """Both are invalid, with the same findings and causes."""
    before, after = check(recorded), check(run)
    assert after.verdict == before.verdict == "invalid"
    assert before.causes
    assert after.findings.drop("evidence").equals(before.findings.drop("evidence"))
    assert [one["cause"] for one in after.causes] == [one["cause"] for one in before.causes]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("is_merged", [False, True])
def test_logs_of_pods_prove_the_cause_after_collect(is_merged: bool, tmp_path: Path) -> None:
    """A log for each pod and one log of all pods; the controller has no disk."""
    example = ROOT / "examples" / "unclean-election"
    copies, run = tmp_path / "copies", tmp_path / "RUN"
    run.mkdir()
    copies.mkdir()
    for name in ("history.jsonl.gz", "run.json"):
        shutil.copyfile(example / name, copies / name)
        shutil.copyfile(example / name, run / name)
    for node in ("1", "2", "3", "100"):
        pod = f"my-cluster-{'controller' if node == '100' else 'broker'}-{node}"
        disk = example / "brokers" / node / "data"
        if disk.exists():
            shutil.copytree(disk, copies / pod / "kafka-log")
        text = "".join((disk.parent / name).read_text() for name in ("server.log", "state-change.log"))
        if is_merged:
            with (copies / "all.log").open("a") as log:
                log.writelines(f"[pod/{pod}/kafka] {line}\n" for line in text.splitlines())
        else:
            (copies / pod).mkdir(exist_ok=True)
            (copies / pod / "server.log").write_text(text)
    subprocess.run([sys.executable, "-m", "logjudge.cli", "collect", copies, "--out", run], check=True)
    assert_same_judgement(copies, run)
    assert "unclean-election" in {one["cause"] for one in check(run).causes}
