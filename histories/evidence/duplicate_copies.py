"""Finds the log.dir to judge where several folders have the id of one broker.

A broker keeps one log of a partition, and Kafka admits one process of each id. Two logs of one partition under one id
are therefore a backup and its original, a replaced disk, or a reused id, but never replicas of each other. The
log.dirs on several disks of a broker share no partition and stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path

import polars as pl

from .checkpoints import EPOCH_CHECKPOINT, TOPIC_ID_FILE, read_epoch_checkpoint, read_offset_checkpoint, read_properties
from .parts import Part

OF_LOGS = ("segment", "epochs", "properties")  # kinds of parts in the folder of a partition

Age = tuple[int, int, int]  # of a log: last leader epoch, high watermark, bytes; none of them shrinks over time


@dataclass(frozen=True)
class Node:
    """The identity of a log.dir, from its meta.properties."""

    named: str  # the broker by the names of the folders
    id: str | None
    cluster: str | None
    directory: str | None  # directory.id: random, set when Kafka formats a log.dir
    logged: str | None = None  # the broker that wrote the logs beside it


def nodes_of(parts: Iterable[Part], writers: Mapping[Path, str]) -> dict[Path, Node]:
    """The nodes by log.dir. Where two folders have one id, the writer of the logs beside them decides."""
    parts = list(parts)
    found = {}
    for part in parts:
        if part.path.name == "meta.properties":
            properties = properties_of(part.path)
            id_ = properties.get("node.id") or properties.get("broker.id")
            logged = _logged_id(parts, writers, part.broker)
            found[part.path.parent] = Node(
                part.broker, id_, properties.get("cluster.id"), properties.get("directory.id"), logged
            )
    claims: dict[str | None, set[str]] = {}
    for node in found.values():
        claims.setdefault(node.id, set()).add(node.named)
    for folder, node in found.items():
        if node.id and len(claims[node.id]) > 1:
            found[folder] = replace(node, id=node.logged or node.id)
    return found


def same_id(one: str, other: str) -> bool:
    """Whether two random ids of Kafka are equal. Ids that agree in most letters are one id, damaged."""
    return one == other or SequenceMatcher(None, one, other).ratio() >= 0.5


def properties_of(path: Path) -> dict[str, str]:
    """The entries of a properties file."""
    frame, _ = read_properties(path)
    return dict(zip(frame["key"], frame["value"], strict=True))


def topic_ids(parts: Iterable[Part]) -> Iterator[tuple[Part, str, str]]:
    """Each partition.metadata with a topic id: the part, the topic of its folder, and the id."""
    for part in parts:
        is_wanted = part.kind == "properties" and part.topic and part.path.name == TOPIC_ID_FILE
        if is_wanted and (topic_id := properties_of(part.path).get("topic_id")):
            yield part, str(part.topic), topic_id


def _logged_id(parts: list[Part], writers: Mapping[Path, str], named: str) -> str | None:
    """The id of the broker that wrote the logs of a folder; None without one, or with two."""
    ids = {writers[part.path] for part in parts if part.broker == named and part.path in writers}
    return ids.pop() if len(ids) == 1 else None


Copies = dict[Path, Part]  # the copies of one partition's log: their folders, each with one of its files


def duplicate_copies(parts: list[Part], nodes: Mapping[Path, Node]) -> dict[Path, str]:
    """Folders to leave out, with the reason: the entire log.dir with its checkpoints, where it is one."""
    left_out: dict[Path, str] = {}
    for broker, partitions in copied_partitions(parts):
        judged: dict[tuple[Path, ...], Path | None] = {}  # by the log.dirs with copies of a partition
        for copies in partitions:
            dirs = tuple(folder.parent for folder in copies)
            if dirs not in judged:
                judged[dirs] = _dir_to_judge(dirs, _shared_partitions(dirs, partitions), broker, nodes)
            for folder, reason in _other_copies(copies, judged[dirs], nodes).items():
                left_out.setdefault(folder, reason)
    return left_out


def copied_partitions(parts: list[Part]) -> Iterator[tuple[str, list[Copies]]]:
    """Yields each broker of each snapshot, with the partitions for which it has several logs."""
    held: dict[tuple[str, str], dict[tuple[str, int | None], Copies]] = {}
    for part in sorted(parts, key=lambda part: (len(part.path.parts), part.path.parts)):
        if part.kind in OF_LOGS and part.topic is not None:
            partitions = held.setdefault((part.snapshot, part.broker), {})
            partitions.setdefault((part.topic, part.partition), {}).setdefault(part.path.parent, part)
    for (_, broker), partitions in held.items():
        yield broker, [copies for copies in partitions.values() if len(copies) > 1]


def _shared_partitions(dirs: tuple[Path, ...], partitions: list[Copies]) -> list[str]:
    """The names of the partitions that all of these log.dirs hold."""
    return [min(copies).name for copies in partitions if all(dir_ / min(copies).name in copies for dir_ in dirs)]


def _other_copies(copies: Copies, judged: Path | None, nodes: Mapping[Path, Node]) -> dict[Path, str]:
    """Files to leave out so that only the copy in the log.dir `judged` remains (None: no copy), with the reasons."""
    found: dict[Path, str] = {}
    for folder, part in copies.items():
        if folder.parent == judged:
            continue
        # A backup may be inside its own log.dir.
        is_log_dir = folder.parent in nodes and not (judged and judged.is_relative_to(folder.parent))
        other = None if judged is None else copies[judged / folder.name]
        found.setdefault(folder.parent if is_log_dir else folder, _reason(part, other, nodes, is_log_dir))
    return found


def _dir_to_judge(
    dirs: tuple[Path, ...], partitions: list[str], broker: str, nodes: Mapping[Path, Node]
) -> Path | None:
    """The latest log.dir, or the one with the broker's name; None if they disagree or both are unknown."""
    latest = _latest({dir_: [_age(dir_, name) for name in partitions] for dir_ in dirs})
    named = [dir_ for dir_ in dirs if broker in (dir_.name, nodes[dir_].named if dir_ in nodes else None)]
    if len(named) != 1:
        return latest
    return named[0] if latest in (None, named[0]) else None


