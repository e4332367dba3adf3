"""Evidence is found in any folder, and odd folders do no harm."""

from __future__ import annotations

import gzip
import os
import shutil
from dataclasses import replace

import polars as pl
import pytest
from logjudge.histories.bundle import open_run
from logjudge.histories.errors import InputError
from logjudge.histories.evidence.layout import UNDATED, find_parts, split_part
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.parts import Part

from .conftest import gathered

SEGMENT = f"{0:020d}.log"


def summary(root):
    return {(p.snapshot, p.broker, p.kind, p.topic, p.partition) for p in find_parts(root)}


def test_a_bundle_has_snapshots_and_brokers(unpacked):
    found = summary(unpacked("unclean-election-m"))
    assert ("", "1", "segment", "orders", 0) in found
    assert ("before-rejoin", "3", "segment", "orders", 0) in found
    assert ("", "100", "metadata", None, None) in found
    assert ("", "2", "log", None, None) in found
    assert ("after-rejoin", "2", "epochs", "orders", 0) in found


@pytest.mark.parametrize(
    ("below", "kinds"),
    [
        ("brokers", {"segment", "metadata", "log", "offsets", "epochs", "properties"}),
        ("brokers/1", {"segment", "metadata", "log", "offsets", "epochs", "properties"}),
        ("brokers/1/data", {"segment", "metadata", "offsets", "epochs", "properties"}),
        ("brokers/1/data/orders-0", {"segment", "epochs", "properties"}),
        ("brokers/1/server.log", {"log"}),
        ("brokers/1/data/orders-0/" + SEGMENT, {"segment"}),
    ],
)
def test_any_part_of_a_bundle_is_evidence_by_itself(unpacked, below, kinds):
    parts = find_parts(unpacked("unclean-election-m") / below)
    assert {part.kind for part in parts} == kinds
    tables = [(part.kind, block) for part in parts for block in read_part(part) if block.frame.height]
    assert {kind for kind, _ in tables} == kinds
    assert "damage" not in {block.table for _, block in tables}
    if below != "brokers" and any(part.path.name == "meta.properties" for part in parts):
        assert {part.broker for part in parts} == {"1"}


@pytest.mark.parametrize("below", ["", "1", "1/data", "1/data/demo-0", "1/data/__cluster_metadata-0", "1/server.log"])
def test_a_piece_of_what_a_broker_keeps_is_a_run_without_a_history(below, unpacked, tmp_path):
    broker = tmp_path / "1"
    shutil.copytree(unpacked("custom-kraft") / "brokers/1/data", broker / "data")
    shutil.copy(unpacked("unclean-election-a") / "brokers/1/server.log", broker)
    run = open_run(tmp_path / below)
    assert (run.splits, bool(run.evidence)) == ((), True)


def test_brokers_have_the_id_that_the_controller_knows(unpacked):
    brokers = {part.broker for part in find_parts(unpacked("custom-kraft"))}
    assert brokers == {"101", "102", "103"}


def test_a_folder_above_a_log_dir_has_its_broker_id(unpacked, tmp_path):
    """Hosts' folders, each with a server.log beside its log.dir: no second broker named after the host."""
    for number in "123":
        shutil.copytree(unpacked("unclean-election-a") / "brokers" / number, tmp_path / f"host-{number}")
    brokers = {part.name.split("/")[0]: part.broker for part in find_parts(tmp_path) if part.kind == "log"}
    assert brokers == {"host-1": "1", "host-2": "2", "host-3": "3"}
    alone = {part.broker for part in find_parts(tmp_path / "host-2")}
    assert alone == {"2"}


