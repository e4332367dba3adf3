"""Judges one run and writes its results: for `check`, `watch`, and the processes that judge many runs."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from .engines import Engine
from .main import report_failure
from .progress import Progress

if TYPE_CHECKING:
    from ..analysis.request import Request


class Task(NamedTuple):
    """A run to judge; `options` are those of `logjudge check`."""

    path: str
    name: str  # distinct among the runs of a call
    folder: str  # of the results
    options: dict[str, Any]
    is_one_of_many: bool = False  # then a run without a configured name gets `name`


class Judged(NamedTuple):
    """One run of a call; `report` is None if it could not be judged."""

    path: str  # as given on the command line
    name: str
    folder: str
    began: datetime  # UTC
    seconds: float  # duration of the judging
    report: dict[str, Any] | None  # verdict.json
    headline: str  # or the error
    is_bug: bool = False  # logjudge crashed

    @property
    def verdict(self) -> str:
        """The verdict, or "error" if the run could not be judged."""
        return self.report["verdict"] if self.report else "error"


def request_of(options: dict[str, Any]) -> Request:
    """The request with these options of `check`. Raises UsageError."""
    from ..analysis.request import Request

    return Request.of(**{field.name: options[field.name] for field in fields(Request) if field.name in options})


def judge(task: Task, engine: Engine) -> Judged:
    """Judges a run and writes its results. Raises LogjudgeError."""
    from ..analysis.verdict.document import merged_figures, report_of
    from ..analysis.verdict.provenance import provenance_of
    from ..plots.painting import start_painter
    from ..plots.report import headline
    from ..plots.report.saved import write_result

    began, started = datetime.now(UTC), time.monotonic()
    path, name, folder, options, is_one_of_many = task
    with Progress(name, options["quiet"]) as progress:
        engine.check_target(folder, progress)
        run = request_of(options).of_run(engine.open_run(path, options["reader"], progress))
        if is_one_of_many and not run.settings.config.get("name"):
            run = run.with_settings(name=name)
        if options["plots"] != "none":
            start_painter()
        results = engine.judge(run, progress)
        results.refuse_unusable()
        command_line = shlex.join(["logjudge", *sys.argv[1:]])
        report = {**report_of(results, engine.judged_by(run)), "provenance": provenance_of(run, command_line)}
        report = engine.extend_report(report, results)
        progress("writing", 0, 1, "reports")
        figures = merged_figures(results, report)
        report["headline"] = headline(report, figures["impact"])
        engine.write(folder, lambda scratch: write_result(scratch, report, results, figures, options["plots"]))
    return Judged(path, name, folder, began, time.monotonic() - started, report, report["headline"])


def judge_or_report(task: Task, engine: Engine) -> Judged:
    """Judges like `judge`, but prints an error on stderr. Raises the errors that the next run would meet, too."""
    began, started = datetime.now(UTC), time.monotonic()
    try:
        return judge(task, engine)
    except BaseException as error:
        headline, is_bug = report_failure(error, task.path)
    return Judged(task.path, task.name, task.folder, began, time.monotonic() - started, None, headline, is_bug)
