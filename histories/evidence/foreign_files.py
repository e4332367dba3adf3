"""Leaves out files that are not replicas of the judged logs: of another cluster, another topic, or a second copy.

A folder of collected files may hold the log.dirs of several clusters, backups of one broker, or on one broker a topic
that the others deleted and created again. In spite of their names they are not replicas of one log. One of them is
judged, the others are reported as left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .duplicate_copies import Node, duplicate_copies, properties_of, same_id
from .identical_copies import identical_copies
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

    Between snapshots a topic may be deleted and created again; within one, a broker has missed that.
    """
    ids: dict[tuple[str, str], list[tuple[Part, str]]] = {}
    for part in parts:
        if part.path.name == "partition.metadata" and part.topic is not None:
            topic_id = properties_of(part.path).get("topic_id")
            if topic_id:
                ids.setdefault((part.topic, part.snapshot), []).append((part, topic_id))
    out = {}
    for (topic, _), found in ids.items():
        votes = Counter(id_ for _, id_ in found)
        judged = min(votes, key=lambda id_: (-votes[id_], id_))
        reason = f"belongs to another topic named {topic} (id {{}}); the judged one has id {judged}"
        out.update({part.path.parent: reason.format(id_) for part, id_ in found if not same_id(id_, judged)})
    return out
