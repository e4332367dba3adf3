"""Copies a stream of events to a run bundle: the messages of a Kafka topic, or the files of a folder.

Of a topic each partition has a file, whose line N is the message at offset N - 1. The copy makes a topic a history like
any other. Calls in steps go back to its start when a late event concerns closed offsets, findings name its lines, and
`check` and `explain` read it when the topic has deleted its messages. To judge a consumer's messages directly would
need another reader, other positions and another state. The number of lines is the position in the topic, so no
position is stored.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .errors import InputError, UsageError
from .scratch import replace_file

MAX_GAP = 1 << 20  # offsets without a message
NO_EVENT = b"null"  # a line that is quarantined: a message without a value, or one that is missing
_CHUNK_BYTES = 1 << 20


class StreamCopy:
    """A bundle with the events of one stream. After a kill, the next process continues at the last whole line.

    `identity` names the stream, with the id of a topic: a topic that was deleted and created again is another one.
    Raises InputError for the copy of another stream, UsageError for a folder with other files, or one in use.
    """

    def __init__(self, folder: Path, identity: str, config: Mapping[str, Any]) -> None:
        self.folder, self._histories = folder, folder / "history"
        self._next: dict[int, int] = {}
        self._open(identity, config)

    def _open(self, identity: str, config: Mapping[str, Any]) -> None:
        file = self.folder / "run.json"
        try:
            if self.folder.exists() and any(self.folder.iterdir()) and (found := _identity_in(file)) != identity:
                if not found:
                    raise UsageError(f"{self.folder}: found other files, expected none; name another --state")
                hint = f"remove {self.folder} and the state beside it to start again, or name another --state"
                raise InputError(str(self.folder), f"the events of {found}", f"those of {identity}", hint)
            self._histories.mkdir(parents=True, exist_ok=True)
            self._lock = (self._histories / ".lock").open("wb")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = json.dumps({"format": 1, **config, "stream": identity}, indent=1) + "\n"
            replace_file(file, content.encode())
        except BlockingIOError as error:
            raise UsageError(f"{self.folder}: another process copies events here; name another --state") from error
        except OSError as error:
            raise UsageError(f"{self.folder}: cannot write ({error.strerror}); name another --state") from error

    def close(self) -> None:
        """Lets another process continue the copy."""
        self._lock.close()

    def next_offset(self, topic: str, partition: int) -> int:
        """The offset behind the last message of a partition that was copied."""
        if partition not in self._next:
            self._next[partition] = _whole_lines(self._file(topic, partition))
        return self._next[partition]

    def append(
        self, topic: str, partition: int, messages: Iterable[tuple[int, bytes | None]], gap: bytes = NO_EVENT
    ) -> int:
        """Copies messages (offset and value) in order, without those that were copied before. Returns their number.

        `gap` is the first line of offsets without a message: empty if these can only be markers of transactions.
        """
        following = self.next_offset(topic, partition)
        lines: list[bytes] = []
        count = 0
        for offset, value in messages:
            if offset < following:
                continue
            if missing := offset - following:
                if missing > MAX_GAP:
                    where = f"{topic}-{partition}"
                    raise InputError(where, f"no messages between offsets {following:,} and {offset:,}", "all messages")
                lines += [gap] + [b""] * (missing - 1)
            # A line feed is white space in JSON, and may not stand in a string.
            lines.append((value or b"").replace(b"\n", b" ").strip() or NO_EVENT)
            following, count = offset + 1, count + 1
        if lines:
            with self._file(topic, partition).open("ab") as file:
                file.write(b"\n".join(lines) + b"\n")
            self._next[partition] = following
        return count

    def add(self, name: str, content: bytes) -> bool:
        """Copies a file of the stream whole or not at all. Returns whether it is new."""
        file = self._histories / name
        if file.exists():
            return False
        replace_file(file, content)
        return True

    def is_empty(self) -> bool:
        """Whether nothing was copied."""
        return not any(self._histories.glob("*.jsonl"))

    def _file(self, topic: str, partition: int) -> Path:
        return self._histories / f"{topic.lstrip('.')}-{partition}.jsonl"  # a hidden file is no history


def _identity_in(file: Path) -> str:
    """The identity in a copy's run.json; empty for any other file."""
    try:
        return str(json.loads(file.read_bytes()).get("stream", ""))
    except (OSError, ValueError, AttributeError, RecursionError):
        return ""


def _whole_lines(path: Path) -> int:
    """The number of whole lines in a file; cuts off an incomplete last line."""
    if not path.exists():
        return 0
    lines = end = at = 0
    with path.open("r+b") as file:
        while chunk := file.read(_CHUNK_BYTES):
            if feeds := chunk.count(b"\n"):
                lines, end = lines + feeds, at + chunk.rfind(b"\n") + 1
            at += len(chunk)
        file.truncate(end)
    return lines