def _latest(ages: dict[Path, list[Age | None]]) -> Path | None:
    """The log.dir that is no older than the others in any partition; the first of equal ones."""
    known = {dir_: [age for age in own if age is not None] for dir_, own in ages.items()}
    if any(len(known[dir_]) != len(own) for dir_, own in ages.items()):
        return None
    for one in known.values():
        if all(own_age >= age for other in known.values() for own_age, age in zip(one, other, strict=True)):
            return next(dir_ for dir_, own in known.items() if own == one)
    return None


def _age(dir_: Path, partition: str) -> Age | None:
    """The age of a log; None without leader epochs, as a log that was truncated may then look older than its backup."""
    epochs, _ = read_epoch_checkpoint(dir_ / partition / EPOCH_CHECKPOINT)
    if not epochs.height:
        return None
    marks, _ = read_offset_checkpoint(dir_ / "replication-offset-checkpoint")
    topic, _, number = partition.rpartition("-")
    own_marks = marks.filter((pl.col("topic") == topic) & (pl.col("partition") == int(number)))["offset"]
    try:
        size = sum(path.stat().st_size for path in (dir_ / partition).glob("*.log"))
    except OSError:
        return None
    return epochs["leader_epoch"].max(), own_marks.max() if len(own_marks) else -1, size  # type: ignore[return-value]


def _reason(part: Part, judged: Part | None, nodes: Mapping[Path, Node], is_log_dir: bool) -> str:
    """Why a folder is left out. `is_log_dir`: it is the entire log.dir, not the folder of a partition."""
    if judged is None:
        return f"is one of several logs of broker {part.broker}, and it is not known which of them is the latest"
    other_folder = Path(judged.name).parents[1 if is_log_dir else 0].as_posix()
    reason = f"is a second copy of a log of broker {part.broker} (judged: {other_folder})"
    dirs = [one.path.parent.parent for one in (part, judged)]
    own, other = (nodes[dir_].directory if dir_ in nodes else None for dir_ in dirs)
    if own is None or other is None:
        return reason
    if own == other:
        ages = {_age(dir_, part.path.parent.name) for dir_ in dirs}
        older = f", at different times; snapshots/NAME/brokers/{part.broker} in the run may have the earlier copy"
        return f"{reason}; both are directory {own}" + (older if len(ages) > 1 else "")
    return f"{reason}; its directory.id is {own}, that of the other {other}: a disk was replaced, or an id was reused"
