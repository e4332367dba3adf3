"""Files that are no replica of the judged log are left out and reported, and are never a divergence.

Folders that brokers keep beside their current replicas are also collected under their names.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from logjudge import check
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.recording.collect import collect, sources_of

OTHER = "qMbN0rtrS3qpFZTFyJYUZw"


def log_dirs(unpacked, folder):
    """kafka-a of a run's broker 1 at its end, and kafka-b of the same broker before its log was cut."""
    run = unpacked("acks1-failover-a")
    shutil.copytree(run / "brokers/1/data", folder / "kafka-a")
    shutil.copytree(run / "snapshots/before-rejoin/brokers/1/data", folder / "kafka-b")


def change(path, key, value):
    lines = [f"{key}{value}" if line.startswith(key) else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines) + "\n")


def broker(unpacked, source, folder, name, directory=None, id_=None, log=False):
    """A broker's folder of acks1-failover-a, under another name; its meta.properties may be changed."""
    run = unpacked("acks1-failover-a")
    broker_folder = folder / "brokers" / name
    shutil.copytree(run / source / "data", broker_folder / "data")
    if log:
        shutil.copy(run / source / "server.log", broker_folder / "server.log")
    for key, value in (("directory.id=", directory), ("node.id=", id_)):
        if value is not None:
            change(broker_folder / "data/meta.properties", key, value)
    return broker_folder


def judged(folder):
    results = judge_run(open_run(folder))
    diverging = results.findings().filter(rule="replica-divergence")["replicas"].to_list()
    reasons = [reason for reason in results.quarantine()["reason"] if "log" in reason or "copy" in reason]
    return diverging, reasons, verdict_of(results)["verdict"]


def verdict(folder):
    results = judge_run(open_run(folder))
    assert results.findings().filter(severity="violation").is_empty()
    return verdict_of(results), results.quarantine()["reason"].to_list()


def test_a_backup_of_a_broker_is_no_replica(unpacked, tmp_path):
    log_dirs(unpacked, tmp_path)
    result, reasons = verdict(tmp_path)
    assert result["verdict"] == "unknown"
    assert [reason for reason in reasons if "second copy of a log of broker 1" in reason]


def test_log_dirs_of_another_cluster_are_left_out(unpacked, tmp_path):
    log_dirs(unpacked, tmp_path)
    meta = tmp_path / "kafka-b/meta.properties"
    change(meta, "cluster.id=", OTHER)
    change(meta, "node.id=", "2")
    result, reasons = verdict(tmp_path)
    assert [reason for reason in reasons if f"belongs to cluster {OTHER}" in reason]
    broken = [item["name"] for item in result["assumptions"] if item["holds"] is not True]
    assert "one copy of each log" in broken


@pytest.mark.parametrize(("topic_id", "other"), [(OTHER, True), (None, False)])
def test_a_topic_that_was_made_again_is_another_log(unpacked, tmp_path, topic_id, other):
    log_dirs(unpacked, tmp_path)
    for key, value in (("node.id=", "2"), ("directory.id=", OTHER)):
        change(tmp_path / "kafka-b/meta.properties", key, value)
    metadata = tmp_path / "kafka-b/orders-0/partition.metadata"
    damaged = metadata.read_text().splitlines()[-1].partition(": ")[2][:-1] + "_"
    change(metadata, "topic_id: ", topic_id or damaged)
    results = judge_run(open_run(tmp_path))
    assert bool([r for r in results.quarantine()["reason"] if "another topic named orders" in r]) is other
    assert ("replica-divergence" not in results.findings()["rule"].to_list()) is other


BEFORE = "snapshots/before-rejoin/brokers/1"  # broker 1's log before it truncated what broker 2 never had


@pytest.mark.parametrize("name", ["1-backup", "0-backup", "4"])
@pytest.mark.parametrize(("directory", "expected"), [(None, "both are directory"), (OTHER, "a disk was replaced")])
def test_a_second_folder_of_a_broker_is_no_replica(unpacked, tmp_path, name, directory, expected):
    broker(unpacked, "brokers/1", tmp_path, "1")
    broker(unpacked, "brokers/2", tmp_path, "2")
    broker(unpacked, BEFORE, tmp_path, name, directory)
    diverging, reasons, result = judged(tmp_path)
    assert not diverging
    assert [reason for reason in reasons if "second copy of a log of broker 1 (judged: brokers/1/" in reason]
    assert all(expected in reason for reason in reasons)
    assert result == "unknown"


