"""Flipped bits in brokers' files are corruption, and lead to no other finding or cause."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace

import polars as pl
import pytest
from logjudge import check
from logjudge.analysis.causes import explain_loss
from logjudge.analysis.causes.cases import lost_of
from logjudge.analysis.replicas.header_damage import misplaced_batches, wrong_epochs
from logjudge.analysis.replicas.replica_logs import replica_logs_of
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.segments import read_segment
from logjudge.histories.evidence.tables import BATCHES, LOCATION
from logjudge.histories.simulation.bundle import write_bundle
from logjudge.models.exploration.schedule import QUICK
from logjudge.models.replication.scenario import Scenario

from .conftest import gathered, judge_replicas
from .replica_texts import epochs
from .test_segments import legacy, read


def flipped(source, root, rng, of_segments):
    """A copy of a bundle with three bits flipped in each segment, or in each other file."""
    shutil.copytree(source, root)
    for path in sorted(root.rglob("*")):
        if not path.is_file() or path.suffix in (".json", ".jsonl") or not path.stat().st_size:
            continue
        if (path.stem.isdigit() and path.suffix == ".log") != of_segments:
            continue
        data = bytearray(path.read_bytes())
        for _ in range(3):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    return gathered(block for part in find_parts(root) for block in read_part(part))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(8))
def test_flipped_bits_in_segments_are_corruption_and_nothing_else(unpacked, recorded, tmp_path, seed):
    tables = flipped(unpacked("clean-a"), tmp_path / "run", random.Random(seed), of_segments=True)
    run = recorded("clean-a")
    for topic, partition in run.partitions():
        leader = run.replica_logs(topic, partition).leader
        held = replica_logs_of(topic, partition, tables.get((topic, partition), {}), leader=leader, is_compacted=False)
        judged = judge_replicas(held, run.sent(topic, partition))
        expected = {"log-corruption"} if topic == "orders" else set()  # the others are empty
        assert {finding.rule for finding in judged.findings} == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(8))
def test_flipped_bits_elsewhere_never_make_a_divergence_or_another_cause(unpacked, recorded, tmp_path, seed):
    run = recorded("unclean-election-c")
    tables = flipped(unpacked("unclean-election-c"), tmp_path / "run", random.Random(seed), of_segments=False)
    weaker = replace(run, tables=tables)
    sends = run.sent("orders", 0)
    judged = judge_replicas(weaker.replica_logs("orders", 0), sends)
    whole = judge_replicas(run.replica_logs("orders", 0), sends)
    for rule in ("replica-divergence", "log-corruption"):
        ranges = [
            [(f.snapshot, f.first_offset, f.last_offset) for f in j.findings if f.rule == rule] for j in (judged, whole)
        ]
        assert ranges[0] == ranges[1]
    for finding in whole.findings:
        if finding.rule == "acknowledged-absent":
            explained = explain_loss(weaker.timeline("orders", 0), lost_of(finding, sends))
            assert explained.cause in ("unclean-election", "unknown")


def written_batches(folder, batches, policy):
    """A valid run, and one of its segments with this number of batches, each of a record."""
    options = {**QUICK, "simulation.ops": batches, "simulation.batch.records": 1, "num.partitions": 1}
    options |= {"simulation.producers": 1, "cleanup.policy": policy, "simulation.keys": 5}
    run = write_bundle(Scenario(name="short", variant="kraft", seed=3, options=options), folder).folder
    segment = run / "brokers" / "2" / "data" / "orders-0" / f"{0:020d}.log"
    assert read_segment(segment).batches.height == batches
    return run, segment


def rules_broken_by_flips(run, segment, byte, masks):
    """The rules that are broken after a bit of this byte of a batch was flipped, for each batch and bit."""
    whole = segment.read_bytes()
    for begin in read_segment(segment).batches["byte"].to_list():
        for mask in masks:
            at = begin + byte
            segment.write_bytes(whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :])
            yield set(check(run, engine="local").findings["rule"])
    segment.write_bytes(whole)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("policy", ["delete", "compact"])
@pytest.mark.parametrize("batches", [1, 2, 3])
def test_a_flipped_base_offset_of_any_batch_is_corruption_and_nothing_else(tmp_path, batches, policy):
    """The CRC does not cover it; in such short logs each batch but one is at an edge."""
    run, segment = written_batches(tmp_path / "run", batches, policy)
    assert all(rules == {"log-corruption"} for rules in rules_broken_by_flips(run, segment, 7, (1, 64)))
    assert check(run, engine="local").verdict == "valid"


@pytest.mark.parametrize("batches", [1, 3])
def test_a_flipped_leader_epoch_of_any_batch_is_corruption_and_nothing_else(tmp_path, batches):
    """The CRC does not cover it, either; at the edges the epoch of another replica's batch shows that it is wrong."""
    run, segment = written_batches(tmp_path / "run", batches, "delete")
    assert all(rules == {"log-corruption"} for rules in rules_broken_by_flips(run, segment, 15, (1, 4)))
    assert check(run, engine="local").verdict == "valid"


