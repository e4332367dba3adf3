"""What `explain`, `diff` and `timeline` share: where to look, and opening the run to look there."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..analysis.wording import some
from ..histories.errors import InputError, UsageError
from ..plots.report.saved import is_saved
from .progress import Progress

if TYPE_CHECKING:
    from ..analysis.inspect.open_partitions import Inspected
    from .document import Document
    from .forms import Form

NO_FILES = "The run holds no broker's files that tell what happened there."
MAX_NAMES = 12
_WHERE = re.compile(
    r"(?P<partition>.+-\d+(?:#\d+)?|(?P<key>\d+))(?:@(?P<offset>\d{1,18}))?"
)  # a key of Jepsen's has no number


class Where(NamedTuple):
    """A topic-partition, and an offset of it or None."""

    partition: str
    offset: int | None

    def __str__(self) -> str:
        return self.partition if self.offset is None else f"{self.partition}@{self.offset}"


def where_of(text: str | None) -> Where | None:
    if text is None:
        return None
    match = _WHERE.fullmatch(text)
    if match is None:
        raise UsageError(f"found {text}, expected TOPIC-PARTITION or TOPIC-PARTITION@OFFSET, such as orders-0@4711")
    offset = match["offset"]
    return Where(match["partition"] + ("-0" if match["key"] else ""), None if offset is None else int(offset))


def partition_of(text: str | None) -> str | None:
    """Where only a whole partition can be shown."""
    asked = where_of(text)
    if asked is not None and asked.offset is not None:
        raise UsageError(f"found {text}, expected a partition without an offset; `logjudge explain` tells of an offset")
    return None if asked is None else asked.partition


def open_to_look(path: Path, form: Form, reader: str | None = None, offset: int | None = None) -> Inspected:
    """The run, with what its logs hold at `offset`, though nothing else asks for it."""
    if is_saved(path):
        raise InputError(str(path), "results of `logjudge check`", "the run itself", "results don't hold the logs")
    from ..analysis.inspect.open_partitions import Inspected

    with Progress(path.name, quiet=form != "terminal") as progress:
        return Inspected(path, progress, offset, reader)


def seconds(time: int | None, has_history: bool = True) -> str:
    """A time (ns since the start of the run) in seconds; without a history its clock time in UTC."""
    if time is None:
        return ""
    if not has_history:
        return f"{datetime.fromtimestamp(time / 1e9, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
    return f"{time / 1e9:.3f}"


def dated(seconds: str, clock: str, says: str = "") -> str:
    """What happened with its time: seconds since the start of the run and, where that is known, the time of day."""
    when = f"{seconds} s" + (f" ({clock.split()[-1]})" if clock else "") if seconds else ""
    return f"{when} {says}".strip()


def tell_the_zero(document: Document, started_at: str | None) -> None:
    """Says from when the seconds count, where that is known."""
    from ..plots.clock import clock

    if zero := clock(started_at or "", 0):
        document.say(f"Seconds count from {zero}; beside them stands the time of day, UTC.")


def tell_alike(document: Document, names: list[str], sentence: str) -> None:
    """What is to be said of several partitions alike, once."""
    if names:
        document.heading(some(names, MAX_NAMES))
        document.say(sentence)
