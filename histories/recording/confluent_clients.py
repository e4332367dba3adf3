"""confluent-kafka's Producer and Consumer that record what they do: the public `logjudge.confluent`.

They are subclasses, so an application uses them like the originals. Only the application can record that it handled a
record or crashed: `Recorder.handle`, `Recorder.crash`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .kafka_clients import Callback, CommittedGroups, call_both, confluent_kafka, recorded_config
from .membership import group_of_metadata
from .open_operations import Transaction
from .recorder import Recorder

COMMITTED_SECONDS = 20.0
_library = confluent_kafka()


def _producer_defaults(config: dict[str, Any]) -> dict[str, Any]:
    """librdkafka's defaults of the settings that rules depend on (its CONFIGURATION.md).

    They are acks=all, and idempotence only with transactions, unlike Kafka's own clients since KIP-679.
    """
    has_acks = "acks" in config or "request.required.acks" in config
    return {**({} if has_acks else {"acks": "all"}), "enable.idempotence": "transactional.id" in config}


@contextmanager
def fatal_errors() -> Iterator[None]:
    """Raises the KafkaException of a fatal error, as without delivery reports.

    confluent-kafka sets it before it calls the next delivery report, so Python raises a SystemError from it.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, _library.KafkaException):
            raise error.__cause__ from None
        raise


class Producer(_library.Producer):  # type: ignore[misc, name-defined]
    """A confluent_kafka.Producer that records its sends and transactions.

    `Producer(recorder, process, config)`: the process that the history names, and confluent-kafka's own arguments.
    Values identify messages, so each must be unique in its topic, and be text or UTF-8.
    """

    def __init__(self, recorder: Recorder, process: str, config: dict[str, Any] | None = None, **more: Any) -> None:
        """Raises what confluent_kafka.Producer raises."""
        config = {**(config or {}), **more}
        self._recorder, self._process = recorder, process
        self._on_delivery = config.get("on_delivery")
        self._transaction: Transaction | None = None
        self._is_commit_open = False  # whether a commit was requested and its outcome is not known
        self._groups = CommittedGroups()
        super().__init__(config)
        recorder.configure(process, **recorded_config({**_producer_defaults(config), **config}))

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = -1,
        on_delivery: Callback | None = None,
        callback: Callback | None = None,
        **more: Any,
    ) -> None:
        """As confluent_kafka.Producer.produce; its delivery report completes the send."""
        report = on_delivery or callback or self._on_delivery
        place = {"partition": partition if partition >= 0 else None, "key": key}
        arguments = {"value": value, "key": key, "partition": partition, **more}
        if self._transaction is not None:
            step = self._transaction.send(topic, value, **place)
            super().produce(topic, on_delivery=call_both(step.on_delivery, report), **arguments)
            return
        stamp = more.get("timestamp") or None  # 0: the time of the call
        with self._recorder.send(self._process, topic, value, timestamp=stamp, **place) as send:
            complete = send.on_delivery
            try:
                super().produce(topic, on_delivery=call_both(complete, report), **arguments)
            except BaseException as error:
                send.error(error)
                raise

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: Callback | None = None,
        on_delivery: Callback | None = None,
    ) -> int:
        """As confluent_kafka.Producer.produce_batch, message by message; returns how many were accepted."""
        accepted = 0
        for message in messages:
            own = {name: value for name, value in message.items() if not name.startswith("_")}
            report = own.pop("callback", None) or own.pop("on_delivery", None) or on_delivery or callback
            try:
                self.produce(topic, **{"partition": partition, **own}, on_delivery=report)
                accepted += 1
            except (BufferError, _library.KafkaException) as error:
                is_full = isinstance(error, BufferError)
                message["_error"] = _library.KafkaError(_library.KafkaError._QUEUE_FULL) if is_full else error.args[0]
        return accepted

    def poll(self, *arguments: Any) -> Any:
        """As confluent_kafka.Producer.poll."""
        with fatal_errors():
            return super().poll(*arguments)

    def flush(self, *arguments: Any) -> Any:
        """As confluent_kafka.Producer.flush."""
        with fatal_errors():
            return super().flush(*arguments)

    def begin_transaction(self) -> None:
        """As confluent_kafka.Producer.begin_transaction."""
        super().begin_transaction()
        self._transaction, self._is_commit_open = self._recorder.txn(self._process), False

    def send_offsets_to_transaction(self, positions: Any, *arguments: Any, **more: Any) -> None:
        """As confluent_kafka.Producer.send_offsets_to_transaction."""
        if self._transaction is not None:
            self._transaction.commit(positions)
            metadata = arguments[0] if arguments else more.get("group_metadata")
            self._recorder.configure(self._process, **self._groups.setting_with(group_of_metadata(metadata)))
        super().send_offsets_to_transaction(positions, *arguments, **more)

    def commit_transaction(self, *arguments: Any) -> None:
        """As confluent_kafka.Producer.commit_transaction; an error that permits a retry leaves the transaction open."""
        self._is_commit_open = True
        try:
            with fatal_errors():
                super().commit_transaction(*arguments)
        except _library.KafkaException as error:
            reason = error.args[0]
            if reason.txn_requires_abort():
                self._is_commit_open = False
            elif not reason.retriable():
                self._end_transaction("info", error)
            raise
        self._end_transaction("ok")

    def abort_transaction(self, *arguments: Any) -> None:
        """As confluent_kafka.Producer.abort_transaction.

        Without a commit that may have succeeded, the transaction fails even if the request to abort does.
        """
        try:
            with fatal_errors():
                super().abort_transaction(*arguments)
        except _library.KafkaException as error:
            if not error.args[0].retriable():
                self._end_transaction("info" if self._is_commit_open else "fail", error)
            raise
        self._end_transaction("fail", "aborted by the application")

    def _end_transaction(self, outcome: str, *error: object) -> None:
        if self._transaction is not None:
            getattr(self._transaction, outcome)(*error)
            self._transaction = None


