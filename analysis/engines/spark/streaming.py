"""Structured Streaming: hands files of a folder, or messages of a Kafka topic, to a function in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

from ....histories.errors import ClusterError, MissingComponentError, UsageError, describe_error
from .session import Frame, Session, context_of, hadoop_path

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

BATCH_BYTES = 256 << 20  # of files
BATCH_MESSAGES = 1_000_000
STOP_SECONDS = 60.0
Take = Callable[[int, Iterator[Any]], None]  # a batch: its number, from 0, and its rows
_FILES = "path string, modificationTime timestamp, length long, content binary"  # of Spark's source binaryFile


def files_stream(session: Session, uri: str) -> Frame:
    """The *.jsonl files of a folder, or of its folder `history`: path, modificationTime and content of each.

    A file must be complete when it gets its name, as in every folder that Structured Streaming reads.
    """
    _refuse_connect(session)
    found = hadoop_path(session, f"{uri.rstrip('/')}/history")
    assert found is not None
    system, history = found
    folder = str(history) if system.exists(history) else uri
    options = {"pathGlobFilter": "*.jsonl", "maxBytesPerTrigger": str(BATCH_BYTES)}
    return session.readStream.format("binaryFile").schema(_FILES).options(**options).load(folder)


def topic_stream(session: Session, bootstrap: str, topic: str, client: Mapping[str, str]) -> Frame:
    """The messages of a topic: partition, offset, timestamp and value. `client` has settings of Java's consumer.

    Raises MissingComponentError if the session lacks Spark's Kafka source, which is a package of its own.
    """
    _refuse_connect(session)
    options = {
        **{f"kafka.{name}": value for name, value in client.items()},
        "kafka.bootstrap.servers": bootstrap,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_MESSAGES),
    }
    try:
        frame = session.readStream.format("kafka").options(**options).load()
    except Exception as error:
        if "kafka" not in str(error).lower():
            raise
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}"
        raise MissingComponentError(
            f"found no Kafka source in Spark ({describe_error(error)[:100]}), expected its package; add"
            f" --conf spark.jars.packages={package}"
        ) from error
    return frame.select("partition", "offset", "timestamp", "value")


class Stream:
    """A streaming query that hands each batch to `take`. After a restart it continues from the checkpoint."""

    def __init__(self, frame: Frame, order: tuple[str, ...], checkpoint: str, every: float, take: Take) -> None:
        self._failure: BaseException | None = None
        self._taking = Lock()

        def take_batch(batch: Frame, number: int) -> None:
            try:
                with self._taking:
                    take(number, batch.coalesce(1).sortWithinPartitions(*order).toLocalIterator())
            except BaseException as error:
                self._failure = error
                raise

        writer = frame.writeStream.foreachBatch(take_batch).option("checkpointLocation", checkpoint)
        self._query: StreamingQuery = writer.trigger(processingTime=f"{every} seconds").start()

    def wait(self, seconds: float) -> None:
        """Waits up to `seconds` for the query to end. Raises what ended it: the error of `take`, or ClusterError."""
        try:
            self._query.awaitTermination(seconds)
        except Exception as error:
            if self._failure is not None:
                raise self._failure from None
            raise ClusterError(f"the streaming query ended ({describe_error(error)})") from error

    def has_data(self) -> bool:
        """Whether a batch is on its way, or was handed out just now."""
        return bool(self._query.status["isDataAvailable"])

    def is_waiting(self) -> bool:
        """Whether the query waits for its next batch."""
        return str(self._query.status["message"]).startswith("Waiting")

    def stop(self) -> None:
        """Ends the query, after the present batch unless that takes longer than STOP_SECONDS."""
        self._taking.acquire(timeout=STOP_SECONDS)
        self._query.stop()


def _refuse_connect(session: Session) -> None:
    if context_of(session) is None:
        raise UsageError("found --remote, expected --master: Spark Connect would judge batches on its server")
