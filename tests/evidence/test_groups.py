"""`__consumer_offsets`: decoded as Kafka's own decoder does, shown in timelines, and judged."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st
from logjudge.analysis.inspect.events import events_of_partition
from logjudge.analysis.inspect.open_partitions import Inspected
from logjudge.histories.evidence import segments
from logjudge.histories.evidence.group_log import read_group_log
from logjudge.histories.evidence.group_records import decode
from logjudge.histories.evidence.record_schema import MalformedRecordError
from logjudge.histories.evidence.segments import RawRecord
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.histories.simulation.scenarios import load
from notation import parse

from .transaction_logs import SEGMENT, judged, number

DATA = Path(__file__).parent / "data" / "groups"
GROUP_LOG = Path("brokers/1/data/__consumer_offsets-0")
STARTED = 1_767_225_600_000  # ms: 2026-01-01


def text(value: str | None, flexible: bool = False) -> bytes:
    data = b"" if value is None else value.encode()
    if flexible:
        return bytes([0 if value is None else len(data) + 1]) + data
    return (-1 if value is None else len(data)).to_bytes(2, "big", signed=True) + data


def offset_key(group: str, topic: str, partition: int, kind: int = 1) -> bytes:
    return number(kind, 2) + text(group) + text(topic) + number(partition, 4)


def offset_value(version: int, offset: int, time: int = STARTED) -> bytes:
    epoch = number(7, 4) if version >= 3 else b""
    expires = number(9, 8) if version == 1 else b""
    tags = b"\1\0\2id" if version >= 4 else b""  # a tagged field that is skipped
    body = number(offset, 8) + epoch + text("m", version >= 4) + number(time, 8) + expires + tags
    return number(version, 2) + body


def group_value(version: int, generation: int, members: dict[str, list[tuple[str, int]]]) -> bytes:
    flexible = version >= 4
    out = number(version, 2) + text("consumer", flexible) + number(generation, 4)
    out += text("range", flexible) + text(next(iter(members), None), flexible)
    out += number(5, 8) if version >= 2 else b""
    out += bytes([len(members) + 1]) if flexible else number(len(members), 4)
    for member, places in members.items():
        out += text(member, flexible) + (text(None, flexible) if version >= 3 else b"")
        out += text(f"client-{member}", flexible) + text("/127.0.0.1", flexible)
        out += (number(1, 4) if version >= 1 else b"") + number(2, 4)
        listed = b"".join(text(topic) + number(1, 4) + number(partition, 4) for topic, partition in places)
        assignment = number(3, 2) + number(len(places), 4) + listed + number(-1, 4)
        for part in (b"", assignment):
            out += (bytes([len(part) + 1]) if flexible else number(len(part), 4)) + part
        out += b"\0" if flexible else b""
    return out + (b"\0" if flexible else b"")


def write_group_log(folder: Path, records: list[tuple[bytes, bytes | None]]) -> None:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for index, (key, value) in enumerate(records):
        builder.append(index, STARTED + index, key, value, [])
    folder.mkdir(parents=True)
    (folder / SEGMENT).write_bytes(bytes(builder.build()))


def test_agrees_with_kafkas_decoder_record_by_record(tmp_path: Path) -> None:
    """The text is that of `kafka-dump-log --offsets-decoder` 4.1.1, which decodes the same bytes."""
    shutil.copy(DATA / "4.1.1.log", tmp_path / SEGMENT)
    groups, damage = read_group_log(tmp_path)
    assert not len(damage)
    by_offset = {at[0]: rows for at, rows in groups.group_by("at", maintain_order=True)}
    lines = (DATA / "4.1.1.txt").read_text().splitlines()
    assert len(lines) == len(by_offset) > 100
    for line in lines:
        found = re.fullmatch(r"\| offset: (\d+) CreateTime: (\d+) .* key: (\{.*\}) payload: (\{.*\})", line)
        assert found
        key, payload = json.loads(found[3])["data"], json.loads(found[4])["data"]
        rows = by_offset[int(found[1])]
        if "topic" in key:
            expected = {**key, "offset": payload["offset"], "time": payload["commitTimestamp"], "kind": "committed"}
            assert {name: rows.row(0, named=True)[name] for name in expected} == expected
            continue
        first = rows.row(0, named=True)
        assert (first["kind"], first["group"], first["generation"], first["members"], first["time"]) == (
            *("generation", key["group"], payload["generation"], len(payload["members"]), int(found[2])),
        )
        assigned = {
            (member["memberId"], member["clientId"], place["topic"], partition)
            for member in payload["members"]
            for place in member["assignment"]["assignedPartitions"]
            for partition in place["partitions"]
        }
        assert {*rows[1:].select("member", "client", "topic", "partition").rows()} == assigned


@pytest.mark.parametrize("version", range(5))
def test_all_versions_of_values(version: int) -> None:
    commit = decode(offset_key("g", "x", 3, kind=version % 2), offset_value(version, 42))
    assert commit.key == {"group": "g", "topic": "x", "partition": 3}
    assert commit.value["offset"] == 42
    assert commit.value["commitTimestamp"] == STARTED
    group = decode(number(2, 2) + text("g"), group_value(version, 6, {"m1": [("x", 0)], "m2": []}))
    assert (group.key["group"], group.value["generation"]) == ("g", 6)
    assert [member["memberId"] for member in group.value["members"]] == ["m1", "m2"]
    assert decode(offset_key("g", "x", 3), None).value is None
    assert decode(number(10, 2) + text("g"), b"") is None  # of a share group


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=80)), st.sampled_from([0, 1, 2, 3, 5, 8]))
def test_noise_raises_no_other_error(key: bytes, value: bytes | None, kind: int) -> None:
    with contextlib.suppress(MalformedRecordError):
        decode(number(kind, 2) + key, value)


@pytest.mark.parametrize("version", range(5))
def test_every_shortened_value_is_damage(version: int) -> None:
    for key, whole in (
        (offset_key("g", "x", 3), offset_value(version, 42)),
        (number(2, 2) + text("g"), group_value(version, 6, {"m1": [("x", 0)]})),
    ):
        for length in range(len(whole)):
            with pytest.raises(MalformedRecordError):
                decode(key, whole[:length])


def test_a_group_of_kip_848_agrees_with_kafkas_decoder(tmp_path: Path) -> None:
    """Ownership follows from the current assignments: assigned, or still to be revoked."""
    shutil.copy(DATA / "kip848.log", tmp_path / SEGMENT)
    owned: dict[str, set[int]] = {}
    expected = []
    ids = set()
    for line in (DATA / "kip848.txt").read_text().splitlines():
        found = re.fullmatch(r"\| offset: (\d+) .* key: (\{.*\}) payload: (.*)", line)
        assert found
        key = json.loads(found[2])
        if key["type"] != "8":
            continue
        value = {} if found[3] == "<DELETE>" else json.loads(found[3])["data"]
        topics = [*value.get("assignedPartitions", ()), *value.get("partitionsPendingRevocation", ())]
        ids |= {topic["topicId"] for topic in topics}
        member, now = key["data"]["memberId"], {number for topic in topics for number in topic["partitions"]}
        before, owned[member] = owned.get(member, set()), now
        at, epoch = int(found[1]), value.get("memberEpoch")
        expected += [(at, "released", member, epoch, partition) for partition in sorted(before - now)]
        expected += [(at, "owned", member, epoch, partition) for partition in sorted(now - before)]
    [topic_id] = ids
    groups, damage = read_group_log(tmp_path, [(topic_id, "orders")])
    rows = groups.filter(pl.col("kind").is_in(["owned", "released"]))
    assert rows.select("at", "kind", "member", "generation", "partition").rows() == expected
    assert (len(expected) > 8, len(damage), {*rows["topic"]}, {*rows["client"]}) == (True, 0, {"orders"}, {"rdkafka"})
    assert not len(read_group_log(tmp_path)[0].filter(pl.col("kind").is_in(["owned", "released"])))  # of unknown topics


def test_later_versions_are_damage(tmp_path: Path) -> None:
    write_group_log(tmp_path / "__consumer_offsets-1", [(offset_key("g", "x", 0), offset_value(5, 1))])
    groups, damage = read_group_log(tmp_path / "__consumer_offsets-1")
    assert not len(groups)
    assert "version 5" in damage["reason"][0]


def test_commits_of_transactions_count_from_their_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, first, second = offset_key("g", "x", 0), 7, 8
    marker = [number(0, 2) + number(kind, 2) for kind in (0, 1)]  # abort, commit
    found = [
        RawRecord(0, STARTED, offset_value(3, 10), 0, key, first),
        RawRecord(1, STARTED, offset_value(3, 20), 0, key, second),
        RawRecord(2, STARTED, None, 0, marker[0], second, is_control=True),
        RawRecord(3, STARTED, None, 0, marker[1], first, is_control=True),
        RawRecord(4, STARTED, offset_value(3, 30), 0, key, first),
    ]
    monkeypatch.setattr(segments, "raw_records", lambda _: (found, []))
    (tmp_path / SEGMENT).touch()
    groups, _ = read_group_log(tmp_path)
    assert groups.select("at", "offset").rows() == [(3, 10)]


HISTORY = (
    "{c.group.id=g started_at=2026-01-01T00:00:00+00:00} p:a@0 p:b@1"
    " c:group=null^1 c:<a@0,b@1 c:handle<a@0 c:commit=1^1 c:crash"
)


@pytest.mark.parametrize(
    ("member", "ms", "is_known"),
    [("c", 20, True), ("other", 20, False), ("c", 10_000, False)],
    ids=["of a member", "of one that recorded nothing", "after the end of the history"],
)
def test_a_stored_commit_without_a_record(tmp_path: Path, member: str, ms: int, is_known: bool) -> None:
    parse(HISTORY).write(tmp_path)
    group = number(2, 2) + text("g")
    records = [
        (group, group_value(3, 1, {member: [("x", 0)]})),
        *((offset_key("g", "x", 0), offset_value(3, offset, STARTED + ms)) for offset in (1, 2)),
    ]
    write_group_log(tmp_path / GROUP_LOG, records)
    losses, verdict = judged(tmp_path, "consumer-loss")
    if not is_known:
        assert (losses, verdict) == ([], "unknown")
        return
    [loss] = losses
    assert (loss["values"], loss["first_offset"]) == (["b"], 1)
    assert any("__consumer_offsets-0" in (item["source"] or "") for item in loss["evidence"])


def test_an_offset_that_was_removed_is_no_commit(tmp_path: Path) -> None:
    parse(HISTORY).write(tmp_path)
    records = [(offset_key("g", "x", 0), offset_value(3, 2)), (offset_key("g", "x", 0), None)]
    write_group_log(tmp_path / GROUP_LOG, records)
    assert judged(tmp_path, "consumer-loss")[0] == []


def test_a_generation_with_two_owners(tmp_path: Path) -> None:
    parse(HISTORY).write(tmp_path)
    records = [(number(2, 2) + text("g"), group_value(3, 4, {"c": [("x", 0)], "d": [("x", 0), ("x", 1)]}))]
    write_group_log(tmp_path / GROUP_LOG, records)
    [twice], _ = judged(tmp_path, "ownership")
    assert (twice["partition"], twice["sentence"]) == (0, "generation 4 of group g assigns x-0 to c and d")


TOPIC_ID = "o73ACLkUSEqHiKYgseACcA"


def owns(member: str, epoch: int, assigned: list[int], pending: list[int] = []) -> tuple[bytes, bytes | None]:  # noqa: B006
    """A member's current assignment in a group of KIP-848; without an epoch (0) its removal."""
    key = number(8, 2) + text("g") + text(member)
    if not epoch:
        return key, None
    out = number(0, 2) + number(epoch, 4) + number(epoch - 1, 4) + number(0, 1)
    for places in (assigned, pending):
        listed = b"".join(number(place, 4) for place in places)
        entry = base64.urlsafe_b64decode(TOPIC_ID + "==") + bytes([len(places) + 1]) + listed + b"\0"
        out += bytes([2]) + entry if places else bytes([1])
    return key, out + b"\0"


