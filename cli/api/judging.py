"""`logjudge.check`: judges runs that are files, folders, URIs or DataFrames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypedDict, Unpack, overload

from .analysis.results import Results
from .analysis.rules.selection import select_rules
from .analysis.verdict.document import report_of
from .analysis.verdict.provenance import provenance_of
from .event_frames import is_frame, write_bundle
from .histories.bundle import Run, open_run
from .histories.errors import UsageError
from .histories.files import is_uri, local_path
from .result import Result

Path = str | os.PathLike[str]
Engine = Literal["local", "spark"]
ENGINES = ("local", "spark")


@dataclass(frozen=True)
class Request:
    """How a run is judged."""

    engine: Engine
    allow: tuple[str, ...]
    only: tuple[str, ...]
    skip: tuple[str, ...]
    strict: bool
    reader: str | None
    name: str | None


class Options(TypedDict, total=False):
    """Arguments of `check` by name."""

    allow: str | Iterable[str]
    only: str | Iterable[str]
    skip: str | Iterable[str]
    strict: bool
    reader: str | None
    name: str | None
    config: Mapping[str, Any] | None


@overload
def check(run: Sequence[Path], engine: Engine = ..., **options: Unpack[Options]) -> list[Result]:
    """A list of paths gives a list of results."""


@overload
def check(run: Any, engine: Engine = ..., **options: Unpack[Options]) -> Result:
    """A path or a DataFrame gives one result."""


def check(
    run: Any,
    engine: Engine = "local",
    allow: str | Iterable[str] = (),
    only: str | Iterable[str] = (),
    skip: str | Iterable[str] = (),
    *,
    strict: bool = False,
    reader: str | None = None,
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
) -> Result | list[Result]:
    """Judge a run, as `logjudge check` does.

    `run` is a path (a run bundle, a history, brokers' files), a URI with engine="spark", or a DataFrame of polars,
    pandas or Spark with a row for each event and the columns of docs/format.md; `config` is then the content of
    run.json. A list or tuple of paths gives a list of results.

    `allow`, `only` and `skip` name rules, as the options of the command do; `strict` makes permitted findings breaches.
    `reader` names the format instead of recognising it. Raises LogjudgeError, with one sentence, where the run cannot
    be read or the arguments do not fit.
    """
    if engine not in ENGINES:
        raise UsageError(f"found engine={engine!r}, expected one of {', '.join(ENGINES)}")
    request = Request(engine, _names(allow), _names(only), _names(skip), strict, reader, name)
    select_rules(request.only, request.skip, request.allow)
    if is_frame(run):
        return _check_frame(run, request, config or {})
    if config is not None:
        raise UsageError("found config with a path, expected it with a DataFrame; a path has its run.json beside it")
    if isinstance(run, str | os.PathLike):
        return _check_path(os.fspath(run), request)
    if isinstance(run, list | tuple) and all(isinstance(path, str | os.PathLike) for path in run):
        return [_check_path(os.fspath(path), request) for path in run]
    raise UsageError(f"found {type(run).__name__} as a run, expected a path, a list of paths, or a DataFrame of events")


def _names(found: str | Iterable[str]) -> tuple[str, ...]:
    return (found,) if isinstance(found, str) else tuple(found)


def _check_frame(frame: Any, request: Request, config: Mapping[str, Any]) -> Result:
    """The folder lives as long as the result, which may judge again."""
    folder = TemporaryDirectory(prefix="logjudge-")
    write_bundle(frame, folder.name, {"name": request.name or "events", **config})
    result = _check_path(folder.name, request)
    result.keep(folder)
    return result


def _check_path(path: str, request: Request) -> Result:
    results, engine = _judge(path, request)
    results.refuse_unusable()
    report = {**report_of(results, engine), "provenance": provenance_of(results.run, "logjudge.check")}

    def judge_again(allow: tuple[str, ...]) -> Result:
        select_rules((), (), allow)
        return _check_path(path, replace(request, allow=(*request.allow, *allow)))

    return Result(report, results, judge_again)


def _judge(path: str, request: Request) -> tuple[Results, str]:
    """The results, and the engine's name."""
    if request.engine == "local":
        if is_uri(path):
            raise UsageError(f"found {path} with engine='local', expected a local path; engine='spark' reads URIs")
        from .analysis.engines import local

        return local.judge_run(_with_request(open_run(local_path(path), request.reader), request)), "local"
    from .analysis.engines.spark import remote
    from .analysis.engines.spark.judge import judge_run
    from .analysis.engines.spark.session import open_session

    session, reader = open_session(), request.reader
    run = remote.open_run(session, path, reader) if is_uri(path) else open_run(local_path(path), reader)
    return judge_run(_with_request(run, request), session), "spark"


def _with_request(run: Run, request: Request) -> Run:
    rules = select_rules(request.only, request.skip, request.allow)
    settings = replace(run.settings, allow=request.allow, rules=rules, strict=request.strict)
    if request.name:
        settings = replace(settings, name=request.name)
    return replace(run, settings=settings)
