"""Code of logjudge on a worker. driver_files.py writes this module into their archive as `logjudge/__init__.py`.

numba keeps compiled code beside the source files, and an archive has a new path in each session. So executors would
compile everything again, for some 20 s. This module lets Python import `logjudge` from a worker's installed package if
that has the same files; else it unpacks the archive into a folder that later sessions find again. It imports nothing
of logjudge, as it runs before the package exists.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path

CODE = "logjudge_code"  # the folder of the archive with the package's files
FOLDERS = ("analysis", "histories", "models")  # what workers need of the package, beside its own modules
DIGEST = ""  # of the archive's files (`digest_of`); driver_files.py sets it
MAX_AGE_S = 7 * 24 * 3600  # an unpacked folder is removed after no process has used it for this time
_locks: list[int] = []  # held until the process ends


def files_of(roots: Mapping[str, Path]) -> list[tuple[str, Path]]:
    """Name in the package, and path, of each source file. `roots` has the package's folder at "", and FOLDERS."""
    found = [(path.name, path) for path in roots[""].glob("*.py")]
    for folder in FOLDERS:
        root = roots[folder]
        found += [(f"{folder}/{path.relative_to(root).as_posix()}", path) for path in root.rglob("*.py")]
    return sorted(found)


def digest_of(files: Iterable[tuple[str, Path]]) -> str:
    """SHA-256 of the names and contents."""
    whole = hashlib.sha256()
    for name, path in files:
        whole.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


def find_installed() -> Path | None:
    """The folder of the worker's installed package; None if there is none or if it has other files."""
    try:
        package = _spec("logjudge", [entry for entry in sys.path if Path(entry).is_dir()])
        if package is None or not package.origin:
            return None
        roots = {"": Path(package.origin).parent}
        for folder in FOLDERS:
            found = _spec(f"logjudge.{folder}", [str(roots[""])])
            if found is None or not found.origin:
                return None
            roots[folder] = Path(found.origin).parent
        return roots[""] if digest_of(files_of(roots)) == DIGEST else None
    except OSError:
        return None


def _spec(name: str, path: list[str]) -> ModuleSpec | None:
    """The module spec that a finder has by that name. Editable installations have finders of their own."""
    found = (finder.find_spec(name, path) for finder in sys.meta_path if hasattr(finder, "find_spec"))
    return next((spec for spec in found if spec is not None), None)


def unpack_once(archive: str) -> Path | None:
    """The folder of the archive's package, unpacked once for all sessions; None if no folder is writable."""
    for parent in _cache_folders():
        with suppress(OSError):
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(parent):
                continue
            _remove_old(parent)
            return _unpacked_below(parent, archive)
    return None


def _cache_folders() -> Iterator[Path]:
    with suppress(RuntimeError):  # no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logjudge"
    yield Path(tempfile.gettempdir()) / f"logjudge-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    """Whether only this user can write into the folder."""
    found = folder.lstat()
    return folder.is_dir() and not folder.is_symlink() and found.st_uid == os.getuid() and not found.st_mode & 0o022


def _unpacked_below(parent: Path, archive: str) -> Path:
    home = parent / f"code-{DIGEST[:32]}"
    if not home.exists():
        scratch = Path(tempfile.mkdtemp(prefix="code-new-", dir=parent))
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(scratch, [name for name in packed.namelist() if name.startswith(f"{CODE}/")])
        try:
            scratch.rename(home)
        except OSError:  # another worker was first
            shutil.rmtree(scratch, ignore_errors=True)
    handle = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    _locks.append(handle)
    os.utime(home)
    return home / CODE


def _remove_old(parent: Path) -> None:
    """Removes folders that were not used for MAX_AGE_S; a process that uses one holds a lock on it."""
    for folder in parent.glob("code-*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < MAX_AGE_S:
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def become_package(archive: str) -> None:
    """Makes the module `logjudge` the package that was found; its submodules are then imported from there."""
    module = sys.modules["logjudge"]
    folder = find_installed() or unpack_once(archive)
    if folder is None:
        module.__path__ = [f"{archive}/{CODE}"]
        with zipfile.ZipFile(archive) as packed:
            code = packed.read(f"{CODE}/__init__.py")
    else:
        module.__path__ = [str(folder)]
        code = (folder / "__init__.py").read_bytes()
    module.__file__ = f"{module.__path__[0]}/__init__.py"
    if module.__spec__ is not None:
        module.__spec__.submodule_search_locations = list(module.__path__)
    exec(compile(code, module.__file__, "exec", dont_inherit=True), module.__dict__)


if __name__ == "logjudge":
    become_package(str(Path(__file__).parents[1]))
