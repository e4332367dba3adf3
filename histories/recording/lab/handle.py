"""`Lab`: a cluster that a command starts, or that runs already. The keeper, which owns its nodes, does the work."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from ...errors import LogjudgeError, UsageError
from .cluster import STATE_FILE, Plan, write_plan
from .links import HOST

RESPONSE_SECONDS = 300.0  # the start of nodes on a busy machine takes minutes
END_SECONDS = 120.0
PROC = Path("/proc")


class Lab:
    """A running cluster. As a context manager it ends with the block, unless `leave` was called."""

    def __init__(self, folder: Path, state: dict[str, Any], keeper: subprocess.Popen[bytes] | None = None) -> None:
        self.folder, self._state, self._keeper = folder, state, keeper
        self.bootstrap: str = state["bootstrap"]  # the addresses for clients, as `bootstrap.servers`
        self.version: str = state["kafka"]
        self.brokers: list[str] = state["brokers"]  # their names

    @classmethod
    def start(cls, plan: Plan) -> Lab:
        """Start a cluster in a new folder and wait until it serves. Raises LogjudgeError."""
        folder = Path(plan.folder)
        if (folder / STATE_FILE).exists():
            raise UsageError(f"{folder}: found a lab, expected a new folder; `logjudge lab down` ends it")
        if folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{folder}: found files, expected a new or empty folder for the lab")
        folder.mkdir(parents=True, exist_ok=True)
        write_plan(plan)
        with (folder / "keeper.log").open("ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.keeper", str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the command, which ends the keeper cleanly
            )
        assert keeper.stdout is not None
        try:
            line = keeper.stdout.readline()
            response: dict[str, Any] = (
                json.loads(line) if line else {"error": f"the lab ended at its start; see {folder}/keeper.log"}
            )
        except BaseException:
            _end(keeper)
            raise
        if "error" in response:
            _end(keeper)
            raise LogjudgeError(response["error"])
        return cls(folder, response["ok"], keeper)

    @classmethod
    def find(cls, folder: Path) -> Lab:
        """The lab that runs in a folder. Raises UsageError if there is none."""
        try:
            state = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(f"{folder}: found no lab; `logjudge lab up` starts one") from error
        return cls(folder, state)

    def request(self, do: str, **fields: Any) -> Any:
        """Send a request to the keeper, and return its response. Raises LogjudgeError with the keeper's error."""
        keeper = self._state["keeper"]
        line = json.dumps({"token": keeper["token"], "do": do, **fields}).encode() + b"\n"
        try:
            with socket.create_connection((HOST, keeper["port"]), RESPONSE_SECONDS) as connection:
                connection.sendall(line)
                reply = connection.makefile("rb").readline()
        except OSError as error:
            raise LogjudgeError(
                f"{self.folder}: the lab's keeper does not respond ({error}); `logjudge lab down` cleans up"
            ) from error
        response = json.loads(reply) if reply else {"error": f"{self.folder}: another lab listens at this lab's port"}
        if "error" in response:
            raise LogjudgeError(response["error"])
        return response["ok"]

    def down(self) -> None:
        """End every process of the lab. The files stay."""
        with contextlib.suppress(LogjudgeError):
            self.request("down")
        if self._keeper:
            _end(self._keeper)
        end = time.monotonic() + END_SECONDS
        while (left := self._alive()) and time.monotonic() < end:
            if not (self.folder / STATE_FILE).exists() or not self._is_listening():
                for pid in left:  # their keeper is gone
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        (self.folder / STATE_FILE).unlink(missing_ok=True)

    def leave(self) -> None:
        """Let the cluster run when this process ends."""
        assert self._keeper is not None
        assert self._keeper.stdin is not None
        self._keeper.stdin.write(b"keep\n")
        self._keeper.stdin.close()
        self._keeper = None

    def __enter__(self) -> Lab:
        return self

    def __exit__(self, *_: object) -> None:
        if self._keeper:
            self.down()

    def _is_listening(self) -> bool:
        try:
            with socket.create_connection((HOST, self._state["keeper"]["port"]), 1):
                return True
        except OSError:
            return False

    def _alive(self) -> list[int]:
        """The processes of this lab that still run: their command line has the lab's identity."""
        mark = f"-Dlogjudge.lab={self._state['id']}"
        return [pid for pid, arguments in command_lines().items() if mark in arguments]


def _end(keeper: subprocess.Popen[bytes]) -> None:
    """Close the keeper's standard input, which ends it and its nodes, and wait."""
    assert keeper.stdin is not None
    assert keeper.stdout is not None
    with contextlib.suppress(OSError):
        keeper.stdin.close()
    try:
        keeper.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        keeper.kill()
        keeper.wait()
    keeper.stdout.close()


def command_lines() -> dict[int, list[str]]:
    """The arguments of each process that runs, by pid. One that has ended, but was not waited for, is left out.

    They come from /proc; elsewhere from `ps`, which small Linux systems lack.
    """
    if not (PROC / "self" / "cmdline").exists():
        return _listed_by_ps()
    found = {}
    for folder in PROC.iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                arguments = (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]
                if arguments:
                    found[int(folder.name)] = arguments
    return found


def _listed_by_ps() -> dict[int, list[str]]:
    command = ["ps", "-A", "-ww", "-o", "pid=,stat=,args="]
    listing = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    rows = [line.split() for line in listing.splitlines()]
    return {int(pid): arguments for pid, stat, *arguments in rows if arguments and not stat.startswith("Z")}
