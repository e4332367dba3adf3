"""Checkpoints, epoch files and properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logjudge.histories.evidence.checkpoints import read_epoch_checkpoint, read_offset_checkpoint, read_properties
from logjudge.histories.evidence.tables import CHECKPOINTS, DAMAGE, EPOCHS, PROPERTIES


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("version", [0, 1])
def test_offset_checkpoints_have_an_entry_a_line(tmp_path, version):
    path = write(tmp_path, "replication-offset-checkpoint", f"{version}\n2\norders 0 12\n__consumer_offsets 49 0\n")
    frame, damage = read_offset_checkpoint(path)
    assert damage.height == 0
    assert frame.rows() == [("high-watermark", "orders", 0, 12, 3), ("high-watermark", "__consumer_offsets", 49, 0, 4)]


@pytest.mark.parametrize("text", ["", "0\n0\n", "0\n0"])
def test_an_empty_checkpoint_is_whole(tmp_path, text):
    frame, damage = read_offset_checkpoint(write(tmp_path, "cleaner-offset-checkpoint", text))
    assert (frame.height, damage.height) == (0, 0)


@pytest.mark.parametrize(
    ("text", "entries", "line"),
    [
        ("7\n1\norders 0 12\n", 0, 1),
        ("0\nmany\norders 0 12\n", 0, 2),
        ("0\n3\norders 0 12\n", 1, 2),
        ("0\n2\norders 0 12\norders one 12\n", 1, 4),
        ("0\n2\norders 0 12\norders\n", 1, 4),
        ("0\n1\norders 0 99999999999999999999\n", 0, 3),
        ("0\n1\norders 0 1_000\n", 0, 3),
    ],
)
def test_a_broken_line_is_damage_and_the_others_are_read(tmp_path, text, entries, line):
    frame, damage = read_offset_checkpoint(write(tmp_path, "log-start-offset-checkpoint", text))
    assert frame.height == entries
    assert damage["line"].to_list() == [line]
    assert damage["kind"].to_list() == ["syntax"]


def test_epochs_begin_at_offsets(tmp_path):
    frame, damage = read_epoch_checkpoint(write(tmp_path, "leader-epoch-checkpoint", "0\n2\n0 0\n5 4711\n"))
    assert frame.rows() == [(0, 0, 3), (5, 4711, 4)]
    assert damage.height == 0


def test_properties_of_both_forms(tmp_path):
    meta = write(tmp_path, "meta.properties", "#comment\n#date\nnode.id=3\ncluster.id=a=b\n\n")
    assert read_properties(meta)[0].rows() == [("node.id", "3", 3), ("cluster.id", "a=b", 4)]
    partition = write(tmp_path, "partition.metadata", "version: 0\ntopic_id: a=b")
    assert read_properties(partition)[0].rows() == [("version", "0", 1), ("topic_id", "a=b", 2)]


def test_a_missing_file_is_unreadable(tmp_path):
    for read in (read_offset_checkpoint, read_epoch_checkpoint, read_properties):
        frame, damage = read(tmp_path / "none")
        assert (frame.height, damage["kind"].to_list()) == (0, ["unreadable"])


@given(st.binary(max_size=80))
def test_noise_never_crashes(tmp_path_factory, noise):
    folder = tmp_path_factory.mktemp("noise")
    path = write(folder, "leader-epoch-checkpoint", b"0\n2\n0 0\n" + noise)
    readers = {read_offset_checkpoint: CHECKPOINTS, read_epoch_checkpoint: EPOCHS, read_properties: PROPERTIES}
    for read, columns in readers.items():
        frame, damage = read(path)
        assert frame.columns == list(columns)
        assert damage.columns == list(DAMAGE)
        assert frame.height + damage.height > 0
    # Lines before the noise are read nevertheless.
    assert read_epoch_checkpoint(path)[0].row(0) == (0, 0, 3)
