"""Histories in one line, judged: the notation of rule examples and of the corpus.

Each token, separated by blanks, is an operation of a process on partition 0 of topic x. Every event is one line of the
history, one millisecond after the previous one: line 7 happens at 7 ms.

    p:a@0          p sends a, acknowledged at offset 0 (p:a@0#k with key k; the value null is a tombstone)
    p:a@?          acknowledged without offset
    p:a!  p:a~     fails; has no known outcome (p:a!REASON has an error; p:a?~ never learned its partition)
    p:a..  p:..a@0 an invocation, and its completion later, so that operations overlap
    p:(a@0,<b@1+e@2,commit=3)   a committed transaction: sends, a poll, a commit; `!` after it aborts, `~` is undecided
    c:<a@0,b@1     c polls; c:< polls nothing
    c:handle<a@0   c finishes with a record
    c:seek=3  c:assign=3  c:assign=null  c:commit=3    the position that is set or committed
    c:auto=3       the same, committed automatically and seen at its callback
    c:group=3  c:group=null     assigned by its group;  c:assign=else, c:group=else name another partition alone
    c:revoked  c:revoked=0  c:revoked=else             everything, this partition, another one is taken away
    c:group=3^5  c:commit=3^5/c9  c:revoked=0^5        in generation 5, with the member id c (or c9)
    c:group=else^5+0+1                                 and now owns these partitions
    c:subscribe  c:crash
    end=5  end=5/2  c:end=5     end offsets returned to admin (or c), with the log start 2
    delete=2  nemesis:kill  nemesis:heal               faults
    delete-topic  create-topic                         the topic is deleted, and created again
    {p.acks=1 x.cleanup.policy=compact final=true}     first of all: configuration of processes, the topic, the run

`!`, `~` and `..` follow any operation. A process named final has role final and makes the run final.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from logjudge.analysis import summary
from logjudge.analysis.engines.local import judge_run
from logjudge.analysis.verdict.document import verdict_of
from logjudge.histories.bundle import open_run

Event = dict[str, Any]
Config = dict[str, Any]
_MS = 1_000_000
_OUTCOMES = {"!": "fail", "~": "info", "": "ok"}
_ACT = re.compile(r"(?P<late>\.\.)?(?P<what>.*?)(?P<end>\.\.|~|!\w*)?$")
_RECORD = re.compile(r"(?P<value>[^@#?]+)(?:@(?P<offset>\d+|\?))?(?P<lost>\?)?(?:#(?P<key>\w+))?$")


@dataclass(frozen=True)
class History:
    """The events of a run in the order of its lines, and its run.json."""

    events: list[Event]
    config: Config

    def jsonl(self) -> bytes:
        """The events as history.jsonl has them, one a line."""
        return b"".join(json.dumps(event).encode() + b"\n" for event in self.events)

    def write(self, folder: Path) -> Path:
        """Write history.jsonl and run.json; return the folder, which is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "history.jsonl").write_bytes(self.jsonl())
        (folder / "run.json").write_text(json.dumps(self.config))
        return folder


def parse(text: str, topic: str = "x", prefix: str = "") -> History:
    """The history that one line describes; `prefix` goes before the names of processes and groups."""
    options, tokens = re.fullmatch(r"\s*(?:\{(.*?)\})?\s*(.*?)\s*", text, re.DOTALL).groups()  # type: ignore[union-attr]
    writer = _Writer(topic, prefix)
    for token in tokens.split():
        writer.token(token)
    config = _config(options or "", topic, prefix)
    if any(event["process"] == f"{prefix}final" for event in writer.events):
        config["processes"].setdefault(f"{prefix}final", {})["role"] = "final"
        config["final"] = True
    return History(writer.events, config)


def _config(options: str, topic: str, prefix: str) -> Config:
    config: Config = {"format": 1, "topics": {topic: {"partitions": 2}}, "processes": {}}
    for option in options.split():
        name, text = option.split("=", 1)
        value: Any = {"true": True, "false": False}.get(text, text)
        owner, _, key = name.partition(".")
        if not key:
            config[owner] = value
        elif owner == "x":
            config["topics"][topic][key] = value
        else:
            value = prefix + text if key == "group.id" else value
            config["processes"].setdefault(prefix + owner, {})[key] = value
    return config


