"""Leaves out files that are not replicas of the judged logs: of another cluster, another topic, or a second copy.

A folder of collected files may hold the log.dirs of several clusters, backups of one broker, or on one broker a topic
that the others deleted and created again. In spite of their names they are not replicas of one log. One of them is
judged, the others are reported as left out.

So is one of several texts of kafka-dump-log of the same log, unless its segments are present, too. Dumps that were made
at different times are not one log: read together, its epochs and offsets go back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from filecmp import cmp
from pathlib import Path, PurePosixPath
from typing import Any

from .checkpoints import LOG_DIR_FILES
from .cluster_metadata import read_cluster_metadata
from .dump_text import dumped_files, read_dump
from .duplicate_copies import Copies, Node, copied_partitions, duplicate_copies, same_id, topic_ids
from .parts import Part


def without_foreign_files(parts: list[Part], nodes: Mapping[Path, Node]) -> list[Part]:
    """The parts, where each left-out folder is one part with the reason."""
    parts = _mark_left_out(parts, _other_clusters(parts, nodes))
    parts = _mark_left_out(parts, _shared_directories(parts, nodes))
    parts = _mark_left_out(parts, identical_copies(parts, nodes), "leftover")
    parts = _mark_left_out(parts, duplicate_copies(parts, nodes))
    return _mark_left_out(parts, _other_topics(parts))


def _mark_left_out(parts: list[Part], reasons: Mapping[Path, str], kind: str = "left-out") -> list[Part]:
    """The parts, with those in the folders of `reasons` left out."""
    if not reasons:
        return parts
    out: dict[tuple[str, str, str, str], Part] = {}
    for part in parts:
        folder = next((above for above in (part.path, *part.path.parents) if above in reasons), None)
        marked = part if folder is None else _left_out(part, folder, reasons[folder], kind)
        out.setdefault((marked.kind, marked.name, marked.snapshot, marked.source or ""), marked)
    return list(out.values())


def _left_out(part: Part, folder: Path, reason: str, kind: str) -> Part:
    """The folder of a part as one part that is left out. A leftover is no damage of its partition."""
    depth = len(part.path.parts) - len(folder.parts)
    name = Path(part.name).parents[depth - 1].as_posix() if depth else part.name
    is_of_partition = kind == "left-out" and folder == part.path.parent
    topic, partition = (part.topic, part.partition) if is_of_partition else (None, None)
    return replace(part, kind=kind, path=folder, name=name, reason=reason, topic=topic, partition=partition)


def _other_clusters(parts: list[Part], nodes: Mapping[Path, Node]) -> dict[Path, str]:
    """The log.dirs of all clusters except the one with the most files, with the reason."""
    files = Counter({node.cluster: 0 for node in nodes.values() if node.cluster})
    if len(files) < 2:
        return {}
    for part in parts:
        above = next((nodes[folder] for folder in part.path.parents if folder in nodes), None)
        if above is not None and above.cluster:
            files[above.cluster] += 1
    judged = min(files, key=lambda cluster: (-files[cluster], cluster))
    reason = "belongs to cluster {}; the judged files belong to cluster {}"
    return {
        folder: reason.format(node.cluster, judged)
        for folder, node in nodes.items()
        if node.cluster and not same_id(node.cluster, judged)
    }


def _shared_directories(parts: list[Part], nodes: Mapping[Path, Node]) -> dict[Path, str]:
    """Log.dirs with the directory.id of another broker's in their snapshot, with the reason.

    Kafka makes up the id when it formats a log.dir, and registers no broker with that of another one (KIP-858): these
    are copies of one log.dir, and the node.id of some was changed. The logs beside them may show whose it is.
    """
    sharing: dict[tuple[str, str], dict[Path, str]] = {}
    for part in parts:
        node = nodes.get(part.path.parent) if part.path.name == "meta.properties" else None
        if node is not None and node.id and node.directory:
            sharing.setdefault((part.snapshot, node.directory), {})[part.path.parent] = node.id
    out = {}
    for (_, directory), ids in sharing.items():
        owners = {id_ for folder, id_ in ids.items() if nodes[folder].logged == id_}
        names = " and ".join(sorted(set(ids.values())))
        reason = f"has directory.id {directory}, which brokers {names} share: it is a copy with a changed node.id"
        reason += "" if len(owners) == 1 else ", or its original"
        if len(set(ids.values())) > 1:
            out.update({folder: reason for folder, id_ in ids.items() if owners != {id_}})
    return out


def _other_topics(parts: list[Part]) -> dict[Path, str]:
    """Partition folders whose partition.metadata has another topic id than most in the same snapshot, with the reason.

    Between snapshots a topic may be deleted and created again; within one, a broker has missed that. If the metadata
    log has all of these topics, none is left out: each log is of the generation with its id.
    """
    ids: dict[tuple[str, str], list[tuple[Part, str]]] = {}
    for part, topic, topic_id in topic_ids(parts):
        ids.setdefault((topic, part.snapshot), []).append((part, topic_id))
    differing = {place: found for place, found in ids.items() if len({id_ for _, id_ in found}) > 1}
    recorded = _recorded_topics(parts) if differing else {}
    out = {}
    for (topic, _), found in differing.items():
        votes = Counter(id_ for _, id_ in found)
        if votes.keys() <= recorded.get(topic, set()):
            continue
        judged = min(votes, key=lambda id_: (-votes[id_], id_))
        reason = f"belongs to another topic named {topic} (id {{}}); the judged one has id {judged}"
        out.update({part.path.parent: reason.format(id_) for part, id_ in found if not same_id(id_, judged)})
    return out


def _recorded_topics(parts: Iterable[Part]) -> dict[str, set[str]]:
    """The topic ids that the copies of the metadata log record, by the name of the topic."""
    out: dict[str, set[str]] = {}
    for part in parts:
        if part.kind == "metadata" and part.path.is_dir():
            topics, _ = read_cluster_metadata(part.path)
            for topic, topic_id in topics.filter(kind="topic").select("topic", "topic_id").iter_rows():
                out.setdefault(topic, set()).add(topic_id)
    return out


def identical_copies(parts: list[Part], nodes: Mapping[Path, Node]) -> dict[Path, str]:
    """Folders that are equal to another folder of their broker, each with the reason to leave it out."""
    found: dict[Path, str] = {}
    for broker, partitions in copied_partitions(parts):
        for copies in partitions:
            for folder, name in _equal_folders(parts, copies, broker, nodes):
                found.setdefault(folder, f"is not judged: it is a byte-identical copy of {name}")
    return found


def _equal_folders(
    parts: list[Part], copies: Copies, broker: str, nodes: Mapping[Path, Node]
) -> Iterator[tuple[Path, str]]:
    """Yields folders to leave out, each with the name of the equal one that stays. One with the broker's name stays."""

    def has_other_name(folder: Path) -> bool:
        dir_ = folder.parent
        return broker not in (dir_.name, nodes[dir_].named if dir_ in nodes else None)

    distinct: list[Path] = []
    for folder in sorted(copies, key=has_other_name):
        # An entire log.dir has checkpoints and meta.properties, a copied log has not.
        is_log_dir = any(part.path.parent == folder.parent and part.path.name in LOG_DIR_FILES for part in parts)
        own = folder.parent if is_log_dir else folder
        equal = next((one for one in distinct if _are_equal(parts, own, one.parent if own != folder else one)), None)
        if equal is None:
            distinct.append(folder)
        else:
            yield own, Path(copies[equal].name).parents[0 if own == folder else 1].as_posix()


