"""Finds the texts of kafka-dump-log to judge where the same log was dumped twice, or its segments are present, too.

Dumps of one log that were made at different times are not one log: read together, its epochs and offsets go back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import PurePosixPath
from typing import NamedTuple

from .dump_text import dumped_files, read_dump
from .parts import Part


class Log(NamedTuple):
    """A log in a snapshot."""

    snapshot: str
    broker: str
    topic: str | None
    partition: int | None


class Age(NamedTuple):
    """How far a log came. Neither number shrinks over time, unless the log is truncated."""

    leader_epoch: int  # the last one
    offset: int  # the last one


def dumps_to_judge(parts: Iterable[Part]) -> list[Part]:
    """The parts without dumps of logs whose segments are present. Of several dumps of a log only one is judged."""
    parts = _without_dumps_of_segments(list(parts))
    if sum(part.kind == "dump" for part in parts) < 2:
        return parts
    by_log: dict[Log, dict[Part, set[str]]] = {}
    for dump in (part for part in parts if part.kind == "dump"):
        for topic, partition, file in _dumped_segments(dump):
            log = Log(dump.snapshot, dump.broker, topic, partition)
            by_log.setdefault(log, {}).setdefault(dump, set()).add(file)
    reasons: dict[Part, str] = {}
    for log, dumps in by_log.items():
        twice = [dump for dump, files in dumps.items() if any(files & other for o, other in dumps.items() if o != dump)]
        if twice:
            reasons = _left_out(log, twice) | reasons
    return [_without_place(part, reasons[part]) if part in reasons else part for part in parts]


def _without_place(dump: Part, reason: str) -> Part:
    return replace(dump, kind="left-out", reason=reason, topic=None, partition=None)


def _dumped_segments(dump: Part) -> set[tuple[str | None, int | None, str]]:
    """The topic, partition and segment of each log in a text; one without a name may be any segment."""
    named = dumped_files(dump.path)
    if dump.topic is not None:
        return {(dump.topic, dump.partition, file) for file in {file for _, _, file in named} or {""}}
    return {*named}


def _left_out(log: Log, dumps: list[Part]) -> dict[Part, str]:
    """The dumps of a log that are not the latest, each with the reason; all of them if that is not known."""
    _, broker, topic, partition = log
    name = f"{topic}-{partition} of broker {broker}"
    ages = {dump: _age(dump, topic, partition) for dump in dumps}
    known = [age for age in ages.values() if age is not None]
    latest = [dump for dump, age in ages.items() if age is not None and age == max(known)]
    if len(known) < len(dumps) or not latest:
        return dict.fromkeys(
            dumps, f"is one of several dumps of {name}, and it is not known which of them is the latest"
        )
    judged = latest[0]
    reason = (
        f"is a second dump of {name} (judged: {judged.name}); a dump of an earlier time belongs in"
        f" snapshots/NAME/brokers/{broker}/{PurePosixPath(judged.name).name}"
    )
    return {dump: reason for dump in dumps if dump != judged}


def _age(dump: Part, topic: str | None, partition: int | None) -> Age | None:
    """The age of a dumped log.

    None without leader epochs, as the log may have been truncated later, and for a text at a URI, as only its head was
    fetched (zeros follow it).
    """
    if b"\0" in dump.path.read_bytes():
        return None
    found = [
        log.batches.select("leader_epoch", "last_offset").drop_nulls()
        for log in read_dump(dump.path)
        if dump.topic is not None or (log.topic, log.partition) == (topic, partition)
    ]
    rows = [row for frame in found for row in frame.iter_rows() if row[0] >= 0]
    return Age(max(epoch for epoch, _ in rows), max(offset for _, offset in rows)) if rows else None


def _without_dumps_of_segments(parts: list[Part]) -> list[Part]:
    """The parts without dumps of logs whose segments are present: these would count every record twice."""
    segments = {(p.snapshot, p.broker, p.topic, p.partition) for p in parts if p.kind == "segment"}

    def has_segments(dump: Part) -> bool:
        if dump.topic is not None:
            named = {(dump.topic, dump.partition)}
        else:
            named = {(topic, partition) for topic, partition, _ in dumped_files(dump.path)} if segments else set()
        return bool(named) and {(dump.snapshot, dump.broker, *place) for place in named} <= segments

    return [p for p in parts if p.kind != "dump" or not has_segments(p)]
