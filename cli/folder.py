"""Output folders: written whole or not at all, and never over something that is not ours."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path

MARK = "verdict.json"
RESULT = {MARK, "findings.parquet", "quarantine.jsonl", "figures.json", "report.html", "report.md", "plots"}
SIMULATED = {"history.jsonl", "run.json", "truth.json", "brokers", "snapshots"}
_ENDINGS = re.compile(r"(\.(jsonl|json|edn|parquet|log|txt|gz|zst))+$")


def name_of(path: str) -> str:
    """A run's name in an output folder: its file or folder name without extension."""
    name = path.rstrip("/").rsplit("/", 1)[-1] if is_uri(path) else local_path(path).resolve().name
    return _ENDINGS.sub("", name) or "run"


def _is_result(folder: Path) -> bool:
    """Whether `logjudge check` wrote it, and nothing else lies in it: notes beside a result must not be lost."""
    if not {path.name for path in folder.iterdir()} <= RESULT:
        return False
    try:
        return is_verdict((folder / MARK).read_bytes())
    except OSError:
        return False


def is_bundle(folder: Path) -> bool:
    """Whether the simulator wrote it, and nothing else lies in it."""
    if not {path.name for path in folder.iterdir()} <= SIMULATED:
        return False
    try:
        run, truth = (json.loads((folder / name).read_bytes()) for name in ("run.json", "truth.json"))
        return run["system"]["simulated"] is True and "protocol_events" in truth
    except (OSError, ValueError, TypeError, KeyError):
        return False


def check_target(folder: Path, is_ours: Callable[[Path], bool] = _is_result) -> None:
    """Refuses a target that holds anything but an earlier result. Raises UsageError."""
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise UsageError(f"{folder}: found something that is no folder, expected a new folder or an earlier result")
    if folder.is_dir() and any(folder.iterdir()) and not is_ours(folder):
        raise UsageError(
            f"{folder}: found a folder with other files, expected a new folder or an earlier result;"
            " name another with --out"
        )


def is_verdict(content: bytes) -> bool:
    """Whether a file named MARK is one of ours."""
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and isinstance(told.get("rules"), dict) and "verdict" in told


def write_whole(folder: Path, fill: Callable[[Path], None], is_ours: Callable[[Path], bool] = _is_result) -> None:
    """Fills a temporary folder beside the target, then puts it in the target's place."""
    check_target(folder, is_ours)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror}); name another folder with --out") from error
    try:
        fill(scratch)
        scratch.chmod(0o777 & ~_umask())
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.old.", dir=folder.parent))
            folder.rename(old / "result")
            scratch.rename(folder)
            shutil.rmtree(old)
        else:
            scratch.rename(folder)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