def test_a_dump_beside_its_segments_is_passed_over(unpacked, tmp_path):
    root = unpacked("unclean-election-a")
    assert not [part for part in find_parts(root) if part.kind == "dump"]
    unnamed = tmp_path / "unnamed"
    shutil.copytree(root / "brokers", unnamed / "brokers")
    shutil.copyfile(root / "dump" / "1-orders-0.txt", unnamed / "brokers" / "1" / "log.txt")
    assert not [part for part in find_parts(unnamed) if part.kind == "dump"]
    shutil.copyfile(root / "dump" / "1-orders-0.txt", unnamed / "brokers" / "9.txt")  # of another broker
    assert len([part for part in find_parts(unnamed) if part.kind == "dump"]) == 1
    alone = find_parts(root / "dump")
    assert {(p.snapshot, p.broker, p.topic, p.partition) for p in alone} == {
        (snapshot, broker, "orders", 0) for snapshot in ("", "before-rejoin") for broker in ("1", "2", "3")
    }
    tables = gathered(block for part in alone for block in read_part(part))
    assert set(tables[("orders", 0)]["records"]["broker"]) == {"1", "2", "3"}


def test_ranges_give_the_same_rows(unpacked):
    for part in find_parts(unpacked("retention-a")):
        whole = sum(b.frame.height for b in read_part(part))
        pieces = split_part(part, 3000)
        assert sum(b.frame.height for piece in pieces for b in read_part(piece)) == whole


def test_odd_names_and_links_in_circles_do_no_harm(tmp_path):
    folder = tmp_path / "brokers" / "1" / "data" / "or ders-0"
    folder.mkdir(parents=True)
    (folder / SEGMENT).write_bytes(b"x" * 40)
    odd = tmp_path / "brokers" / "1" / "data" / "orders-99999999999"
    odd.mkdir()
    (odd / SEGMENT).write_bytes(b"")
    good = tmp_path / "brokers" / "1" / "data" / "my.topic_a-b-7"
    good.mkdir()
    (good / SEGMENT).write_bytes(b"x" * 40)
    (good / "leader-epoch-checkpoint").mkdir()
    (tmp_path / "brokers" / "loop").symlink_to(tmp_path)
    (good / "dangling").symlink_to(tmp_path / "nowhere")
    os.mkfifo(good / f"{5:020d}.log")
    with open(os.fsencode(str(good)) + b"/\xff.log", "wb"):  # noqa: PTH123
        pass
    deleted = tmp_path / "brokers" / "1" / "data" / "orders-0.abc-delete"
    deleted.mkdir()
    (deleted / SEGMENT).write_bytes(b"")
    parts = [part for part in find_parts(tmp_path) if part.kind != "misplaced"]
    found = [("segment", "my.topic_a-b", 7), ("unreadable", "my.topic_a-b", 7)]  # the pipe is reported
    assert [(p.kind, p.topic, p.partition) for p in parts] == found
    [block] = read_part(parts[0])
    assert block.table == "damage"


def test_a_folder_with_a_name_that_is_not_utf_8_is_reported(tmp_path):
    """A broker's folder can have the name of its host in another encoding."""
    folder = os.fsencode(tmp_path) + b"/brokers/br\xfccke/orders-0"
    os.makedirs(folder)  # noqa: PTH103
    with open(folder + b"/" + SEGMENT.encode(), "wb"):  # noqa: PTH123
        pass
    [part] = find_parts(tmp_path)
    assert (part.kind, part.name) == ("unreadable", "brokers/br\\udcfccke")
    assert "not UTF-8" in part.reason


def test_a_folder_with_a_leading_zero_or_a_suffix_is_of_no_partition(tmp_path):
    """Brokers write orders-0. Two folders of one number would be two logs of one replica."""
    for name in ("orders-0", "orders-00", "orders-00-1", "orders-0-b1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020d}.log").touch()
    found = {part.name.split("/")[0]: (part.kind, part.topic, part.partition) for part in find_parts(tmp_path)}
    read = {"orders-0": ("segment", "orders", 0), "orders-00-1": ("segment", "orders-00", 1)}
    assert found == {**read, **dict.fromkeys(("orders-00", "orders-0-b1"), ("misplaced", None, None))}