class Consumer(_library.Consumer):  # type: ignore[misc, name-defined]
    """A confluent_kafka.Consumer that records its polls, assignments, positions and commits.

    `Consumer(recorder, process, config)`. Asynchronous and automatic commits are recorded when their callback runs, as
    automatic ones.
    """

    def __init__(self, recorder: Recorder, process: str, config: dict[str, Any] | None = None, **more: Any) -> None:
        """Raises what confluent_kafka.Consumer raises."""
        config = {**(config or {}), **more}
        self._recorder, self._process = recorder, process
        self._on_commit = config.get("on_commit")
        strategy = str(config.get("partition.assignment.strategy", ""))
        self._is_cooperative = "cooperative" in strategy or config.get("group.protocol") == "consumer"
        self._rebalancing: list[Any] | None = None  # in a rebalance: what was assigned so far
        self._is_closing = False
        super().__init__({**config, "on_commit": self._committed})
        recorder.configure(process, **recorded_config(config))

    def poll(self, *arguments: Any, **more: Any) -> Any:
        """As confluent_kafka.Consumer.poll."""
        with self._recorder.poll(self._process) as poll:
            message = super().poll(*arguments, **more)
            poll.ok(message)
        return message

    def consume(self, *arguments: Any, **more: Any) -> list[Any]:
        """As confluent_kafka.Consumer.consume."""
        with self._recorder.poll(self._process) as poll:
            messages: list[Any] = super().consume(*arguments, **more)
            poll.ok(messages)
        return messages

    def subscribe(
        self,
        topics: list[str],
        on_assign: Callback | None = None,
        on_revoke: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """As confluent_kafka.Consumer.subscribe."""
        self._recorder.subscribe(self._process, topics)
        super().subscribe(
            topics,
            on_assign=lambda _, partitions: self._assigned(partitions, on_assign),
            on_revoke=lambda _, partitions: self._revoked(partitions, on_revoke),
            on_lost=lambda _, partitions: self._revoked(partitions, on_lost or on_revoke),
        )

    def assign(self, partitions: list[Any]) -> None:
        """As confluent_kafka.Consumer.assign."""
        super().assign(partitions)
        self._note_assignment(partitions)

    def incremental_assign(self, partitions: list[Any]) -> None:
        """As confluent_kafka.Consumer.incremental_assign."""
        super().incremental_assign(partitions)
        self._note_assignment(partitions, self.assignment())

    def unassign(self) -> None:
        """As confluent_kafka.Consumer.unassign."""
        super().unassign()
        if self._rebalancing is None:
            self._recorder.revoke(self._process, group=False)

    def incremental_unassign(self, partitions: list[Any]) -> None:
        """As confluent_kafka.Consumer.incremental_unassign."""
        super().incremental_unassign(partitions)
        if self._rebalancing is None:
            self._recorder.revoke(self._process, partitions, group=False)

    def seek(self, partition: Any) -> None:
        """As confluent_kafka.Consumer.seek."""
        super().seek(partition)
        self._recorder.seek(self._process, partition)

    def commit(self, message: Any = None, offsets: Any = None, asynchronous: bool = True) -> Any:
        """As confluent_kafka.Consumer.commit."""
        if message is not None:
            offsets = [_library.TopicPartition(message.topic(), message.partition(), message.offset() + 1)]
        if asynchronous:
            return super().commit(**({} if offsets is None else {"offsets": offsets}), asynchronous=True)
        if offsets is None:  # what the client has stored, which the response lists
            committed = super().commit(asynchronous=False)
            self._note_commit(None, committed)
            return committed
        with self._recorder.commit(self._process, offsets, member=self) as commit:
            committed = super().commit(offsets=offsets, asynchronous=False)
            refused = [place.error for place in committed if place.error is not None]
            commit.error(refused[0]) if refused else commit.ok()
        return committed

    def get_watermark_offsets(self, partition: Any, timeout: float = -1, cached: bool = False) -> Any:
        """As confluent_kafka.Consumer.get_watermark_offsets; cached offsets are not recorded."""
        if cached:
            return super().get_watermark_offsets(partition, cached=True)
        with self._recorder.end_offsets(self._process) as ends:
            found = super().get_watermark_offsets(partition, timeout=timeout)
            if found is not None:
                ends.ok((partition.topic, partition.partition, found[1], found[0]))
        return found

    def close(self) -> None:
        """As confluent_kafka.Consumer.close."""
        self._is_closing = True  # librdkafka may still assign partitions, without a generation, and never revokes them
        with self._recorder.poll(self._process) as poll:
            super().close()
            poll.ok()

    def _assigned(self, partitions: list[Any], on_assign: Callback | None) -> None:
        """Assign from the committed offsets, unless the application assigns in its own callback."""
        try:
            found = self.committed(partitions, timeout=COMMITTED_SECONDS)
        except _library.KafkaException:
            found = None  # the client requests them again, so the first positions stay unknown
        self._rebalancing = []
        try:
            if on_assign:
                on_assign(self, partitions)
            if not self._rebalancing and found is not None:
                (self.incremental_assign if self._is_cooperative else self.assign)(found)
            assigned = self._rebalancing or []
        finally:
            self._rebalancing = None
        committed = {(place.topic, place.partition): place for place in found or ()}
        stored = (_library.OFFSET_INVALID, _library.OFFSET_STORED)  # that is, the committed offset
        chosen = [committed.get((p.topic, p.partition), p) if p.offset in stored else p for p in assigned]
        positions = [p for p in chosen if p.offset >= 0 or (p.offset in stored and found is not None)]
        owned = [*(self.assignment() if self._is_cooperative else ()), *partitions]
        if not self._is_closing:
            self._recorder.assign(self._process, positions, group=True, member=self, assignment=owned)

    def _revoked(self, partitions: list[Any], callback: Callback | None) -> None:
        self._rebalancing = []
        try:
            if callback:
                callback(self, partitions)
        finally:
            self._rebalancing = None
        self._recorder.revoke(self._process, partitions, member=self)

    def _note_assignment(self, partitions: list[Any], owned: list[Any] | None = None) -> None:
        if self._rebalancing is not None:
            self._rebalancing += partitions
        else:
            self._recorder.assign(self._process, partitions, assignment=owned)

    def _committed(self, error: Any, partitions: list[Any]) -> None:
        self._note_commit(error, partitions)
        if self._on_commit:
            self._on_commit(error, partitions)

    def _note_commit(self, error: Any, partitions: list[Any] | None) -> None:
        """Record a commit that is known only now, after it happened."""
        offsets = [place for place in partitions or () if place.offset >= 0 and place.error is None]
        if offsets:
            commit = self._recorder.commit(self._process, offsets, auto=True, member=self)
            commit.ok() if error is None else commit.error(error)
