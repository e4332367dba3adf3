"""Files that a real broker wrote for what the recorded runs lack: codecs, and metadata snapshots."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from logjudge.histories.evidence.batch_headers import walk_headers
from logjudge.histories.evidence.cluster_metadata import read_cluster_metadata
from logjudge.histories.evidence.dump_text import read_dump
from logjudge.histories.evidence.layout import find_parts
from logjudge.histories.evidence.part_blocks import read_part
from logjudge.histories.evidence.segments import read_segment
from polars.testing import assert_frame_equal

KRAFT = Path(__file__).parent / "data" / "kraft"
LOG = f"{0:020d}.log"


def test_every_compression_as_a_broker_keeps_it():
    segment = read_segment(KRAFT / "orders-0" / LOG)
    assert segment.damage.height == 0
    assert set(segment.batches["codec"]) == {"snappy", "lz4", "zstd", "gzip"}
    assert segment.records["offset"].to_list() == list(range(80))
    expected = [f"{codec}-{i} " * (i % 4) for codec in ("snappy", "lz4", "zstd", "gzip") for i in range(20)]
    assert segment.records["value"].to_list() == expected
    [dump] = read_dump(KRAFT / "orders-0" / "dump.txt")
    assert_frame_equal(dump.records, segment.records)


def state(frame):
    rows = frame.filter(pl.col("partition").is_not_null()).group_by("topic", "partition", maintain_order=True)
    return rows.agg(pl.col("leader", "leader_epoch", "isr", "replicas").last()).sort("topic", "partition")


def test_a_log_that_begins_after_its_snapshot_ends_in_the_same_state(tmp_path):
    source = KRAFT / "__cluster_metadata-0"
    whole, damage = read_cluster_metadata(source)
    assert damage.height == 0
    data = np.fromfile(source / LOG, dtype=np.uint8)
    headers, _ = walk_headers(data)
    for snapshot in sorted(source.glob("*.checkpoint")):
        end = int(snapshot.name[:20])
        later = headers[headers[:, 0] >= end]
        folder = tmp_path / snapshot.stem / "__cluster_metadata-0"
        folder.mkdir(parents=True)
        (folder / snapshot.name).write_bytes(snapshot.read_bytes())
        rest = data[later[0, 11] :].tobytes() if len(later) else b""
        (folder / f"{end:020d}.log").write_bytes(rest)
        frame, damage = read_cluster_metadata(folder)
        assert damage.height == 0
        assert_frame_equal(state(frame), state(whole))
        [part] = find_parts(folder.parent)
        assert {block.table for block in read_part(part)} == {"metadata"}


def test_a_snapshot_alone_gives_the_state(tmp_path):
    folder = tmp_path / "__cluster_metadata-0"
    folder.mkdir()
    newest = max((KRAFT / "__cluster_metadata-0").glob("*.checkpoint"))
    (folder / newest.name).write_bytes(newest.read_bytes())
    frame, damage = read_cluster_metadata(folder)
    assert damage.height == 0
    assert frame.filter((pl.col("topic") == "orders") & (pl.col("kind") == "partition")).height == 2
    policy = frame.filter((pl.col("topic") == "orders") & (pl.col("key") == "cleanup.policy"))
    assert policy["value"].to_list() == ["compact"]
