"""The `logjudge` command: imports the subcommand, runs it, and turns errors into exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from ..histories.errors import PERMISSIONS, LogjudgeError, MissingComponentError, did_you_mean

# A command is one module and one line here; the module is imported when the command is called.
COMMANDS: dict[str, tuple[str, str]] = {
    "check": ("check", "Judge a recorded run and write its report."),
    "watch": ("watch", "Judge a growing run, with a live page."),
    "explain": ("explain", "Explain the breaches of a run, a partition, or one offset."),
    "timeline": ("timeline", "List the events of partitions in order of time."),
    "diff": ("diff", "Show the replicas of a partition side by side."),
    "show": ("show", "Show a record batch that a finding cites."),
    "report": ("report", "Write the report of a judged run again."),
    "plot": ("plot", "Draw one figure of a run."),
    "values": ("values", "Print the lost messages of a judged run."),
    "rules": ("rules", "List the rules and explain them."),
    "causes": ("causes", "List the causes and explain them."),
    "lint": ("lint", "List the errors in a history, line by line."),
    "convert": ("convert", "Write a history in another format."),
    "doctor": ("doctor", "Check the installation, and print how to install missing parts."),
    "record": ("record", "Record a workload against a real cluster, and judge it."),
    "lab": ("lab", "Start a real Kafka cluster on this machine, and inject faults."),
    "collect": ("collect", "Copy the brokers' files into a bundle."),
    "spark-main": ("spark_main", "Print the file that spark-submit runs."),
    "simulate": ("simulate", "Run the replication protocol under faults and write a bundle."),
    "search": ("search", "Search for a schedule that breaks an invariant, and shrink it."),
    "scenarios": ("scenarios", "List and run the catalogue of data-loss scenarios."),
    "linearize": ("linearize", "Decide whether a history of operations is linearizable."),
}

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
# Errors of the environment: no space, no permission, a read-only or failing disk.
ENVIRONMENT_ERRORS = frozenset(
    (
        *(*NO_SPACE, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EIO, errno.ENAMETOOLONG, errno.EMFILE, errno.ENFILE, errno.ESTALE),
    )
)

SWITCH_SECONDS = 0.0005  # a thread back from polars waits so long for Python; queries of small runs are as short
GC_THRESHOLD = 100_000  # new objects: most live as long as the process, and each collection visits all of them

EXIT_VALID, EXIT_BREACH, EXIT_USAGE, EXIT_UNKNOWN, EXIT_CRASH, EXIT_PIPE = 0, 1, 2, 3, 70, 141
# With several inputs the worst result decides: a crash of logjudge, a breach, an unreadable input, then unknown.
WORST_FIRST = (EXIT_CRASH, EXIT_BREACH, EXIT_USAGE, EXIT_UNKNOWN, EXIT_VALID)


def print_error(error: LogjudgeError) -> None:
    """Prints an error to stderr in one line; names and values from inputs are escaped."""
    from ..analysis.wording import printable
    from .options import without_scratch

    click.echo(f"logjudge: {printable(without_scratch(str(error)))}", err=True)


def _is_failure(error: BaseException) -> bool:
    """Whether an error is an Exception, or a panic of polars, which is none; signals and exits are neither."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def report_bug(error: BaseException, name: str | None = None) -> None:
    """Prints the traceback of a bug of logjudge, and the input that caused it."""
    import traceback

    from ..analysis.wording import printable

    traceback.print_exception(error)
    where = f" in {name}" if name else ""
    click.echo(
        f"logjudge: this is a bug of logjudge{printable(where)}; please report it with the lines above", err=True
    )


