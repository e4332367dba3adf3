"""The driver's temporary files (`spark-*`, `blockmgr-*`, code for workers): one folder a process, removed at exit."""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from ....histories.scratch import scratch_folder
from . import worker_package
from .worker_package import CODE, FOLDERS, digest_of, files_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PREFIX = "logjudge-spark-"
MAX_SHUTDOWN_S = 10  # for the JVM to stop by itself; it is killed afterwards
_shutdown = {"seconds": MAX_SHUTDOWN_S}
# Java prints it at its start, as Spark adds a module for fast vectors that nothing here uses; no option turns it off.
_NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector"
_copiers: list[Thread] = []


@cache
def driver_folder(parent: Path | None = None) -> Path:
    """The temporary folder of this process in `parent` (None: the system's). Raises OSError.

    Folders that killed processes left there are removed.
    """
    return _folders().enter_context(scratch_folder(parent or Path(tempfile.gettempdir()), _PREFIX))


@cache
def _folders() -> ExitStack:
    stack = ExitStack()
    atexit.register(_stop_jvm_and_remove, stack)
    return stack


def ship_code(session: SparkSession) -> None:
    """Sends this package to workers; those that have the same files installed use their own.

    They need its dependencies and the same version of Python.
    """
    archive = driver_folder() / "logjudge_code.zip"  # workers fetch it from there until the session ends
    write_code_archive(archive)
    session.addArtifacts(str(archive), pyfile=True)


def write_code_archive(archive: Path) -> None:
    """Writes a zip from which Python can import `logjudge`, by way of worker_package.py."""
    roots = {"": Path(str(files("logjudge"))), **{name: Path(str(files(f"logjudge.{name}"))) for name in FOLDERS}}
    sources = files_of(roots)
    start = Path(worker_package.__file__).read_text().replace('DIGEST = ""', f'DIGEST = "{digest_of(sources)}"', 1)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("logjudge/__init__.py", start)
        for name, path in sources:
            packed.write(path, f"{CODE}/{name}")


def use_own_local_dirs() -> None:
    """Replaces each folder in SPARK_LOCAL_DIRS by one of this process within it, if the variable is set."""
    own = []
    for name in filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")):
        folder = Path(name)
        if not folder.name.startswith(_PREFIX):
            with suppress(OSError):  # Spark leaves out a directory that it cannot use
                folder.mkdir(parents=True, exist_ok=True)
                folder = driver_folder(folder)
        own.append(str(folder))
    if own:
        os.environ["SPARK_LOCAL_DIRS"] = ",".join(own)


def _stop_jvm_and_remove(stack: ExitStack) -> None:
    """Stops the JVM, which would make its folders again, and then removes them."""
    classes = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    server = getattr(getattr(classes, "_active_spark_context", None), "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None  # it prints a traceback when the JVM closes its connection
    jvm: subprocess.Popen[bytes] | None = getattr(getattr(classes, "_gateway", None), "proc", None)
    if jvm is not None:
        try:
            if jvm.stdin is not None:
                jvm.stdin.close()  # it stops at the end of its input
            jvm.wait(_shutdown["seconds"])
        except (OSError, subprocess.TimeoutExpired):
            jvm.kill()
            jvm.wait()
        for thread in _copiers:
            thread.join(1)  # a worker's process may hold the pipe
    stack.close()


def shorten_shutdown() -> None:
    """Leaves the JVM a second to stop, as a signal ends this process."""
    _shutdown["seconds"] = 1


def silence_py4j() -> None:
    """Stops py4j's messages: it logs a traceback for each interrupted call, some by the root logger."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(lambda record: record.module != "java_gateway")


def _copy_errors(jvm: subprocess.Popen[bytes]) -> None:
    """Copies what the JVM prints to stderr, without _NOISE."""
    for line in jvm.stderr or ():
        if line.strip() != _NOISE:
            with suppress(OSError):  # a closed stderr must not stop the JVM, which waits for a full pipe
                os.write(2, line)


@contextmanager
def interruptible_start() -> Iterator[None]:
    """Kills the JVM if its start is interrupted: PySpark forgets the process, and the start may take a minute.

    The JVM's stderr passes through this process.
    """
    from pyspark import SparkContext, java_gateway

    started: list[subprocess.Popen[bytes]] = []
    popen = java_gateway.Popen

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments, stderr=subprocess.PIPE, **options))
        _copiers.append(Thread(target=_copy_errors, args=(started[-1],), daemon=True))
        _copiers[-1].start()
        return started[-1]

    java_gateway.Popen = start
    try:
        yield
    except Exception:
        raise
    except BaseException:
        for process in started:
            process.kill()
            process.wait()
        SparkContext._gateway = SparkContext._jvm = None
        raise
    finally:
        java_gateway.Popen = popen