@pytest.mark.parametrize("folder", ["1/orders-00", "orders-0-b1", "copies"])
def test_a_run_with_segments_in_no_partition_s_folder_is_refused(folder, tmp_path):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / SEGMENT).touch()
    with pytest.raises(InputError, match=rf"segments in no partition's folder \({folder}/{SEGMENT}\), expected"):
        open_run(tmp_path)


def test_topics_of_one_topic_id_are_copies_with_a_broker_s_name(unpacked, tmp_path):
    log_dir = unpacked("unclean-election-m") / "brokers" / "2" / "data"
    for name in ("broker1-orders-0", "broker2-orders-0"):
        shutil.copytree(log_dir / "orders-0", tmp_path / name)
    found = r"one topic id \(.{22}\) in folders of broker1-orders, broker2-orders, expected a folder TOPIC-PARTITION"
    with pytest.raises(InputError, match=found):
        open_run(tmp_path)
    (tmp_path / "broker2-orders-0").rename(tmp_path / "broker1-orders-1")
    assert open_run(tmp_path).evidence


def test_an_empty_or_missing_folder_has_no_evidence(tmp_path):
    assert find_parts(tmp_path) == []
    assert find_parts(tmp_path / "none") == []


def test_a_file_that_goes_away_is_damage(tmp_path):
    folder = tmp_path / "orders-0"
    folder.mkdir()
    for name in (SEGMENT, "leader-epoch-checkpoint"):
        (folder / name).write_text("0\n0\n")
    parts = find_parts(tmp_path)
    for path in folder.iterdir():
        path.unlink()
    for part in parts:
        [block] = [b for piece in split_part(part) for b in read_part(piece)]
        assert (block.table, block.frame["kind"].to_list()) == ("damage", ["unreadable"])


@pytest.mark.parametrize("name", ["unclean-election-a", "kip-101-a"])
def test_a_log_belongs_to_the_broker_of_its_own_lines(unpacked, tmp_path, name):
    """The logs of three hosts, one of them compressed, one renamed, beside the log.dirs of one broker."""
    brokers = unpacked(name) / "brokers"
    shutil.copytree(brokers / "1/data", tmp_path / "log.dirs")
    for number, log in (("1", "a/server.log"), ("2", "b/server.log.2026-11-20-10.gz"), ("3", "kafka-c.log")):
        text = (brokers / number / "server.log").read_bytes()
        (tmp_path / log).parent.mkdir(exist_ok=True)
        (tmp_path / log).write_bytes(gzip.compress(text) if log.endswith(".gz") else text)
    (tmp_path / "b/log-cleaner.log").write_text("[2026-11-20 10:00:00,000] INFO Starting the log cleaner\n")
    (tmp_path / "application.log").write_text("[2026-11-20 10:00:00,000] INFO [Producer clientId=1] Closing\n")
    found = {part.name: part.broker for part in find_parts(tmp_path) if part.kind == "log"}
    logs = {"a/server.log": "1", "b/server.log.2026-11-20-10.gz": "2", "kafka-c.log": "3"}
    assert found == logs | {"b/log-cleaner.log": "2"}
    assert {part.broker for part in find_parts(tmp_path) if part.kind != "log"} == {"1"}


def test_hosts_without_meta_properties_have_the_id_in_their_logs(unpacked, tmp_path):
    for number, host in (("1", "brokers/kafka-a"), ("2", "brokers/kafka-b"), ("3", "kafka-c")):
        shutil.copytree(unpacked("unclean-election-a") / "brokers" / number, tmp_path / host)
        (tmp_path / host / "data/meta.properties").unlink()
    brokers = {part.path.relative_to(tmp_path).as_posix()[:15]: part.broker for part in find_parts(tmp_path)}
    assert {host: broker for host, broker in brokers.items() if "kafka-c" not in host} == {
        "brokers/kafka-a": "1",
        "brokers/kafka-b": "2",
    }
    assert {broker for host, broker in brokers.items() if "kafka-c" in host} == {"3"}


