"""The driver's temporary files (`spark-*`, `blockmgr-*`, code for workers): one folder a process, removed at exit."""

from __future__ import annotations

import atexit
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ....histories.scratch import scratch_folder

MAX_SHUTDOWN_S = 10  # for the JVM to stop by itself; it is killed afterwards


@cache
def driver_folder() -> Path:
    """The temporary folder of this process. Folders that killed processes left are removed."""
    stack = ExitStack()
    atexit.register(_remove, stack)
    return stack.enter_context(scratch_folder(Path(tempfile.gettempdir()), "logjudge-spark-"))


def _remove(stack: ExitStack) -> None:
    """Ends the JVM first, as it would make its folders again."""
    classes = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    server = getattr(getattr(classes, "_active_spark_context", None), "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None  # it prints a traceback when the JVM closes its connection
    jvm: subprocess.Popen[bytes] | None = getattr(getattr(classes, "_gateway", None), "proc", None)
    if jvm is not None:
        try:
            if jvm.stdin is not None:
                jvm.stdin.close()  # it stops at the end of its input
            jvm.wait(MAX_SHUTDOWN_S)
        except (OSError, subprocess.TimeoutExpired):
            jvm.kill()
            jvm.wait()
    stack.close()


def silence_py4j() -> None:
    """py4j logs a traceback for each call that is interrupted."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """Holds back SIGINT, SIGTERM and SIGHUP while the JVM starts, as an interrupted start leaves the JVM running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    handlers: dict[int, Any] = {}
    for caught in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(caught)):
            handlers[caught] = signal.signal(caught, lambda number, _: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if received:
            os.kill(os.getpid(), received[0])
