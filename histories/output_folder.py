"""Output folders: written whole or not at all, never over files that logjudge did not write."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from .errors import UsageError
from .files import is_uri, local_path
from .scratch import scratch_folder

MARK = "verdict.json"
SCRATCH = ".logjudge-"  # prefix of a temporary folder inside a target, else part of its name
MAX_NAME_BYTES = 200  # of the target's name in the name of its temporary folder; a file system allows 255
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # Linux, renameat2(2)
_RENAME_SWAP = 2  # macOS, renamex_np(2)
_ENDINGS = re.compile(r"(\.(jsonl|json|edn|parquet|log|txt|gz|zst))+$")


Filled = TypeVar("Filled")


class Contents(NamedTuple):
    """The files of a folder that logjudge writes."""

    names: frozenset[str]
    last: str  # the file that is written last
    is_complete: Callable[[Path], bool]


def name_of(path: str) -> str:
    """A run's name in an output folder: its file or folder name without extension."""
    name = path.rstrip("/").rsplit("/", 1)[-1] if is_uri(path) else Path(os.path.realpath(local_path(path))).name
    return _ENDINGS.sub("", name) or "run"


def is_verdict(content: bytes) -> bool:
    """Whether `logjudge check` wrote a file named MARK."""
    try:
        verdict = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(verdict, dict) and isinstance(verdict.get("rules"), dict) and "verdict" in verdict


def _has_verdict(folder: Path) -> bool:
    try:
        return is_verdict((folder / MARK).read_bytes())
    except OSError:
        return False


def _has_truth(folder: Path) -> bool:
    try:
        run, truth = (json.loads((folder / name).read_bytes()) for name in ("run.json", "truth.json"))
        return run["system"]["simulated"] is True and "protocol_events" in truth
    except (OSError, ValueError, TypeError, KeyError):
        return False


REPORT = Contents(frozenset({"report.html", "report.md", "plots"}), "report.html", _has_verdict)
RESULT = Contents(REPORT.names | {MARK, "findings.parquet", "quarantine.jsonl", "figures.json"}, MARK, _has_verdict)
SIMULATED = Contents(
    frozenset({"history.jsonl", "run.json", "truth.json", "brokers", "snapshots"}), "truth.json", _has_truth
)


def check_target(folder: Path, contents: Contents = RESULT) -> None:
    """Raises UsageError if the target has other files or cannot be written; called before any work."""
    expected = "expected a new folder or an earlier result; name another with --out"
    try:
        if folder.is_symlink():
            raise UsageError(f"{folder}: found a symbolic link, {expected}")
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder}: found a file, {expected}")
        if folder.exists() and not _may_be_replaced(folder, contents):
            raise UsageError(f"{folder}: found a folder with other files, {expected}")
        above = folder if _is_fixed(folder) else folder.parent
        while not above.exists():
            _refuse_long(above)
            above = above.parent
        _refuse_long(folder)
        with scratch_folder(above, _scratch_prefix(folder)):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from error


def _scratch_prefix(folder: Path) -> str:
    """The beginning of the names of temporary folders for a target: those of killed runs are found by it."""
    return SCRATCH if _is_fixed(folder) else f".{os.fsdecode(os.fsencode(folder.name)[:MAX_NAME_BYTES])}{SCRATCH}"


def _refuse_long(path: Path) -> None:
    """Raises OSError if the name is longer than file systems allow."""
    if len(os.fsencode(path.name)) > 255:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def _unwritable(folder: Path, error: OSError) -> UsageError:
    return UsageError(f"{folder}: cannot write ({error.strerror}); name another folder with --out")


def _may_be_replaced(folder: Path, contents: Contents) -> bool:
    """Whether the folder is empty or has only logjudge's files: a user's notes beside a result must not be lost."""
    names = {path.name for path in folder.iterdir()}
    found = {name for name in names if not name.startswith(SCRATCH)}
    # A temporary folder inside means that a run was killed while it moved its files here.
    return not names or (found <= contents.names and (found < names or contents.is_complete(folder)))


def _is_fixed(folder: Path) -> bool:
    """Whether the folder cannot be replaced: a mount point, the current folder, or a read-only parent."""
    if not folder.is_dir():
        return False
    whole = Path(os.path.realpath(folder))
    is_current = Path.cwd().is_relative_to(whole)
    return is_current or os.path.ismount(whole) or not os.access(whole.parent, os.W_OK | os.X_OK)


def write_whole(folder: Path, fill: Callable[[Path], Filled], contents: Contents = RESULT) -> Filled:
    """Fills a temporary folder, then exchanges it with the target in one step, so that a kill loses neither.

    If the file system does not support this, files are moved one by one, `contents.last` last. Returns what `fill`
    returns. Raises UsageError.
    """
    check_target(folder, contents)
    if folder.name in ("", ".."):
        folder = folder.resolve()
    is_fixed = _is_fixed(folder)
    parent = folder if is_fixed else folder.parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        mode = folder.stat().st_mode & 0o7777 if folder.exists() else 0o777 & ~_umask()
    except OSError as error:
        raise _unwritable(folder, error) from error
    with scratch_folder(parent, _scratch_prefix(folder)) as scratch:
        whole = scratch / "whole"
        whole.mkdir()
        filled = fill(whole)
        whole.chmod(mode)
        if not folder.exists():
            whole.rename(folder)
        elif is_fixed or not _exchange(whole, folder):
            move_into(folder, whole, contents)
    return filled


def move_into(folder: Path, whole: Path, contents: Contents) -> None:
    """Moves the files of `whole` into the folder, `contents.last` last; replaced files are left in `whole`."""
    names = {path.name for path in whole.iterdir()}
    stale = {path.name for path in folder.iterdir()} & contents.names - names
    for name in sorted(names | stale, key=lambda name: (name == contents.last, name)):
        old, new = folder / name, whole / name
        if name in stale:
            old.rename(new)
        elif not old.is_dir():
            new.replace(old)
        elif not _exchange(new, old):
            old.rename(whole / f"old-{name}")
            new.rename(old)


def _exchange(one: Path, other: Path) -> bool:
    """Swaps two paths in one step; returns False if the system or the file system does not support it."""
    libc = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if hasattr(libc, "renameat2"):
        return bool(libc.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _RENAME_EXCHANGE) == 0)
    if hasattr(libc, "renamex_np"):
        return bool(libc.renamex_np(first, second, _RENAME_SWAP) == 0)
    return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
