"""The sources of `logjudge watch`: a run on this machine, a Kafka topic, or a stream of Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..histories.errors import InputError, UsageError
from ..histories.files import is_uri
from ..histories.stream_copy import StreamCopy

if TYPE_CHECKING:
    from ..analysis.engines.spark import Session

HISTORIES = ("*.jsonl", "history/*.jsonl")  # of a bundle


class Source:
    """Events that grow. `run` is the bundle or the history with those that were fetched."""

    run: Path
    unit = "messages"  # of `unread`

    def fetch(self) -> None:
        """Adds new events to `run`."""

    def unread(self) -> int | None:
        """The amount that was not fetched; None if not known."""
        return None

    def behind(self, took: float) -> float:
        """Seconds since the newest event of the last fetch was written, after a round of `took` seconds."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends the fetching."""


def bytes_of(run: Path) -> int:
    """The size of the histories of a run."""
    return sum(file.stat().st_size for file in _histories(run))


def has_begun(run: Path) -> bool:
    """Whether a history has a whole line."""
    return any(b"\n" in file.open("rb").readline() for file in _histories(run))


def _histories(run: Path) -> Iterable[Path]:
    found = [file for pattern in HISTORIES for file in run.glob(pattern)] if run.is_dir() else [run]
    return filter(Path.is_file, found)


class LocalRun(Source):
    """A run that another process writes on this machine."""

    unit = "bytes"

    def __init__(self, run: Path) -> None:
        self.run = run
        self._fetched = 0

    def fetch(self) -> None:
        self._fetched = bytes_of(self.run)

    def unread(self) -> int:
        return max(bytes_of(self.run) - self._fetched, 0)

    def behind(self, took: float) -> float:
        return took if self.unread() else 0.0


class Topic(Source):
    """A Kafka topic, which a consumer copies."""

    def __init__(self, address: str, client: dict[str, str], folder: Path, config: dict[str, Any]) -> None:
        from ..histories.recording.topic_reader import TopicReader, address_of

        self._reader = TopicReader(address_of(address), client, folder, config)
        self.run = folder

    def fetch(self) -> None:
        self._reader.fetch()

    def unread(self) -> int:
        return self._reader.unread

    def behind(self, took: float) -> float:  # noqa: ARG002
        return self._reader.behind()

    def close(self) -> None:
        self._reader.close()


class Streamed(Source):
    """A folder or a Kafka topic, which a streaming query of Spark copies batch by batch."""

    def __init__(self, session: Session, address: str, client: dict[str, str], folder: Path, config: dict[str, Any]):
        from ..analysis.engines.spark import streaming
        from ..histories.recording.topic_reader import SCHEME, address_of

        self.run, self._newest = folder, 0.0
        if address.startswith(SCHEME):
            place = address_of(address)
            self._frame = streaming.topic_stream(session, *place, client)
            self._topic, self._order = place.topic, ("partition", "offset")
            self._copy_rows: Callable[[Iterator[Any]], None] = self._copy_messages
        else:
            uri = address if is_uri(address) else Path(address).absolute().as_uri()
            self._frame = streaming.files_stream(session, uri)
            self._topic, self._order = uri, ("modificationTime", "path")
            self._copy_rows = self._copy_files
        self._copy = StreamCopy(folder, self._topic, config)

    def start(self, checkpoint: Path, every: float, judge_appended: Callable[[], Any]) -> Any:
        """Starts a query that copies each batch and then calls `judge_appended`."""
        from ..analysis.engines.spark.streaming import Stream

        def take(number: int, rows: Iterator[Any]) -> None:
            if number and self._copy.is_empty():
                hint = f"remove {checkpoint} to begin anew"
                found = f"{number} batches before, and no copy of them in {self.run}"
                raise InputError(str(checkpoint), found, "a checkpoint beside its copy", hint)
            self._copy_rows(rows)
            judge_appended()

        return Stream(self._frame, self._order, checkpoint.absolute().as_uri(), every, take)

    def behind(self, took: float) -> float:  # noqa: ARG002
        return max(time.time() - self._newest, 0.0)

    def close(self) -> None:
        self._copy.close()

    def _copy_messages(self, rows: Iterator[Any]) -> None:
        for number, messages in groupby(rows, key=lambda row: row["partition"]):
            self._copy.append(self._topic, number, ((row["offset"], row["value"]) for row in self._dated(messages)))

    def _copy_files(self, rows: Iterator[Any]) -> None:
        for row in self._dated(rows):
            name = row["path"].rsplit("/", 1)[-1]
            if (
                not self._copy.add(name, row["content"])
                and (self.run / "history" / name).stat().st_size != row["length"]
            ):
                raise InputError(
                    row["path"], "a file that was written again", "files that are complete and stay as they are"
                )

    def _dated(self, rows: Iterable[Any]) -> Iterator[Any]:
        for row in rows:
            self._newest = (row["timestamp"] if "timestamp" in row else row["modificationTime"]).timestamp()
            yield row


def config_in(file: Path | None) -> dict[str, Any]:
    """The content of a run.json. Raises InputError."""
    from ..histories.settings import config_of

    if file is None:
        return {}
    try:
        return config_of(file.read_bytes(), str(file))
    except OSError as error:
        raise InputError(str(file), error.strerror or "no file", "the run's JSON object") from error


def refuse_stream_options(reader: str | None, state: Path) -> None:
    """Raises UsageError for --from with another format than ours, and for a state named as the copy beside it."""
    if state.suffix in (".events", ".checkpoint"):
        raise UsageError(f"found --state {state}, expected another ending: the copied events lie beside it")
    if reader not in (None, "native"):
        raise UsageError(f"found --from {reader}, expected events of the bundle's format (docs/format.md) in a stream")