def _are_equal(parts: list[Part], one: Path, other: Path) -> bool:
    """Whether two folders have the same files of brokers. One inside the other is no part of it."""
    if one == other:
        return False
    try:
        own, others = _files(parts, one, other), _files(parts, other, one)
        return own.keys() == others.keys() and all(cmp(own[name], others[name], shallow=False) for name in own)
    except OSError:
        return False


def _files(parts: list[Part], folder: Path, without: Path) -> dict[Path, Path]:
    """The files below a folder, by their path in it, without those in another one below it."""
    is_around = without.is_relative_to(folder)
    inside = (part.path for part in parts if part.path.is_relative_to(folder))
    # The metadata log is one part.
    files = (file for path in inside for file in (path.iterdir() if path.is_dir() else [path]))
    return {path.relative_to(folder): path for path in files if not (is_around and path.is_relative_to(without))}


Log = tuple[str, str, str | None, int | None]  # snapshot, broker, topic and partition
Age = tuple[int, int]  # of a log: last leader epoch and offset; neither shrinks over time, unless it is truncated


def dumps_to_judge(parts: Iterable[Part]) -> list[Part]:
    """The parts without dumps of logs whose segments are present. Of several dumps of a log only one is judged."""
    parts = _without_dumps_of_segments(list(parts))
    if sum(part.kind == "dump" for part in parts) < 2:
        return parts
    by_log: dict[Log, dict[Part, set[str]]] = {}
    for dump in (part for part in parts if part.kind == "dump"):
        for topic, partition, file in _dumped_segments(dump):
            log = (dump.snapshot, dump.broker, topic, partition)
            by_log.setdefault(log, {}).setdefault(dump, set()).add(file)
    reasons: dict[Part, str] = {}
    for log, dumps in by_log.items():
        twice = [dump for dump, files in dumps.items() if any(files & other for o, other in dumps.items() if o != dump)]
        if twice:
            reasons = _earlier_dumps(log, twice) | reasons
    nowhere: dict[str, Any] = {"kind": "left-out", "topic": None, "partition": None}
    return [replace(part, reason=reasons[part], **nowhere) if part in reasons else part for part in parts]


