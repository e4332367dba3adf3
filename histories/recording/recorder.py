"""`Recorder`: writes what clients do, event by event, as a run bundle that `logjudge check` judges."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..scratch import replace_file
from .client_values import positions_of, records_of, text_of
from .event_log import Fields, line_of, require_name
from .membership import membership_of
from .open_operations import Commit, Journal, Plain, Poll, Positions, Send, Transaction

NEMESIS = "nemesis"
OPEN_TRANSACTIONS = "open-transactions.jsonl"  # in history/, while transactions are open


class Recorder:
    """Records one run into a folder: history.jsonl during the run, run.json at its end.

    Every method may be called from any thread and from coroutines; none waits for the disk. `process` names a logical
    client. Times are nanoseconds of one monotonic clock since the recorder was made. An operation that gets no outcome
    is `info`: it is not known whether it happened. A process that is killed loses at most its last second of events.

        recorder = Recorder("run", processes={"p0": {"acks": "all"}})
        with recorder.send("p0", "orders", "order-1") as op:
            metadata = send_to_kafka("orders", "order-1")
            op.ok(metadata.partition, metadata.offset)
        recorder.finish()
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        name: str | None = None,
        *,
        topics: Mapping[str, Mapping[str, Any]] | None = None,
        processes: Mapping[str, Mapping[str, Any]] | None = None,
        system: Mapping[str, Any] | None = None,
    ) -> None:
        """`topics` and `processes` have Kafka's own configuration names, as in run.json (docs/format.md).

        Raises UsageError if the folder holds a history, or cannot be written, or if an argument has another type.
        """
        self.folder = Path(folder)
        self._config: dict[str, Any] = {
            "format": 1,
            "name": name or self.folder.absolute().name,
            "started_at": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "finished": False,  # until `finish`: a killed recorder may lack its last lines
            **({"system": dict(system)} if system else {}),
            "topics": _settings_by_name(topics, "topic"),
        }
        self._configured = _settings_by_name(processes, "process")
        self._producers: set[str] = set()
        self._consumers: set[str] = set()
        self._saved_transactions = b""
        self._saved_config = ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._journal = Journal(self.folder / "history.jsonl", self._save_state)
            self._write_config()
            self._journal.log.start()
        except FileExistsError as error:
            raise UsageError(f"{self.folder}: found a recorded run, expected a new folder") from error
        except OSError as error:
            raise UsageError(f"{self.folder}: cannot be written ({error.strerror})") from error

    # --- producers

    def send(
        self,
        process: str,
        topic: str,
        value: str | bytes | int | None,
        *,
        key: str | bytes | int | None = None,
        partition: int | None = None,
        acks: str | int | None = None,
        timestamp: int | None = None,
    ) -> Send:
        """Record that a process sends a message; the result takes the outcome.

        Call it before the client's own send. The value identifies the message: it must be unique in its topic.
        """
        journal = self._journal
        if journal.log.is_stopped:
            journal.log.check()
        if process not in self._producers:
            self._producers.add(require_name(process, "process"))
        if topic.__class__ is not str or not topic:
            require_name(topic, "topic")
        op = journal.next_op()
        # Written out, as sends are by far the most events.
        event: Fields = {"time": 0, "process": process, "op": op, "type": "invoke", "f": "send", "topic": topic}
        event["value"] = value if value.__class__ is str else text_of(value, "value")
        if partition is not None:
            event["partition"] = partition
        if key is not None:
            event["key"] = text_of(key, "key")
        if acks is not None:
            event["acks"] = _acks_of(acks)
        if timestamp is not None:
            event["timestamp"] = int(timestamp)  # ms since 1970, of the record
        event["time"] = journal.now()
        journal.append(line_of(event))
        return Send(journal, process, op, topic)

    def txn(self, process: str) -> Transaction:
        """Record the begin of a transaction; its sends, polls and commits are added to the result."""
        self._producers.add(require_name(process, "process"))
        op = self._journal.begin(process, "txn", {})
        transaction = self._journal.transactions[op] = Transaction(self._journal, process, op, "txn")
        return transaction

    # --- consumers

    def poll(self, process: str) -> Poll:
        """Record that a process polls; `ok(records)` of the result takes what the client returned."""
        self._consumers.add(require_name(process, "process"))
        poll = Poll(self._journal, process, self._journal.begin(process, "poll", {}), "poll")
        self._journal.polls[process] = poll
        return poll

    def handle(self, process: str, records: Any) -> None:
        """Record that the application has finished with these records."""
        self._instant(process, "handle", {"records": records_of(records)})

    def commit(self, process: str, offsets: Any, *, auto: bool = False, member: Any = None) -> Commit:
        """Record that a process commits offsets (the next to read); `auto`: by the client, seen at its callback.

        `member`: the client, which has the member id and the generation after the commit, or both as a pair.
        """
        self._journal.suspend_poll(process)
        fields: Fields = {"offsets": positions_of(offsets, needs_offset=True), **({"auto": True} if auto else {})}
        return Commit(self._journal, process, self._journal.begin(process, "commit", fields), member)

    def assign(
        self, process: str, offsets: Any, *, group: bool = False, member: Any = None, assignment: Any = None
    ) -> None:
        """Record that partitions were assigned, with the offsets from which the process reads on.

        `group`: by the consumer group and not by the application. Call it in the rebalance callback. `member` is as in
        `commit`; `assignment` are all partitions that the member owns from now on, where these are more.
        """
        fields: Fields = {"offsets": positions_of(offsets), **({"group": True} if group else {})}
        self._instant(process, "assign", {**fields, **membership_of(member, assignment)})

    def revoke(self, process: str, partitions: Any = (), *, group: bool = True, member: Any = None) -> None:
        """Record that partitions were taken away; none named means all."""
        fields: Fields = {"offsets": positions_of(partitions), "revoked": True}
        self._instant(process, "assign", {**fields, **({"group": True} if group else {}), **membership_of(member)})

    def subscribe(self, process: str, topics: str | Iterable[str]) -> None:
        """Record a subscription."""
        self._consumers.add(require_name(process, "process"))
        self._instant(process, "subscribe", {"topics": [topics] if isinstance(topics, str) else list(topics)})

    def seek(self, process: str, offsets: Any) -> None:
        """Record that a process sets the offsets from which it reads on."""
        self._instant(process, "seek", {"offsets": positions_of(offsets)})

    def end_offsets(self, process: str) -> Positions:
        """Record that a process requests the ends of logs; `ok(offsets)` of the result takes the response."""
        return Positions(self._journal, process, self._journal.begin(process, "end_offsets", {}), "end_offsets")

    # --- the run

    def crash(self, process: str, reason: str = "killed") -> None:
        """Record that a process, or its client, ended without closing."""
        self._journal.polls.pop(process, None)
        self._instant(process, "crash", {"reason": reason})

    def fault(self, kind: str, **about: Any) -> Plain:
        """Record a fault, as `fault("kill", nodes=["1"])`; docs/format.md lists the kinds and what they carry.

        `nodes` may be a single one.
        Make it before the fault begins and complete it when it is in effect.
        """
        return self._nemesis("fault", kind, about)

    def heal(self, kind: str, **about: Any) -> Plain:
        """Record the end of a fault, by the kind that it ends (`restart` after `kill`)."""
        return self._nemesis("heal", kind, about)

    def _nemesis(self, f: str, kind: str, about: dict[str, Any]) -> Plain:
        if "nodes" in about:
            nodes = about["nodes"]
            is_one = isinstance(nodes, str) or not isinstance(nodes, Iterable)
            about["nodes"] = [str(node) for node in ([nodes] if is_one else nodes)]
        return Plain(self._journal, NEMESIS, self._journal.begin(NEMESIS, f, {"fault": {"kind": kind, **about}}), f)

    def configure(self, process: str, **settings: Any) -> None:
        """Set the configuration of a process in run.json: `configure("c0", role="consumer", **{"group.id": "g"})`."""
        self._configured.setdefault(require_name(process, "process"), {}).update(settings)

    def configure_topic(self, topic: str, **settings: Any) -> None:
        """Set the configuration of a topic in run.json: `configure_topic("orders", partitions=3)`."""
        self._config["topics"].setdefault(require_name(topic, "topic"), {}).update(settings)

    @property
    def start_ns(self) -> int:
        """The beginning of the run, on time.monotonic_ns(), which all processes of a machine share."""
        return self._journal.start

    def client_file(self, process: str) -> Path:
        """The file of the bundle for the events of a client in a process of its own."""
        self._consumers.add(require_name(process, "process"))
        (self.folder / "history").mkdir(exist_ok=True)
        return self.folder / "history" / f"{process}.jsonl"

    def snapshot(self, name: str) -> Path:
        """Date a snapshot with the present time; copy brokers' files into the folder that it returns."""
        self._config.setdefault("snapshots", {})[name] = {"time": self._journal.now()}
        return self.folder / "snapshots" / name

    def flush(self) -> None:
        """Write everything that was recorded until now."""
        self._journal.log.flush()

    def finish(self, final_read: str | Iterable[str] | bool | None = None) -> Path:
        """Complete the bundle and return its folder.

        `final_read` names the process (or processes) that read every partition from its log start to its end, after the
        last fault healed: without such reads nothing proves a loss, or that there was none. True: a consumer did so
        in one uninterrupted pass. Raises UsageError if a named process recorded no poll.
        """
        if self._journal.log.is_closed:
            return self.folder
        named = [] if final_read is None or isinstance(final_read, bool) else _names(final_read)
        for process in named:
            if process not in self._consumers:
                raise UsageError(f"found final_read={process!r}, expected a process that recorded polls")
            self._configured.setdefault(process, {})["role"] = "final"
        if final_read:
            self._config["final"] = True
        for transaction in list(self._journal.transactions.values()):
            transaction.info()
        self._journal.log.close()
        del self._config["finished"]
        self._write_config()
        return self.folder

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def _instant(self, process: str, f: str, fields: Fields) -> None:
        """Record an operation that takes no time; one of a callback interrupts the poll around it."""
        self._journal.suspend_poll(process)
        self._journal.write(process, self._journal.begin(process, f, fields), "ok", f, fields)
        self._journal.resume_poll(process)

    def _save_state(self) -> None:
        """Keep run.json and the steps of open transactions as they are, for the case that this process is killed."""
        self._write_config()
        lines = [transaction.unfinished() for transaction in list(self._journal.transactions.values())]
        text = b"".join(line_of(line) for line in lines)
        if text == self._saved_transactions:
            return
        file = self.folder / "history" / OPEN_TRANSACTIONS
        if text:
            file.parent.mkdir(exist_ok=True)
            replace_file(file, text)
        else:
            file.unlink()
            with contextlib.suppress(OSError):  # files of clients may be in it
                file.parent.rmdir()
        self._saved_transactions = text

    def _write_config(self) -> None:
        roles: dict[str, dict[str, Any]] = {}
        for process in sorted({*self._producers, *self._consumers, *self._configured}):
            parts = ("producer",) * (process in self._producers) + ("consumer",) * (process in self._consumers)
            role = {"role": "+".join(parts)} if parts else {}
            roles[process] = {**role, **self._configured.get(process, {})}
        text = json.dumps({**self._config, "processes": roles}, indent=2, default=str) + "\n"
        if text != self._saved_config:
            replace_file(self.folder / "run.json", text.encode())
            self._saved_config = text


def _settings_by_name(found: Any, kind: str) -> dict[str, dict[str, Any]]:
    """The settings of each topic or process, copied. Raises UsageError."""
    settings = {} if found is None else found
    if not isinstance(settings, Mapping) or not all(isinstance(about, Mapping) for about in settings.values()):
        raise UsageError(f"found {found!r:.80}, expected a dictionary from each {kind} to a dictionary of its settings")
    return {require_name(name, kind): dict(about) for name, about in settings.items()}


def _acks_of(found: str | int) -> str:
    """The acks of a send as the format has them. Raises UsageError."""
    acks = "all" if str(found) == "-1" else str(found)
    if acks not in ("all", "1", "0"):
        raise UsageError(f"acks: found {found!r:.80}, expected all (or -1), 1 or 0")
    return acks


def _names(found: str | Iterable[str]) -> list[str]:
    """The names in `final_read`. Raises UsageError."""
    if isinstance(found, str) or not isinstance(found, Iterable):
        return [require_name(found, "final_read")]
    return [require_name(name, "final_read") for name in found]