@dataclass
class _Writer:
    topic: str
    prefix: str
    events: list[Event] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)
    _open: dict[tuple[str, str], dict[str, Event]] = field(default_factory=dict)  # invocations, by their text

    def token(self, token: str) -> None:
        process, _, act = (
            token.rpartition(":") if not re.match(r"(\.\.)?(end|delete|create)\b", token) else ("", "", token)
        )
        process = process or ("admin" if re.match(r"(\.\.)?end", act) else "nemesis")
        late, what, end = _ACT.fullmatch(act).group("late", "what", "end")  # type: ignore[union-attr]
        if process == "nemesis":
            what = re.sub(r"^(?!delete|create|heal)(.*)$", r"fault=\1", what)
        operation = self._operation(what, self.prefix + process)
        name = process if process == "nemesis" else self.prefix + process
        key = (name, operation["f"] + str(operation.get("value", "")))
        invoked = self._open.setdefault(key, {})
        if not late:
            invoked[what] = self._event(name, "invoke", None, _invoked(operation))
        if end == "..":
            return
        outcome = _OUTCOMES[(end or "")[:1]]
        op = invoked.pop(what if what in invoked else next(iter(invoked)))["op"]
        done = self._event(name, outcome, op, operation if outcome == "ok" else _not_ok(operation))
        if end and end[1:]:
            done["error"] = end[1:]

    def _event(self, process: str, kind: str, op: int | None, operation: Event) -> Event:
        if op is None:
            op = self._numbers[process] = self._numbers.get(process, -1) + 1
        time = (len(self.events) + 1) * _MS
        event = {"time": time, "process": process, "op": op, "type": kind, **operation}
        self.events.append(event)
        return event

    def _membership(self, text: str, process: str) -> Event:
        generation, *owned = text.split("+")
        generation, _, member = generation.partition("/")
        if not generation:
            return {}
        fields: Event = {"member": self.prefix + member if member else process, "generation": int(generation)}
        assignment = [{"topic": self.topic, "partition": int(number)} for number in owned]
        return {**fields, "assignment": assignment} if owned else fields

    def _operation(self, what: str, process: str) -> Event:
        """The completion of an operation, in the native format."""
        name, _, membership = what.partition("^")
        verb, _, argument = name.partition("=")
        if what.startswith("("):
            return {"f": "txn", "ops": [self._step(step) for step in what.strip("()").split(",") if step]}
        if what.startswith(("<", "handle<")):
            f, _, records = what.partition("<")
            return {"f": f or "poll", "records": list(self._records(records.split(",")))}
        if verb in ("seek", "assign", "group", "commit", "auto", "end"):
            f = {"group": "assign", "auto": "commit", "end": "end_offsets"}.get(verb, verb)
            event: Event = {"f": f, "offsets": [self._position(argument)], **self._membership(membership, process)}
            return {**event, verb: True} if verb in ("group", "auto") else event
        if verb == "revoked":
            offsets = [self._position(argument)] if argument else []
            revoked = {"f": "assign", "revoked": True, "group": True, "offsets": offsets}
            return {**revoked, **self._membership(membership, process)}
        if verb == "delete":
            fault = {"kind": "delete-records", "topic": self.topic, "offsets": {"0": int(argument)}}
            return {"f": "fault", "fault": fault}
        if verb in ("delete-topic", "create-topic"):
            return {"f": "fault", "fault": {"kind": verb, "topic": self.topic}}
        if verb in ("fault", "heal"):
            return {"f": verb, "fault": {"kind": argument or "restart"}}
        if verb in ("subscribe", "crash"):
            return {"f": verb, **({"topics": [self.topic]} if verb == "subscribe" else {"reason": "killed"})}
        return self._send(what)

    def _send(self, what: str) -> Event:
        value, offset, lost, key = _RECORD.fullmatch(what).group("value", "offset", "lost", "key")  # type: ignore[union-attr]
        event: Event = {"f": "send", "topic": self.topic, "value": None if value == "null" else value}
        event |= {} if lost else {"partition": 0}
        event |= {"key": key} if key else {}
        return {**event, "offset": int(offset) if offset and offset != "?" else None}

    def _step(self, step: str) -> Event:
        if step.startswith("<"):
            return {"f": "poll", "records": list(self._records(step[1:].split("+")))}
        if step.startswith("commit="):
            return {"f": "commit", "offsets": [self._position(step[7:])]}
        return self._send(step)

    def _records(self, texts: list[str]) -> Iterator[Event]:
        for text in filter(None, texts):
            value, _, offset = text.partition("@")
            record = {"topic": self.topic, "partition": 0, "offset": int(offset)}
            yield {**record, "value": None if value == "null" else value}

    def _position(self, text: str) -> Event:
        offset, _, start = text.partition("/")
        number = int(offset) if offset.isdigit() else None
        place = {"topic": self.topic, "partition": 1 if offset == "else" else 0, "offset": number}
        return {**place, "start": int(start)} if start else place


def _invoked(operation: Event) -> Event:
    """The fields of an invocation: without the offsets of sends, and without records and responses."""
    invoked = {name: value for name, value in operation.items() if name not in ("offset", "records", "reason")}
    if operation["f"] == "end_offsets":
        invoked.pop("offsets")
    if "ops" in operation:
        invoked["ops"] = [_invoked(step) for step in operation["ops"]]
    return invoked


def _not_ok(operation: Event) -> Event:
    """The fields of a completion that is not ok: a plain send has no offset."""
    return operation if operation["f"] != "send" else _invoked(operation)


@dataclass(frozen=True)
class Judged:
    """The local engine's report on a history."""

    history: History
    findings: list[dict[str, Any]]
    verdict: dict[str, Any]

    def of(self, rule: str) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["rule"] == rule]


@contextmanager
def undrawn() -> Iterator[None]:
    """Judges without the data of plots, which take a sixth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summary, "figures_of", lambda *_: {"bins": None})
        yield


def judge(history: History | str, folder: Path, **settings: Any) -> Judged:
    """Writes the history as a bundle, opens it and judges it; `settings` replace fields of Settings."""
    parsed = parse(history) if isinstance(history, str) else history
    run = open_run(parsed.write(folder))
    with undrawn():
        results = judge_run(run.with_settings(**settings))
    return Judged(parsed, results.findings().to_dicts(), verdict_of(results))
