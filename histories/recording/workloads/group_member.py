"""A member of a consumer group in a process of its own, so that it can be killed.

It reads its plan from the first line of standard input. The next line, or the end of the input, ends it: at `crash` it
kills itself while it handles records, otherwise it leaves the group. Every event is on disk before the next begins, so
all that a killed member did is known.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import confluent_kafka

from ...errors import LogjudgeError
from ..confluent_clients import Consumer
from ..open_operations import Journal
from ..permissions import refuse
from ..recorder import Recorder

POLL_SECONDS = 0.25
MAX_RECORDS = 100  # that are handled together
MAX_SECONDS_TO_END = 60
FIRST_OP = 10_000_000  # beyond the numbers of the recorder, which records the client's crash


class ClientRecorder(Recorder):
    """The recorder of one client in a process of its own: into its own file of the bundle.

    It has the methods of `Recorder` for clients; the recorder of the run writes run.json.
    Every event is on disk before its method returns. `start` is the other recorder's, on the same monotonic clock.
    """

    def __init__(self, file: Path, start: int) -> None:
        self._producers, self._consumers, self._configured = set(), set(), {}
        journal = Journal(file, lambda: None)
        journal.start = start
        journal.next_op = itertools.count(FIRST_OP).__next__

        def append(line: bytes) -> None:
            journal.log.append(line)
            journal.log.flush()
            journal.log.check()

        journal.append = append
        self._journal = journal


class GroupMember:
    """Polls, handles and commits."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._name: str = plan["name"]
        self._topic: str = plan["topic"]
        self._handle_seconds = plan["handle_ms"] / 1000
        self._recorder = ClientRecorder(Path(plan["file"]), plan["start"])
        self._commits_itself = str(plan["config"].get("enable.auto.commit", True)).lower() != "true"
        logger = logging.getLogger("librdkafka")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        self._consumer = Consumer(self._recorder, self._name, {**plan["config"], "logger": logger})
        self.leaving, self.crashing = threading.Event(), threading.Event()

    def run(self) -> None:
        """Work until it is to leave."""
        self._consumer.subscribe([self._topic])
        while not self.leaving.is_set():
            self._handle(self._poll())
        self._consumer.close()

    def _poll(self) -> list[Any]:
        batch: list[Any] = []
        message = self._consumer.poll(POLL_SECONDS)
        while message is not None:
            refuse(self._name, message.error())
            if message.error() is None:
                batch.append(message)
            message = self._consumer.poll(0) if len(batch) < MAX_RECORDS else None
        return batch

    def _handle(self, batch: list[Any]) -> None:
        if not batch:
            return
        if self._handle_seconds:
            self.leaving.wait(self._handle_seconds)
        if self.crashing.is_set():
            os.kill(os.getpid(), signal.SIGKILL)
        self._recorder.handle(self._name, batch)
        if self._commits_itself:
            ends = {(message.topic(), message.partition()): message.offset() + 1 for message in batch}
            offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
            with contextlib.suppress(confluent_kafka.KafkaException):
                self._consumer.commit(offsets=offsets, asynchronous=False)


def main() -> None:
    """Run a member."""
    member = GroupMember(json.loads(sys.stdin.readline()))

    def wait_for_the_end() -> None:
        end = member.crashing if sys.stdin.readline() == "crash\n" else member.leaving
        end.set()
        # A recorder that lives has killed it by then; without brokers, leaving the group never ends.
        time.sleep(MAX_SECONDS_TO_END)
        os._exit(1)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    status = 0
    try:
        member.run()
    except LogjudgeError as error:
        print(error, file=sys.stderr, flush=True)
        status = 1
    os._exit(status)  # the thread still waits for input


if __name__ == "__main__":
    main()
