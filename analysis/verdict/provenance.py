"""The provenance of a verdict: the tool, the command line, and the SHA-256 of the judged files."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ...histories.bundle import Run, config_file

MAX_HASHED = 1 << 30  # bytes of a run; hashing more would take seconds

SECRETS = ("password", "secret", "jaas", "token", "ssl.key")  # parts of setting names

Record = dict[str, Any]


def provenance_of(run: Run, command: str) -> Record:
    """The provenance in verdict.json (docs/verdict.md). Files beyond the first GiB have no hash.

    `command` is what the user called.
    """
    config = run.settings.config
    system = config.get("system")
    return {
        "tool": {"name": "logjudge", "version": version("logjudge")},
        "judged_at": _now(),
        "command": command,
        "inputs": [] if run.uri else _inputs(run),
        "system": system if isinstance(system, dict) else {},
        "topics": _objects(config.get("topics")),
        "processes": _objects(config.get("processes")),
    }


def _now() -> str:
    """The time of day in UTC; SOURCE_DATE_EPOCH (reproducible-builds.org) replaces it."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdecimal() else datetime.now(UTC)
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _objects(value: object) -> Record:
    """Configurations by name. Credentials in them are hidden, as reports are shared."""
    if not isinstance(value, dict):
        return {}
    return {
        str(name): {key: "(hidden)" if any(word in str(key) for word in SECRETS) else about[key] for key in about}
        for name, about in value.items()
        if isinstance(about, dict)
    }


def _inputs(run: Run) -> list[Record]:
    """The files of a run: the history, run.json, and broker files, each sorted by name."""
    root = run.path if run.path.is_dir() else run.path.parent
    history = sorted({Path(split.path) for split in run.splits})
    config = config_file(run.path)
    paths = dict.fromkeys([*history, *([config] if config else []), *sorted(part.path for part in run.evidence)])
    hashed: list[Path] = []
    remaining = MAX_HASHED
    sizes = {path: path.stat().st_size for path in paths if path.is_file()}
    for path, size in sizes.items():
        if size <= remaining:
            hashed.append(path)
            remaining -= size
    with ThreadPoolExecutor(2) as pool:
        digests = dict(zip(hashed, pool.map(_sha256, hashed), strict=True))
    names = {path: str(path.relative_to(root)) if path.is_relative_to(root) else str(path) for path in sizes}
    return [{"file": names[path], "bytes": size, "sha256": digests.get(path)} for path, size in sizes.items()]


def _sha256(path: Path) -> str | None:
    """The hash of a file; None if it cannot be read any more, which the verdict reports."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
