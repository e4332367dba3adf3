"""`logjudge collect`, and what the lab does to disks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from command_line import LOSSY, shell
from logjudge.histories.errors import LogjudgeError, UsageError
from logjudge.histories.evidence.segments import read_segment
from logjudge.histories.recording import collect as collecting
from logjudge.histories.recording.batch_bounds import batches
from logjudge.histories.recording.collect import collect, sources_of
from logjudge.histories.recording.lab import disks

SEGMENT = "00000000000000000000.log"
LOG = LOSSY / "brokers" / "1" / "data" / "orders-0" / SEGMENT


def disk(folder: Path, broker: str, *partitions: str) -> Path:
    """A broker's log.dirs with real segments, and files that are no evidence."""
    folder.mkdir(parents=True)
    (folder / "meta.properties").write_text(f"version=1\nnode.id={broker}\n")
    (folder / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    for name in partitions:
        (folder / name).mkdir()
        shutil.copyfile(LOG, folder / name / SEGMENT)
        (folder / name / SEGMENT).with_suffix(".index").write_bytes(bytes(64))
        (folder / name / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    return folder


def collected(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_evidence_is_copied_and_nothing_else(tmp_path: Path) -> None:
    of_coordinators = ("__consumer_offsets-3", "__transaction_state-1")
    disk(
        tmp_path / "kafka" / "data", "7", "orders-0", *of_coordinators, "__cluster_metadata-0", "__share_group_state-2"
    )
    for name in (f"{0:020d}.txnindex", f"{9:020d}.snapshot"):
        (tmp_path / "kafka" / "data" / "orders-0" / name).touch()
    (tmp_path / "kafka" / "server.log.2026-11-23-10").write_text("[2026-11-23 10:00:00,000] INFO started (kafka)\n")
    (tmp_path / "kafka" / "server.properties").write_text("ssl.key.password=secret\n")
    done = collect(sources_of([str(tmp_path / "kafka")]), tmp_path / "run")
    assert done.brokers == ["7"]
    assert collected(tmp_path / "run" / "brokers" / "7") == {
        "data/meta.properties",
        "data/replication-offset-checkpoint",
        *(f"data/orders-0/{name}" for name in (SEGMENT, "leader-epoch-checkpoint")),
        *(f"data/orders-0/{name}" for name in (f"{0:020d}.txnindex", f"{9:020d}.snapshot")),
        *(f"data/__cluster_metadata-0/{name}" for name in (SEGMENT, "leader-epoch-checkpoint")),
        *(f"data/{topic}/{name}" for topic in of_coordinators for name in (SEGMENT, "leader-epoch-checkpoint")),
        "server.log.2026-11-23-10",
    }
    assert (tmp_path / "run" / "brokers" / "7" / "data" / "orders-0" / SEGMENT).read_bytes() == LOG.read_bytes()


def test_brokers_below_one_folder_are_separated_and_topics_chosen(tmp_path: Path) -> None:
    internal = ("__transaction_state-0", "__share_group_state-0")
    for broker in "12":
        disk(tmp_path / "lab" / "brokers" / broker / "data", broker, "orders-0", "other-0", *internal)
        (tmp_path / "lab" / "brokers" / broker / "server.log").write_text("")
    sources = sources_of([str(tmp_path / "lab")])
    assert [(source.broker, source.folder.name) for source in sorted(sources)] == [("1", "1"), ("2", "2")]
    collect(sources, tmp_path / "a", topics=["other"], logs=False)
    expected = ("other-0", "__transaction_state-0")  # a coordinator's topic is evidence for each topic
    assert {path.split("/", 2)[2] for path in collected(tmp_path / "a")} == {
        *("data/meta.properties", "data/replication-offset-checkpoint"),
        *(f"data/{folder}/{name}" for folder in expected for name in (SEGMENT, "leader-epoch-checkpoint")),
    }
    collect(sources, tmp_path / "b", topics=["other"], internal=True, logs=False)
    assert collected(tmp_path / "b") - collected(tmp_path / "a") == {
        f"brokers/{broker}/data/__share_group_state-0/{name}"
        for broker in "12"
        for name in (SEGMENT, "leader-epoch-checkpoint")
    }


def test_the_disks_of_one_broker_do_not_overwrite_each_other(tmp_path: Path) -> None:
    disk(tmp_path / "kafka" / "d1", "1", "orders-0")
    disk(tmp_path / "kafka" / "d2", "1", "orders-1")
    collect(sources_of([str(tmp_path / "kafka")]), tmp_path / "run")
    found = collected(tmp_path / "run" / "brokers" / "1")
    assert {f"data-d1/orders-0/{SEGMENT}", f"data-d2/orders-1/{SEGMENT}", "data-d2/meta.properties"} <= found


def test_a_disk_may_be_many_folders_below_the_given_one(tmp_path: Path) -> None:
    disk(
        tmp_path / "support" / "kafka" / "pods" / "broker-0" / "var" / "lib" / "kafka" / "data" / "log0",
        "1",
        "orders-0",
    )
    collect(sources_of([str(tmp_path / "support")]), tmp_path / "run")
    assert f"data/orders-0/{SEGMENT}" in collected(tmp_path / "run" / "brokers" / "1")


def test_a_segment_that_grows_is_cut_at_a_whole_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ends = [batch.end for batch in batches(LOG)]
    data = disk(tmp_path / "data", "1", "orders-0")
    segment = data / "orders-0" / SEGMENT
    segment.write_bytes(LOG.read_bytes()[: ends[2] + 20])  # a part of the fourth batch
    read_size = Path.stat

    def grow_after_stat(path: Path, **options: bool) -> os.stat_result:
        found = read_size(path, **options)
        if path == segment and found.st_size < ends[4]:
            with segment.open("ab") as file:
                file.write(LOG.read_bytes()[found.st_size : ends[4]])
        return found

    monkeypatch.setattr(Path, "stat", grow_after_stat)
    collect(sources_of([str(data)]), tmp_path / "run")
    assert (tmp_path / "run" / "brokers" / "1" / "data" / "orders-0" / SEGMENT).stat().st_size == ends[2]


def test_the_torn_tail_of_a_dead_broker_stays_as_it_is(tmp_path: Path) -> None:
    data = disk(tmp_path / "data", "1", "orders-0")
    torn = LOG.read_bytes()[:-3]
    (data / "orders-0" / SEGMENT).write_bytes(torn)
    collect(sources_of([str(data)]), tmp_path / "run")
    assert (tmp_path / "run" / "brokers" / "1" / "data" / "orders-0" / SEGMENT).read_bytes() == torn


def test_a_folder_without_a_broker_needs_its_number(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "server.log").write_text("")
    with pytest.raises(UsageError, match="name it: ID="):
        sources_of([str(tmp_path / "logs")])
    assert collect(sources_of([f"4={tmp_path / 'logs'}"]), tmp_path / "run").brokers == ["4"]
    with pytest.raises(UsageError, match="no such folder"):
        sources_of(["5=/nowhere"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="archives must be unpacked"):
        sources_of([str(tmp_path / "empty")])
    with pytest.raises(LogjudgeError, match="found no segments"):
        collect(sources_of([f"4={tmp_path / 'empty'}"]), tmp_path / "other")


def test_files_of_the_same_name_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for name in ("d1/kafka", "d2/kafka"):
        disk(tmp_path / name, "1", "orders-0")
    for name in ("logs", "logs/archive"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.log").write_text(name)
    done = collect(sources_of([str(tmp_path / "d1"), str(tmp_path / "d2"), f"1={tmp_path / 'logs'}"]), tmp_path / "run")
    found = collected(tmp_path / "run" / "brokers" / "1")
    assert {f"data/orders-0/{SEGMENT}", f"more-1/kafka/orders-0/{SEGMENT}"} <= found
    assert {"server.log", "more-1/server.log"} <= found
    assert done.files == len(found)


def test_pipes_and_broken_links_are_not_waited_for(tmp_path: Path) -> None:
    data = disk(tmp_path / "data", "1", "orders-0")
    os.mkfifo(data / "server.log")
    (data / "orders-0" / "leader-epoch-checkpoint").unlink()
    (data / "orders-0" / "leader-epoch-checkpoint").symlink_to("nowhere")
    collect(sources_of([str(data)]), tmp_path / "run")
    found = collected(tmp_path / "run" / "brokers" / "1")
    assert f"data/orders-0/{SEGMENT}" in found
    assert not [name for name in found if name.endswith(("server.log", "leader-epoch-checkpoint"))]


@pytest.mark.parametrize("argument", ["1=", "../..=.", "a/b=.", "=."])
def test_a_broker_has_an_id_and_a_folder(argument: str) -> None:
    with pytest.raises(UsageError, match="expected ID=FOLDER"):
        sources_of([argument])


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_files_without_read_permission_are_listed(tmp_path: Path) -> None:
    data = disk(tmp_path / "data", "1", "orders-0")
    (data / "orders-0" / SEGMENT).chmod(0)
    assert collect(sources_of([str(data)]), tmp_path / "run").unreadable == [str(data / "orders-0" / SEGMENT)]


def test_the_command_refuses_a_bundle_with_brokers(tmp_path: Path) -> None:
    data = disk(tmp_path / "data", "1", "orders-0")
    out = tmp_path / "run"
    assert shell("collect", data, "--out", out, cwd=tmp_path).returncode == 0
    again = shell("collect", data, "--out", out, cwd=tmp_path)
    assert again.returncode == 2
    assert "found brokers/" in again.stderr


def test_batches_have_the_offsets_that_the_segment_has() -> None:
    frame = read_segment(LOG).records
    found = list(batches(LOG))
    assert found[0].start == 0
    assert found[-1].end == LOG.stat().st_size
    assert found[-1].last_offset == frame["offset"].max()


def test_a_tail_is_cut_in_whole_batches_and_later_segments_go(tmp_path: Path) -> None:
    folder = disk(tmp_path / "data", "1", "orders-0") / "orders-0"
    found = list(batches(LOG))
    last = found[-1].last_offset
    cut = disks.cut_tail(folder, 3)
    assert cut["offsets_cut"][1] == last  # type: ignore[index]
    assert list(batches(folder / SEGMENT))[-1].last_offset < last - 2
    assert not (folder / SEGMENT).with_suffix(".index").exists()
    with pytest.raises(UsageError, match="no records"):
        disks.cut_tail(tmp_path / "data", 3)


def test_a_backup_brings_back_what_was_there(tmp_path: Path) -> None:
    data = disk(tmp_path / "data", "1", "orders-0", "orders-1")
    disks.back_up(data, tmp_path / "copy", ["orders-0", "missing-0"])
    disks.cut_tail(data / "orders-0", 3)
    assert disks.restore(data, tmp_path / "copy") == ["orders-0"]
    assert (data / "orders-0" / SEGMENT).read_bytes() == LOG.read_bytes()
    with pytest.raises(UsageError, match="no such backup"):
        disks.restore(data, tmp_path / "none")
    with pytest.raises(LogjudgeError, match="no replica"):
        disks.partition_folder(data, "../data")


KAFKA_LINE = "[2026-11-23 10:00:00,000] INFO [SocketServer listenerType=BROKER, nodeId={}] Started (kafka.network)\n"


def pods(folder: Path) -> Path:
    """Copies of two brokers' disks and logs and of a controller's log, in folders with the names of pods."""
    for broker in "12":
        disk(folder / f"my-cluster-broker-{broker}", broker, "orders-0")
        (folder / f"my-cluster-broker-{broker}" / "server.log").write_text(KAFKA_LINE.format(broker))
    (folder / "my-cluster-controller-100").mkdir()
    (folder / "my-cluster-controller-100" / "server.log").write_text(KAFKA_LINE.format(100))
    return folder


def test_folders_named_as_pods_are_no_partitions(tmp_path: Path) -> None:
    pods(tmp_path / "copies")
    done = shell("collect", "copies", "--out", "run", cwd=tmp_path)
    assert done.stdout.splitlines()[:-1] == [
        "copied copies/my-cluster-broker-1/server.log: of broker 1",
        "copied copies/my-cluster-broker-2/server.log: of broker 2",
        "copied copies/my-cluster-controller-100/server.log: of broker 100",
    ]
    assert "of brokers 1, 2, 100" in done.stdout
    assert collected(tmp_path / "run") == {
        *(
            f"brokers/{broker}/{name}"
            for broker in "12"
            for name in (
                "server.log",
                "data/meta.properties",
                "data/replication-offset-checkpoint",
                f"data/orders-0/{SEGMENT}",
                "data/orders-0/leader-epoch-checkpoint",
            )
        ),
        "brokers/100/server.log",
    }
    only = collect(sources_of([str(tmp_path / "copies")]), tmp_path / "only", topics=["other"])
    assert len(only.logs) == 3


@pytest.mark.parametrize("prefix", ["", "100="])
def test_a_controller_may_have_only_a_log(prefix: str, tmp_path: Path) -> None:
    folder = pods(tmp_path / "copies") / "my-cluster-controller-100"
    done = collect(sources_of([f"{prefix}{folder}"]), tmp_path / "run")
    assert (done.brokers, done.logs) == (["100"], [f"{folder}/server.log: of broker 100"])
    assert collected(tmp_path / "run") == {"brokers/100/server.log"}


def test_a_named_folder_is_copied_once(tmp_path: Path) -> None:
    copies = pods(tmp_path / "copies")
    (copies / "my-cluster-controller-100" / "server.log").write_text(KAFKA_LINE.format("").replace("nodeId", "no"))
    done = collect(sources_of([str(copies), f"100={copies}/my-cluster-controller-100"]), tmp_path / "run")
    assert done.brokers == ["1", "2", "100"]
    assert len([name for name in collected(tmp_path / "run") if name.endswith("server.log")]) == 3


def test_a_log_of_several_brokers_stays_one_file(tmp_path: Path) -> None:
    copies = pods(tmp_path / "copies")
    lines = [f"[pod/my-cluster-broker-{broker}/kafka] {KAFKA_LINE.format(broker)}" for broker in "12"]
    for name in ("all.log", "server.log"):
        (copies / name).write_text("".join(lines))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "all.log").write_text("of the workload")
    done = collect(sources_of([str(copies)]), tmp_path / "run")
    assert f"{copies}/all.log: of brokers 1, 2" in done.logs
    assert {"all.log.1", "server.log"} <= collected(tmp_path / "run")
    assert (tmp_path / "run" / "all.log").read_text() == "of the workload"


def test_what_is_left_out_is_listed_with_the_reason(tmp_path: Path) -> None:
    copies = pods(tmp_path / "copies")
    (copies / "notes.txt").write_text("first try\n")
    (copies / "3" / "kafka" / "orders-0").mkdir(parents=True)
    shutil.copyfile(LOG, copies / "3" / "kafka" / "orders-0" / SEGMENT)
    done = shell("collect", "copies", "--out", "run", cwd=tmp_path)
    assert done.stderr.splitlines() == [
        "left out copies/notes.txt: no line has the id of the broker that wrote it",
        "left out copies/3/kafka: found no meta.properties, so its broker is not known; name it: ID=copies/3/kafka",
    ]
    assert not [name for name in collected(tmp_path / "run") if "notes" in name or "brokers/3" in name]


def test_texts_of_kafka_dump_log_are_left_out_and_named(tmp_path: Path) -> None:
    disk(tmp_path / "one", "7", "orders-1")
    (tmp_path / "one" / "orders-0.txt").write_text(f"Dumping orders-0/{SEGMENT}\nLog starting offset: 0\n")
    done = collect(sources_of([str(tmp_path / "one")]), tmp_path / "run")
    (line,) = done.left_out
    assert line.startswith(f"{tmp_path}/one/orders-0.txt: a text of kafka-dump-log")
    assert not [name for name in collected(tmp_path / "run") if name.endswith(".txt")]


def test_a_log_without_an_id_has_the_broker_that_check_names(tmp_path: Path) -> None:
    copies = pods(tmp_path / "copies")
    text = KAFKA_LINE.format("").replace("nodeId", "no")
    for name in ("100", "my-cluster-broker-9"):
        (copies / name).mkdir()
        (copies / name / "server.log").write_text(text)
    done = collect(sources_of([str(copies)]), tmp_path / "run")
    assert f"{copies}/100/server.log: of broker 100" in done.logs
    assert any("my-cluster-broker-9/server.log: of an unknown broker" in line for line in done.logs)
    assert (tmp_path / "run" / "server.log").read_text() == text


def test_checkpoints_are_copied_before_the_logs_that_brokers_write_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the first segment is copied, the broker checkpoints a high watermark above its records."""
    data = disk(tmp_path / "data", "7", "orders-0")
    copy_of = collecting._copy

    def copy(file: Path, target: Path) -> int:
        size = copy_of(file, target)
        if file.name == SEGMENT:
            (data / "replication-offset-checkpoint").write_text("0\n1\norders 0 99999\n")
        return size

    monkeypatch.setattr(collecting, "_copy", copy)
    collect(sources_of([str(data)]), tmp_path / "run")
    copied = tmp_path / "run" / "brokers" / "7" / "data" / "replication-offset-checkpoint"
    assert copied.read_text() == "0\n1\norders 0 5\n"
    assert "99999" in (data / "replication-offset-checkpoint").read_text()
