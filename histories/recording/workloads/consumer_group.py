"""A consumer group with members that come and go: some leave cleanly, some are killed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from ...errors import LogjudgeError
from ..kafka_clients import ClientSettings, recorded_config
from ..session import Client, Session
from .sending import senders

CHANGE_SECONDS = 10  # between changes of the group, longer than a rebalance takes
LEAVE_SECONDS = 30.0
CRASH_SECONDS = 10.0
# Settings of the classic protocol. The brokers set both in the protocol of KIP-848, where clients refuse them.
GROUP: dict[str, Any] = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}


def member_config(settings: ClientSettings, group: str) -> dict[str, Any]:
    """The configuration of a member without the connection."""
    is_classic = settings.consumer.get("group.protocol", "classic").lower() == "classic"
    return settings.for_consumer(group, **(GROUP if is_classic else {}))


class Member:
    """A member in a process of its own, which can be killed. It records into a file of its own."""

    def __init__(self, session: Session, name: str) -> None:
        self.session, self.name = session, name
        load = session.load
        config = member_config(session.settings, f"{load.topic}-group")
        session.recorder.configure(name, role="consumer", **recorded_config(config))
        plan = {
            "file": str(session.recorder.client_file(name)),
            "start": session.recorder.start_ns,
            "name": name,
            "topic": load.topic,
            "handle_ms": load.handle_ms,
            "config": {**session.settings.connection, **config},
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.group_member"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the recorder, which lets the members leave cleanly
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(plan).encode() + b"\n")
        self._process.stdin.flush()

    def leave(self) -> None:
        """Let the member commit and leave the group cleanly; it is killed if that takes too long.

        Raises LogjudgeError if it has ended with an error.
        """
        self._end(b"leave\n", LEAVE_SECONDS)

    def crash(self) -> None:
        """Let the member kill itself once it handles records; it is killed if it gets none in time.

        Raises LogjudgeError if it has ended with an error.
        """
        self._end(b"crash\n", CRASH_SECONDS)

    @property
    def has_ended(self) -> bool:
        """Whether its process has ended by itself."""
        return self._process.poll() is not None

    def _end(self, request: bytes, seconds: float) -> None:
        try:
            _, errors = self._process.communicate(request, seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, errors = self._process.communicate()
        if self._process.returncode < 0:
            self.session.recorder.crash(self.name, "killed")
        elif self._process.returncode:
            self.session.recorder.crash(self.name, "an error")
            reason = (errors.decode(errors="replace").strip().splitlines() or ["no error was printed"])[-1]
            raise LogjudgeError(f"the consumer group's member {self.name} ended: {reason[:300]}")


class Members:
    """Lets members join, leave and crash in turn."""

    name = "members"

    def __init__(self, session: Session) -> None:
        self.session = session
        session.progress.has_other_readers = True
        self._members: list[Member] = []
        self._count = 0

    def run(self) -> None:
        """Change the group regularly until the session stops; then all leave."""
        try:
            for _ in range(self.session.load.consumers):
                self._join()
            seconds = 0
            while not self.session.stopping.wait(1.0):
                seconds += 1
                self._check()
                if seconds % CHANGE_SECONDS == 0:
                    self._change(seconds // CHANGE_SECONDS)
        finally:
            for member in self._members:
                member.leave()

    def _change(self, change: int) -> None:
        if change % 2 == 0:
            self._join()
        elif change % 4 == 1 and self.session.load.crashes:
            self._members.pop(0).crash()
        else:
            self._members.pop(0).leave()

    def _check(self) -> None:
        """Raises LogjudgeError if a member has ended by itself."""
        ended = [member for member in self._members if member.has_ended]
        for member in ended:
            self._members.remove(member)
            member.leave()

    def _join(self) -> None:
        self._members.append(Member(self.session, f"m{self._count}"))
        self._count += 1


def clients(session: Session) -> list[Client]:
    """Producers p0, p1, … and the members m0, m1, …"""
    return [*senders(session), Members(session)]