def write_group_of_kip_848(folder: Path, *records: tuple[bytes, bytes | None]) -> None:
    parse(HISTORY).write(folder)
    data = folder / "brokers" / "1" / "data"
    write_group_log(data / "__consumer_offsets-0", list(records))
    (data / "x-1").mkdir()
    (data / "x-1" / "partition.metadata").write_text(f"version: 0\ntopic_id: {TOPIC_ID}\n")


@pytest.mark.parametrize(
    ("records", "is_breach"),
    [
        ([owns("c", 1, [0]), owns("d", 2, [0])], True),
        ([owns("c", 1, [0]), owns("c", 1, [], [0]), owns("d", 2, [0])], True),
        ([owns("c", 1, [0]), owns("c", 1, [], [0]), owns("c", 2, []), owns("d", 2, [0])], False),
        ([owns("c", 1, [0]), owns("c", 0, []), owns("d", 2, [0])], False),
        ([owns("c", 1, [0]), owns("d", 2, [1])], False),
    ],
    ids=["both own it", "not yet revoked", "revoked", "removed", "another partition"],
)
def test_an_owner_of_kip_848_that_has_not_revoked(
    tmp_path: Path, records: list[tuple[bytes, bytes | None]], is_breach: bool
) -> None:
    write_group_of_kip_848(tmp_path, *records)
    found, _ = judged(tmp_path, "ownership")
    sentence = "member d of group g owned x-0 in epoch 2, but member c had not revoked it"
    assert [one["sentence"] for one in found] == [sentence] * is_breach


