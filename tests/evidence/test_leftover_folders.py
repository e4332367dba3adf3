"""Folders that brokers keep beside their current replicas: reported, collected under their names, and not judged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from logjudge import check
from logjudge.histories.recording.collect import collect, sources_of

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