PREFIXES = {
    "compose": "kafka-{0}  | ",
    "coloured": "\x1b[3{0}mkafka-{0}  |\x1b[0m ",
    "kubectl": "[pod/kafka-{0}/broker] ",
    "timestamps": "kafka-{0} | 2026-11-21T09:23:04.607123456Z ",
    "journald": "Nov 21 09:23:04 host-{0} kafka-server-start.sh[{0}17]: ",
    "short-iso": "2026-11-21T09:23:04+0000 host-{0} kafka-server-start.sh[{0}17]: ",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", ["unclean-election-a", "kip-101-a"])
@pytest.mark.parametrize("form", PREFIXES)
@pytest.mark.parametrize("order", ["interleaved", "one by one"])
def test_lines_with_prefixes_are_those_of_their_brokers(unpacked, tmp_path, name, form, order):
    """One file with the logs of three brokers gives the events that three files give, with its own line numbers."""
    brokers = unpacked(name) / "brokers"
    texts = {number: (brokers / number / "server.log").read_text().splitlines() for number in "123"}
    lines = [(number, line) for number, log in texts.items() for line in log]
    if order == "interleaved":
        places = {number: iter(range(len(log))) for number, log in texts.items()}
        lines.sort(key=lambda line: next(places[line[0]]))
    whole = tmp_path / "all" / "docker.txt"
    whole.parent.mkdir()
    whole.write_text("".join(f"{PREFIXES[form].format(number)}{line}\n" for number, line in lines))
    found = [part for part in find_parts(whole.parent) if part.kind == "log"]
    assert [part.broker for part in found] == ["1", "2", "3"]
    for part in found:
        blocks = [block for piece in split_part(part, 100_000) for block in read_part(piece)]
        got = pl.concat([block.frame for block in blocks]).sort("line")
        apart = Part("", part.broker, "log", brokers / part.broker / "server.log", "server.log")
        expected = pl.concat([block.frame for block in read_part(apart)]).sort("line")
        assert got.drop("line", "file").equals(expected.drop("line", "file"))
        of_broker = [at for at, (number, _) in enumerate(lines, 1) if number == part.broker]
        assert got["line"].to_list() == [of_broker[at - 1] for at in expected["line"]]


def test_a_log_of_one_service_is_of_the_broker_in_its_lines(unpacked, tmp_path):
    log = unpacked("kip-101-a") / "brokers/2/server.log"
    lines = log.read_text().splitlines()
    (tmp_path / "server.log").write_text("".join(f"broker | {line}\n" for line in lines))
    [part] = find_parts(tmp_path)
    assert (part.kind, part.broker, part.source) == ("log", "2", "broker")


@pytest.mark.parametrize("text", ["", "Picked up JAVA_TOOL_OPTIONS: -Xmx1g\n[2026-11-20 10:00:00,000] INFO started\n"])
def test_a_log_without_times_is_unreadable(text, tmp_path):
    log = tmp_path / "brokers" / "1" / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text(text)
    assert [part.kind for part in find_parts(tmp_path)] == ["log"]
    log.write_text('{"when": "2026-11-20T10:00:00Z", "message": "started", "level": "INFO"}\n')
    [part] = find_parts(tmp_path)
    assert (part.kind, part.broker, part.reason) == ("unreadable", "1", UNDATED)


DUMPED = """\
Dumping /var/lib/kafka/orders-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 19 count: 20 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: 0 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 \
CreateTime: 1795858673371 size: 305 magic: 2 compresscodec: none crc: 1086981969 isvalid: true
"""
STARTED = (
    "[2026-11-28 10:41:31,496] INFO [KafkaRaftServer nodeId=1] Kafka Server started (kafka.server.KafkaRaftServer)\n"
)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_texts_that_powershell_redirects_are_read_or_reported(encoding, tmp_path):
    """PowerShell's `>` writes UTF-16 with a byte order mark, its `Out-File -Encoding utf8` UTF-8 with one."""
    folder = tmp_path / "brokers" / "1"
    folder.mkdir(parents=True)
    for name, text in (("orders-0.txt", DUMPED), ("server.log", STARTED), ("notes.txt", "Alles gut.\n")):
        (folder / name).write_bytes(text.replace("\n", "\r\n").encode(encoding))
    found = {part.path.name: part for part in find_parts(tmp_path)}
    if not encoding.startswith("utf-16"):
        assert {name: part.kind for name, part in found.items()} == {"orders-0.txt": "dump", "server.log": "log"}
        [block] = read_part(found["orders-0.txt"])
        assert (block.topic, block.frame["last_offset"].to_list()) == ("orders", [19])
        return
    assert {name: part.kind for name, part in found.items()} == dict.fromkeys(
        ("orders-0.txt", "server.log"), "unreadable"
    )
    assert all("expected UTF-8: `iconv -f UTF-16" in part.reason for part in found.values())


def test_a_file_of_a_pod_has_times_and_streams(unpacked, tmp_path):
    log = unpacked("kip-101-a") / "brokers/2/server.log"
    written = [f"2026-11-21T09:23:04.607123456Z stdout F {line}\n" for line in log.read_text().splitlines()]
    (tmp_path / "server.log").write_text("".join(written))
    [part] = find_parts(tmp_path)
    parts = (part, replace(part, path=log, source=None))
    got, expected = (pl.concat([block.frame for block in read_part(one)]) for one in parts)
    assert got.equals(expected)


def test_lines_of_a_service_without_an_id_are_left_out(unpacked, tmp_path):
    lines = (unpacked("kip-101-a") / "brokers/2/server.log").read_text().splitlines()
    lines = [f"kafka-2 | {line}" for line in lines]
    lines.append("kafka-3 | [2026-11-20 10:00:00,000] INFO Truncating log orders-0 to offset 3. (kafka.log.Log)")
    lines.append("shop-1  | [2026-11-20 10:00:00,000] INFO served 200")
    (tmp_path / "all.log").write_text("\n".join(lines))
    found = {part.source: (part.kind, part.broker, part.reason) for part in find_parts(tmp_path)}
    assert found.pop("kafka-2") == ("log", "2", "")
    assert found == {"kafka-3": ("left-out", "?", "no line of kafka-3 has the id of the broker that wrote it")}


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("brokers/1/data/orders-0/00000000000000000000.log.gz", "a compressed segment"),
        ("brokers/1/data/__cluster_metadata-0/00000000000000000000.log.zst", "a compressed segment"),
        ("brokers/1.tar.gz", "an archive"),
        ("brokers/2/disk.zip", "an archive"),
    ],
)
def test_packed_files_of_a_broker_are_reported_and_not_ignored(name, packed, tmp_path):
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(b"x")
    (part,) = find_parts(tmp_path)
    assert part.kind == "unreadable"
    assert part.reason == f"found {packed}, expected files of a broker's disk: unpack it"


@pytest.mark.parametrize("name", ["backup.tar.gz", "brokers/1/server.log.gz", "brokers/1/notes.gz"])
def test_other_compressed_files_are_no_packed_disks(name, tmp_path):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(b"")
    assert all(part.kind == "log" for part in find_parts(tmp_path))


def test_a_folder_of_logs_is_judged_by_those_that_are_evidence(tmp_path):
    line = "[2026-11-21 09:21:33,618] INFO Truncating log orders-0 to offset 5. (kafka.log.Log)\n"
    (tmp_path / "server.log").write_text(line)
    (tmp_path / "controller.log").touch()
    (tmp_path / "kafkaServer-gc.log").write_text("[0.005s][info][gc] Using G1\n")
    (tmp_path / "kafka-request.log").write_text("[2026-11-21 09:21:33,618] DEBUG Completed request\n")
    run = open_run(tmp_path)
    assert not run.splits
    assert [part.name for part in run.evidence] == ["server.log"]
