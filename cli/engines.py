"""The engines that commands use: each opens a run, judges it, and writes its results."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import click
from click.core import ParameterSource

from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path
from ..histories.output_folder import check_target, write_whole
from .options import Choice, setting
from .progress import Progress

if TYPE_CHECKING:
    from ..analysis.engines.spark import Session
    from ..analysis.incremental.judging import Call
    from ..analysis.incremental.state import State
    from ..analysis.results import Results
    from ..histories.bundle import Run


Fill = Callable[[Path], None]
Command = TypeVar("Command", bound=Callable[..., Any])


class Spark(NamedTuple):
    """The options of a Spark session: the arguments of `analysis.engines.spark.open_session`."""

    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()

    def open(self, progress: Progress) -> Session:
        """Starts the session. Raises MissingComponentError if that fails."""
        from ..analysis.engines import spark

        progress("starting Spark", 0, 1, "sessions")
        return spark.open_session(*self)


def engine_options(default: Literal["spark", "local"]) -> Callable[[Command], Command]:
    """--engine (--spark for short), --master, --remote and --conf.

    The command gets one argument `spark`, which is None for the local engine.
    """

    def decorate(command: Command) -> Command:
        @click.option(
            "--engine",
            type=Choice(["spark", "local"]),
            default=default,
            show_default=True,
            help="Engine that does the work.",
        )
        @click.option("--spark", "is_spark", is_flag=True, help="Short for --engine spark.")
        @click.option("--master", metavar="URL", help="Spark master [default: local[*]].")
        @click.option("--remote", metavar="URL", help="Spark Connect server, sc://host:port.")
        @click.option("--conf", multiple=True, metavar="KEY=VALUE", help="Spark setting; may be repeated.")
        @wraps(command)
        def with_spark(
            engine: str, is_spark: bool, master: str | None, remote: str | None, conf: tuple[str, ...], **options: Any
        ) -> Any:
            source = click.get_current_context().get_parameter_source("engine")
            if is_spark and engine == "local" and source is not ParameterSource.DEFAULT:
                raise UsageError("found --spark with --engine local, expected one of them")
            engine = "spark" if is_spark else engine
            if engine == "local" and (master or remote or conf):
                found = "found --master, --remote or --conf with --engine local"
                raise UsageError(f"{found}, expected them with --engine spark")
            if master and remote:
                raise UsageError("found --master and --remote, expected one of them")
            settings = tuple(setting("--conf", item, "KEY=VALUE") for item in conf)
            return command(**options, spark=Spark(master, remote, settings) if engine == "spark" else None)

        return cast(Command, with_spark)

    return decorate


class Engine:
    """polars in this process. The other engines differ from it in some steps."""

    name = "local"
    remark = ""  # on how the last run was judged, for stderr

    def check_target(self, folder: str, progress: Progress) -> None:  # noqa: ARG002
        """Checks that the results may be written to a folder or URI, before anything is judged. Raises UsageError."""
        if is_uri(folder):
            raise UsageError(f"found --out {folder} with --engine local, expected a local folder; Spark writes to URIs")
        check_target(local_path(folder))

    def open_run(self, path: str, reader: str | None, progress: Progress) -> Run:  # noqa: ARG002
        """Opens a run at a path or URI; `reader` names its format. Raises InputError."""
        if is_uri(path):
            raise UsageError(f"found {path} with --engine local, expected a local path; Spark reads URIs")
        from ..histories.bundle import open_run
        from ..histories.readers import CHECKED

        return open_run(local_path(path), reader, contents=CHECKED)

    def judge(self, run: Run, progress: Progress) -> Results:
        """Judges a run."""
        from ..analysis.engines import local

        # Once imported, polars keeps Ctrl-C from interrupting a wait for a thread.
        signal.siginterrupt(signal.SIGINT, True)
        return local.judge_run(run, progress)

    def judged_by(self, run: Run) -> str:  # noqa: ARG002
        """The name of the engine that judges a run."""
        return self.name

    def extend_report(self, report: dict[str, Any], results: Results) -> dict[str, Any]:  # noqa: ARG002
        """verdict.json with what the engine adds to it."""
        return report

    def write(self, folder: str, fill: Fill) -> None:
        """Writes a result folder, which `fill` fills, whole or not at all. Raises UsageError."""
        write_whole(local_path(folder), fill)


class SparkEngine(Engine):
    """Spark, in one session that starts when it is first needed."""

    name = "spark"

    def __init__(self, options: Spark, runs: int) -> None:
        self._options = options
        self._runs = runs
        self._started: Session | None = None

    def _session(self, progress: Progress) -> Session:
        if self._started is None:
            self._started = self._options.open(progress)
        return self._started

    def check_target(self, folder: str, progress: Progress) -> None:
        if not is_uri(folder):
            super().check_target(folder, progress)
            return
        from ..analysis.engines.spark import publishing

        publishing.check_target(self._session(progress), folder)

    def open_run(self, path: str, reader: str | None, progress: Progress) -> Run:
        if not is_uri(path):
            return super().open_run(path, reader, progress)
        from ..analysis.engines.spark import remote

        return remote.open_run(self._session(progress), path, reader)

    def judge(self, run: Run, progress: Progress) -> Results:
        from ..analysis.engines import local, spark

        if spark.needs_no_spark(run):
            return local.judge_run(run, progress)
        master, remote, conf = self._options
        needs_session = self._runs > 1 or self._started is not None or not spark.starts_here(master, remote)
        if needs_session or not spark.is_judged_here(run):
            return spark.judge_run(run, self._session(progress), progress)
        progress("starting Spark", 0, 1, "sessions")
        return spark.judge_here(run, spark.open_local_context(master, conf), progress)

    def judged_by(self, run: Run) -> str:
        from ..analysis.engines import spark

        return Engine.name if spark.needs_no_spark(run) else self.name

    def write(self, folder: str, fill: Fill) -> None:
        if not is_uri(folder):
            super().write(folder, fill)
            return
        from ..analysis.engines.spark import publishing

        with tempfile.TemporaryDirectory(prefix="logjudge-") as scratch:
            result = Path(scratch) / "result"
            write_whole(result, fill)
            publishing.publish(self._started, result, folder)


class SteppingEngine(Engine):
    """Continues from the state in a file. The file gets the new state after the results are written."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._before: State | None = None
        self.last: Call | None = None

    @property
    def lines_before(self) -> int:
        """Lines that calls before the last one read."""
        return sum(position.lines for position in self._before.positions.values()) if self._before else 0

    def check_target(self, folder: str, progress: Progress) -> None:
        from ..analysis.incremental.state import load_state

        super().check_target(folder, progress)
        if not self._file.parent.is_dir():
            raise UsageError(f"{self._file}: found no folder {self._file.parent}, expected one for the state; make it")
        self._before = load_state(self._file)

    def judge(self, run: Run, progress: Progress) -> Results:
        from ..analysis.engines.local import is_transactional
        from ..analysis.incremental.judging import judge_appended

        if is_transactional(run):
            raise UsageError(f"{run.path}: found transactions on lists or registers, expected a log to judge in steps")
        signal.siginterrupt(signal.SIGINT, True)  # as in Engine
        self.last = judge_appended(run, self._before, str(self._file), progress)
        total = self.last.results.run.bytes
        read = f"read {self.last.read:,} of {total:,} bytes"
        self.remark = f"{read}; the whole history, as {self.last.whole}" if self.last.whole else read
        return self.last.results

    def extend_report(self, report: dict[str, Any], results: Results) -> dict[str, Any]:
        from ..analysis.incremental.judging import not_yet

        assert self.last is not None
        positions = self.last.state.positions
        if positions:  # the hash of a growing file would not identify what was judged
            inputs = [{"file": name, "bytes": one.bytes, "sha256": None} for name, one in sorted(positions.items())]
            report["provenance"]["inputs"] = inputs
        return {**report, "not_yet": not_yet(report, results)}

    def write(self, folder: str, fill: Fill) -> None:
        from ..analysis.incremental.state import save_state

        assert self.last is not None
        super().write(folder, fill)
        save_state(self._file, self.last.state)
