"""Results at a URI (`--out s3a://...`): written in place, with `_SUCCESS` last, as Spark's own results are.

Object stores have no rename, so a result cannot appear in one step: it is whole if it has `_SUCCESS`, which names its
files. While files are written there is STARTED instead. An interrupted call removes what it wrote. Files that no
manifest names belong to others and stay.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ....histories.errors import ClusterError, UsageError, describe_error
from ....histories.output_folder import MARK, is_verdict
from .connecting import call_with_timeout
from .session import hadoop_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUCCESS, STARTED = "_SUCCESS", "_logjudge_started"
LIMIT_S = 120  # of a call; an upload gets more time by its size
MIN_UPLOAD_BYTES_PER_S = 100_000


class Store(NamedTuple):
    """A folder in one of Hadoop's file systems."""

    session: SparkSession
    uri: str
    files: Any  # org.apache.hadoop.fs.FileSystem
    target: Any  # org.apache.hadoop.fs.Path

    def path(self, name: str) -> Any:
        """Hadoop's path of a file below the folder."""
        return self.target.suffix(f"/{name}")

    def read(self, name: str) -> bytes:
        """A small file's bytes; none if there is no such file."""
        if not self.files.exists(self.path(name)):
            return b""
        stream = self.files.open(self.path(name))
        try:
            return bytes(self.session._jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
        finally:
            stream.close()

    def put(self, local: Path, name: str) -> None:
        """Copies a local file. Raises ClusterError if that takes too long."""
        source = hadoop_path(self.session, f"file://{local.resolve()}")
        limit = LIMIT_S + local.stat().st_size / MIN_UPLOAD_BYTES_PER_S
        copy = lambda: self.files.copyFromLocalFile(False, True, source[1], self.path(name))  # type: ignore[index]  # noqa: E731
        call_with_timeout(limit, copy, f"{self.uri}/{name}")

    def remove(self, name: str) -> None:
        """Deletes a file, if it exists."""
        call_with_timeout(LIMIT_S, lambda: self.files.delete(self.path(name), False), f"{self.uri}/{name}")


def check_target(session: SparkSession, uri: str) -> None:
    """Raises UsageError if the URI has other files than those of an earlier result; or ClusterError."""
    with _hadoop_errors(uri):
        call_with_timeout(LIMIT_S, lambda: _check(_store(session, uri)), uri)


def _check(store: Store) -> None:
    has_files = store.files.exists(store.target) and len(store.files.listStatus(store.target))
    if has_files and not (_manifest(store) or is_verdict(store.read(MARK))):
        raise UsageError(
            f"{store.uri}: found a folder with other files, expected a new folder or an earlier result;"
            " name another with --out"
        )


def publish(session: SparkSession, folder: Path, uri: str) -> None:
    """Writes a result to a URI, MARK and then `_SUCCESS` last. Raises UsageError, ClusterError."""
    check_target(session, uri)
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    names = sorted(found, key=lambda name: (name == MARK, name))
    with _hadoop_errors(uri), tempfile.TemporaryDirectory(prefix="logjudge-") as scratch:
        store = _store(session, uri)
        earlier = call_with_timeout(LIMIT_S, lambda: _manifest(store), uri) - set(names)
        try:
            store.put(_manifest_file(Path(scratch), {*names, *earlier}), STARTED)
            store.remove(SUCCESS)
            for name in names:
                store.put(folder / name, name)
            for name in earlier:
                store.remove(name)
            store.put(_manifest_file(Path(scratch), set(names)), SUCCESS)
            store.remove(STARTED)
        except BaseException:
            with suppress(Exception):
                for name in (SUCCESS, *names, *earlier, STARTED):
                    store.remove(name)
            raise


def _manifest_file(folder: Path, names: set[str]) -> Path:
    file = folder / "manifest"
    file.write_text(json.dumps({"writer": "logjudge", "files": sorted(names)}))
    return file


def _manifest(store: Store) -> set[str]:
    """The files of an earlier result, whole or interrupted; empty if there is none."""
    names: set[str] = set()
    for manifest in (SUCCESS, STARTED):
        with suppress(ValueError):
            found = json.loads(store.read(manifest) or b"null")
            if isinstance(found, dict) and found.get("writer") == "logjudge":
                names |= {name for name in found.get("files", ()) if isinstance(name, str) and _is_inside(name)}
    return names


def _is_inside(name: str) -> bool:
    return bool(name) and not name.startswith("/") and not {"", ".", ".."} & set(name.split("/"))


@contextmanager
def _hadoop_errors(uri: str) -> Iterator[None]:
    """Raises UsageError, in one sentence, instead of Hadoop's errors."""
    try:
        yield
    except (UsageError, ClusterError):
        raise
    except Exception as error:
        raise UsageError(
            f"{uri}: cannot be written by Spark ({describe_error(error)}); its file systems"
            " are added by --conf spark.jars.packages=..., or name a local folder with --out"
        ) from error


def _store(session: SparkSession, uri: str) -> Store:
    """The folder at a URI. Raises UsageError."""
    found = hadoop_path(session, uri.rstrip("/"))
    if found is None:
        raise UsageError(f"found --out {uri} with --remote, expected a local folder: Spark Connect moves no files")
    return Store(session, uri.rstrip("/"), *found)
