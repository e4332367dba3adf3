"""Operations between their invocation and their completion, as `Recorder` returns them.

Each is a context manager. The first outcome counts. An operation that is left without one is `info`, and so is one that
an exception ends, unless the exception proves that nothing was written (histories/send_errors.py).
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from operator import index
from pathlib import Path
from time import monotonic_ns
from typing import Any, Self

from ..errors import UsageError
from ..send_errors import outcome_of
from .client_values import offset_of, positions_of, records_of, text_of
from .event_log import EventLog, Fields, line_of, require_name
from .membership import membership_of

UNKNOWN_OFFSETS = (-1, -1001)  # by which Kafka's clients, and librdkafka, report that they received none
UNKNOWN_PARTITION = -1


class OpenOperation:
    """An invocation that waits for its outcome."""

    __slots__ = ("_f", "_is_awaited", "_journal", "_op", "_outcome", "_process")

    def __init__(self, journal: Journal, process: str, op: int, f: str) -> None:
        self._journal, self._process, self._op, self._f = journal, process, op, f
        self._outcome = ""
        self._is_awaited = False  # whether a callback will complete it

    def fail(self, error: object = "") -> None:
        """It certainly did not happen. `error` begins with Kafka's name of the error."""
        self._complete("fail", _error_field(error))

    def info(self, error: object = "") -> None:
        """It is not known whether it happened."""
        self._complete("info", _error_field(error))

    def error(self, error: object) -> None:
        """It ended with an exception, an error object of a client, or an error's name: of other operations than sends
        none proves that nothing happened."""
        self.info(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if self._outcome:
            return
        if error is not None:
            self.error(error)
        elif not self._is_awaited:
            self.info()

    def _complete(self, outcome: str, fields: Fields) -> None:
        """Write the completion. A second one is left out, as is one that comes after the end of the recording."""
        journal = self._journal
        with journal.lock:
            if self._outcome or journal.log.is_closed:
                return
            self._outcome = outcome
        journal.write(self._process, self._op, outcome, self._f, fields)


class Plain(OpenOperation):
    """A fault or a heal."""

    __slots__ = ()

    def ok(self) -> None:
        """It happened."""
        self._complete("ok", {})

    def _complete(self, outcome: str, fields: Fields) -> None:
        super()._complete(outcome, fields)
        self._journal.resume_poll(self._process)


class Commit(Plain):
    """A commit of offsets. `member` is the consumer, or its member id and generation, after the commit."""

    __slots__ = ("_member",)

    def __init__(self, journal: Journal, process: str, op: int, member: Any) -> None:
        super().__init__(journal, process, op, "commit")
        self._member = member

    def _complete(self, outcome: str, fields: Fields) -> None:
        super()._complete(outcome, {**fields, **(membership_of(self._member) if outcome == "ok" else {})})


def _number(value: Any, name: str) -> int | None:
    """A partition or an offset of any integer type. Raises UsageError."""
    try:
        return None if value is None else index(value)
    except TypeError as error:
        raise UsageError(f"ok({name}=…): found {value!r:.80}, expected an integer or None") from error


def _require_place(partition: int | None, offset: int | None) -> None:
    """Raises UsageError for a negative number that no client reports."""
    if partition is not None and partition < 0 and partition != UNKNOWN_PARTITION:
        raise UsageError(f"ok(partition={partition}): found a negative partition, expected one from 0, or None")
    if offset is not None and offset < 0 and offset not in UNKNOWN_OFFSETS:
        raise UsageError(f"ok(offset={offset}): found a negative offset, expected one from 0, or None if it is unknown")


def place_of(metadata: Any) -> tuple[int | None, int | None]:
    """Partition and offset of a client's RecordMetadata; none of None, which aiokafka returns with acks=0."""
    return (None, None) if metadata is None else (metadata.partition, metadata.offset)


class Send(OpenOperation):
    """A message that is being sent."""

    __slots__ = ("_topic",)

    def __init__(self, journal: Journal, process: str, op: int, topic: str) -> None:
        super().__init__(journal, process, op, "send")
        self._topic = topic

    def ok(self, partition: int | None = None, offset: int | None = None) -> None:
        """It was acknowledged, at this place; None or the client's -1 or -1001 if it received none (acks=0)."""
        journal = self._journal
        if partition.__class__ is not int or offset.__class__ is not int:
            partition, offset = _number(partition, "partition"), _number(offset, "offset")
        _require_place(partition, offset)
        with journal.lock:
            if self._outcome or journal.log.is_closed:
                return
            self._outcome = "ok"
        # Written out, as sends are by far the most events.
        event = {
            "time": monotonic_ns() - journal.start,
            "process": self._process,
            "op": self._op,
            "type": "ok",
            "f": "send",
            "topic": self._topic,
            "offset": None if offset is None or offset < 0 else offset,
        }
        if partition is not None and partition >= 0:
            event["partition"] = partition
        journal.append(line_of(event))

    def error(self, error: object) -> None:
        """It ended with an exception, a KafkaError, or an error's name, which decides between `fail` and `info`."""
        outcome, text = outcome_of(error)
        self._complete(outcome, {"error": text})

    def _complete(self, outcome: str, fields: Fields) -> None:
        super()._complete(outcome, {"topic": self._topic, **fields})

    @property
    def on_delivery(self) -> Callable[[Any, Any], None]:
        """A delivery callback for confluent-kafka: `producer.produce(..., on_delivery=op.on_delivery)`.

        Once it is handed out, leaving the `with` block records nothing.
        """
        self._is_awaited = True
        return self._delivered

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.error(error)
        else:
            self.ok(message.partition(), message.offset())

    def watch(self, future: Any) -> None:
        """Take the outcome of a future (asyncio or concurrent.futures) of RecordMetadata, as aiokafka returns.

        With acks=0 aiokafka's futures have no metadata: the send was acknowledged without a place.
        """
        self._is_awaited = True
        future.add_done_callback(self._resolved)

    def _resolved(self, future: Any) -> None:
        if future.cancelled():
            self.info("cancelled by the application")
        elif future.exception() is not None:
            self.error(future.exception())
        else:
            self.ok(*place_of(future.result()))


class Poll(OpenOperation):
    """A poll that waits for records."""

    __slots__ = ()

    def ok(self, records: Any = ()) -> None:
        """It returned these records, in this order: dictionaries, tuples, or what the client returned."""
        self._complete("ok", {"records": records_of(records)})

    def suspend(self) -> None:
        """Complete the poll without records, as a callback interrupts it."""
        if self._op and not self._outcome:
            super()._complete("ok", {"records": []})
            self._op, self._outcome = 0, ""

    def resume(self) -> None:
        """Begin the poll again, after the callback."""
        if not self._op:
            self._op = self._journal.begin(self._process, self._f, {})

    def _complete(self, outcome: str, fields: Fields) -> None:
        self.resume()
        self._journal.polls.pop(self._process, None)
        super()._complete(outcome, fields)


class Positions(OpenOperation):
    """A request for the ends of logs."""

    __slots__ = ()

    def ok(self, offsets: Any) -> None:
        """The response: partitions with their end offset and, if it is known, `start`, their log start offset."""
        self._complete("ok", {"offsets": positions_of(offsets, needs_offset=True)})


class Step:
    """A send within a transaction."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def ok(self, partition: int | None = None, offset: int | None = None) -> None:
        """The place at which the message was acknowledged."""
        _require_place(partition, offset)
        if partition is not None:
            self._fields["partition"] = int(partition)
        self._fields["offset"] = offset_of(offset)

    def on_delivery(self, error: Any, message: Any) -> None:
        """A delivery callback for confluent-kafka; an error is the transaction's to report."""
        if error is None:
            self.ok(message.partition(), message.offset())

    def watch(self, future: Any) -> None:
        """Take the place from a future of RecordMetadata, as aiokafka returns; the transaction reports errors."""
        future.add_done_callback(self._resolved)

    def _resolved(self, future: Any) -> None:
        if not future.cancelled() and future.exception() is None:
            self.ok(*place_of(future.result()))


class Transaction(OpenOperation):
    """A transaction that is open. Its outcome is that of the commit; `fail` records that it was aborted."""

    __slots__ = ("_changed", "_steps")

    def __init__(self, journal: Journal, process: str, op: int, f: str) -> None:
        super().__init__(journal, process, op, f)
        self._steps: list[Fields] = []
        self._changed = journal.now()  # when its last step was added, ns

    def send(
        self,
        topic: str,
        value: str | bytes | int | None,
        *,
        key: str | bytes | int | None = None,
        partition: int | None = None,
    ) -> Step:
        """Record a message of the transaction; call it before the client's own send."""
        fields: Fields = {"f": "send", "topic": require_name(topic, "topic"), "value": text_of(value, "value")}
        if key is not None:
            fields["key"] = text_of(key, "key")
        if partition is not None:
            fields["partition"] = partition
        self._add(fields)
        return Step(fields)

    def poll(self, records: Any) -> None:
        """Record what a poll within the transaction returned."""
        self._add({"f": "poll", "records": records_of(records)})

    def commit(self, offsets: Any) -> None:
        """Record offsets that the transaction commits (send_offsets_to_transaction)."""
        self._add({"f": "commit", "offsets": positions_of(offsets, needs_offset=True)})

    def _add(self, step: Fields) -> None:
        if self._outcome:
            raise UsageError(f"found a step of transaction {self._op} of {self._process} after its outcome")
        self._steps.append(step)
        self._changed = self._journal.now()

    def ok(self) -> None:
        """It was committed."""
        self._complete("ok", {})

    def unfinished(self) -> Fields:
        """The line that completes it as `info`, for the case that nothing else completes it."""
        steps = [dict(step) for step in list(self._steps)]
        head = {"time": self._changed, "process": self._process, "op": self._op, "type": "info", "f": self._f}
        return {**head, "ops": steps}

    def _complete(self, outcome: str, fields: Fields) -> None:
        super()._complete(outcome, {**fields, "ops": self._steps})
        self._journal.transactions.pop(self._op, None)


class Journal:
    """The state that the recorder and its open operations share: the clock, operation numbers, open operations."""

    def __init__(self, path: Path, before_flush: Callable[[], None]) -> None:
        self.start = monotonic_ns()
        self.lock = threading.Lock()  # around the choice of an operation's outcome
        self.polls: dict[str, Poll] = {}  # the open poll of each process
        self.transactions: dict[int, Transaction] = {}  # that are open, by op
        self.next_op = itertools.count(1).__next__
        self.log = EventLog(path, before_flush)
        self.append = self.log.append

    def now(self) -> int:
        """The time since the start, ns."""
        return monotonic_ns() - self.start

    def write(self, process: str, op: int, type_: str, f: str, fields: Fields) -> None:
        """Append an event of now. Raises UsageError if the process is no text."""
        require_name(process, "process")
        event = {"time": self.now(), "process": process, "op": op, "type": type_, "f": f, **fields}
        self.append(line_of(event))

    def begin(self, process: str, f: str, fields: Fields) -> int:
        """Write an invocation and return its op. Raises LogjudgeError if nothing more is recorded."""
        self.log.check()
        op = self.next_op()
        self.write(process, op, "invoke", f, fields)
        return op

    def suspend_poll(self, process: str) -> None:
        """Close the poll around a callback, as polls overlap with nothing else of their process (docs/format.md)."""
        if process in self.polls:
            self.polls[process].suspend()

    def resume_poll(self, process: str) -> None:
        """Begin the poll of a process again, after the callback."""
        if process in self.polls:
            self.polls[process].resume()


def _error_field(error: object) -> Fields:
    return {} if error == "" else {"error": outcome_of(error)[1]}
