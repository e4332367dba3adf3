"""`logjudge convert`: converts a history into another format."""

from __future__ import annotations

from pathlib import Path

import click

from ..histories.bundle import open_run
from ..histories.errors import UsageError
from .main import EXIT_UNKNOWN, EXIT_VALID
from .options import LocalPath, from_option, quiet_option
from .progress import Progress, note


@click.command()
@click.argument("source", metavar="IN", type=LocalPath(takes_stdin=True))
@click.argument("target", metavar="OUT", type=LocalPath())
@from_option
@click.option("--overwrite", is_flag=True, help="Replace OUT if it exists.")
@quiet_option
def command(source: Path, target: Path, reader: str | None, overwrite: bool) -> int:
    """Convert the history IN to OUT; the extension of OUT (.jsonl, .jsonl.gz, .jsonl.zst, .parquet) sets the format.

    Parquet is read several times faster. A Jepsen history that is converted to Parquet is still judged by Jepsen's
    rules; converted to JSON lines, by the native rules. run.json is not part of a history: copy it into the folder of
    OUT, and name OUT history.*. A malformed line becomes an event without fields, so that the verdict of OUT is not
    better than that of IN; then the exit code is 3.
    """
    from ..histories.convert import ENDINGS, convert

    if target.exists() and not overwrite:
        raise UsageError(f"{target} exists; use --overwrite to replace it")
    with Progress(target.name) as progress:
        events, bad = convert(open_run(source, reader), target, progress)
    click.echo(f"{events:,} events written to {target}")
    config = source / "run.json" if source.is_dir() else source.with_name("run.json")
    if config.is_file() and not target.with_name("run.json").exists():
        ending = next(ending for ending in ENDINGS if target.name.endswith(ending))
        named = "" if target.name.startswith("history.") else f", and rename {target.name} to history{ending}"
        note(f"run.json was not copied, and the rules need it: copy {config} beside {target}{named}")
    if bad:
        unread = "1 line or file" if bad == 1 else f"{bad:,} lines or files"
        why = f"OUT has an event without fields for each; `logjudge check {source}` prints why"
        click.echo(f"{unread} could not be read: {why}", err=True)
    return EXIT_UNKNOWN if bad else EXIT_VALID