@pytest.mark.parametrize(("member", "verdict"), [("c", "invalid"), ("other", "unknown")])
def test_members_of_kip_848_without_a_record_may_have_handled(tmp_path: Path, member: str, verdict: str) -> None:
    commit = (offset_key("g", "x", 0), offset_value(3, 2, STARTED + 20))
    write_group_of_kip_848(tmp_path, owns(member, 1, [0]), commit)
    assert judged(tmp_path, "consumer-loss")[1] == verdict


def test_timelines_show_the_owners_of_kip_848(tmp_path: Path) -> None:
    write_group_of_kip_848(tmp_path, owns("c", 1, [0]), owns("c", 0, []), owns("d", 2, [0]))
    write_group_log(tmp_path / "brokers" / "1" / "data" / "x-0", [(b"k", b"a"), (b"k", b"b")])
    shown = [
        event.sentence for event in events_of_partition(Inspected(tmp_path).partition("x-0")) if event.kind == "group"
    ]
    assert [re.sub(r"\(.*?\)", "()", text) for text in shown] == [
        "c () of group g owned x-0 in member epoch 1",
        "c () of group g no longer owned x-0",
        "None () of group g owned x-0 in member epoch 2",
    ]


def test_a_stored_commit_beyond_the_leaders_log(tmp_path: Path) -> None:
    scenario = load("acks1-failover")
    folder = write_bundle(scenario, tmp_path / "run").folder
    records = [(offset_key("strangers", "orders", 0), offset_value(3, 10**6))]
    for broker in sorted((folder / "brokers").iterdir()):
        if list(broker.rglob("orders-0")):
            write_group_log(next(broker.rglob("orders-0")).parent / "__consumer_offsets-0", records)
    [beyond], _ = judged(folder, "commit-beyond-end")
    assert beyond["last_offset"] == 10**6 - 1
    assert "group strangers committed orders-0@1000000" in beyond["sentence"]
    opened = Inspected(folder)
    events = [event.sentence for event in events_of_partition(opened.partition("orders-0")) if event.kind == "group"]
    assert events == ["group strangers committed orders-0@1000000, the last of 1 commit"]


