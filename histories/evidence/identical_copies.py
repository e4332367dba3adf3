"""Finds second copies of a broker's log.dir or of a log in it that are equal, byte for byte: one of them is enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from filecmp import cmp
from pathlib import Path

from .checkpoints import OFFSET_CHECKPOINTS
from .duplicate_copies import Copies, Node, copied_partitions
from .parts import Part


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
        own = folder.parent if _is_log_dir(parts, folder.parent) else folder
        equal = next((one for one in distinct if _are_equal(parts, own, one.parent if own != folder else one)), None)
        if equal is None:
            distinct.append(folder)
        else:
            yield own, Path(copies[equal].name).parents[0 if own == folder else 1].as_posix()


def _is_log_dir(parts: list[Part], folder: Path) -> bool:
    names = {"meta.properties", *OFFSET_CHECKPOINTS}
    return any(part.path.parent == folder and part.path.name in names for part in parts)


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
