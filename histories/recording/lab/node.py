"""One process of a lab: a broker, the controller, or ZooKeeper. Only its parent, the keeper, starts and ends it."""

from __future__ import annotations

import ctypes
import itertools
import os
import re
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...errors import UsageError
from .releases import Kafka, java

STARTED = (b"Kafka Server started", b"started (kafka.server.KafkaServer)", b"binding to port")
LOGS = ("server.log", "stdout.log")
EXCEPTION = re.compile(r"[\w.$]+(?:Exception|Error)\b")
PR_SET_PDEATHSIG = 1  # <sys/prctl.h>
State = Literal["running", "paused", "ended", "new"]


@dataclass
class Node:
    """A node, which may have been started several times."""

    name: str
    main: str  # the Java class
    arguments: list[str]
    folder: Path  # of its logs and its data
    log_settings: Path
    kafka: Kafka
    identity: str  # an option of its command line
    heap_mb: int
    process: subprocess.Popen[bytes] | None = None
    is_paused: bool = False
    _positions: dict[str, int] = field(default_factory=dict)  # where the lines of the last start begin in its logs
    options: list[str] = field(default_factory=list)

    @property
    def data(self) -> Path:
        """Its log directory."""
        return self.folder / "data"

    @property
    def state(self) -> State:
        """Whether its process runs."""
        if self.process is None:
            return "new"
        if self.process.poll() is not None:
            return "ended"
        return "paused" if self.is_paused else "running"

    @property
    def is_alive(self) -> bool:
        """Whether it has a process, also a paused one."""
        return self.state in ("running", "paused")

    def start(self) -> None:
        """Start the process."""
        for log in LOGS:
            path = self.folder / log
            self._positions[log] = path.stat().st_size if path.exists() else 0
        with (self.folder / "stdout.log").open("ab") as out:
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.folder,
                preexec_fn=_die_with_parent,
            )
        self.is_paused = False

    def is_ready(self) -> bool:
        """Whether the log has, since the last start, the line of a node that serves."""
        text = self._text_since_start("server.log")
        return any(line in text for line in STARTED)

    def is_still_registered(self) -> bool:
        """Whether it ended at its start as ZooKeeper still had the session of its killed process: it may try again."""
        return b"KeeperErrorCode = NodeExists" in self._text_since_start("server.log")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process, if it is alive."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            if number in (signal.SIGSTOP, signal.SIGCONT):
                self.is_paused = number == signal.SIGSTOP

    def limit_files(self, limit: int | None) -> None:
        """Limit the bytes of each file that the process writes, as a full disk does; None: no limit. Linux only."""
        if self.process is None or self.process.poll() is not None:
            return
        if sys.platform != "linux":
            raise UsageError("fill-disk works on Linux only: it limits the size of a process's files (RLIMIT_FSIZE)")
        hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)[1]
        soft = hard if limit is None else limit
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (soft, hard))

    def problem(self) -> str:
        """The first error of the last start in its logs, with the head of the exception that follows."""
        for log in LOGS:
            lines = self._text_since_start(log).decode(errors="replace").splitlines()
            for line, following in itertools.pairwise([*lines, ""]):
                if any(word in line for word in ("ERROR", "FATAL", "Exception", "Error")):
                    reason = following if EXCEPTION.match(following) else ""
                    return " ".join([line.strip()[:300], reason[:300]]).strip()
        return "its logs name no error"

    def _text_since_start(self, log: str) -> bytes:
        """What this log has since the last start."""
        try:
            with (self.folder / log).open("rb") as file:
                file.seek(self._positions.get(log, 0))
                return file.read()
        except FileNotFoundError:
            return b""

    def _command(self) -> list[str]:
        log_option = "log4j2.configurationFile" if self.kafka.release.has_log4j_2 else "log4j.configuration"
        return [
            java(),
            f"-Xmx{self.heap_mb}m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-XX:+ExitOnOutOfMemoryError",
            "-Djava.awt.headless=true",
            f"-Dlogjudge.lab={self.identity}",
            f"-Dkafka.logs.dir={self.folder}",
            f"-D{log_option}=file:{self.log_settings}",
            *self.options,
            "-cp",
            f"{self.kafka.jars}/*",
            self.main,
            *self.arguments,
        ]


def _die_with_parent() -> None:
    """Runs in the child: lets Linux kill it when the keeper ends, for whatever reason."""
    if _libc is not None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == 1:
            os.kill(os.getpid(), signal.SIGKILL)


_libc = ctypes.CDLL(None) if sys.platform == "linux" else None