@pytest.mark.parametrize(
    ("brokers", "stored_at", "commit", "is_breach"),
    [
        (3, 0, "commit=2", True),
        (2, 0, "commit=2", False),  # a replica with the commit may not have been collected
        (3, 3000, "commit=2", False),  # the offset was committed later
        (3, 0, "commit=1", False),
    ],
)
def test_a_commit_that_all_copies_lost(
    tmp_path: Path, brokers: int, stored_at: int, commit: str, is_breach: bool
) -> None:
    settings = "{c.group.id=g started_at=2026-01-01T00:00:00+00:00}"
    parse(f"{settings} p:a@0 p:b@1 c:<a@0,b@1 c:{commit} p:d@2 final:<a@0,b@1,d@2").write(tmp_path)
    file = tmp_path / "history.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps({**line, "time": line["time"] + 2 * 10**9}) + "\n" for line in lines))
    for broker in range(1, brokers + 1):
        data = tmp_path / "brokers" / str(broker) / "data"
        record = (offset_key("g", "x", 0), offset_value(3, 1, STARTED + stored_at))
        write_group_log(data / "__consumer_offsets-0", [record])
        write_group_log(data / "x-0", [(b"k", value) for value in (b"a", b"b", b"d")])
    found, _ = judged(tmp_path, "commit-regression")
    assert len(found) == is_breach
    assert all("c of group g committed x-0@2" in one["sentence"] and "is @1" in one["sentence"] for one in found)
    assert all(one["cause"] == "commits-lost" for one in found)
