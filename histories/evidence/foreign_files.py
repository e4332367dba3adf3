"""Evidence that must not be compared with the rest: of another cluster, another topic of the name, or a second copy.

A folder that somebody kept may hold the log.dirs of several clusters, backups of one broker, or on one broker a topic
that the others deleted and created again. They are no replicas of one log, whatever their names say. One of them is
judged, and the others are reported as left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from .duplicate_copies import Node, duplicate_copies, properties_of, same_id
from .parts import Part


def without_foreign_files(parts: list[Part], nodes: Mapping[Path, Node]) -> list[Part]:
    """The parts, with those that are left out as one part a folder that says why."""
    parts = _marked(parts, _other_clusters(parts, nodes))
    parts = _marked(parts, duplicate_copies(parts, nodes))
    return _marked(parts, _other_topics(parts))


def _marked(parts: list[Part], reasons: Mapping[Path, str]) -> list[Part]:
    out: dict[tuple[str, str, str], Part] = {}
    for part in parts:
        folder = next((above for above in (part.path, *part.path.parents) if above in reasons), None)
        kept = part if folder is None else _left_out(part, folder, reasons[folder])
        out.setdefault((kept.kind, kept.name, kept.snapshot), kept)
    return list(out.values())


def _left_out(part: Part, folder: Path, reason: str) -> Part:
    depth = len(part.path.parts) - len(folder.parts)
    name = Path(*Path(part.name).parts[: len(Path(part.name).parts) - depth]).as_posix() if depth else part.name
    inside = folder == part.path.parent
    topic, partition = (part.topic, part.partition) if inside else (None, None)
    return replace(part, kind="left-out", path=folder, name=name, reason=reason, topic=topic, partition=partition)


def _other_clusters(parts: list[Part], nodes: Mapping[Path, Node]) -> dict[Path, str]:
    """log.dirs of all clusters but the one with the most files."""
    files = Counter({node.cluster: 0 for node in nodes.values() if node.cluster})
    if len(files) < 2:
        return {}
    for part in parts:
        above = next((nodes[folder] for folder in part.path.parents if folder in nodes), None)
        if above is not None and above.cluster:
            files[above.cluster] += 1
    judged = min(files, key=lambda cluster: (-files[cluster], cluster))
    says = "is of cluster {}, and what is judged here is of cluster {}"
    return {
        folder: says.format(node.cluster, judged)
        for folder, node in nodes.items()
        if node.cluster and not same_id(node.cluster, judged)
    }


def _other_topics(parts: list[Part]) -> dict[Path, str]:
    """Partition folders whose partition.metadata names another topic id than most do in the same snapshot.

    Between snapshots a topic may have been deleted and created again; within one, a broker missed that.
    """
    ids: dict[tuple[str, str], list[tuple[Part, str]]] = {}
    for part in parts:
        if part.path.name == "partition.metadata" and part.topic is not None:
            told = properties_of(part.path).get("topic_id")
            if told:
                ids.setdefault((part.topic, part.snapshot), []).append((part, told))
    out = {}
    for (topic, _), found in ids.items():
        votes = Counter(id_ for _, id_ in found)
        judged = min(votes, key=lambda id_: (-votes[id_], id_))
        says = f"is of another topic named {topic} (id {{}}), and what is judged here has id {judged}"
        out.update({part.path.parent: says.format(id_) for part, id_ in found if not same_id(id_, judged)})
    return out
