"""Damage to the disk of a stopped broker in a lab: cut the tail of a log, or restore an old copy."""

from __future__ import annotations

import shutil
from pathlib import Path

from ...errors import LogjudgeError, UsageError
from ..batch_bounds import batches


def cut_tail(partition: Path, records: int) -> dict[str, object]:
    """Cut at least so many records, in whole batches, from the end of a log. Returns the fields of the fault."""
    segments = sorted(partition.glob("*.log"))
    found = [(segment, batch) for segment in segments for batch in batches(segment)]
    if not found:
        raise UsageError(f"{partition}: found no records, expected a log whose tail can be cut")
    end = found[-1][1].last_offset + 1
    cut = [(segment, batch) for segment, batch in found if batch.last_offset >= end - records]
    segment, first = cut[0]
    before = segment.stat().st_size
    for later in segments[segments.index(segment) + 1 :]:
        _remove_indexes(later)
        later.unlink()
    with segment.open("r+b") as file:
        file.truncate(first.start)
    _remove_indexes(segment)
    return {
        "file": segment.name,
        "bytes_cut": before - first.start,
        "bytes_before": before,
        "offsets_cut": [first.base_offset, end - 1],
    }


def back_up(data: Path, copy: Path, partitions: list[str]) -> None:
    """Copy partition folders of a disk; a partition that is missing is left out."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(parents=True)
    for name in partitions:
        if (data / name).is_dir():
            shutil.copytree(data / name, copy / name, ignore_dangling_symlinks=True)


def restore(data: Path, copy: Path) -> list[str]:
    """Replace partition folders by their copies; returns their names."""
    if not copy.is_dir():
        raise UsageError(f"{copy}: no such backup, expected a step `backup` before")
    names = sorted(path.name for path in copy.iterdir())
    for name in names:
        shutil.rmtree(data / name, ignore_errors=True)
        shutil.copytree(copy / name, data / name)
    return names


def partition_folder(data: Path, partition: str) -> Path:
    """The folder of TOPIC-PARTITION. Raises LogjudgeError if the broker has none."""
    folder = data / partition
    if folder.parent != data or not folder.is_dir():
        raise LogjudgeError(f"{data}: found no replica of {partition}")
    return folder


def _remove_indexes(segment: Path) -> None:
    for ending in (".index", ".timeindex", ".txnindex"):
        segment.with_suffix(ending).unlink(missing_ok=True)
