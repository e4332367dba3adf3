"""Failures of a cluster as one sentence each: a master or a server that does not respond, and runs that Spark gave up.

Spark itself retries for minutes (a Connect client for ten), silently.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from ....histories.errors import ClusterError, LogjudgeError, MissingComponentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_LIMIT_S = 20
MAX_RETRIES = 9  # of a Connect client, which waits up to a minute between two: four minutes in all
_MASTER_PORT = 7077
_LOST = re.compile(
    "ExecutorLostFailure|Container killed|Master removed our application|SparkContext was shut down"
    "|stopped SparkContext|StatusCode.UNAVAILABLE|RETRIES_EXCEEDED|Retries[ _]?[Ee]xceeded|INVALID_HANDLE"
    "|OutOfMemoryError|No space left on device"
)
_LACKING = re.compile("No module named '(logjudge|polars|pyarrow|numpy|numba|pandas|orjson)|PYTHON_VERSION_MISMATCH")
Found = TypeVar("Found")


def refuse_unreachable(master: str | None, remote: str | None) -> None:
    """Raises MissingComponentError if no standalone master or Connect server responds within CONNECT_LIMIT_S."""
    try:
        if remote:
            _reach_server(remote)
        elif master and master.startswith("spark://"):
            _reach_master(master)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", "") or str(error) or f"no response in {CONNECT_LIMIT_S} s"
        raise MissingComponentError(
            f"cannot connect to {remote or master} ({reason}); check the address, and that"
            f" {'the Connect server' if remote else 'the master'} runs and can be reached from here,"
            " or use --engine local"
        ) from error


def _reach_master(master: str) -> None:
    """Raises OSError if none of the addresses in spark://HOST:PORT,HOST:PORT accepts a connection."""
    failure = OSError()
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port or _MASTER_PORT)), CONNECT_LIMIT_S).close()
            return
        except OSError as error:
            failure = error
    raise failure


def _reach_server(remote: str) -> None:
    """Raises OSError if the server does not respond. Without Connect's packages Spark itself says what is missing."""
    try:
        import grpc
        from pyspark.sql.connect.client import DefaultChannelBuilder
    except ImportError:
        return
    channel = DefaultChannelBuilder(remote).toChannel()
    try:
        grpc.channel_ready_future(channel).result(CONNECT_LIMIT_S)
    except grpc.FutureTimeoutError as error:
        raise TimeoutError from error
    finally:
        channel.close()


def limit_retries(session: SparkSession) -> None:
    """Makes a Connect client give up after MAX_RETRIES."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=MAX_RETRIES)])


@contextmanager
def cluster_errors() -> Iterator[None]:
    """Turns the loss of workers, of the session or of a server into a ClusterError, and workers of another Python into
    a MissingComponentError; other errors pass."""
    try:
        yield
    except LogjudgeError:
        raise
    except Exception as error:
        if lacking := _LACKING.search(str(error)):
            raise MissingComponentError(
                f"Spark's Python workers lack {lacking[1] or 'the Python version of the driver'}; start the session"
                " with spark.pyspark.python set to a Python that has it (docs/cluster.md: what workers need)"
            ) from error
        found = _LOST.search(str(error))
        if found is None:
            raise
        line = next(line for line in str(error).splitlines() if found[0] in line).strip()
        raise ClusterError(
            f"Spark gave up the run ({line[:300]}); workers may need more memory or disk"
            " (docs/cluster.md: sizing), or the cluster has ended"
        ) from error


def call_with_timeout(seconds: float, work: Callable[[], Found], what: str) -> Found:
    """Calls `work` with a time limit. Raises ClusterError if it takes longer; its thread then ends with the process."""
    found: Future[Found] = Future()

    def run() -> None:
        try:
            found.set_result(work())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([found], seconds).done:
        raise ClusterError(f"{what}: not done after {seconds:,.0f} s; Spark's file system may retry without end")
    return found.result()
