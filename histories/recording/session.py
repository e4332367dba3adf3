"""One recording: clients in threads for a time, then the heal, the final reads, and run.json.

However it ends, the bundle is whole: Ctrl-C and the end of the time end it cleanly, and an error leaves a bundle
without final reads.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import LogjudgeError, UsageError
from ..send_errors import outcome_of
from .kafka_clients import ClientSettings
from .permissions import refuse
from .recorder import Recorder
from .topics import BrokerViews, Topic, create_topics, describe_topics

FLUSH_SECONDS = 40.0  # to join the clients after the stop: longer than delivery.timeout.ms


@dataclass(frozen=True)
class Load:
    """The load of the clients of a workload."""

    topic: str
    partitions: int = 3
    replication_factor: int = 3
    topic_config: dict[str, str] = field(default_factory=dict)
    assignment: list[list[int]] | None = None  # the replicas of each partition, the preferred leader first
    producers: int = 2
    consumers: int = 2
    rate: float = 200.0  # sends a second, of all producers
    size: int = 0  # bytes of a value, at least
    keys: int = 20
    handle_ms: int = 0  # that a member of a group takes for what one poll returned
    crashes: bool = True  # whether members of a group are killed, too

    def main_topic(self, **config: str) -> Topic:
        """The topic that the options name; the user's settings override the workload's."""
        config = {**config, **self.topic_config}
        return Topic(self.topic, self.partitions, self.replication_factor, config, self.assignment)

    @property
    def rate_of_one(self) -> float:
        """Sends a second of one producer."""
        return max(0.1, self.rate / max(1, self.producers))


class Client(Protocol):
    """A client of a workload, which runs in a thread of its own."""

    name: str

    def run(self) -> None:
        """Work until the session stops, and close."""


class Progress:
    """Counts of the clients' operations so far; many threads count, so the numbers may be a few behind."""

    def __init__(self) -> None:
        self.sends: Counter[str] = Counter()  # by outcome
        self.errors: Counter[str] = Counter()
        self.read = 0
        self.has_other_readers = False  # in other processes, so that what they read is not counted
        self.ends: dict[tuple[str, int], int] = {}  # the highest acknowledged offset and one
        self.positions: dict[tuple[str, int], int] = {}
        self.faults: dict[str, list[str]] = {}  # that last: their nodes, by kind

    def completed(self, error: Any, message: Any = None) -> None:
        """Count a send with its outcome; the arguments of a delivery report."""
        self.sends[outcome_of(error)[0] if error is not None else "ok"] += 1
        if error is not None:
            self.errors[outcome_of(error)[1].split(":")[0]] += 1
        elif message is not None and message.offset() >= 0:
            place = message.topic(), message.partition()
            self.ends[place] = max(self.ends.get(place, 0), message.offset() + 1)

    def has_read(self, messages: Iterable[Any]) -> None:
        """Count what a poll returned."""
        for message in messages:
            place = message.topic(), message.partition()
            self.read += 1
            self.positions[place] = max(self.positions.get(place, 0), message.offset() + 1)

    @property
    def lag(self) -> int:
        """Acknowledged records that no consumer has reached."""
        return sum(max(0, end - self.positions.get(place, 0)) for place, end in list(self.ends.items()))


class Session:
    """The state that the clients of one recording share."""

    def __init__(self, recorder: Recorder, settings: ClientSettings, load: Load, admin: Any) -> None:
        self.recorder, self.settings, self.load, self.admin = recorder, settings, load, admin
        self.views = BrokerViews(settings, admin)
        self.progress = Progress()
        self.partitions = load.partitions  # of the topic, as producers know them
        self.stopping = threading.Event()
        self.topics: list[str] = []
        self.transactional: dict[str, dict[str, Any]] = {}  # transactional.id -> the configuration of its producers
        self.error: LogjudgeError | None = None  # that ended the recording
        self._threads: list[threading.Thread] = []
        self._bugs: list[BaseException] = []

    def make_topics(self, topics: Iterable[Topic]) -> None:
        """Make the topics, and describe them in run.json once every partition has a leader."""
        wanted = list(topics)
        create_topics(self.admin, wanted)
        self.topics = [topic.name for topic in wanted]
        for name, about in describe_topics(self.admin, wanted).items():
            self.recorder.configure_topic(name, **about)

    def completed(self, client: str, error: Any, message: Any = None) -> None:
        """Count a send of a client; a refused permission ends the recording."""
        self.progress.completed(error, message)
        try:
            refuse(client, error)
        except UsageError as refused:
            self._end(refused)

    def start(self, clients: Iterable[Client]) -> None:
        """Run clients, each in a thread."""
        self._threads += [self.background(client.run, client.name) for client in clients]

    def background(self, work: Callable[[], None], name: str) -> threading.Thread:
        """Run something beside the clients; an error of it ends the recording."""
        thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        thread.start()
        return thread

    def wait(
        self, seconds: float, report: Callable[[float | None], None], until: Callable[[], bool] = lambda: False
    ) -> None:
        """Report each second until the time is over, `until` holds, or a client's error stops the recording."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not self.stopping.is_set() and not until():
            report(left)
            self.stopping.wait(min(1.0, left))

    def stop(self) -> None:
        """Let the clients finish what they have begun, and close them. Raises what was a bug in one of them."""
        self.stopping.set()
        end = time.monotonic() + FLUSH_SECONDS
        for thread in self._threads:
            while thread.is_alive() and time.monotonic() < end:
                thread.join(0.2)
        if self._bugs:
            raise self._bugs[0]

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except LogjudgeError as error:
            self._end(error)
        except Exception as error:
            self._bugs.append(error)
            self.stopping.set()

    def _end(self, error: LogjudgeError) -> None:
        """End the recording with an error; the first counts."""
        self.error = self.error or error
        self.stopping.set()
