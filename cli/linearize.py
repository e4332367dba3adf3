"""`logjudge linearize`: checks whether a history of operations is linearizable by a sequential specification."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from ..analysis.linearizability.linearize import Judgement, Request, evidence, judge_operations
from ..analysis.linearizability.minimal import Minimal, minimal_failure
from ..analysis.linearizability.user_model import load_model, model_for
from ..analysis.wording import plural
from ..histories.errors import UsageError
from ..histories.files import is_uri, local_path
from ..histories.operation_history import History, read_operations
from ..histories.readers import OPERATIONS, readers_of
from ..models.specifications import MODELS
from .engines import Spark, engine_options
from .main import EXIT_BREACH, EXIT_CRASH, EXIT_UNKNOWN, EXIT_USAGE, EXIT_VALID, report_failure, worst_exit
from .options import AnyPath, Choice, NewFile, quiet_option, write_text
from .progress import Progress, note, note_if_slow

EXITS = {"ok": EXIT_VALID, "illegal": EXIT_BREACH, "broken": EXIT_USAGE, "unknown": EXIT_UNKNOWN, "crashed": EXIT_CRASH}
LARGE = 32 << 20  # bytes; larger files may take minutes, so stderr shows the progress
LOADING = 2.0  # seconds; loading the compiled search from disk takes half a second


def _on_spark(spark: Spark, quiet: bool) -> Callable[..., tuple[Judgement, Minimal | None]]:
    """A function that judges a file or a URI on Spark, as `_judge` does."""
    from ..analysis.engines.spark.linearize import judge_file

    with Progress("linearize", quiet) as progress:
        return partial(judge_file, spark.open(progress))


def _read_file(name: str, format_name: str | None) -> History:
    """Reads the history of a file, and prints the size of a large one on stderr."""
    path = Path(name)
    size = path.stat().st_size if path.is_file() else 0
    if size >= LARGE:
        note(f"{name}: reading {size / 1e6:,.0f} MB")
    history = read_operations(name, format_name)
    if size >= LARGE:
        note(f"{name}: searching {len(history.operations):,} operations")
    return history


def _judge(name: str, format_name: str | None, request: Request) -> tuple[Judgement, Minimal | None]:
    """The judgement of a local file, and the minimal failure of an illegal one, if requested."""
    history = _read_file(name, format_name)
    _compile()
    model = request.model or model_for({operation.action.f for operation in history.operations}, name).name
    judgement = judge_operations(load_model(model), history, request.timeout, request.memory)
    part = judgement.part
    if not request.minimal or part is None or judgement.result.verdict != "illegal":
        return judgement, None
    return judgement, minimal_failure(judgement.model, history.operations, part)


@cache
def _compile() -> None:
    """Compiles the search, or loads it, before anything is timed."""
    from ..models.porcupine import warm_up

    with note_if_slow("loading the search; the first time it is compiled, which takes up to a minute", LOADING):
        warm_up()


def _outcome(judgement: Judgement, shrunk: Minimal | None) -> dict[str, Any]:
    """The entry of one file in --json."""
    part, lines = judgement.part, judgement.history.lines
    outcome: dict[str, Any] = {"verdict": judgement.result.verdict, "seconds": judgement.result.seconds}
    if part is not None:
        outcome["method"] = part.method
    if part is not None and (part.blocked is not None or part.witness):
        outcome["line"] = lines[part.witness[-1] if part.blocked is None else part.blocked]
        outcome["evidence"] = evidence(judgement)
    if shrunk is not None:
        outcome["minimal"] = [lines[index] for index in shrunk.operations]
    return outcome


def _print_judgement(judgement: Judgement, shrunk: Minimal | None, minimal: bool) -> None:
    """Prints the verdict and, for a failure, the operations that cannot be linearized."""
    result, history = judgement.result, judgement.history
    number = len(history.operations) + history.others
    took = f"{result.seconds:.3g} s" if result.seconds >= 0.1 else f"{result.seconds * 1e3:.2g} ms"
    count = f"{plural(number, 'operation')}, {judgement.model.name}, {took}"
    click.echo(f"{history.source}: {result.verdict} ({count})")
    for line in evidence(judgement):
        click.echo(f"  {line}")
    if shrunk is not None:
        after = f" after {len(shrunk.before)} linearizable operations" if shrunk.before else ""
        needed = plural(len(shrunk.operations), "operation")
        click.echo(f"  minimal failure (a smaller history that is not linearizable either): {needed}{after}:")
        for index in shrunk.operations:
            click.echo(f"    {judgement.operation(index)}")
    elif minimal and result.verdict == "illegal":
        click.echo("  no smaller failing history was found")


@click.command()
@click.argument("files", nargs=-1, required=True, type=AnyPath(takes_stdin=True))
@click.option("--model", "model_name", help=f"The model: {', '.join(MODELS)}, or FILE.py:NAME for your own.")
@click.option(
    "--from", "format_name", type=Choice(readers_of(OPERATIONS)), help="Format of the files [default: detected]."
)
@click.option("--json", "as_json", is_flag=True, help="Print only one JSON object.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Time limit for each file, in seconds.")
@click.option(
    "--memory",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    help="Memory limit of the search of each file, in MB. The program and the history come on top.",
)
@click.option("--picture", type=NewFile(".html", ".htm"), help="Draw the history into this .html file.")
@click.option("--minimal", is_flag=True, help="Shrink a failure to a minimal failing history.")
@engine_options(default="local")
@quiet_option
def command(
    files: tuple[str, ...],
    model_name: str | None,
    format_name: str | None,
    as_json: bool,
    timeout: float | None,
    memory: int,
    picture: Path | None,
    minimal: bool,
    spark: Spark | None,
) -> int:
    """Decide whether histories of operations are linearizable.

    Exit code: 0 if all are, 1 if any is not, 2 if a file cannot be read, 3 if time or memory ran out.
    """
    if picture is not None and len(files) > 1:
        raise UsageError("--picture draws one file; found several files")
    if spark is None and any(map(is_uri, files)):
        raise UsageError(f"found {next(filter(is_uri, files))}, expected a local path; --engine spark reads URIs")
    if model_name is not None:
        load_model(model_name)
    request = Request(model_name, timeout, memory << 20, minimal, picture is not None)
    judge: Callable[..., tuple[Judgement, Minimal | None]] = _judge
    if spark is not None:
        judge = _on_spark(spark, as_json)
    outcomes: dict[str, dict[str, Any]] = {}
    for name in files:
        try:
            judgement, shrunk = judge(name if is_uri(name) else str(local_path(name)), format_name, request)
            outcomes[name] = _outcome(judgement, shrunk)
        except BaseException as error:
            message, is_bug = report_failure(error, name)
            outcomes[name] = {"verdict": "crashed" if is_bug else "broken", "error": message}
            continue
        if not as_json:
            _print_judgement(judgement, shrunk, minimal)
        if picture is not None:
            from ..plots.linearization import draw

            write_text("--picture ", picture, draw(judgement, shrunk))
            note(f"wrote {picture}")
    if as_json:
        click.echo(json.dumps({"files": outcomes}))
    return worst_exit(EXITS[outcome["verdict"]] for outcome in outcomes.values())
