"""Writes the events of any format as a native history (JSON lines, also compressed) or as Parquet."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import orjson
import polars as pl
import pyarrow as pa

from .bundle import Run
from .errors import UsageError
from .parsing import Parsed, parse_split
from .readers import parquet
from .tables import EVENTS, complete, no_rows

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".parquet")


class Converted(NamedTuple):
    """What `convert` wrote: events, and lines without an event for what could not be read."""

    events: int
    unreadable: int


def convert(run: Run, target: Path, progress: Callable[..., None] = lambda *_: None) -> Converted:
    """Writes all events of the run to one file.

    Each malformed line, damage and empty history becomes a line without an event, which is malformed in any format:
    what was there is unknown in the converted history, too.
    """
    if not target.name.endswith(ENDINGS):
        raise UsageError(f"{target}: found an unknown ending, expected one of {', '.join(ENDINGS)}")
    if not target.parent.is_dir():
        raise UsageError(f"{target}: no such folder: {target.parent}; create it first")
    written = unreadable = 0
    with _writer(target, run.settings.dialect) as write_events:
        for done, split in enumerate(run.splits):
            progress("converting", done, len(run.splits))
            for parsed in parse_split(split):
                events, blank = parsed.events, _blank(parsed)
                write_events(pl.concat([events, blank]).sort("line", nulls_last=True) if len(blank) else events)
                written, unreadable = written + len(events), unreadable + len(blank)
        blank = no_rows(EVENTS).clear(len(run.empty))
        write_events(blank)
    return Converted(written, unreadable + len(blank))


def _blank(parsed: Parsed) -> pl.DataFrame:
    """EVENTS without a value for what could not be read, but the process where no client's operation can be hidden."""
    is_of_nemesis = pl.col("of_nemesis").fill_null(False)
    blank = parsed.quarantine.select("line", process=pl.when(is_of_nemesis).then(pl.lit(parquet.NEMESIS)))
    return complete(pl.concat([blank, blank.clear(1)]) if parsed.damage else blank, EVENTS)


class _OperationNumbers:
    """Numbers the operations of formats without `op`: by the count of their process's invocations."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def add_to(self, events: pl.DataFrame) -> pl.DataFrame:
        if events["op"].null_count() == 0:
            return events
        ops: list[int | None] = []
        # Each line of Jepsen's nemesis is an operation of one moment: invoked and completed at once.
        is_moment = pl.col("op").is_null() & pl.col("f").is_in(["fault", "heal"])
        for process, kind, f, op in events.select("process", "type", "f", "op").iter_rows():
            if op is None and f is not None:
                is_invocation = kind == "invoke" or f in ("fault", "heal")
                op = self._last[process] = self._last.get(process, 0) + is_invocation
            ops.append(op)
        return events.with_columns(is_moment.alias("moment"), pl.Series("op", ops, dtype=pl.Int64))


@contextmanager
def _writer(target: Path, dialect: str) -> Iterator[Callable[[pl.DataFrame], None]]:
    """A function that writes events. The file is written beside the target, and renamed to it at the end."""
    scratch = target.with_name(f".{target.name}.part")
    try:
        if target.name.endswith(".parquet"):
            with parquet.writer(scratch, dialect) as file:
                yield file.write
        else:
            numbers = _OperationNumbers()
            with _open_compressed(scratch, target.name) as lines:
                yield lambda events: _write_lines(numbers.add_to(events), lines)
        scratch.replace(target)
    except (OSError, pa.ArrowException, UnicodeEncodeError) as error:
        raise UsageError(f"{target}: cannot be written ({error})") from error
    finally:
        scratch.unlink(missing_ok=True)


def _open_compressed(path: Path, name: str) -> IO[bytes]:
    if name.endswith(".gz"):
        return gzip.GzipFile(path, "wb", compresslevel=6, mtime=0)  # type: ignore[return-value]
    if name.endswith(".zst"):
        import zstandard

        return zstandard.open(path, "wb")  # type: ignore[no-any-return]
    return path.open("wb")


def _write_lines(events: pl.DataFrame, file: IO[bytes]) -> None:
    for event in events.drop("line", "rebalanced", "synthetic").iter_rows(named=True):
        if event.pop("moment", False):
            file.write(orjson.dumps(_without_nulls({**event, "type": "invoke"})) + b"\n")
        file.write(orjson.dumps(_without_nulls(event)) + b"\n")


def _without_nulls(value: Any) -> Any:
    """The value without null fields: in the format, null and absent mean the same."""
    if isinstance(value, dict):
        return {
            name: orjson.Fragment(item) if name == "fault" else _without_nulls(item)
            for name, item in value.items()
            if item is not None
        }
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
