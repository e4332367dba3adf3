"""`logjudge lint`: lists the errors in a history, line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..analysis.wording import printable
from ..histories.bundle import open_run
from ..histories.event_schema import event_schema
from .main import EXIT_BREACH, EXIT_UNKNOWN, EXIT_VALID, worst_exit
from .options import LocalPath, from_option, quiet_option
from .progress import Progress

if TYPE_CHECKING:
    from ..analysis.lint import Lint

MAX_SHOWN = 20  # lines of one history


def _print_schema(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(json.dumps(event_schema(), indent=2))
        ctx.exit()


@click.command("lint")
@click.argument("paths", nargs=-1, required=True, metavar="FILE...", type=LocalPath(takes_stdin=True))
@from_option
@click.option(
    "--all", "show_all", is_flag=True, help=f"Print all malformed lines, not only {MAX_SHOWN} of each history."
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each history.")
@click.option(
    "--schema", is_flag=True, is_eager=True, expose_value=False, callback=_print_schema,
    help="Print the JSON Schema of an event line, for recorders in any language.",
)  # fmt: skip
@quiet_option
def command(paths: tuple[Path, ...], reader: str | None, show_all: bool, as_json: bool) -> int:
    """List the errors in histories: malformed lines, and reasons why a verdict would be unknown.

    FILE is a history, a run bundle, or - for standard input. There are warnings about times that cannot be nanoseconds,
    repeated or missing values, processes without completions or with two open polls, missing final reads, missing
    settings, and misspelt fields.
    docs/format.md describes the format. Exit code: 0 no errors, 1 malformed lines, 3 only warnings. Notes do not change
    it.
    """
    return worst_exit([_lint(path, reader, show_all, as_json) for path in paths])


def _lint(path: Path, reader: str | None, show_all: bool, as_json: bool) -> int:
    from ..analysis.lint import lint

    with Progress(path.name):
        found = lint(open_run(path, reader))
    if as_json:
        lines = found.malformed.select("source", "line", "reason").to_dicts()
        about = {"malformed": lines, "warnings": found.warnings, "notes": found.notes}
        click.echo(json.dumps({"history": str(path), **about}))
    else:
        _print(path, found, None if show_all else MAX_SHOWN)
    return EXIT_BREACH if len(found.malformed) else EXIT_UNKNOWN if found.warnings else EXIT_VALID


def _print(path: Path, found: Lint, max_shown: int | None) -> None:
    for row in found.malformed.head(max_shown or len(found.malformed)).iter_rows(named=True):
        click.echo(printable(f"{row['source']}:{row['line']}: {row['reason']}"))
    if max_shown is not None and len(found.malformed) > max_shown:
        click.echo(f"{len(found.malformed) - max_shown:,} more malformed lines; --all prints them")
    for sentence in found.warnings:
        click.echo(printable(f"{path.name}: warning: {sentence}"))
    for sentence in found.notes:
        click.echo(printable(f"{path.name}: note: {sentence}"))
    if not len(found.malformed) and not found.warnings:
        click.echo(printable(f"{path.name}: no errors found"))
