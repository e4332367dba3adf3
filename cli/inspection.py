"""Parses places, opens runs, and prints times, for `explain`, `diff` and `timeline`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis.wording import short, some, span, utc_text
from ..histories.errors import InputError, UsageError
from ..histories.settings import DAY_MS
from ..plots.report.saved import is_saved
from .progress import Progress, note

if TYPE_CHECKING:
    from ..analysis.inspect.open_partitions import Inspected
    from ..analysis.partitions.partition import Partition
    from ..histories.tables import Finding
    from .document import Document


NO_FILES = "The run has no broker files that record events of this partition."
MAX_NAMES = 12
TO_LOOK_UP = "to look up a value, explain the run itself"
_PLACE = re.compile(
    r"(?P<partition>.+?-\d+(?:#\d+)?|(?P<key>\d+))(?:@(?P<offset>\d{1,18})(?:-(?P<last>\d{1,18}))?)?"
)  # a key of a Jepsen history has no partition number


class Place(NamedTuple):
    """A topic-partition, and one of its offsets or None."""

    partition: str
    offset: int | None

    def __str__(self) -> str:
        return self.partition if self.offset is None else f"{self.partition}@{self.offset}"


def parse_place(text: str | None) -> Place | None:
    """The place that TOPIC-PARTITION[@OFFSET] names; of a range, as in reports, that of its first offset.

    None for other text, which may be a value.
    """
    match = _PLACE.fullmatch(text or "")
    if text is None or match is None:
        return None
    offset = match["offset"]
    if match["last"] is not None:
        note(f"{text}: this explains the first of these offsets, {offset}")
    return Place(match["partition"] + ("-0" if match["key"] else ""), None if offset is None else int(offset))


_FINDING = re.compile(r"(?P<rule>[A-Za-z][\w-]*)/(?P<partition>.+-\d+(?:#\d+)?)/\d+")


def finding_partition(text: str | None) -> str | None:
    """The partition in the id of a finding, such as lost-write/orders-0/0; None for other text."""
    from ..analysis.rules import RULES

    match = _FINDING.fullmatch(text or "")
    return match["partition"] if match is not None and match["rule"] in RULES else None


def place_of_finding(text: str, partition: str, findings: Iterable[Finding]) -> Place:
    """The place of the finding with this id: its first offset, or its partition. Raises UsageError."""
    for finding in findings:
        if finding.id == text:
            return Place(partition, finding.first_offset)
    hint = f"`logjudge explain RUN {partition}` lists those of the partition"
    raise UsageError(f"there is no finding {text} in this run; {hint}")


def parse_partition(text: str | None) -> str | None:
    """The partition that an argument names. Raises UsageError if the argument has an offset."""
    place = parse_place(text)
    if text is not None and place is None:
        raise UsageError(f"found {short(text)}, expected TOPIC-PARTITION, such as orders-0")
    if place is not None and place.offset is not None:
        raise UsageError(f"found {text}, expected a partition without an offset; use `logjudge explain` for an offset")
    return None if place is None else place.partition


def open_for_inspection(path: Path, reader: str | None = None, offset: int | None = None) -> Inspected:
    """Opens a run, and decodes the records at `offset` too. Raises InputError for a folder of saved results."""
    if is_saved(path):
        raise InputError(
            str(path), "results of `logjudge check`", "the run itself", "saved results do not contain the logs"
        )
    from ..analysis.inspect.open_partitions import Inspected

    with Progress(path.name) as progress:
        return Inspected(path, progress, offset, reader)


def seconds_text(time: int | None, has_history: bool = True) -> str:
    """A time (ns since the start of the run) in seconds; without a history the date and time in UTC."""
    if time is None:
        return ""
    if not has_history:
        return f"{datetime.fromtimestamp(time / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return f"{time / 1e9:.3f}"


def with_time(seconds: str, clock: str, event: str = "") -> str:
    """An event with its time: seconds since the start of the run and, if recorded, the time of day.

    Without seconds, as in a run without a history, date and time.
    """
    of_day = f"({clock.split()[-1]})" if clock and seconds else clock
    return " ".join(filter(None, (f"{seconds} s" if seconds else "", of_day, event)))


def add_time_origin(document: Document, started_at: str | None) -> None:
    """Adds a sentence with the date of second 0, if the start of the run is recorded."""
    from ..plots.time_axis import clock

    if zero := clock(started_at or "", 0):
        document.sentences(f"Seconds count from {zero}; times of day are in UTC.")


def add_shared_sentence(document: Document, names: list[str], sentence: str) -> None:
    """Adds one sentence about several partitions, under a heading with their names."""
    if names:
        document.heading(some(names, MAX_NAMES))
        document.sentences(sentence)


def add_generation(document: Document, p: Partition) -> None:
    """Adds a sentence about the generation of a topic that was created again: orders-0#1 is of the first."""
    if p.generation is not None:
        document.sentences(p.generation.describe(p.topic))


NO_LOG = "No broker log with records was collected."


def describe_extent(broker: dict[str, Any]) -> str:
    """The offsets that a broker's log has in a snapshot of `differences`."""
    return f"broker {broker['broker']} has {span(broker['start'], broker['end'] - 1)}"


def differing_spans(snapshot: dict[str, Any]) -> str:
    """The offsets at which the replicas of a snapshot differ; empty where they agree."""
    ends = [(one["first"], one["last"]) for one in snapshot["divergences"]]
    return ", ".join(f"{first}" if first == last else f"{first} to {last}" for first, last in ends)


def record_text(record: dict[str, Any]) -> str:
    """Key and value of a record in a broker's log."""
    if record["control"]:
        return f"<{record['control']} marker>"
    value = "tombstone" if record["value"] is None else str(record["value"])
    return value if record["key"] is None else f"{record['key']}={value}"


def record_time(ms: int | None, started_at: str) -> str:
    """A record's timestamp (ms since the epoch) in UTC: within a day of the run's start without its date.

    A producer may set any timestamp, such as one years before or after the run.
    """
    if ms is None:
        return ""
    from ..plots.time_axis import moment

    start = moment(started_at, 0)
    if start is not None and abs(ms - start.timestamp() * 1000) < DAY_MS:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%H:%M:%S.%f}"[:-3]
    return utc_text(ms)