def report_failure(error: BaseException, name: str) -> tuple[str, bool]:
    """Prints why one input failed; returns the sentence, and whether it is a bug of logjudge.

    Raises the error again if it ends the process, or if the next input would fail too: closed output, a full disk, or
    no Spark.
    """
    full = isinstance(error, OSError) and error.errno in NO_SPACE
    fatal = (BrokenPipeError, click.exceptions.Abort, click.ClickException, MissingComponentError)
    if full or isinstance(error, fatal) or not _is_failure(error):
        raise error
    known = error if isinstance(error, LogjudgeError) else _refusal(error)
    if known is not None:
        print_error(known)
        return str(known), False
    report_bug(error, name)
    # The error of a Spark worker includes its traceback; the last line names it.
    lines = str(error).strip().splitlines()
    return f"a bug of logjudge: {': '.join([type(error).__name__, *lines[-1:]])}", True


def _refusal(error: BaseException) -> LogjudgeError | None:
    """The sentence for an error of the environment; None for any other error."""
    if not isinstance(error, OSError) or error.errno not in ENVIRONMENT_ERRORS:
        return None
    if error.errno in NO_SPACE:
        return LogjudgeError(f"no space left to write ({error.strerror}); free some space and try again")
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
    advice = f"; {PERMISSIONS}" if isinstance(error, PermissionError) else ""
    return LogjudgeError(f"{where}the system refused an operation ({error.strerror}){advice}")


def worst_exit(codes: Iterable[int]) -> int:
    """The first of the exit codes in WORST_FIRST."""
    return min(codes, key=WORST_FIRST.index)


def _drop_output() -> None:
    """Redirects stdout to /dev/null; otherwise Python would fail again when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class LazyGroup(click.Group):
    """Lists commands without importing them, so that `--help` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f".{COMMANDS[cmd_name][0]}", __package__)
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            # click itself looks for close names among commands that are imported.
            if close := did_you_mean(args[0], COMMANDS):
                raise click.UsageError(f"No such command {args[0]!r}{close}", ctx) from error
            raise

    def invoke(self, ctx: click.Context) -> object:
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # The reader of our output has closed it, as in `logjudge rules | head`. click would exit with 1, a breach.
            _drop_output()
            return EXIT_PIPE
        except OSError as error:
            refusal = _refusal(error)
            if refusal is None:
                raise
            if error.errno in NO_SPACE:
                _drop_output()
            raise refusal from error
        return code

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


class Terminated(BaseException):
    """SIGTERM or SIGHUP, as an exception, so that temporary files are removed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def prepare_process() -> None:
    """Makes SIGTERM and SIGHUP raise Terminated, and sets what fits many small queries."""

    def terminate(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once
        raise Terminated(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, terminate)
    gc.set_threshold(GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_SECONDS)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that nothing here needs
    # polars' allocator returns memory after ten seconds, not half a second: reading takes it again for each block.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:10000,muzzy_decay_ms:10000")


def end_process(code: int) -> NoReturn:
    """Ends the process after removing temporary files, without waiting for running threads.

    It also skips the teardown of modules, which takes a tenth of a second.
    """
    atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="logjudge", prog_name="logjudge")
def cli() -> None:
    """Judge a replicated log: lost records, diverged replicas, and their causes."""


def main() -> None:
    """Entry point: 0 valid, 1 a breach, 2 bad usage or input, 3 unknown, 70 a bug, 128 + N after signal N."""
    prepare_process()
    if sys.stdout is None or sys.stderr is None:  # closed by the caller, as with >&-
        nowhere = open(os.devnull, "w")  # noqa: PTH123, SIM115
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    # click reads NO_COLOR (no-color.org) only from its `color` setting.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # File names and values of histories may not be printable in the terminal's encoding.
            stream.reconfigure(errors="backslashreplace")
    colour = False if os.environ.get("NO_COLOR") else None
    try:
        code = cli.main(standalone_mode=False, prog_name="logjudge", color=colour)
    except click.exceptions.Abort:
        end_process(128 + signal.SIGINT)
    except Terminated as ended:
        end_process(128 + ended.number)
    except click.ClickException as error:
        error.show()
        code = EXIT_USAGE
    except LogjudgeError as error:
        print_error(error)
        code = EXIT_USAGE
    except BaseException as error:
        if not _is_failure(error):
            raise
        report_bug(error)
        code = EXIT_CRASH
    end_process(code if isinstance(code, int) else EXIT_VALID)
