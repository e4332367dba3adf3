"""Real Spark processes on loopback for the tests: started here, ended here by pid."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def spark_home() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent


@contextmanager
def spark_process(log: Path, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A JVM of Spark's, started by its own script in bin/, its output in `log`."""
    environment = {
        **os.environ,
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_DAEMON_MEMORY": "600m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    with log.open("wb") as output:
        command = [str(spark_home() / "bin" / program), *arguments]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=log.parent)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert process.poll() is None, f"ended early: {log.read_text()[-2000:]}"
        try:
            socket.create_connection((HOST, port), 1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return
    raise AssertionError(f"nothing listens on {port}: {log.read_text()[-2000:]}")


def wait_for_text(log: Path, text: str, seconds: float = 300) -> None:
    deadline = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < deadline, f"{text!r} never appeared: {log.read_text()[-2000:]}"
        time.sleep(0.2)
