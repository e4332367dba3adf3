"""Temporary folders and files. The next process in the same place removes the folder that a killed process left."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A temporary folder in `parent`, removed at the end of the context. Also removes the folders of killed processes.

    A running process holds a lock (flock) on its folder, so that no other process removes it. Raises OSError.
    """
    for leftover in parent.iterdir():
        if leftover.name.startswith(prefix) and not leftover.is_symlink():
            with _lock(leftover) as is_abandoned:
                if is_abandoned:
                    shutil.rmtree(leftover, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        with _lock(folder):
            yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except BaseException:  # a signal that ends the process
            shutil.rmtree(folder, ignore_errors=True)
            raise


def replace_file(file: Path, content: bytes) -> None:
    """Writes a file whole: a reader sees the earlier content or this one."""
    scratch = file.with_name(f".{file.name}.new")
    scratch.write_bytes(content)
    scratch.replace(file)


@contextmanager
def _lock(folder: Path) -> Iterator[bool]:
    """Locks the folder until the end of the context; yields whether no other process holds the lock."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        yield False
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_free = True
        except OSError:
            is_free = False
        yield is_free
    finally:
        os.close(handle)
