"""`logjudge.check`: judges runs that are files, folders, URIs or DataFrames."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, overload

from .analysis.request import Request
from .analysis.results import Results
from .analysis.verdict.document import report_of
from .analysis.verdict.provenance import provenance_of
from .histories.bundle import Run, open_run
from .histories.errors import LogjudgeError, UsageError
from .histories.event_frames import SOURCE, check_columns, json_lines
from .histories.files import is_uri, local_path
from .histories.readers import CHECKED
from .result import Result, raise_unless_valid

if TYPE_CHECKING:
    import polars as pl

    from .analysis.engines.spark import Session


LIBRARIES = ("polars", "pandas", "pyspark")


def library_of(found: Any) -> str:
    """The library of a DataFrame (one of LIBRARIES); empty for any other object. Imports none of them."""
    library = type(found).__module__.split(".")[0]
    return library if library in LIBRARIES and type(found).__name__ in ("DataFrame", "LazyFrame") else ""


def write_bundle(frame: Any, folder: str, config: Mapping[str, Any]) -> None:
    """Write history.jsonl, in which line n is row n, and run.json. Raises UsageError."""
    events = _to_polars(frame)
    check_columns(events.columns)
    (Path(folder) / "run.json").write_text(json.dumps({"format": 1, **config}), encoding="utf-8")
    (Path(folder) / SOURCE).write_bytes(json_lines(events))


def _to_polars(frame: Any) -> pl.DataFrame:
    import polars as pl

    library = library_of(frame)
    if library == "pyspark":
        return pl.DataFrame(frame.toArrow())
    if library == "pandas":
        return pl.from_pandas(frame)
    return frame.collect() if isinstance(frame, pl.LazyFrame) else frame


PathName = str | os.PathLike[str]
Names = str | Iterable[str]
Kind = TypeVar("Kind", bound=Result)
Engine = Literal["local", "spark"]
ENGINES = ("local", "spark")


Judge = Callable[[Request], Results]


class Options(TypedDict, total=False):
    """The arguments of both `check` that only have a name."""

    strict: bool
    ww_deps: bool
    model: str
    keys: Names
    reader: str | None
    name: str | None
    config: Mapping[str, Any] | None


@overload
def check(
    run: Sequence[PathName],
    engine: Engine = ...,
    allow: Names = ...,
    only: Names = ...,
    skip: Names = ...,
    **options: Unpack[Options],
) -> list[Result]:
    """A list of paths gives a list of results."""


@overload
def check(
    run: Any, engine: Engine = ..., allow: Names = ..., only: Names = ..., skip: Names = ..., **options: Unpack[Options]
) -> Result:
    """A path or a DataFrame gives one result."""


def check(
    run: Any, engine: Engine = "local", allow: Names = (), only: Names = (), skip: Names = (), **options: Any
) -> Result | list[Result]:
    """Judge a run, as `logjudge check` does.

    `run` is a path (a run bundle, a history, brokers' files), a URI with engine="spark", a Recorder (which is finished
    first), or a DataFrame of polars, pandas or Spark with a row for each event and the columns of docs/format.md.
    A list or tuple of paths gives a list of results. `config` is the content of run.json for runs without one.

    `allow`, `only` and `skip` name rules, as the options of the command do; `strict` makes permitted findings breaches.
    `ww_deps` is Jepsen's option of this name: in Jepsen histories cycles may have ww dependencies. `model` and `keys`
    are for transactions on lists and registers: the consistency model to demand, and what is assumed of each register
    ("wfr", "sequential", "linearizable"). `reader` is the format of the history, such as "elle-append"; None detects
    it. Raises LogjudgeError with one sentence if the run cannot be read or an argument is wrong.
    """
    from .histories.recording.recorder import Recorder

    if engine not in ENGINES:
        raise UsageError(f"found engine={engine!r}, expected one of {', '.join(ENGINES)}")
    request = Request.of(allow=allow, only=only, skip=skip, **options)
    if library_of(run):
        return _check_frame(run, engine, request)
    run = run.finish() if isinstance(run, Recorder) else run
    results = [_check_path(path, engine, request) for path in paths_of(run)]
    return results if isinstance(run, list | tuple) else results[0]


def paths_of(run: Any) -> list[str]:
    """The paths in the argument `run` of `check`. Raises UsageError."""
    paths = run if isinstance(run, list | tuple) else [run]
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        expected = "expected a path, a list of paths, a Recorder, or a DataFrame of events"
        raise UsageError(f"found {type(run).__name__} as a run, {expected}")
    return [os.fspath(path) for path in paths]


def _check_frame(frame: Any, engine: Engine, request: Request) -> Result:
    """Judge a DataFrame. The folder exists as long as the result, which may judge again."""
    folder = TemporaryDirectory(prefix="logjudge-")
    write_bundle(frame, folder.name, {"name": request.name or "events", **(request.config or {})})
    result = _check_path(folder.name, engine, replace(request, config=None))
    result.keep(folder)
    return result


def _check_path(path: str, engine: Engine, request: Request) -> Result:
    judge = _judge_locally if engine == "local" else _judge_on_spark
    return result_of(partial(judge, path), engine, "logjudge.check", request, Result)


def result_of(
    judge: Judge,
    engine: str,
    command: str,
    request: Request,
    kind: Callable[[dict[str, Any], Results, Callable[[tuple[str, ...]], Result]], Kind],
) -> Kind:
    """The result of `judge` on that engine, called by `command`. Raises InputError if there is nothing to judge."""
    results = judge(request)
    results.refuse_unusable()
    report = {**report_of(results, _judged_by(engine, results.run)), "provenance": provenance_of(results.run, command)}

    def judge_again(allow: tuple[str, ...]) -> Kind:
        wider = Request.of(**{**vars(request), "allow": (*request.allow, *allow)})
        return result_of(judge, engine, command, wider, kind)

    return kind(report, results, judge_again)


def _judged_by(engine: str, run: Run) -> str:
    """The engine that judged the run: the local one judges some runs although Spark was asked for."""
    if engine == "local":
        return engine
    from .analysis.engines.spark import needs_no_spark

    return "local" if needs_no_spark(run) else engine


def _judge_locally(path: str, request: Request) -> Results:
    if is_uri(path):
        raise UsageError(f"found {path} with engine='local', expected a local path; engine='spark' reads URIs")
    from .analysis.engines import local

    return local.judge_run(request.of_run(_open_local(path, request)))


def _judge_on_spark(path: str, request: Request) -> Results:
    from .analysis.engines.spark import open_session

    return judge_path(path, open_session, request)


def judge_path(path: str, open_session: Callable[[], Session], request: Request) -> Results:
    """The results of a path or a URI, in a session of Spark with our settings if one is needed."""
    from .analysis.engines import local
    from .analysis.engines.spark import judge_run, needs_no_spark, remote

    opened = remote.open_run(open_session(), path, request.reader) if is_uri(path) else _open_local(path, request)
    run = request.of_run(opened)
    return local.judge_run(run) if needs_no_spark(run) else judge_run(run, open_session())


def _open_local(path: str, request: Request) -> Run:
    return open_run(local_path(path), request.reader, contents=CHECKED)


@overload
def assert_valid(run: Sequence[PathName], allow: Names = ..., **options: Any) -> list[Result]:
    """A list of paths gives a list of results."""


@overload
def assert_valid(run: Any, allow: Names = ..., **options: Any) -> Result:
    """A path, a DataFrame or a Result gives one result."""


def assert_valid(run: Any, allow: Names = (), **options: Any) -> Result | list[Result]:
    """Judge a run, or each of a list, and raise an AssertionError unless all are valid; return what `check` returns.

    `run` is what `logjudge.check` takes, or a Result. `options` are those of `logjudge.check`. Raises UsageError for an
    empty list, which would assert nothing.
    """
    __tracebackhide__ = True
    if isinstance(run, Result):
        run.assert_valid(allow)
        return run
    try:
        if isinstance(run, list | tuple) and not run:
            raise UsageError("found an empty list of runs, expected one at least")
        judged: Result | list[Result] = check(run, allow=allow, **options)
    except LogjudgeError as error:
        raise error.with_traceback(None) from None  # its sentence is enough: pytest would show each frame of `check`
    raise_unless_valid(*(judged if isinstance(judged, list) else [judged]))
    return judged