@pytest.mark.parametrize("batches", [1, 3])
def test_a_flipped_length_of_any_batch_is_corruption_and_nothing_else(tmp_path, batches):
    """The last batch is no torn tail: its CRC is right, though its length reaches beyond the end of the file."""
    run, segment = written_batches(tmp_path / "run", batches, "delete")
    assert all(rules == {"log-corruption"} for rules in rules_broken_by_flips(run, segment, 9, (1, 64)))


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        # Each leader wrote the batch, which the producer had sent again: the logs diverge.
        ([("1", 0, 0), ("2", 0, 0), ("2", 1, 1)], []),
        ([("1", 0, 0), ("2", 0, 0)], [("2", 1, 1, 0)]),
        ([("1", 0, 0), ("1", 1, 1), ("2", 0, 0), ("2", 1, 1)], [("1", 1, 0, 1)]),
        ([], []),
    ],
)
def test_an_epoch_that_its_own_log_began_is_not_wrong(entries, wrong):
    batch = {"magic": 2, "crc_ok": True, "size": 80, "count": 1, "snapshot": "", "file": f"{0:020d}.log"}
    rows = [
        {**batch, "broker": broker, "base_offset": n, "last_offset": n, "crc": n, "byte": 80 * n, "leader_epoch": epoch}
        for broker, written in (("1", (0, 0)), ("2", (0, 1)))
        for n, epoch in enumerate(written)
    ]
    found = wrong_epochs(pl.DataFrame(rows, schema={**LOCATION, **BATCHES}), epochs(*entries))
    assert found.select("broker", "base_offset", "leader_epoch", "right").rows() == wrong


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_batch_that_a_retry_wrote_again_is_at_no_wrong_offset(is_idempotent):
    """Compaction removed the first copy on broker 1; broker 2 has it, and not yet the second one."""
    first = {"base_offset": 0, "last_offset": 0, "leader_epoch": 0, "magic": 2, "crc": 1, "crc_ok": True, "byte": 0}
    first |= {"size": 80, "control": False, "producer_id": 7 if is_idempotent else None, "count": 1}
    again = {**first, "base_offset": 1, "last_offset": 1, "crc": 2, "byte": 80}
    segment = f"brokers/{{}}/data/orders-0/{0:020d}.log"
    log_1 = [first, {**again, "base_offset": 4, "last_offset": 4}]
    log_2 = [first, again]
    rows = [{**row, "broker": "1", "file": segment.format(1)} for row in log_1]
    rows += [{**row, "broker": "2", "file": segment.format(2)} for row in log_2]
    batches = pl.DataFrame([{**row, "snapshot": ""} for row in rows], schema={**LOCATION, **BATCHES})
    found = misplaced_batches(batches, True)
    assert found.select("broker", "base_offset", "before").rows() == ([("1", 4, 0)] if is_idempotent else [])
    followed = {**rows[-1], "base_offset": 2, "last_offset": 5, "crc": 3, "byte": 160, "snapshot": ""}
    longer = pl.concat([batches, pl.DataFrame([followed], schema=batches.schema)])
    assert misplaced_batches(longer, True).height == 1


def test_a_compressed_message_that_a_follower_fetched_from_its_middle_counts_from_there():
    """The follower had other records up to offset 12, and fetched from 13; the leader sends the message whole."""
    own, fetched = (legacy(values, 1, 1, 10) for values in ([b"a", b"b", b"c"], [b"x", b"y", b"z", b"d", b"e"]))
    segment = read(own + fetched + legacy([b"f"], 1, 1, 15))
    assert segment.damage.height == 0
    assert segment.records.select("offset", "value").rows() == [*zip(range(10, 16), "abcdef", strict=True)]
    assert segment.batches.select("base_offset", "last_offset", "count").rows() == [
        (10, 12, 3),
        (13, 14, 2),
        (15, 15, 1),
    ]