def _dumped_segments(dump: Part) -> set[tuple[str | None, int | None, str]]:
    """The topic, partition and segment of each log in a text; one without a name may be any segment."""
    named = dumped_files(dump.path)
    if dump.topic is not None:
        return {(dump.topic, dump.partition, file) for file in {file for _, _, file in named} or {""}}
    return {*named}


def _earlier_dumps(log: Log, dumps: list[Part]) -> dict[Part, str]:
    """The dumps of a log that are not the latest, each with the reason; all of them if that is not known."""
    _, broker, topic, partition = log
    name = f"{topic}-{partition} of broker {broker}"
    ages = {dump: _age(dump, topic, partition) for dump in dumps}
    known = [age for age in ages.values() if age is not None]
    latest = [dump for dump, age in ages.items() if age is not None and age == max(known)]
    if len(known) < len(dumps) or not latest:
        reason = f"is one of several dumps of {name}, and it is not known which of them is the latest"
        return dict.fromkeys(dumps, reason)
    judged = latest[0]
    reason = f"is a second dump of {name} (judged: {judged.name}); a dump of an earlier time belongs in"
    reason += f" snapshots/NAME/brokers/{broker}/{PurePosixPath(judged.name).name}"
    return {dump: reason for dump in dumps if dump != judged}


def _age(dump: Part, topic: str | None, partition: int | None) -> Age | None:
    """The age of a dumped log.

    None without leader epochs, as the log may have been truncated later, and for a text at a URI, as only its head was
    fetched (zeros follow it).
    """
    if b"\0" in dump.path.read_bytes():
        return None
    found = [
        log.batches.select("leader_epoch", "last_offset").drop_nulls()
        for log in read_dump(dump.path)
        if dump.topic is not None or (log.topic, log.partition) == (topic, partition)
    ]
    rows = [row for frame in found for row in frame.iter_rows() if row[0] >= 0]
    return (max(epoch for epoch, _ in rows), max(offset for _, offset in rows)) if rows else None


def _without_dumps_of_segments(parts: list[Part]) -> list[Part]:
    """The parts without dumps of logs whose segments are present: these would count every record twice."""
    segments = {(p.snapshot, p.broker, p.topic, p.partition) for p in parts if p.kind == "segment"}

    def has_segments(dump: Part) -> bool:
        if dump.topic is not None:
            named = {(dump.topic, dump.partition)}
        else:
            named = {(topic, partition) for topic, partition, _ in dumped_files(dump.path)} if segments else set()
        return bool(named) and {(dump.snapshot, dump.broker, *place) for place in named} <= segments

    return [p for p in parts if p.kind != "dump" or not has_segments(p)]