def test_a_copied_folder_is_named_as_a_whole_and_with_its_time(unpacked, tmp_path):
    broker(unpacked, "brokers/1", tmp_path, "1")
    broker(unpacked, BEFORE, tmp_path, "1-again")
    _, [reason], result = judged(tmp_path)
    assert "second copy of a log of broker 1 (judged: brokers/1/data); both are directory" in reason
    assert "at different times" in reason
    assert result == "unknown"


def _flip_last_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


COPIES = {
    "of the broker": (lambda run: shutil.copytree(run / "brokers/1", run / "brokers/1-again"), "brokers/1-again/data"),
    "inside its log.dir": (
        lambda run: shutil.copytree(run / "brokers/1/data", run / "brokers/1/data/old"),
        "brokers/1/data/old",
    ),
    "of one log": (
        lambda run: shutil.copytree(run / "brokers/1/data/orders-0", run / "brokers/1/copy/orders-0"),
        "brokers/1/copy/orders-0",
    ),
    "under the broker's name": (
        lambda run: shutil.copytree(run / "brokers/1", run / "brokers/0"),
        "brokers/0/data",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("case", "differs"),
    [
        *((case, None) for case in COPIES),
        *((case, "orders-0/00000000000000000000.log") for case in COPIES),
        ("of one log", "orders-0/leader-epoch-checkpoint"),
    ],
)
def test_a_byte_identical_copy_is_set_aside(case, differs, unpacked, tmp_path):
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    make, source = COPIES[case]
    make(run)
    if differs is not None:
        _flip_last_byte(run / source / differs.removeprefix("orders-0/" if source.endswith("orders-0") else ""))
    results = judge_run(open_run(run))
    result = verdict_of(results)
    aside = results.damage().filter(kind="leftover")
    assert result["verdict"] == ("valid" if differs is None else "unknown")
    if differs is None:
        [name], [reason] = aside["source"], aside["reason"]
        judged_folder = "brokers/1/data/orders-0" if "orders-0" in source else "brokers/1/data"
        assert (name, reason) == (source, f"is not judged: it is a byte-identical copy of {judged_folder}")
    else:
        assert aside.is_empty()


@pytest.mark.parametrize("logs", [("1",), (), ("1", "2")])
def test_a_copy_with_a_changed_node_id_is_no_replica(logs, unpacked, tmp_path):
    """Only one broker has a directory.id: the one with its log in the same folder. Otherwise it is unknown which."""
    for name, source in (("1", "brokers/1"), ("2", BEFORE)):
        broker(unpacked, source, tmp_path, name, id_=name)
    for name in logs:
        shutil.copy(unpacked("acks1-failover-a") / f"brokers/{name}/server.log", tmp_path / f"brokers/{name}")
    diverging, _, result = judged(tmp_path)
    assert not diverging
    assert result == "unknown"
    left_out = [part for part in find_parts(tmp_path) if part.kind == "left-out"]
    assert [part.name for part in left_out] == ["brokers/1/data"] * (logs != ("1",)) + ["brokers/2/data"]
    assert all("which brokers 1 and 2 share: it is a copy with a changed node.id" in part.reason for part in left_out)


def test_brokers_of_their_own_ids_are_replicas_whatever_their_folders_are_called(unpacked, tmp_path):
    broker(unpacked, BEFORE, tmp_path, "2")
    broker(unpacked, "brokers/2", tmp_path, "three")
    diverging, reasons, _ = judged(tmp_path)
    assert len(diverging) == 1
    assert not reasons


def test_an_id_in_the_server_log_is_believed_before_one_that_two_claim(unpacked, tmp_path):
    broker(unpacked, BEFORE, tmp_path, "a")
    broker(unpacked, "brokers/2", tmp_path, "b", id_="1", log=True)
    diverging, reasons, _ = judged(tmp_path)
    assert len(diverging) == 1
    assert not reasons


def test_no_log_is_judged_if_nothing_shows_which_is_the_broker_s(unpacked, tmp_path):
    for name, source in (("a", "brokers/1"), ("b", BEFORE)):
        source_folder = broker(unpacked, source, tmp_path, name)
        (source_folder / "data/orders-0/leader-epoch-checkpoint").unlink()
    diverging, reasons, result = judged(tmp_path)
    assert not diverging
    assert len([reason for reason in reasons if "it is not known which of them" in reason]) == 2
    assert result == "unknown"


def test_the_name_and_the_content_of_a_folder_must_agree(unpacked, tmp_path):
    broker(unpacked, BEFORE, tmp_path, "1")
    broker(unpacked, "brokers/1", tmp_path, "1-new")
    _, reasons, _ = judged(tmp_path)
    assert len([reason for reason in reasons if "it is not known which of them" in reason]) == 2


def test_two_disks_of_a_broker_are_one_broker(unpacked, tmp_path):
    first = broker(unpacked, "brokers/1", tmp_path, "1-disk-a")
    broker(unpacked, "brokers/2", tmp_path, "2")
    second = broker(unpacked, "brokers/1", tmp_path, "1-disk-b", OTHER)
    shutil.rmtree(second / "data/orders-0")
    (second / "data/other-0").mkdir()
    shutil.copy(first / "data/orders-0/leader-epoch-checkpoint", second / "data/other-0/leader-epoch-checkpoint")
    parts = find_parts(tmp_path)
    assert not [part for part in parts if part.kind == "left-out"]
    assert {part.broker for part in parts} == {"1", "2"}


HASH = "0123456789abcdef0123456789abcdef"
MEANINGS = [
    ("delete", "a replica that Kafka has deleted"),
    ("stray", "a replica that was no longer assigned to the broker"),
    ("future", "a copy on its way to another disk"),
]


@pytest.mark.parametrize(("suffix", "meaning"), MEANINGS)
def test_a_leftover_folder_is_reported_and_changes_no_verdict(
    unpacked: Callable[..., Path], tmp_path: Path, suffix: str, meaning: str
) -> None:
    """Broker 1 has beside its log one of another run, which differs from it."""
    run = shutil.copytree(unpacked("clean-a"), tmp_path / "run")
    log = unpacked("unclean-election-c") / "snapshots/before-rejoin/brokers/3/data/orders-0"
    folder = f"brokers/1/data/orders-0.{HASH}-{suffix}"
    shutil.copytree(log, run / folder)
    result = check(run)
    assert result.verdict == "valid"
    [beside] = [one for one in result.assumptions if one["name"] == "leftover folders set aside"]
    assert beside["holds"]
    assert beside["says"] == f"{folder} is not judged: it is {meaning}"
    result.save(tmp_path / "out", plots=False)
    listed = [json.loads(line) for line in (tmp_path / "out" / "quarantine.jsonl").read_text().splitlines()]
    assert [row["source"] for row in listed] == [folder]


def test_collect_keeps_leftover_folders_apart(unpacked: Callable[..., Path], tmp_path: Path) -> None:
    disk = shutil.copytree(unpacked("clean-a") / "brokers/1/data", tmp_path / "disk")
    names = [f"orders-0.{HASH}-{suffix}" for suffix, _ in MEANINGS]
    for name in names:
        shutil.copytree(disk / "orders-0", disk / name)
    done = collect(sources_of([f"1={disk}"]), tmp_path / "run")
    copied = tmp_path / "run/brokers/1/data"
    for name in names:
        assert sorted(file.name for file in (copied / name).iterdir()) == sorted(
            file.name for file in (copied / "orders-0").iterdir()
        )
    assert not list(copied.glob("*.log"))
    for _, meaning in MEANINGS:
        assert sum(f"of {meaning}, which `check` does not judge" in line for line in done.logs) == 1
    only = collect(sources_of([f"1={disk}"]), tmp_path / "other", topics=["payments"])
    assert not list((only.target / "brokers").rglob("*.log"))


@pytest.mark.parametrize(
    ("name", "text", "is_named"),
    [
        ("consumer.txt", "p0-0\np0-1\n", True),  # what a console consumer prints
        ("consumer.md", "p0-0\n", False),
        ("truth.json", "{}", False),
        ("producer.log", '{"timestamp":1,"name":"startup_complete"}\n', False),  # a history without operations
    ],
)
def test_a_text_beside_the_brokers_that_is_no_history_is_named(unpacked, tmp_path, name, text, is_named):
    broker(unpacked, "brokers/1", tmp_path, "1")
    (tmp_path / name).write_text(text)
    (clients,) = [one for one in verdict(tmp_path)[0]["assumptions"] if one["name"] == "clients recorded"]
    assert (f"; {name} is of no known format, and not read" in clients["says"]) == is_named


@pytest.mark.parametrize("name", ["host-b.tar.gz", "host-b.zip", "host-b.md"])
def test_an_archive_beside_the_brokers_folders_is_named(unpacked, tmp_path, name):
    broker(unpacked, "brokers/1", tmp_path, "1").rename(tmp_path / "host-a")
    (tmp_path / name).touch()
    (clients,) = [one for one in verdict(tmp_path)[0]["assumptions"] if one["name"] == "clients recorded"]
    assert (f"; {name} is packed, and not read" in clients["says"]) == (name != "host-b.md")
