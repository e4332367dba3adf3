"""aiokafka's producer and consumer that record what they do: the public `logjudge.aiokafka`.

They are subclasses, as those of confluent_clients.py. Serializers are applied here, as the history has values as the
brokers' logs have them. aiokafka reports no automatic commits, so these are not recorded.
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import aiokafka

from ..errors import UsageError
from .kafka_clients import CommittedGroups, without_secrets
from .open_operations import Transaction
from .recorder import Recorder

COMMITTED_SECONDS = 20.0
Convert = Callable[[Any], Any]


class AIOKafkaProducer(aiokafka.AIOKafkaProducer):  # type: ignore[misc]
    """An aiokafka.AIOKafkaProducer that records its sends and transactions.

    `AIOKafkaProducer(recorder, process, **settings)`: the process that the history names, and aiokafka's own arguments.
    Values identify messages, so each must be unique in its topic, and be text or UTF-8 once it is serialized.
    """

    def __init__(
        self,
        recorder: Recorder,
        process: str,
        *,
        key_serializer: Convert | None = None,
        value_serializer: Convert | None = None,
        **settings: Any,
    ) -> None:
        """Raises what aiokafka.AIOKafkaProducer raises."""
        self._recorder, self._process = recorder, process
        self._key_bytes, self._value_bytes = key_serializer, value_serializer
        self._transaction: Transaction | None = None
        self._groups = CommittedGroups()
        super().__init__(**settings)
        is_idempotent = bool(settings.get("enable_idempotence") or settings.get("transactional_id"))
        defaults = {"acks": "all" if is_idempotent else 1, "enable_idempotence": is_idempotent}
        recorder.configure(process, **_recorded_settings({**defaults, **settings}))

    async def send(
        self, topic: str, value: Any = None, key: Any = None, partition: int | None = None, *more: Any, **named: Any
    ) -> Any:
        """As aiokafka.AIOKafkaProducer.send; the future that it returns completes the send."""
        value, key = _convert(self._value_bytes, value), _convert(self._key_bytes, key)
        if self._transaction is not None:
            step = self._transaction.send(topic, value, key=key, partition=partition)
            future = await super().send(topic, value, key, partition, *more, **named)
            step.watch(future)
            return future
        with self._recorder.send(self._process, topic, value, key=key, partition=partition) as send:
            future = await super().send(topic, value, key, partition, *more, **named)
            send.watch(future)
        return future

    async def send_batch(self, _batch: Any, topic: str, **_: Any) -> Any:
        """Raises UsageError, as the messages of a batch are encoded already."""
        raise UsageError(f"found send_batch to {topic}, expected send: a batch hides its values from the recorder")

    async def begin_transaction(self) -> None:
        """As aiokafka.AIOKafkaProducer.begin_transaction."""
        await super().begin_transaction()
        self._transaction = self._recorder.txn(self._process)

    async def send_offsets_to_transaction(self, offsets: Mapping[Any, Any], group_id: str) -> None:
        """As aiokafka.AIOKafkaProducer.send_offsets_to_transaction."""
        if self._transaction is not None:
            self._transaction.commit(_offsets(offsets))
            self._recorder.configure(self._process, **self._groups.setting_with(group_id))
        await super().send_offsets_to_transaction(offsets, group_id)

    async def commit_transaction(self) -> None:
        """As aiokafka.AIOKafkaProducer.commit_transaction; an error leaves the outcome unknown."""
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            await super().commit_transaction()
            return
        with transaction:
            await super().commit_transaction()
            transaction.ok()

    async def abort_transaction(self) -> None:
        """As aiokafka.AIOKafkaProducer.abort_transaction. The transaction fails even if the request to abort does."""
        transaction, self._transaction = self._transaction, None
        try:
            await super().abort_transaction()
        finally:
            if transaction is not None:
                transaction.fail("aborted by the application")


class AIOKafkaConsumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    """An aiokafka.AIOKafkaConsumer that records its polls, assignments, positions and commits.

    `AIOKafkaConsumer(recorder, process, *topics, **settings)`.
    """

    def __init__(
        self,
        recorder: Recorder,
        process: str,
        *topics: str,
        key_deserializer: Convert | None = None,
        value_deserializer: Convert | None = None,
        **settings: Any,
    ) -> None:
        """Raises what aiokafka.AIOKafkaConsumer raises."""
        self._recorder, self._process = recorder, process
        self._key_of, self._value_of = key_deserializer, value_deserializer
        super().__init__(**settings)
        defaults = {"enable_auto_commit": True, "auto_offset_reset": "latest", "isolation_level": "read_uncommitted"}
        recorder.configure(process, **_recorded_settings({**defaults, **settings}))
        if topics:
            self.subscribe(topics)

    async def getone(self, *partitions: Any) -> Any:
        """As aiokafka.AIOKafkaConsumer.getone."""
        with self._recorder.poll(self._process) as poll:
            record = await super().getone(*partitions)
            poll.ok(record)
        return self._deserialized(record)

    async def getmany(self, *partitions: Any, timeout_ms: int = 0, max_records: int | None = None) -> Any:
        """As aiokafka.AIOKafkaConsumer.getmany."""
        with self._recorder.poll(self._process) as poll:
            found = await super().getmany(*partitions, timeout_ms=timeout_ms, max_records=max_records)
            poll.ok(found)
        return {partition: [self._deserialized(record) for record in records] for partition, records in found.items()}

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        """As aiokafka.AIOKafkaConsumer.subscribe."""
        super().subscribe(topics=topics, pattern=pattern, listener=_Listener(self, listener))
        self._recorder.subscribe(self._process, topics)

    def assign(self, partitions: Iterable[Any]) -> None:
        """As aiokafka.AIOKafkaConsumer.assign; the positions are not known yet."""
        wanted = list(partitions)
        super().assign(wanted)
        self._recorder.assign(self._process, (), assignment=wanted)

    def seek(self, partition: Any, offset: int) -> None:
        """As aiokafka.AIOKafkaConsumer.seek."""
        super().seek(partition, offset)
        self._recorder.seek(self._process, {partition: offset})

    async def seek_to_beginning(self, *partitions: Any) -> Any:
        """As aiokafka.AIOKafkaConsumer.seek_to_beginning."""
        return await self._moved(super().seek_to_beginning, partitions)

    async def seek_to_end(self, *partitions: Any) -> Any:
        """As aiokafka.AIOKafkaConsumer.seek_to_end."""
        return await self._moved(super().seek_to_end, partitions)

    async def seek_to_committed(self, *partitions: Any) -> Any:
        """As aiokafka.AIOKafkaConsumer.seek_to_committed."""
        return await self._moved(super().seek_to_committed, partitions)

    async def commit(self, offsets: Mapping[Any, Any] | None = None) -> None:
        """As aiokafka.AIOKafkaConsumer.commit."""
        if offsets is None:
            subscription = self._subscription.subscription
            assignment = subscription.assignment if subscription is not None else None
            offsets = assignment.all_consumed_offsets() if assignment is not None else {}
        if not offsets:
            await super().commit()
            return
        with self._recorder.commit(self._process, _offsets(offsets), member=self) as commit:
            await super().commit(offsets)
            commit.ok()

    async def end_offsets(self, partitions: Iterable[Any]) -> Any:
        """As aiokafka.AIOKafkaConsumer.end_offsets."""
        with self._recorder.end_offsets(self._process) as ends:
            found = await super().end_offsets(partitions)
            ends.ok(found)
        return found

    async def _moved(self, move: Callable[..., Any], partitions: tuple[Any, ...]) -> Any:
        found = await move(*partitions)
        places = partitions or tuple(self.assignment())
        self._recorder.seek(self._process, {place: await self.position(place) for place in places})
        return found

    def _deserialized(self, record: Any) -> Any:
        if self._key_of is None and self._value_of is None:
            return record
        key, value = _convert(self._key_of, record.key), _convert(self._value_of, record.value)
        return dataclasses.replace(record, key=key, value=value)

    async def note_assigned(self, partitions: Any) -> None:
        """Record an assignment by the group, from the committed offsets."""
        try:
            requests = [self.committed(place) for place in partitions]
            offsets = await asyncio.wait_for(asyncio.gather(*requests), COMMITTED_SECONDS)
        except (TimeoutError, aiokafka.errors.KafkaError):
            offsets = None  # the positions stay unknown
        found = [] if offsets is None else [(p.topic, p.partition, o) for p, o in zip(partitions, offsets, strict=True)]
        self._recorder.assign(self._process, found, group=True, member=self, assignment=partitions)

    def note_revoked(self, partitions: Any) -> None:
        """Record that the group took partitions away."""
        if partitions:
            self._recorder.revoke(self._process, partitions, member=self)


class _Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    """Records rebalances, and calls the application's listener."""

    def __init__(self, consumer: AIOKafkaConsumer, listener: Any) -> None:
        self._consumer, self._listener = consumer, listener

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self._listener is not None:
            await _finished(self._listener.on_partitions_revoked(revoked))
        self._consumer.note_revoked(list(revoked))

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._consumer.note_assigned(sorted(assigned))
        if self._listener is not None:
            await _finished(self._listener.on_partitions_assigned(assigned))


async def _finished(result: Any) -> None:
    """A listener's methods may be functions or coroutines."""
    if inspect.isawaitable(result):
        await result


def _convert(convert: Convert | None, value: Any) -> Any:
    """As aiokafka does: a None value goes through the converter, too."""
    return value if convert is None else convert(value)


def _offsets(offsets: Mapping[Any, Any]) -> dict[Any, Any]:
    """Positions without metadata: aiokafka takes an offset, (offset, metadata) or OffsetAndMetadata."""
    return {place: at[0] if isinstance(at, tuple) else at for place, at in offsets.items()}


def _recorded_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for run.json, by Kafka's names."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return {"client": f"aiokafka {aiokafka.__version__}", **without_secrets(named)}
