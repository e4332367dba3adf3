"""A member of a consumer group in a process of its own, so that it can be killed.

It reads its plan from the first line of standard input. The next line, or the end of the input, ends it: at `crash` it
kills itself while it handles records, otherwise it leaves the group. Every event is on disk before the next begins, so
all that a killed member did is known.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import confluent_kafka

from ...errors import LogjudgeError
from ..client_recorder import ClientRecorder
from ..permissions import refuse

POLL_SECONDS = 0.25
MAX_RECORDS = 100  # of one poll
COMMITTED_SECONDS = 20.0


class GroupMember:
    """Polls, handles and commits, and records its assignments."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._name: str = plan["name"]
        self._topic: str = plan["topic"]
        self._handle_seconds = plan["handle_ms"] / 1000
        self._recorder = ClientRecorder(Path(plan["file"]), plan["start"])
        self._commits_itself = str(plan["config"].get("enable.auto.commit", True)).lower() != "true"
        self._batch: list[Any] = []
        logger = logging.getLogger("librdkafka")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        self._consumer = confluent_kafka.Consumer({**plan["config"], "logger": logger, "on_commit": self._on_commit})
        self.leaving, self.crashing = threading.Event(), threading.Event()

    def run(self) -> None:
        """Work until it is to leave."""
        self._recorder.subscribe(self._name, self._topic)
        self._consumer.subscribe(
            [self._topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        while not self.leaving.is_set():
            self._poll()
            self._handle()
        self._poll_op = self._recorder.poll(self._name)
        self._consumer.close()
        self._end_poll()

    def _poll(self) -> None:
        self._poll_op = self._recorder.poll(self._name)
        message = self._consumer.poll(POLL_SECONDS)
        while message is not None and len(self._batch) < MAX_RECORDS:
            refuse(self._name, message.error())
            if message.error() is None:
                self._batch.append(message)
            message = self._consumer.poll(0) if len(self._batch) < MAX_RECORDS else None
        self._end_poll()

    def _end_poll(self) -> None:
        """Complete the open poll with what it has returned so far."""
        self._poll_op.ok(self._batch[self._handled_from :])
        self._handled_from = len(self._batch)

    _handled_from = 0  # records of the batch before this belong to an earlier poll

    def _handle(self) -> None:
        batch, self._batch, self._handled_from = self._batch, [], 0
        if not batch:
            return
        if self._handle_seconds:
            self.leaving.wait(self._handle_seconds)
        if self.crashing.is_set():
            os.kill(os.getpid(), signal.SIGKILL)
        self._recorder.handle(self._name, batch)
        if self._commits_itself:
            self._commit(batch)

    def _commit(self, batch: list[Any]) -> None:
        ends = {(message.topic(), message.partition()): message.offset() + 1 for message in batch}
        offsets = [confluent_kafka.TopicPartition(*place, end) for place, end in ends.items()]
        with self._recorder.commit(self._name, offsets, member=self._consumer) as commit:
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
                commit.ok()
            except confluent_kafka.KafkaException as error:
                commit.error(error)

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        committed = consumer.committed(partitions, timeout=COMMITTED_SECONDS)
        self._end_poll()
        self._recorder.assign(self._name, committed, group=True, member=consumer)
        consumer.assign(committed)
        self._poll_op = self._recorder.poll(self._name)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        self._end_poll()
        self._recorder.revoke(self._name, partitions, member=consumer)
        self._poll_op = self._recorder.poll(self._name)

    def _on_commit(self, error: Any, partitions: list[Any]) -> None:
        """The report of an automatic commit; those of `commit` above are recorded there."""
        if self._commits_itself or error is not None:
            return
        offsets = [place for place in partitions if place.offset >= 0 and place.error is None]
        if offsets:
            self._end_poll()
            self._recorder.commit(self._name, offsets, auto=True, member=self._consumer).ok()
            self._poll_op = self._recorder.poll(self._name)


def main() -> None:
    """Run a member."""
    member = GroupMember(json.loads(sys.stdin.readline()))

    def wait_for_the_end() -> None:
        end = member.crashing if sys.stdin.readline() == "crash\n" else member.leaving
        end.set()

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
